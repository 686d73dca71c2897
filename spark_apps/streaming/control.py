"""The control folder of a query: what was decided for every micro-batch, and what came of it.

============================================  ===================================================
below ``<folder>/<query id>/<stream>``        what
============================================  ===================================================
``terms/00000007.json``                       version and load of micro-batch 7, created once
``plans/<stream>/…``                          the plans that these name, laid out like a store
``counters/00000007-3.json``                  what partition 3 of it counted
``load.json``, ``totals.json``                the next load; all counters up to a micro-batch
============================================  ===================================================

Files appear whole. Terms are created exclusively, so of all who propose some for a micro-batch one
is heard, and whoever comes later, after a crash or a restart too, reads the same. A query has its
id from its checkpoint: with a new checkpoint everything begins anew.
"""

from __future__ import annotations

import re
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from planning.artifacts import UNVERIFIED, Published, Reader, files
from planning.artifacts import manifest as manifests
from planning.artifacts.files import Location
from planning.errors import ArtifactError
from planning.runtime.counters import GAUGES

RETAINED = 100  # micro-batches whose terms are kept, as many as Spark keeps of its own logs
COUNTED = re.compile(r"([0-9]{8,})-[0-9]+\.json")
NUMBERED = re.compile(r"([0-9]{8,})\.json")
Counts = dict[str, int | float]
Kind = TypeVar("Kind")


class Terms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for one micro-batch: a version (0: there was no plan) and a load.

    ``expired`` is what the plan says to do if its time was over; ``refused`` and ``problem`` are
    what the worker had to say that looked for a plan.
    """

    version: int
    load: float
    expired: Literal["", "keep", "pass", "uniform"] = ""
    refused: dict[int, str] = {}
    problem: str = ""


class Totals(Struct, frozen=True):
    """All counters of the micro-batches up to and including ``through``."""

    through: int = -1
    counters: Counts = {}


class Control:
    """The folder of one stream in one query.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     control = Control(folder, "3f2a", "ticks")
    ...     control.settle(7, Terms(version=2, load=0.5))
    ...     control.settle(7, Terms(version=3, load=0.1)) == control.terms(7)
    Terms(version=2, load=0.5, expired='', refused={}, problem='')
    True
    """

    def __init__(self, folder: Location, query: str, stream: str) -> None:
        self.stream = stream
        self.root = files.folder(folder) / query / stream
        self._plans = Reader(self.root / "plans", UNVERIFIED)

    def there(self) -> bool:
        """Whether a task of this query has decided anything yet."""
        return bool(files.names(self.root / "terms"))

    # What is decided

    def terms(self, batch: int) -> Terms | None:
        """Return the terms of a micro-batch, if they are settled."""
        try:
            data = files.read(self.root / "terms" / f"{batch:08d}.json")
        except FileNotFoundError:
            return None
        return _decoded(data, Terms, f"the terms of micro-batch {batch} in {self.root}")

    def settle(self, batch: int, proposed: Terms) -> Terms:
        """Settle the terms of a micro-batch; return those that hold, maybe somebody else's."""
        files.make(self.root / "terms")
        path = self.root / "terms" / f"{batch:08d}.json"
        if files.create(path, msgspec.json.encode(proposed)):
            return proposed
        settled = self.terms(batch)
        assert settled is not None
        return settled

    def before(self, batch: int) -> Terms | None:
        """Return the terms of the last micro-batch before this one."""
        earlier = [number for number in self._settled() if number < batch]
        return self.terms(earlier[-1]) if earlier else None

    def _settled(self) -> list[int]:
        matches = map(NUMBERED.fullmatch, files.names(self.root / "terms"))
        return sorted(int(match[1]) for match in matches if match)

    def keep(self, published: Published) -> None:
        """Keep a copy of a plan, so that its micro-batches can be repeated without the store."""
        reader, manifest = self._plans, published.manifest
        for part in ("payloads", "versions"):
            files.make(reader.folder(self.stream, part))
        payload = reader.payload_path(self.stream, manifest.payloads.binary, "binary")
        files.create(payload, published.data)
        encoded = manifests.encode(manifest)
        files.create(reader.manifest_path(self.stream, manifest.version), encoded)

    def plan(self, version: int) -> Published:
        """Return a plan that was kept; its signature was checked when it was."""
        return self._plans.load(self.stream, version)

    # The load of micro-batches to come

    def load(self) -> float | None:
        """Return the load for the next micro-batch, if one was set."""
        try:
            data = files.read(self.root / "load.json")
        except FileNotFoundError:
            return None
        return _decoded(data, float, f"the load in {self.root}")

    def set_load(self, load: float) -> None:
        """Set the load of the micro-batches whose terms are not settled yet."""
        files.make(self.root)
        files.replace(self.root / "load.json", msgspec.json.encode(load))

    # What came of it

    def count(self, batch: int, partition: int, counters: Counts) -> None:
        """Note what a partition counted; a repetition counts the same again, and once."""
        files.make(self.root / "counters")
        path = self.root / "counters" / f"{batch:08d}-{partition}.json"
        files.replace(path, msgspec.json.encode(counters))

    def counted(self, through: int) -> Totals:
        """Add what was counted up to a micro-batch to the totals, and clear up behind it.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     control = Control(folder, "3f2a", "ticks")
        ...     control.count(0, 0, {"kept": 3})
        ...     control.count(0, 1, {"kept": 2})
        ...     control.counted(0) == control.counted(0), control.counted(0).counters
        (True, {'kept': 5})
        """
        totals = self.totals()
        folder = self.root / "counters"
        found = [(match, int(match[1])) for match in map(COUNTED.fullmatch, files.names(folder))
                 if match and int(match[1]) <= through]  # fmt: skip
        sums = dict(totals.counters)
        for match, batch in found:
            if batch <= totals.through:
                continue
            counts = _decoded(files.read(folder / match[0]), Counts, str(folder / match[0]))
            for name, value in counts.items():
                if name not in GAUGES:
                    sums[name] = sums.get(name, 0) + value
        if through > totals.through:
            totals = Totals(through, sums)
            files.make(self.root)
            files.replace(self.root / "totals.json", msgspec.json.encode(totals))
        for match, _ in found:
            files.remove(folder / match[0])
        return totals

    def totals(self) -> Totals:
        """Return the totals so far."""
        try:
            data = files.read(self.root / "totals.json")
        except FileNotFoundError:
            return Totals()
        return _decoded(data, Totals, f"the totals in {self.root}")

    def forget(self, before: int) -> None:
        """Remove the terms of micro-batches before this one, and plans that no others name."""
        settled = self._settled()
        old = [number for number in settled if number < before]
        if not old:
            return
        left = [self.terms(number) for number in settled if number >= before]
        named = {terms.version for terms in left if terms}
        for number in old:
            files.remove(self.root / "terms" / f"{number:08d}.json")
        reader = self._plans
        payloads = {
            version: reader.unverified(self.stream, version).payloads.binary
            for version in reader.versions(self.stream)
        }
        # What is newer than all terms may be about to be named by some.
        gone = [version for version in payloads if version < min(named, default=0)]
        kept = {payload.digest for version, payload in payloads.items() if version not in gone}
        for version in gone:
            files.remove(reader.manifest_path(self.stream, version))
            if payloads[version].digest not in kept:
                files.remove(reader.payload_path(self.stream, payloads[version], "binary"))


def _decoded(data: bytes, kind: type[Kind], what: str) -> Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ArtifactError(
            f"{what} cannot be read ({error}); restore it, or begin with a new checkpoint"
        ) from None
