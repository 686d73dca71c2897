"""The store: a reader of published plans that also publishes them.

A publication first writes everything that the manifest names: the plan, and the texts that it was
made from, as far as they are given. The manifest itself is created whole
and exclusively: a reader never sees half a plan, no matter when a publisher is killed, and of two
publishers one gets the version and the other gets the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from planning.artifacts import codec, drafting, files, first_schema, manifest
from planning.artifacts import history as records
from planning.artifacts.drafting import ENCODINGS
from planning.artifacts.files import Location
from planning.artifacts.manifest import (
    Certificate,
    Encoding,
    GateVerdict,
    KeptGuarantee,
    Manifest,
    Prediction,
    SchemaVersion,
    Validity,
)
from planning.artifacts.reading import Reader
from planning.artifacts.signing import SigningKey, TrustedKeys, Unverified
from planning.errors import ArtifactError, InvalidInput, NoPlan, PlanningError, StoreError
from planning.families import Plan

if TYPE_CHECKING:
    from upath import UPath

NOTE = ".not-kept"
TEMPORARY_MAX_AGE_S = 3600.0
REMOTE_PAUSE_S, REMOTE_MOST_PAUSE_S = 0.1, 3.0


class Store(Reader):
    """Published plans below one root, to read and to publish.

    Parameters
    ----------
    root, trusted
        As for a :class:`~planning.artifacts.reading.Reader`.
    temporary_max_age_s
        Age at which a temporary file is assumed to have been left by a killed publisher.

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
        super().__init__(root, trusted)
        self.temporary_max_age_s = temporary_max_age_s

    # Publishing

    def publish(
        self,
        stream: str,
        plan: Plan,
        *,
        family: str,
        signer: SigningKey,
        created_at: str,
        inputs: Mapping[str, str | bytes] | None = None,
        parameters: Mapping[str, Any] | None = None,
        predicted: Iterable[Prediction | Mapping[str, Any] | tuple[Any, float]] = (),
        gate: GateVerdict | Mapping[str, Any] | None = None,
        validity: Validity | Mapping[str, Any] | None = None,
        solver_status: str = "",
        certificate: Certificate | Mapping[str, Any] | None = None,
        guarantees: Iterable[KeptGuarantee | Mapping[str, Any]] = (),
        reason: str = "",
        run: str = "",
        schema_version: SchemaVersion = 2,
    ) -> Manifest:
        """Publish a plan as the stream's next version and return its manifest.

        ``inputs`` names what the plan was made from: by a digest, or by the bytes themselves, which
        are then kept with the version. With ``run`` the publication is idempotent: if a version of
        that run already exists, its manifest is returned and nothing is written. Schema version 1
        is what nodes of release 0.1 read.
        """
        folder = self.folder(stream)
        if schema_version == 1:
            plan = first_schema.plan_of(plan, family)
        data = {encoding: codec.encode(plan, family, encoding) for encoding in ENCODINGS}
        drafting.check_round_trip(family, data)
        kept = {k: text for k, text in (inputs or {}).items() if isinstance(text, bytes)}
        digests = {name: drafting.digest(text) for name, text in kept.items()}
        fields: dict[str, Any] = {
            "schema_version": schema_version,
            "family": family,
            "stream": stream,
            "created_at": manifest.to_time(manifest.from_time("created_at", created_at)),
            "payloads": drafting.payloads(data),
            "inputs": {**(inputs or {}), **digests},
            "parameters": dict(parameters or {}),
            "predicted": [drafting.prediction(item) for item in predicted],
            "gate": gate or {},
            "validity": drafting.validity(validity),
            "solver_status": solver_status,
            "reason": reason,
            "run": run,
            **({"certificate": certificate} if certificate else {}),
            **({"guarantees": tuple(guarantees)} if guarantees else {}),
        }
        if schema_version == 1:
            first_schema.check_bytes(data)
            fields = first_schema.without_news(fields)
        draft = drafting.draft(**fields)
        self._prepare(stream)
        with files.lock(folder, exclusive=False):
            for name, text in kept.items():
                self._keep(stream, name, digests[name], text)
            for encoding in ENCODINGS:
                self._write_payload(draft, encoding, data[encoding])
            return self._commit(draft, signer)

    def rollback(
        self, stream: str, to_version: int, *, signer: SigningKey, created_at: str, reason: str
    ) -> Manifest:
        """Publish an old version's plan as a new version.

        It is valid for as long as when it was first published, counted from ``created_at``. Its
        manifest has the schema version of the old one, so that whoever read that reads this.
        """
        if to_version == self.newest(stream):
            raise InvalidInput(
                f"to_version must be older than the newest version, got {to_version}, which is "
                f"the newest of {stream}; see `headgate history {stream}`"
            )
        moment = manifest.from_time("created_at", created_at)
        with files.lock(self.folder(stream), exclusive=False):
            old = self.load(stream, to_version).manifest
            self._keep_again(old)
            for encoding in ENCODINGS:
                self._write_payload(old, encoding, self.payload(old, encoding))
            draft = msgspec.structs.replace(
                old,
                created_at=manifest.to_time(moment),
                rollback_of=to_version,
                reason=reason,
                run="",
                validity=_from_then_on(old, moment),
            )
            return self._commit(draft, signer)

    # Looking after what is there

    def input(self, of: Manifest, name: str) -> bytes:
        """Return what a version was made from, as it was kept, checked against its digest."""
        remedy = "a version that is published from now on keeps it"
        if name not in of.inputs:
            raise PlanningError(f"version {of.version} of {of.stream} names no {name}; {remedy}")
        path = self.folder(of.stream, "inputs") / of.inputs[name]
        try:
            data = files.read(path, files.INPUT_BYTES)
        except FileNotFoundError:
            why = "it was published before that was kept, or somebody removed it"
            with suppress(FileNotFoundError):
                why = files.read(path.with_name(f"{path.name}{NOTE}")).decode(errors="replace")
            raise PlanningError(
                f"the {name} of version {of.version} of {of.stream} is not in the store ({path}): "
                f"{why}; restore it, or plan again"
            ) from None
        if drafting.digest(data) != of.inputs[name]:
            raise ArtifactError(
                f"{path}, the {name} of version {of.version} of {of.stream}, does not match its "
                "digest in the manifest; it is damaged or was replaced; restore it, or plan again"
            )
        return data

    def verify(self, stream: str, version: int | None = None) -> records.Report:
        """Check everything about a version (the newest by default) and report each check."""
        return records.verify(self, stream, self.newest(stream) if version is None else version)

    def diff(self, stream: str, old: int, new: int) -> records.Difference:
        """Return what differs between two versions: manifests and plans."""
        return records.diff(self, stream, old, new)

    def prune(self, stream: str, keep: int) -> records.Pruned:
        """Delete all but the newest ``keep`` versions, and the payloads that none of them names."""
        return records.prune(self, stream, keep)

    # Details

    def _prepare(self, stream: str) -> None:
        for part in ("versions", "payloads", "inputs"):
            files.make(self.folder(stream, part))
            files.sweep(self.folder(stream, part), self.temporary_max_age_s)

    def _write_payload(self, draft: Manifest, encoding: Encoding, data: bytes) -> None:
        _write(self.payload_path(draft.stream, draft.payloads.of(encoding), encoding), data)

    def _keep(self, stream: str, name: str, digest: str, text: bytes) -> None:
        """Keep what a plan was made from, or a note why not."""
        path = self.folder(stream, "inputs") / digest
        if len(text) <= files.INPUT_BYTES:
            _write(path, text)
            return
        note = f"the {name} has {len(text)} bytes, and at most {files.INPUT_BYTES} are kept"
        _write(path.with_name(f"{digest}{NOTE}"), note.encode())

    def _keep_again(self, old: Manifest) -> None:
        """Protect what an old version was made from, where only age protects a file."""
        if files.is_local(self.root) or not old.inputs:
            return
        for name in files.names(self.folder(old.stream, "inputs")):
            if name.removesuffix(NOTE) in old.inputs.values():
                path = self.folder(old.stream, "inputs") / name
                with suppress(FileNotFoundError):
                    _write(path, files.read(path, files.INPUT_BYTES))

    def _commit(self, draft: Manifest, signer: SigningKey) -> Manifest:
        looked_at: tuple[int, ...] = ()
        pause_s = 0.0 if files.is_local(self.root) else REMOTE_PAUSE_S
        while True:
            versions = self.versions(draft.stream)
            twin = self._of_run(draft, signer, sorted({*versions} - {*looked_at}))
            if twin is not None:
                return twin
            parent = versions[-1] if versions else None
            signed = signer.sign(
                msgspec.structs.replace(draft, version=(parent or 0) + 1, parent=parent)
            )
            path = self.manifest_path(draft.stream, signed.version)
            data = manifest.encode(signed)
            drafting.check_size("the manifest", data, files.SMALL_BYTES)
            if files.create(path, data) and not self._was_pruned(signed):
                return signed
            looked_at = versions
            # Publishers that lose at the same time would meet again at the next version.
            time.sleep(random.uniform(0.0, pause_s))
            pause_s = min(2.0 * pause_s, REMOTE_MOST_PAUSE_S)

    def _was_pruned(self, signed: Manifest) -> bool:
        """Whether the version was published and pruned before; then it is taken back.

        Where no lock keeps retention away, a publisher that stalls finds its number free again.
        """
        if files.is_local(self.root):
            return False
        versions = self.versions(signed.stream)
        later = [v for v in versions if v > signed.version]
        if not later or later[0] == signed.version + 1 or signed.version not in versions:
            return False
        return files.remove(self.manifest_path(signed.stream, signed.version))

    def _of_run(
        self, draft: Manifest, signer: SigningKey, versions: Sequence[int]
    ) -> Manifest | None:
        """Return the version that an earlier attempt of the same run has published."""
        if not draft.run:
            return None
        own = TrustedKeys.of(signer)
        for version in reversed(versions):
            try:
                twin = self.unverified(draft.stream, version)
                own.verify(twin, draft.stream)
            except (ArtifactError, NoPlan):
                continue
            if twin.run == draft.run:
                return twin
        return None


def _write(path: UPath, data: bytes) -> None:
    """Write a file that is named by its content, unless it is there."""
    if files.is_local(path):
        try:
            if files.read(path, len(data)) == data:
                return
        except (FileNotFoundError, ArtifactError, StoreError):
            pass
    # Elsewhere it is always written again: its age protects it from a concurrent deletion.
    files.replace(path, data)


def _from_then_on(old: Manifest, moment: datetime) -> Validity:
    """Return the validity of an old version, just as long, but counted from ``moment``."""
    if old.validity.not_after is None:
        return old.validity
    started = manifest.from_time("created_at", old.created_at)
    ended = manifest.from_time("not_after", old.validity.not_after)
    not_after = manifest.to_time(moment + (ended - started))
    return msgspec.structs.replace(old.validity, not_after=not_after)
