"""What a publication is made of, checked before anything is written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

import planning
from planning.artifacts import codec, files, manifest
from planning.artifacts.manifest import Encoding, Manifest, Payload, Payloads, Prediction, Validity
from planning.artifacts.provenance import code_digest
from planning.errors import ArtifactError, InvalidInput

ENCODINGS: tuple[Encoding, ...] = ("json", "binary")


def draft(**fields: Any) -> Manifest:
    """Return a manifest that has everything but its version and its signature."""
    fields |= {
        "version": 1,
        "parent": None,
        "rollback_of": None,
        "planning_version": planning.__version__,
        "code_digest": code_digest(fields["family"]),
        "key_id": "0" * 16,
        "signature": "",
    }
    try:
        drafted = msgspec.convert(msgspec.to_builtins(fields), Manifest)
        same = msgspec.json.decode(manifest.encode(drafted), type=Manifest) == drafted
    except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
        raise InvalidInput(f"the manifest cannot be written: {error}; correct that field") from None
    if not same:
        raise InvalidInput(
            "the manifest must hold finite numbers, text, lists and objects only, got a value that "
            "JSON changes; check parameters and the gate's outcomes"
        )
    return drafted


def prediction(item: Prediction | Mapping[str, Any] | tuple[Any, float]) -> Any:
    """Return a prediction, which may be given as a pair, in a form that converts to one."""
    if isinstance(item, tuple):
        load, quality = item
        return {"load": load, "quality": quality}
    return item


def validity(given: Validity | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the validity with its time in the manifest's format."""
    fields: dict[str, Any] = msgspec.to_builtins(given or {})
    if fields.get("not_after") is not None:
        moment = manifest.from_time("validity.not_after", fields["not_after"])
        fields["not_after"] = manifest.to_time(moment)
    return fields


def payloads(data: Mapping[Encoding, bytes]) -> Payloads:
    """Return what the manifest says about the encoded plan."""
    for encoding in ENCODINGS:
        check_size(f"the {encoding} plan", data[encoding], files.PAYLOAD_BYTES)
    described = {e: Payload(digest=digest(data[e]), bytes=len(data[e])) for e in ENCODINGS}
    return Payloads(json=described["json"], binary=described["binary"])


def check_size(what: str, data: bytes, limit: int) -> None:
    """Refuse to publish more than readers accept."""
    if len(data) > limit:
        raise InvalidInput(
            f"{what} must have at most {limit} bytes, got {len(data)}; readers refuse larger ones; "
            "plan with fewer regions, or shorten the definition"
        )


def digest(data: bytes) -> str:
    """Return the SHA-256 that names a payload."""
    return hashlib.sha256(data).hexdigest()


def check_round_trip(family: str, data: Mapping[Encoding, bytes]) -> None:
    """Refuse to publish what readers could not read."""
    for encoding in ENCODINGS:
        _, decoded = codec.decode(data[encoding], encoding, f"the {encoding} form of the new plan")
        if codec.encode_json(decoded, family) != data["json"]:
            raise ArtifactError(
                f"the {encoding} form of the new {family} plan decodes to another plan; nothing "
                "was published; report this with the run's statistics"
            )
