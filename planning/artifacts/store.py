"""The store: published plans of all streams below one folder or URL.

==========================================  ====================================================
below the root                              what
==========================================  ====================================================
``<stream>/versions/00000007.json``         the signed manifest; creating it publishes the version
``<stream>/payloads/<sha256>.json|.bin``    the plan in its two encodings, named by content
``<stream>/acks/<node>.json``               which version a node has in force
==========================================  ====================================================

A version exists from the instant its manifest exists. The manifest is created whole and
exclusively, after everything it names: a reader never sees half a plan, whichever instant a
publisher is killed at, and of two publishers one gets the version and the other the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from upath import UPath

from planning.artifacts import acknowledgement, codec, drafting, files, manifest
from planning.artifacts import history as records
from planning.artifacts.acknowledgement import Acknowledgement
from planning.artifacts.drafting import ENCODINGS
from planning.artifacts.files import Location
from planning.artifacts.listing import Broken, Listing
from planning.artifacts.manifest import (
    STREAM_PATTERN,
    Encoding,
    GateVerdict,
    Manifest,
    Payload,
    Prediction,
    Validity,
)
from planning.artifacts.signing import SigningKey, TrustedKeys, Unverified
from planning.errors import ArtifactError, InvalidInput, NoPlan

VERSION_FILE = re.compile(r"(\d{8,})\.json")
SUFFIX: dict[Encoding, str] = {"json": "json", "binary": "bin"}
TEMPORARY_MAX_AGE_S = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A verified version: its manifest and its plan.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter")
    >>> published = store.load("ticks")
    >>> published.manifest.version, published.plan.at(0.5).drop_thresholds.size
    (1, 16)
    """

    manifest: Manifest
    plan: Any


@dataclass(frozen=True, slots=True, eq=False)
class LastGood:
    """The newest version that can be trusted, if any, and the newer ones that cannot.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=2)
    >>> _ = store.manifest_path("ticks", 2).write_bytes(b"half a manif")
    >>> found = store.last_good("ticks")
    >>> found.published.manifest.version, [broken.name for broken in found.skipped]
    (1, ['00000002'])
    """

    published: Published | None
    skipped: tuple[Broken, ...]


class Store:
    """Published plans below one root.

    Parameters
    ----------
    root
        A folder or any fsspec URL.
    trusted
        The keys whose signatures are accepted. Without any, nothing can be read;
        :data:`~planning.artifacts.signing.UNVERIFIED` reads without checking signatures.
    temporary_max_age_s
        Age at which a temporary file is taken to be a killed publisher's.

    Examples
    --------
    >>> import tempfile
    >>> from planning.examples import demo_plan
    >>> with tempfile.TemporaryDirectory() as home:
    ...     signer = SigningKey.load_or_create(f"{home}/keys")
    ...     store = Store(f"{home}/plans", TrustedKeys.load(f"{home}/keys"))
    ...     manifest = store.publish("ticks", demo_plan("sifter"), family="sifter",
    ...                              signer=signer, created_at="2026-01-02T03:04:05Z")
    ...     store.load("ticks").manifest == manifest, store.verify("ticks").ok
    (True, True)
    """

    def __init__(
        self,
        root: Location,
        trusted: TrustedKeys | Unverified | None = None,
        *,
        temporary_max_age_s: float = TEMPORARY_MAX_AGE_S,
    ) -> None:
        self.root = files.folder(root)
        self.trusted = TrustedKeys.of() if trusted is None else trusted
        self.temporary_max_age_s = temporary_max_age_s

    # Where things are

    def folder(self, stream: str, part: str = "") -> UPath:
        """Return a stream's folder, or its ``versions``, ``payloads`` or ``acks``."""
        if not re.fullmatch(STREAM_PATTERN, stream):
            raise InvalidInput(
                "stream must be a name of at most 63 lower-case letters, digits, - and _, "
                f"starting with a letter, got {stream!r}"
            )
        return self.root / stream / part if part else self.root / stream

    def manifest_path(self, stream: str, version: int) -> UPath:
        """Return where a version's manifest lies."""
        return self.folder(stream, "versions") / f"{version:08d}.json"

    def payload_path(self, stream: str, payload: Payload, encoding: Encoding) -> UPath:
        """Return where a payload lies."""
        return self.folder(stream, "payloads") / f"{payload.digest}.{SUFFIX[encoding]}"

    # Reading

    def streams(self) -> tuple[str, ...]:
        """Return the streams that have a published plan."""
        named = [name for name in files.names(self.root) if re.fullmatch(STREAM_PATTERN, name)]
        return tuple(name for name in named if self.versions(name))

    def versions(self, stream: str) -> tuple[int, ...]:
        """Return the versions in the store, oldest first, without opening them."""
        found = map(VERSION_FILE.fullmatch, files.names(self.folder(stream, "versions")))
        return tuple(sorted(int(match[1]) for match in found if match))

    def newest(self, stream: str) -> int:
        """Return the newest version's number, without opening it."""
        versions = self.versions(stream)
        if not versions:
            raise NoPlan(
                f"stream {stream} has no published plan in {self.root}; run its planning DAG or "
                f"`headgate plan {stream}`, and check that this is the right store"
            )
        return versions[-1]

    def latest(self, stream: str) -> Manifest:
        """Return the newest version's manifest; a damaged one is an error, never skipped."""
        return self.manifest(stream, self.newest(stream))

    def manifest(self, stream: str, version: int) -> Manifest:
        """Return one version's manifest, verified."""
        path = self.manifest_path(stream, version)
        found = self._read_manifest(stream, version)
        self.trusted.verify(found, str(path))
        return found

    def load(
        self, stream: str, version: int | None = None, encoding: Encoding = "binary"
    ) -> Published:
        """Return a version (the newest by default) with its plan: verified, or an error."""
        wanted = self.newest(stream) if version is None else version
        try:
            found = self.manifest(stream, wanted)
            return Published(found, self._plan(found, encoding))
        except (NoPlan, ArtifactError):
            if version is None and self.newest(stream) != wanted:
                # Retention may remove a version between looking and reading; a newer one is there.
                return self.load(stream, None, encoding)
            raise

    def last_good(self, stream: str, after: int = 0, encoding: Encoding = "binary") -> LastGood:
        """Return the newest version above ``after`` that can be trusted, and what was skipped."""
        self.newest(stream)
        skipped: list[Broken] = []
        for version in reversed([v for v in self.versions(stream) if v > after]):
            try:
                return LastGood(self.load(stream, version, encoding), tuple(skipped))
            except (ArtifactError, NoPlan) as error:
                skipped.append(Broken(f"{version:08d}", str(error)))
        return LastGood(None, tuple(skipped))

    def history(self, stream: str) -> Listing[Manifest]:
        """Return all manifests, newest first, and the damaged ones with their problem."""
        self.newest(stream)
        sound: list[Manifest] = []
        broken: list[Broken] = []
        for version in reversed(self.versions(stream)):
            try:
                sound.append(self.manifest(stream, version))
            except (ArtifactError, NoPlan) as error:
                broken.append(Broken(f"{version:08d}", str(error)))
        return Listing(tuple(sound), tuple(broken))

    def payload(self, found: Manifest, encoding: Encoding) -> bytes:
        """Return a version's encoded plan, checked against its digest."""
        payload = found.payloads.of(encoding)
        path = self.payload_path(found.stream, payload, encoding)
        try:
            data = files.read(path)
        except FileNotFoundError:
            raise ArtifactError(
                f"{path}, the {encoding} plan of version {found.version}, is missing; restore it, "
                "roll back to a complete version, or publish again"
            ) from None
        if len(data) != payload.bytes or drafting.digest(data) != payload.digest:
            raise ArtifactError(
                f"{path} does not match the digest in the manifest of version {found.version} "
                f"({len(data)} bytes, {payload.bytes} expected); it is damaged or was replaced; "
                "restore it, roll back, or publish again"
            )
        return data

    # Publishing

    def publish(
        self,
        stream: str,
        plan: Any,
        *,
        family: str,
        signer: SigningKey,
        created_at: str,
        inputs: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        predicted: Iterable[Prediction | Mapping[str, Any] | tuple[Any, float]] = (),
        gate: GateVerdict | Mapping[str, Any] | None = None,
        validity: Validity | Mapping[str, Any] | None = None,
        solver_status: str = "",
        reason: str = "",
        run: str = "",
    ) -> Manifest:
        """Publish a plan as the stream's next version and return its manifest.

        With ``run`` the publication is idempotent: if a version of that run is there already, its
        manifest is returned and nothing is written.
        """
        folder = self.folder(stream)
        data = {encoding: codec.encode(plan, family, encoding) for encoding in ENCODINGS}
        drafting.check_round_trip(plan, family, data)
        draft = drafting.draft(
            family=family,
            stream=stream,
            created_at=manifest.to_time(manifest.from_time("created_at", created_at)),
            payloads=drafting.payloads(data),
            inputs=dict(inputs or {}),
            parameters=dict(parameters or {}),
            predicted=[drafting.prediction(item) for item in predicted],
            gate=gate or {},
            validity=drafting.validity(validity),
            solver_status=solver_status,
            reason=reason,
            run=run,
        )
        self._prepare(stream)
        with files.lock(folder, exclusive=False):
            for encoding in ENCODINGS:
                self._write_payload(draft, encoding, data[encoding])
            return self._commit(draft, signer)

    def rollback(
        self, stream: str, to_version: int, *, signer: SigningKey, created_at: str, reason: str
    ) -> Manifest:
        """Publish an old version's plan as a new version.

        It stays valid for as long, from ``created_at`` on, as it was when first published.
        """
        if to_version == self.newest(stream):
            raise InvalidInput(
                f"to_version must be older than the newest version, got {to_version}, which is "
                f"the newest of {stream}; see `headgate show {stream}` for the history"
            )
        moment = manifest.from_time("created_at", created_at)
        with files.lock(self.folder(stream), exclusive=False):
            old = self.load(stream, to_version).manifest
            self.payload(old, "json")
            not_after = None
            if old.validity.not_after is not None:
                started = manifest.from_time("created_at", old.created_at)
                ended = manifest.from_time("not_after", old.validity.not_after)
                not_after = manifest.to_time(moment + (ended - started))
            draft = msgspec.structs.replace(
                old,
                created_at=manifest.to_time(moment),
                rollback_of=to_version,
                reason=reason,
                run="",
                validity=msgspec.structs.replace(old.validity, not_after=not_after),
            )
            return self._commit(draft, signer)

    # Looking after what is there

    def verify(self, stream: str, version: int | None = None) -> records.Report:
        """Check everything about a version (the newest by default) and report each check."""
        return records.verify(self, stream, self.newest(stream) if version is None else version)

    def diff(self, stream: str, old: int, new: int) -> records.Difference:
        """Return what differs between two versions: manifests and plans."""
        return records.diff(self, stream, old, new)

    def prune(self, stream: str, keep: int) -> records.Pruned:
        """Delete all but the newest ``keep`` versions, and the payloads nobody names any more."""
        return records.prune(self, stream, keep)

    def acknowledge(self, stream: str, word: Acknowledgement) -> None:
        """Write a node's acknowledgement."""
        acks = self.folder(stream, "acks")
        files.make(acks)
        files.replace(acks / f"{word.node}.json", acknowledgement.encode(word))

    def acknowledgements(self, stream: str) -> Listing[Acknowledgement]:
        """Return every node's last acknowledgement, by node, and the unreadable ones."""
        acks = self.folder(stream, "acks")
        sound: list[Acknowledgement] = []
        broken: list[Broken] = []
        for name in files.names(acks):
            if name.startswith(".") or not name.endswith(".json"):
                continue
            try:
                sound.append(acknowledgement.decode(files.read(acks / name), str(acks / name)))
            except ArtifactError as error:
                broken.append(Broken(name, str(error)))
        return Listing(tuple(sound), tuple(broken))

    # Details

    def _read_manifest(self, stream: str, version: int) -> Manifest:
        path = self.manifest_path(stream, version)
        try:
            found = manifest.decode(files.read(path), str(path))
        except FileNotFoundError:
            have = self.versions(stream)
            kept = f"{have[0]} to {have[-1]}" if have else "none"
            raise NoPlan(
                f"stream {stream} has no version {version} in {self.root}; it has {kept}"
            ) from None
        if (found.stream, found.version) != (stream, version):
            raise ArtifactError(
                f"{path} is the manifest of {found.stream} version {found.version}; somebody "
                "moved or copied it; remove it and publish again"
            )
        return found

    def _plan(self, found: Manifest, encoding: Encoding) -> Any:
        source = str(self.payload_path(found.stream, found.payloads.of(encoding), encoding))
        family, plan = codec.decode(self.payload(found, encoding), encoding, source)
        if family != found.family:
            raise ArtifactError(
                f"{source} holds a {family} plan, but the manifest of version {found.version} says "
                f"{found.family}; publish again"
            )
        return plan

    def _prepare(self, stream: str) -> None:
        for part in ("versions", "payloads"):
            files.make(self.folder(stream, part))
            files.sweep(self.folder(stream, part), self.temporary_max_age_s)

    def _write_payload(self, draft: Manifest, encoding: Encoding, data: bytes) -> None:
        path = self.payload_path(draft.stream, draft.payloads.of(encoding), encoding)
        if files.is_local(path):
            try:
                if files.read(path) == data:
                    return
            except FileNotFoundError:
                pass
        # Elsewhere it is written anew in any case: its age guards it from a concurrent deletion.
        files.replace(path, data)

    def _commit(self, draft: Manifest, signer: SigningKey) -> Manifest:
        while True:
            versions = self.versions(draft.stream)
            twin = self._of_run(draft, signer)
            if twin is not None:
                return twin
            parent = versions[-1] if versions else None
            signed = signer.sign(
                msgspec.structs.replace(draft, version=(parent or 0) + 1, parent=parent)
            )
            path = self.manifest_path(draft.stream, signed.version)
            if files.create(path, manifest.encode(signed)):
                return signed

    def _of_run(self, draft: Manifest, signer: SigningKey) -> Manifest | None:
        """Return the version that an earlier attempt of the same run has published."""
        if not draft.run:
            return None
        own = TrustedKeys.of(signer)
        for version in reversed(self.versions(draft.stream)):
            try:
                found = self._read_manifest(draft.stream, version)
                own.verify(found, draft.stream)
            except (ArtifactError, NoPlan):
                continue
            if found.run == draft.run:
                return found
        return None

