"""Plans as bytes: a JSON envelope for every language, and a compact binary one.

JSON: ``{"family": "sifter", "headgate": 1, "plan": {…}}``, keys sorted, no white space.

Binary, 8 bytes and then the family's own payload:

======  =====  ==================================================
offset  bytes  content
======  =====  ==================================================
0       2      ``HG``
2       1      format version, 1
3       1      family id
4       4      CRC-32 of the first four bytes and the payload, little-endian
8       …      ``Plan.to_bytes()``
======  =====  ==================================================
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import Any, Literal

import msgspec

from planning.artifacts.manifest import Encoding
from planning.errors import ArtifactError, InvalidInput
from planning.families import Family, Plan, family

FORMAT_VERSION = 1
MAGIC = b"HG"
HEADER = struct.Struct("<2sBBI")
# Part of the format: an id, once assigned, stays with its family.
FAMILY_IDS = {"sifter": 1, "lira": 2, "attributes": 3, "joins": 4, "fit": 5}


def encode(plan: Plan, family_name: str, encoding: Encoding) -> bytes:
    """Return the plan in one of the two encodings."""
    encoder = encode_json if encoding == "json" else encode_binary
    return encoder(plan, family_name)


def decode(data: bytes, encoding: Encoding, source: str = "the plan") -> tuple[str, Plan]:
    """Return family and plan of an encoded plan; raise only :class:`ArtifactError`."""
    decoder = decode_json if encoding == "json" else decode_binary
    return decoder(data, source)


def document(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON-like built-in types: what two equal plans have in common."""
    built: dict[str, Any] = msgspec.to_builtins(plan.to_document())
    return built


def encode_json(plan: Plan, family_name: str) -> bytes:
    """Return the JSON envelope of a plan."""
    family(family_name)
    envelope = {"headgate": FORMAT_VERSION, "family": family_name, "plan": plan.to_document()}
    try:
        return msgspec.json.encode(envelope, order="sorted")
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            f"a {family_name} plan must have a JSON document, got a value that JSON cannot carry "
            f"({error}); convert it in Plan.to_document"
        ) from None


def encode_binary(plan: Plan, family_name: str) -> bytes:
    """Return the binary envelope of a plan."""
    family(family_name)
    if family_name not in FAMILY_IDS:
        remedy = "add the next number to FAMILY_IDS"
        raise InvalidInput(f"family {family_name} must have an id, got none; {remedy}")
    payload = plan.to_bytes()
    return _header(FAMILY_IDS[family_name], payload) + payload


def decode_json(data: bytes, source: str = "the plan") -> tuple[str, Plan]:
    """Return family and plan of a JSON envelope; raise only :class:`ArtifactError`."""
    try:
        peek = msgspec.json.decode(data, type=_Peek)
    except Exception as error:
        raise _damaged(source, "is not a plan's JSON envelope", error) from None
    room = _family(peek.family, peek.headgate, source)
    try:
        envelope = msgspec.json.decode(data, type=envelope_type(room.name))
        return room.name, room.room("plan").Plan.from_document(msgspec.to_builtins(envelope.plan))
    except Exception as error:
        raise _damaged(source, f"does not hold a {room.name} plan", error) from None


def decode_binary(data: bytes, source: str = "the plan") -> tuple[str, Plan]:
    """Return family and plan of a binary envelope; raise only :class:`ArtifactError`.

    >>> decode_binary(b"PK", "ticks.bin")
    Traceback (most recent call last):
    ...
    planning.errors.ArtifactError: ticks.bin is not a binary plan (2 bytes, the header alone has \
8); it is damaged or not a plan; fetch or publish it again
    """
    if len(data) < HEADER.size:
        detail = ValueError(f"{len(data)} bytes, the header alone has {HEADER.size}")
        raise _damaged(source, "is not a binary plan", detail)
    magic, version, family_id, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _damaged(source, "is not a binary plan", ValueError(f"starts with {magic!r}"))
    payload = bytes(data[HEADER.size :])
    names = {number: name for name, number in FAMILY_IDS.items()}
    room = _family(names.get(family_id, f"number {family_id}"), version, source)
    if _header(family_id, payload) != data[: HEADER.size]:
        raise _damaged(source, "fails its checksum", ValueError(f"{len(data)} bytes"))
    try:
        return room.name, room.room("plan").Plan.from_bytes(payload)
    except Exception as error:
        raise _damaged(source, f"does not hold a {room.name} plan", error) from None


@cache
def envelope_type(family_name: str) -> type[Any]:
    """Return the msgspec type of a family's JSON envelope: it checks and describes the format."""
    plan_document = family(family_name).room("plan").PlanDocument
    return msgspec.defstruct(
        f"{family_name.capitalize()}Envelope",
        [
            ("headgate", Literal[1]),
            ("family", Literal[family_name]),
            ("plan", plan_document),
        ],
        frozen=True,
        forbid_unknown_fields=True,
    )


class _Peek(msgspec.Struct):
    headgate: int
    family: str


def _header(family_id: int, payload: bytes) -> bytes:
    start = HEADER.pack(MAGIC, FORMAT_VERSION, family_id, 0)[:4]
    return start + struct.pack("<I", zlib.crc32(payload, zlib.crc32(start)))


def _family(name: str, version: int, source: str) -> Family:
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{source} is a plan of format version {version}; this reader knows version "
            f"{FORMAT_VERSION}; update Headgate on this machine"
        )
    try:
        return family(name)
    except InvalidInput as error:
        raise ArtifactError(
            f"{source} is a plan of a family that this reader does not know ({error}); update "
            "Headgate on this machine, or check that this is the right stream"
        ) from None


def _damaged(source: str, what: str, error: Exception) -> ArtifactError:
    detail = " ".join(str(error).split())[:200] or type(error).__name__
    return ArtifactError(
        f"{source} {what} ({detail}); it is damaged or not a plan; fetch or publish it again"
    )
