"""Reading published plans: where they are stored, and what makes one trustworthy.

==========================================  ====================================================
below the root                              what
==========================================  ====================================================
``<stream>/versions/00000007.json``         the signed manifest; creating it publishes the version
``<stream>/payloads/<sha256>.json|.bin``    the plan in its two encodings, named by content
``<stream>/inputs/<sha256>``                what plans were made from; nodes never read it
``<stream>/nodes/<node>.json``              what a node last said about itself
==========================================  ====================================================

A version exists from the instant its manifest exists, and is never changed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from planning.artifacts import codec, drafting, files
from planning.artifacts import status as statuses
from planning.artifacts.files import Location
from planning.artifacts.listing import Broken, Listing
from planning.artifacts.manifest import STREAM_PATTERN, Encoding, Manifest, Payload
from planning.artifacts.manifest import decode as decode_manifest
from planning.artifacts.predicting import Promise, promised
from planning.artifacts.signing import TrustedKeys, Unverified
from planning.artifacts.status import Status
from planning.errors import ArtifactError, InvalidInput, NoPlan, StoreError
from planning.families import Plan

if TYPE_CHECKING:
    from upath import UPath

VERSION_FILE = re.compile(r"(?!0{8}\.)([0-9]{8}|[1-9][0-9]{8,14})\.json")
OLD_AND_NEW = ("acks", "nodes")  # nodes of release 0.1 write what is a short status to acks
SUFFIX: dict[Encoding, str] = {"json": "json", "binary": "bin"}


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
    plan: Plan
    data: bytes
    """The plan as it was encoded."""

    def promised(
        self, load: float | Mapping[str, float], model: float | None = None
    ) -> Promise:
        """Return the quality that this version promises at a load, with its interval."""
        return promised(self.plan, self.manifest.predicted, load, model)


@dataclass(frozen=True, slots=True, eq=False)
class LastGood:
    """The newest version that can be trusted, if any, and the newer ones that cannot.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, _ = demo_store("sifter", versions=2)
    >>> _ = store.manifest_path("ticks", 2).write_bytes(b"half a manif")
    >>> newest = store.last_good("ticks")
    >>> newest.published.manifest.version, [broken.name for broken in newest.skipped]
    (1, ['00000002'])
    """

    published: Published | None
    skipped: tuple[Broken, ...]


def check_stream(stream: str) -> str:
    """Return a stream's name if it can be one."""
    if not re.fullmatch(STREAM_PATTERN, stream):
        raise InvalidInput(
            "stream must be a name of at most 63 lower-case letters, digits, - and _, "
            f"starting with a letter, got {stream!r}"
        )
    return stream


class Reader:
    """Published plans below one root, for those who only read them.

    Parameters
    ----------
    root
        A folder or any fsspec URL.
    trusted
        The keys whose signatures are accepted. Without any, nothing can be read;
        :data:`~planning.artifacts.signing.UNVERIFIED` reads without checking signatures.

    Examples
    --------
    >>> from planning.examples import demo_store
    >>> store, signer = demo_store("sifter", versions=2)
    >>> reader = Reader(store.root, TrustedKeys.of(signer))
    >>> reader.versions("ticks"), reader.load("ticks", 1).plan.regions
    ((1, 2), 16)
    """

    clock_skew_s = 0.0
    """How far this machine's clock is ahead of where plans come from, if that is known."""
    patience_s: float | None = None
    """How long a request may be waited for when a client stops."""

    def __init__(self, root: Location, trusted: TrustedKeys | Unverified | None = None) -> None:
        self.root = files.folder(root)
        self.trusted = TrustedKeys.of() if trusted is None else trusted

    # Where things are

    def folder(self, stream: str, part: str = "") -> UPath:
        """Return a stream's folder, or a part such as its ``versions``."""
        root = self.root / check_stream(stream)
        return root / part if part else root

    def manifest_path(self, stream: str, version: int) -> UPath:
        """Return the path of a version's manifest."""
        return self.folder(stream, "versions") / f"{version:08d}.json"

    def payload_path(self, stream: str, payload: Payload, encoding: Encoding) -> UPath:
        """Return the path of a payload."""
        return self.folder(stream, "payloads") / f"{payload.digest}.{SUFFIX[encoding]}"

    # What is read from there; another way of delivery has its own

    def there(self) -> bool:
        """Whether the root exists; an object store has none to look for."""
        return not files.is_local(self.root) or files.local(self.root).is_dir()

    def manifest_bytes(self, stream: str, version: int) -> bytes:
        """Return a manifest as it lies there; a missing one raises ``FileNotFoundError``."""
        return files.read(self.manifest_path(stream, version))

    def payload_bytes(self, manifest: Manifest, encoding: Encoding) -> bytes:
        """Return an encoded plan as it lies there; a missing one raises ``FileNotFoundError``."""
        payload = manifest.payloads.of(encoding)
        path = self.payload_path(manifest.stream, payload, encoding)
        return files.read(path, min(payload.bytes, files.PAYLOAD_BYTES))

    def wait(self, stream: str, wake: threading.Event) -> float:
        """Wait for news where that is possible; return how many seconds it took."""
        return 0.0

    # What is there

    def streams(self) -> tuple[str, ...]:
        """Return the streams that have a published plan."""
        named = [name for name in files.names(self.root) if re.fullmatch(STREAM_PATTERN, name)]
        return tuple(name for name in named if self.versions(name))

    def versions(self, stream: str) -> tuple[int, ...]:
        """Return the versions in the store, oldest first, without opening them."""
        matches = map(VERSION_FILE.fullmatch, files.names(self.folder(stream, "versions")))
        return tuple(sorted(int(match[1]) for match in matches if match))

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
        manifest = self.unverified(stream, version)
        self.trusted.verify(manifest, str(path))
        return manifest

    def load(
        self, stream: str, version: int | None = None, encoding: Encoding = "binary"
    ) -> Published:
        """Return a version (the newest by default) with its plan: verified, or an error."""
        wanted = self.newest(stream) if version is None else version
        try:
            return self.published(self.manifest(stream, wanted), encoding)
        except (NoPlan, ArtifactError):
            if version is None and self.newest(stream) != wanted:
                # Retention may remove a version between looking and reading; a newer one is there.
                return self.load(stream, None, encoding)
            raise

    def published(self, manifest: Manifest, encoding: Encoding = "binary") -> Published:
        """Return the version of a verified manifest with its plan."""
        data = self.payload(manifest, encoding)
        return Published(manifest, self.plan(manifest, encoding, data), data)

    def last_good(self, stream: str, after: int = 0, encoding: Encoding = "binary") -> LastGood:
        """Return the newest version above ``after`` that can be trusted, and what was skipped."""
        self.newest(stream)
        skipped: list[Broken] = []
        for version in self.newer(stream, after, encoding):
            if isinstance(version, Published):
                return LastGood(version, tuple(skipped))
            skipped.append(version)
        return LastGood(None, tuple(skipped))

    def newer(
        self, stream: str, after: int = 0, encoding: Encoding = "binary"
    ) -> Iterator[Published | Broken]:
        """Yield the versions above ``after``, newest first, each read when it is asked for.

        Whatever is wrong with the files of one version, the next lower one follows.

        >>> from planning.examples import demo_store
        >>> store, _ = demo_store("sifter", versions=3)
        >>> store.manifest_path("ticks", 3).unlink()
        >>> store.manifest_path("ticks", 3).mkdir()
        >>> newer = store.newer("ticks", after=1)
        >>> next(newer).name, next(newer).manifest.version, next(newer, None)
        ('00000003', 2, None)
        """
        for version in reversed([v for v in self.versions(stream) if v > after]):
            candidate: Published | Broken
            try:
                candidate = self.load(stream, version, encoding)
            except Exception as error:  # a version that cannot be read must not hide the others
                candidate = Broken(f"{version:08d}", str(error) or type(error).__name__)
            yield candidate

    def history(self, stream: str) -> Listing[Manifest]:
        """Return all manifests, newest first, and the damaged ones with their problems."""
        self.newest(stream)
        sound: list[Manifest] = []
        broken: list[Broken] = []
        for version in reversed(self.versions(stream)):
            try:
                sound.append(self.manifest(stream, version))
            except (ArtifactError, NoPlan, StoreError) as error:
                broken.append(Broken(f"{version:08d}", str(error)))
        return Listing(tuple(sound), tuple(broken))

    def payload(self, manifest: Manifest, encoding: Encoding) -> bytes:
        """Return a version's encoded plan, checked against its digest."""
        payload = manifest.payloads.of(encoding)
        path = self.payload_path(manifest.stream, payload, encoding)
        try:
            data = self.payload_bytes(manifest, encoding)
        except FileNotFoundError:
            raise ArtifactError(
                f"{path}, the {encoding} plan of version {manifest.version}, is missing; restore "
                "it, roll back to a complete version, or publish again"
            ) from None
        if len(data) != payload.bytes or drafting.digest(data) != payload.digest:
            raise ArtifactError(
                f"{path} does not match the digest in the manifest of version {manifest.version} "
                f"({len(data)} bytes, {payload.bytes} expected); it is damaged or was replaced; "
                "restore it, roll back, or publish again"
            )
        return data

    def plan(self, manifest: Manifest, encoding: Encoding, data: bytes | None = None) -> Plan:
        """Return the plan of a manifest, decoded from one of its encodings."""
        data = self.payload(manifest, encoding) if data is None else data
        source = str(self.payload_path(manifest.stream, manifest.payloads.of(encoding), encoding))
        family, plan = codec.decode(data, encoding, source)
        if family != manifest.family:
            raise ArtifactError(
                f"{source} holds a {family} plan, but the manifest of version {manifest.version} "
                f"says {manifest.family}; publish again"
            )
        return plan

    def unverified(self, stream: str, version: int) -> Manifest:
        """Return one version's manifest, sound and in its place, whoever signed it."""
        path = self.manifest_path(stream, version)
        try:
            manifest = decode_manifest(self.manifest_bytes(stream, version), str(path))
        except FileNotFoundError:
            have = self.versions(stream)
            kept = f"{have[0]} to {have[-1]}" if have else "none"
            raise NoPlan(
                f"stream {stream} has no version {version} in {self.root}; it has {kept}"
            ) from None
        if (manifest.stream, manifest.version) != (stream, version):
            raise ArtifactError(
                f"{path} is the manifest of {manifest.stream} version {manifest.version}; somebody "
                "moved or copied it; remove it and publish again"
            )
        return manifest

    # The nodes

    def nodes(self, stream: str) -> Listing[Status]:
        """Return every node's last status, by node, and the unreadable ones."""
        found = {
            name: self.folder(stream, part) / name
            for part in OLD_AND_NEW
            for name in files.names(self.folder(stream, part))
            if name.endswith(".json") and not name.startswith(".")
        }
        sound: list[Status] = []
        broken: list[Broken] = []
        for name, path in sorted(found.items()):
            try:
                status = statuses.decode(files.read(path), str(path))
                sound.append(msgspec.structs.replace(status, age_s=files.age_s(path)))
            except (ArtifactError, StoreError, FileNotFoundError) as error:
                broken.append(Broken(name, str(error)))
        return Listing(tuple(sound), tuple(broken))

    def report(self, stream: str, status: Status) -> None:
        """Write a node's status; into a store that is missing, nothing is written."""
        if not self.there():
            raise StoreError(f"{self.root} is missing; check the path, and that it is mounted")
        nodes = self.folder(stream, "nodes")
        files.make(nodes)
        files.replace(nodes / f"{status.node}.json", statuses.encode(status))
