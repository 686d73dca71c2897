"""What happens in a Python worker: it settles or reads the terms of a micro-batch, and sheds by it.

A worker keeps one plan client and one finished shedder per version from task to task. Decisions are
keyed and marks are too, so that they depend on rows and terms alone: not on the partition a row is
in, nor on what the worker did before. Whatever must not differ between two attempts of a task is in
the terms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from planning import keys
from planning.arrays import BoolArray
from planning.artifacts import UNVERIFIED, Published, TrustedKeys, Unverified, codec, files
from planning.artifacts import manifest as manifests
from planning.artifacts.manifest import from_time
from planning.artifacts.remote import Token
from planning.artifacts.status import plain
from planning.errors import ArtifactError, InvalidInput
from planning.runtime import PlanClient
from planning.runtime.compiling import at_hand
from planning.runtime.data_path import DataPath
from planning.runtime.marking import SampleMarker
from planning.runtime.preparing import Prepared, prepare
from planning.runtime.throttle import FixedThrottle
from spark_apps.streaming.control import Control, Terms

MARKS = 0x6D61726B << 32  # with a micro-batch's number the salt of its marks
VERSIONS = 4  # finished shedders that a worker keeps
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # Spark's names of a task's ids
Trust = str | tuple[bytes, ...] | None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker must know; it travels with every task.

    ``trust`` is a folder of keys, the keys themselves, or None for no check of signatures. ``load``
    is None where it follows the query's progress.
    """

    store: str
    trust: Trust
    stream: str
    family: str
    key: tuple[str, ...]
    salt: int | None
    load: float | None
    control: str | None
    landing: str | None
    sampling_fraction: float
    options: Mapping[str, Any] = field(hash=False)
    token: Token | None = field(hash=False)


def trust_of(trusted: TrustedKeys | Unverified) -> Trust:
    """Return trusted keys in a form that travels.

    >>> trust_of(UNVERIFIED), trust_of(TrustedKeys.of())
    (None, ())
    """
    if isinstance(trusted, Unverified):
        return None
    if trusted.folder is not None:
        return str(trusted.folder)
    return tuple(key.public_bytes_raw() for key in trusted.keys.values())


def trusted_by(trust: Trust) -> TrustedKeys | Unverified:
    """Return the keys again."""
    if trust is None:
        return UNVERIFIED
    if isinstance(trust, str):
        return TrustedKeys.load(trust)
    return TrustedKeys.of(*map(Ed25519PublicKey.from_public_bytes, trust))


class Client(PlanClient):
    """A client without a voice of its own: a query reports as one node, from the driver."""

    def report(self) -> None:
        """Say nothing."""


class Worker:
    """What a process keeps from task to task for one setting."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client: Client | None = None
        self._prepared: dict[int, Prepared] = {}

    @property
    def client(self) -> Client:
        """The client; only workers that settle terms ever make one."""
        if self._client is None:
            given = self.settings
            self._client = Client(
                given.store,
                given.stream,
                trusted=trusted_by(given.trust),
                token=given.token,
                node="spark",
                memory=False,
            )
            self._client.attach(self)
        return self._client

    # What a client asks of those it hands plans to

    def prepare(self, published: Published) -> Prepared:
        """Build and try a shedder; raise if the plan cannot be used in this query."""
        family = published.manifest.family
        if family != self.settings.family:
            raise ArtifactError(f"family must be {self.settings.family}, got a plan of {family}")
        with at_hand(family):
            return prepare(published.plan, family, options=self.settings.options)

    def hand_over(self, published: Published, prepared: Prepared) -> None:
        """Keep a finished shedder, and those of a few versions that were used before."""
        self._prepared[published.manifest.version] = prepared
        while len(self._prepared) > VERSIONS:
            del self._prepared[next(iter(self._prepared))]

    def withdraw(self) -> None:
        """Nothing to do: terms that are settled hold, and the next will be without a plan."""

    def measured(self) -> Mapping[str, Any]:
        """Return nothing: counters go to the control folder."""
        return {}

    # Terms

    def terms(self, control: Control, batch: int) -> Terms:
        """Return what holds for a micro-batch; whoever asks first settles it."""
        settled = control.terms(batch)
        if settled is None:
            proposed, published = self.propose(control.before(batch), control)
            if published is not None:
                control.keep(published)
            settled = control.settle(batch, proposed)
        return settled

    def propose(
        self, last: Terms | None, control: Control | None
    ) -> tuple[Terms, Published | None]:
        """Return terms with the newest sound plan, never one older than in the terms before."""
        client, settings = self.client, self.settings
        if last is not None:
            client.seen = max(client.seen, last.version)
        client.poll()
        published = client.current
        if last is not None and control is not None and client.version < last.version:
            # The store is out of reach, or has gone back: what was in force stays, unless its key
            # is not trusted any longer.
            if last.version not in client.refused:
                published = control.plan(last.version)
        load = settings.load
        if load is None and control is not None:
            load = control.load()
        terms = Terms(
            version=published.manifest.version if published else 0,
            load=1.0 if load is None else load,
            expired=_expired(published, client.clock()),
            refused={v: why for v, why in client.refused.items() if v >= client.version},
            problem=plain(client.problem),
        )
        return terms, published

    def shedder(self, version: int, kept: Callable[[], Published]) -> Prepared:
        """Return the finished shedder of a version, from the copy of its plan if need be."""
        if version not in self._prepared:
            published = kept()
            self.hand_over(published, self.prepare(published))
        return self._prepared[version]


def _expired(published: Published | None, now_s: float) -> Any:
    """Return what an expired plan says to do; nothing if it is in force."""
    validity = published.manifest.validity if published else None
    if validity is None or validity.not_after is None:
        return ""
    over = now_s >= from_time("not_after", validity.not_after).timestamp()
    return validity.fallback if over else ""


class Marker(SampleMarker):
    """Marks by key: the same rows in every attempt, other keys in every micro-batch."""

    def __init__(self, sampling_fraction: float, batch: int) -> None:
        super().__init__(sampling_fraction)
        self.salt = MARKS + batch
        self.columns: list[Any] = []

    @property
    def ahead(self) -> int:
        """The next row may be marked: nobody knows its key."""
        return 0

    def mark(self, count: int) -> BoolArray:
        """Return the marks of the batch whose key columns were given."""
        drawn = keys.draws_of(self.columns, self.salt)
        return np.asarray(drawn < keys.drop_step(self.fraction))


@dataclass(frozen=True, slots=True)
class Pinned:
    """A plan's source that does not change during a micro-batch."""

    stream: str
    expired: bool
    fallback: str

    def report_swap(self) -> None:
        """Nobody asks."""


class Task:
    """The rows of one partition of one micro-batch."""

    def __init__(self, settings: Settings, terms: Terms, prepared: Prepared | None, batch: int):
        self.settings = settings
        self.terms = terms
        self.marker = Marker(settings.sampling_fraction, batch) if settings.landing else None
        self.samples: list[pa.RecordBatch] = []
        self.path = DataPath(
            Pinned(settings.stream, bool(terms.expired), terms.expired),
            FixedThrottle(terms.load),
            None,
            self.marker,
            fallback="uniform",
            parts=(),
            item_units=None,
            key=settings.key,
            salt=settings.salt,
            clock=time.monotonic,
        )
        if prepared is not None:
            self.path.put(terms.version, prepared)

    def decide(self, rows: pa.RecordBatch, weighted: bool) -> tuple[BoolArray, Any]:
        """Return the mask of a batch of rows, and its weights if asked for; set samples aside."""
        if self.marker is not None:
            self.marker.columns = [rows.column(name) for name in self.settings.key]
        weight = None
        if weighted:
            keep, weight = self.path.offer_weighted(rows)
        else:
            keep = self.path.offer(rows)
        if self.marker is not None and self.path.marked.any():
            self.samples.append(rows.filter(pa.array(self.path.marked)))
        return keep, weight

    def land(self, query: str, batch: int, partition: int) -> None:
        """Write the samples to the landing folder, once per micro-batch and partition."""
        landing = self.settings.landing
        if landing is None or not self.samples:
            return
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches(self.samples), sink)
        folder = files.folder(landing)
        files.make(folder)
        name = f"spark-{query}-{self.settings.stream}-{batch:08d}-{partition}.parquet"
        files.create(folder / name, sink.getvalue().to_pybytes())


_workers: dict[Settings, Worker] = {}


def worker(settings: Settings) -> Worker:
    """Return what this process keeps for a setting."""
    if settings not in _workers:
        _workers[settings] = Worker(settings)
    return _workers[settings]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task is: its query and micro-batch, if any, and its partition."""

    query: str
    batch: int | None
    partition: int


def place() -> Place:
    """Return where the running task is."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    batch = task.getLocalProperty(BATCH)
    query = task.getLocalProperty(QUERY) or ""
    return Place(query, int(batch) if query and batch else None, task.partitionId())


@dataclass(frozen=True, slots=True)
class Fixed:
    """Terms that the driver fixed for a DataFrame that is no stream, with the plan itself."""

    run: str
    terms: Terms
    manifest: bytes = b""
    plan: bytes = b""

    @classmethod
    def of(cls, run: str, terms: Terms, published: Published | None) -> Fixed:
        """Return terms and plan in a form that travels."""
        if published is None:
            return cls(run, terms)
        return cls(run, terms, manifests.encode(published.manifest), published.data)

    def published(self) -> Published:
        """Return the plan; its signature was checked by the driver."""
        source = "the driver's plan"
        manifest = manifests.decode(self.manifest, source)
        return Published(manifest, codec.decode(self.plan, "binary", source)[1], self.plan)


def opened(settings: Settings, fixed: Fixed | None, here: Place) -> tuple[Task, Control | None]:
    """Return the task with the terms that hold for it, and where its counters go."""
    kept = worker(settings)
    control: Control | None = None
    if settings.control is not None and here.batch is not None:
        control, batch = Control(settings.control, here.query, settings.stream), here.batch
        terms = kept.terms(control, batch)
        plan: Callable[[], Published] = partial(control.plan, terms.version)
    elif fixed is not None:
        terms, batch, plan = fixed.terms, 0, fixed.published
    else:
        raise InvalidInput("control must be a folder beside the query's checkpoint, got none")
    prepared = kept.shedder(terms.version, plan) if terms.version else None
    return Task(settings, terms, prepared, batch), control


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that shedding adds, if they are wanted."""

    weight: str | None
    version: str | None
    mask: str | None


def kernel(
    settings: Settings, fixed: Fixed | None, columns: Columns, names: list[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` runs on the rows of a partition."""

    def shed_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = place()
        task: Task | None = None
        control: Control | None = None
        for rows in batches:
            if not rows.num_rows:
                continue
            if task is None:
                task, control = opened(settings, fixed, here)
            keep, weight = task.decide(rows, columns.weight is not None)
            yield with_columns(rows, keep, weight, task.terms.version, columns, names)
        if task is not None:
            whose = here.query if control is not None or fixed is None else fixed.run
            task.land(whose, here.batch or 0, here.partition)
            if control is not None and here.batch is not None:
                control.count(here.batch, here.partition, task.path.counters.snapshot())

    return shed_rows


def with_columns(
    rows: pa.RecordBatch, keep: BoolArray, weight: Any, version: int, columns: Columns,
    names: list[str],
) -> pa.RecordBatch:  # fmt: skip
    """Return the rows that are kept, or all with their masks, and the columns that were added."""
    arrays = list(rows.columns)
    if columns.weight is not None:
        arrays.append(pa.array(weight, from_pandas=True))  # NaN is null: there is no probability
    if columns.version is not None:
        arrays.append(pa.array(np.full(rows.num_rows, version, dtype=np.int32)))
    if columns.mask is not None:
        wide = keep.reshape(rows.num_rows, -1)
        offsets = np.arange(rows.num_rows + 1, dtype=np.int32) * wide.shape[1]
        flat = pa.array(np.ascontiguousarray(wide).ravel())
        arrays.append(pa.ListArray.from_arrays(pa.array(offsets), flat))
    out = pa.RecordBatch.from_arrays(arrays, names=names)
    return out if columns.mask is not None or keep.all() else out.filter(pa.array(keep))
