"""The manifest: what a published version is, where it came from, and who signed it.

The file in the store *is* the canonical form: JSON without white space, keys sorted. The signature
covers exactly these bytes with the value of ``signature`` empty, so a reader in any language
verifies a manifest without serialising anything.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from planning.errors import ArtifactError, InvalidInput

SCHEMA_VERSIONS = (1, 2)
"""What readers know. Nodes of release 0.1 know version 1 only."""
STREAM_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$"
TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$"

Encoding = Literal["json", "binary"]
Fallback = Literal["keep", "pass", "uniform"]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256, hexadecimal")]
Time = Annotated[str, Meta(pattern=TIME_PATTERN, description="RFC 3339, UTC")]
Version = Annotated[int, Meta(ge=1)]
Load = float | tuple[float, ...]
SchemaVersion = Literal[1, 2]


class Payload(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One encoding of the plan, named by its content.

    Examples
    --------
    >>> import hashlib
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> payload = store.latest("ticks").payloads.binary
    >>> data = store.payload_path("ticks", payload, "binary").read_bytes()
    >>> len(data) == payload.bytes, hashlib.sha256(data).hexdigest() == payload.digest
    (True, True)
    """

    digest: Digest
    bytes: Annotated[int, Meta(ge=0)]


class Payloads(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The two encodings of one plan.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> payloads = store.latest("ticks").payloads
    >>> payloads.of("binary").bytes < payloads.of("json").bytes
    True
    """

    json: Payload
    binary: Payload

    def of(self, encoding: Encoding) -> Payload:
        """Return the payload of one encoding."""
        return self.json if encoding == "json" else self.binary


class Prediction(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The quality that is promised at one load; 1 means nothing lost.

    With an interval it was measured on held-out samples, for which the plan's model said ``model``;
    without, it is what the model says.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> [(p.load, p.quality > p.load) for p in store.latest("ticks").predicted]
    [(0.3, True), (0.5, True), (0.7, True)]
    """

    load: Load
    quality: float
    low: float | UnsetType = UNSET
    high: float | UnsetType = UNSET
    model: float | UnsetType = UNSET


class GateVerdict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the gate decided, why, and what it measured.

    Examples
    --------
    >>> from planning.examples import demo_plan, demo_store
    >>> store, signer = demo_store("sifter")
    >>> verdict = GateVerdict(decision="publish", reason="forced by the owner of the stream")
    >>> _ = store.publish("ticks", demo_plan("sifter"), family="sifter", signer=signer,
    ...                   created_at="2026-01-02T03:04:05Z", gate=verdict)
    >>> store.latest("ticks").gate.reason
    'forced by the owner of the stream'
    """

    decision: str = ""
    reason: str = ""
    outcomes: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] | UnsetType = UNSET


class Validity(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Until when the plan may be used, and what a consumer does afterwards.

    Examples
    --------
    >>> from planning.examples import demo_plan, demo_store
    >>> store, signer = demo_store("sifter")
    >>> until_four = Validity(not_after="2026-01-02T04:00:00Z", fallback="uniform")
    >>> _ = store.publish("ticks", demo_plan("sifter"), family="sifter", signer=signer,
    ...                   created_at="2026-01-02T03:04:05Z", validity=until_four)
    >>> store.latest("ticks").validity == until_four
    True
    """

    not_after: Time | None = None
    fallback: Fallback = "keep"


class CertifiedLoad(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One load of a certificate: qualities of the plan, of the solver, and its bound.

    Examples
    --------
    >>> CertifiedLoad(load=0.5, objective=0.6, best=0.7, bound=0.8, violation=0.0).gap
    0.25
    """

    load: Load | dict[str, float]
    objective: float
    best: float
    bound: float
    violation: float

    @property
    def gap(self) -> float:
        """How much better than the plan's setting anything can be, as a part of the bound."""
        return round(max(0.0, self.bound - self.objective) / max(abs(self.bound), 1e-6), 12)


class Certificate(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an independent solver says of the plan: how far from the best it can be at most.

    ``status`` is ``optimal``, ``within <gap>`` or ``not certified``; ``reason`` says why not, or
    why not at every load: ``loads`` of ``of`` were checked.

    Examples
    --------
    >>> Certificate(status="not certified", reason="OR-Tools is missing").gap
    1.0
    """

    status: str
    scope: str = ""
    reason: str = ""
    gap: float = 1.0
    violation: float = 0.0
    loads: int = 0
    of: int = 0
    solver: str = ""
    seconds: float = 0.0
    checks: tuple[CertifiedLoad, ...] = ()


class PredictedLimit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a plan predicts at a load for something that it guarantees, in the limit's unit.

    Examples
    --------
    >>> PredictedLimit(load=0.3, value=0.97).value
    0.97
    """

    load: float
    value: float


class KeptGuarantee(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A guarantee of the plan, and the load down to which it holds (above 1: at no load).

    Examples
    --------
    >>> KeptGuarantee(name="query alerts", limit="min_completeness", value=0.95, priority=1,
    ...               holds_from=0.21).holds_from
    0.21
    """

    name: str
    limit: str
    value: float
    priority: int
    holds_from: float
    predicted: tuple[PredictedLimit, ...] = ()


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published version of a stream's plan.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, signer = demo_store("sifter", versions=2)
    >>> manifest = store.latest("ticks")
    >>> manifest.family, manifest.version, manifest.parent, manifest.created_at
    ('sifter', 2, 1, '2026-01-02T03:02:00Z')
    >>> manifest.key_id == signer.key_id
    True
    """

    schema_version: SchemaVersion
    family: str
    stream: Annotated[str, Meta(pattern=STREAM_PATTERN)]
    version: Version
    parent: Version | None
    created_at: Time
    payloads: Payloads
    inputs: dict[str, str]
    parameters: dict[str, Any]
    predicted: tuple[Prediction, ...]
    gate: GateVerdict
    solver_status: str
    certificate: Certificate | UnsetType = UNSET
    guarantees: tuple[KeptGuarantee, ...] | UnsetType = UNSET
    planning_version: str
    code_digest: str
    rollback_of: Version | None
    reason: str
    run: str
    validity: Validity
    key_id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    signature: str


def encode(manifest: Manifest) -> bytes:
    """Return the canonical bytes, as they are stored."""
    return msgspec.json.encode(manifest, order="sorted")


def signed_bytes(manifest: Manifest) -> bytes:
    """Return what the signature covers: the canonical bytes with an empty signature."""
    return encode(msgspec.structs.replace(manifest, signature=""))


def decode(data: bytes, source: str) -> Manifest:
    """Return the manifest in ``data``, or raise :class:`ArtifactError` naming ``source``.

    >>> decode(b'{"schema_version": 7}', "ticks/versions/00000003.json")
    Traceback (most recent call last):
    ...
    planning.errors.ArtifactError: ticks/versions/00000003.json is a manifest of schema version 7; \
this reader knows versions 1 and 2; update Headgate on this machine
    """
    try:
        version = _VERSION.decode(data).schema_version
        if version not in SCHEMA_VERSIONS:
            known = " and ".join(map(str, SCHEMA_VERSIONS))
            raise ArtifactError(
                f"{source} is a manifest of schema version {version}; this reader knows versions "
                f"{known}; update Headgate on this machine"
            )
        manifest = _MANIFEST.decode(data)
        canonical = encode(manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ArtifactError(
            f"{source} is not a manifest ({error}); it is damaged or was not written by Headgate; "
            "publish again, or roll back to a version that `headgate verify` accepts"
        ) from None
    if canonical != data:
        raise ArtifactError(
            f"{source} is not in canonical form (sorted keys, no white space), so its signature "
            "cannot hold; it was edited or damaged; publish again"
        )
    return manifest


class _SchemaVersion(Struct):
    schema_version: int


# Made once, here: msgspec may crash when several threads are the first to decode a type.
_VERSION, _MANIFEST = msgspec.json.Decoder(_SchemaVersion), msgspec.json.Decoder(Manifest)


def to_time(moment: datetime) -> str:
    """Return a moment in the manifest's format.

    >>> to_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02T03:04:05Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def from_time(field: str, text: str) -> datetime:
    """Return the moment that ``text`` names; it must be RFC 3339 and in UTC.

    >>> from_time("created_at", "2026-01-02T03:04:05+00:00").minute
    4
    >>> from_time("created_at", "yesterday")
    Traceback (most recent call last):
    ...
    planning.errors.InvalidInput: created_at must be a time in UTC such as 2026-01-02T03:04:05Z, \
got 'yesterday'
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() == timedelta(0):
            return moment
    except (ValueError, TypeError):
        pass
    raise InvalidInput(
        f"{field} must be a time in UTC such as 2026-01-02T03:04:05Z, got {text!r}"
    )
