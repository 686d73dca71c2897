"""The runtime: which attributes of which tuples are sent, never beyond the capacity.

What happens to odd input:

- an attribute that is missing from a batch is not sent; its last value stays at the receiver. Only
  a batch without its CID or stream attribute is refused;
- an attribute that the plan does not know is not sent, and counted; the next plan will know it;
- an attribute that changes its type is compared as text from then on, so the change is sent;
- a tuple of a stream the plan does not know, or of more entities than fit, is handled without
  memory: the former is dropped and counted, the latter gets whatever room is left;
- a batch that cannot be read at all is dropped and counted; ``offer`` never raises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from planning import batches
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes import kernels
from planning.attributes.memory import MAX_ENTITIES, Memory, Saved
from planning.attributes.plan import Plan, Setting
from planning.attributes.receiver import Sent
from planning.batches import Batch, Refusal, Schema
from planning.columns import Encoded, encode, is_arrow
from planning.pacing import UNLIMITED
from planning.shedder import BaseShedder, Decision, Draws, Measures

NO_NUMBERS = np.empty(0, dtype=np.int64)
NO_MARKS = np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """What has been offered and sent since the shedder started."""

    offered: int  # tuples
    sent: int  # tuples of which anything was sent
    offered_bytes: int
    sent_bytes: int
    sent_values: IntArray  # per attribute
    unknown_attributes: int  # columns that the plan does not know, over all batches
    unreadable: int  # tuples that could not be read or belong to no known stream

    @property
    def dropped(self) -> int:
        """Tuples of which nothing was sent."""
        return self.offered - self.sent

    @property
    def passed_fraction(self) -> float:
        """Bytes sent over bytes offered; 1 before the first tuple."""
        return self.sent_bytes / self.offered_bytes if self.offered_bytes else 1.0


class _Read(NamedTuple):
    """A batch as numbers."""

    batch: Batch
    columns: dict[str, Encoded]
    streams: IntArray
    length: IntArray  # bytes of text values, one row per text attribute
    text: IntArray  # an attribute's row in ``length``, or -1
    units: int  # bytes before shedding


class _Followed(NamedTuple):
    """A setting as the kernel takes it."""

    whole: IntArray
    real: FloatArray
    header: IntArray
    cycle: FloatArray
    tuple_rate: FloatArray
    refresh: int
    capacity: int
    aside: int
    one: int
    reserve: int
    pace: float
    depth: float
    step: float


class Shedder(BaseShedder[Plan, Setting, float]):
    """Sheds attributes with a plan at a capacity ratio.

    With draws (keys), which tuples are thinned is a pure function of plan, load, stream and draw,
    and the phase of an entity's periods comes from the draw of its first tuple. Dead bands are
    those of the plan, and what they and the periods let pass depends on the entity's own history.
    What the capacity of the window cuts beyond that depends on all tuples, and is counted in
    ``cut``. There is no weight: a tuple is sent in parts, so it has no single probability.

    Parameters
    ----------
    load
        C/R; 1 sends everything as it is.
    max_entities
        Entities that are remembered; memory is about 12 bytes per entity and attribute.

    Examples
    --------
    >>> from planning.attributes.parameters import Parameters
    >>> from planning.attributes.planner import plan_samples
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> shedder = Shedder(plan_samples(samples, Parameters(method="periods")), load=0.8)
    >>> shedder.send(samples).bytes[:6].tolist()  # tuples have 24 bytes, presence bits take one
    [17, 17, 17, 25, 17, 17]
    >>> shedder.counters.passed_fraction <= 0.8
    True
    """

    UNIT = "bytes"

    _sent_values: IntArray
    _memory: Memory

    def __init__(self, plan: Plan, load: float = 1.0, *, max_entities: int = MAX_ENTITIES) -> None:
        self._max_entities = max_entities
        self._marked_share = 0.0
        self._totals = [0] * 6
        self._read_ahead: _Read | None = None
        super().__init__(plan, load)

    @property
    def counters(self) -> Counters:
        """What has been offered and sent since the shedder started."""
        offered, sent, offered_bytes, sent_bytes, unknown, unreadable = self._totals
        return Counters(
            offered, sent, offered_bytes, sent_bytes, self._sent_values.copy(), unknown, unreadable
        )

    @property
    def schema(self) -> Schema:
        """All attributes in the plan's order; the CID and the stream attribute are required."""
        return self._schema

    @property
    def parts(self) -> tuple[str, ...]:
        """The attributes."""
        return self._plan.attributes

    @property
    def capacity_bytes(self) -> int:
        """C in bytes per window of ``plan.window`` tuples; -1: everything passes."""
        return self._followed.capacity

    def measures(self) -> Measures:
        """Return how often each attribute was sent; the largest are those that weigh most."""
        sent = {"sent_values_total": self._sent_values}
        return Measures("attribute", self.parts, self._plan.weight, sent)

    def probe(self, rows: int) -> dict[str, Any]:
        """Return made-up tuples of every stream, with text where the plan has no numbers."""
        i = np.arange(rows)
        columns: dict[str, Any] = {}
        for name, numeric in zip(self._plan.attributes, self._plan.numeric, strict=True):
            columns[name] = i % 7 + 0.5 if numeric else (i % 7).astype(np.str_)
        if self._plan.stream_attribute:
            names = np.array([stream.name for stream in self._plan.streams])
            columns[self._plan.stream_attribute] = names[i % len(names)]
        return columns

    def set_load(self, load: float) -> None:
        """Follow a new capacity ratio; what the receiver has is remembered."""
        self._apply(self._plan.at(load))

    def set_capacity(self, capacity_bytes: float) -> None:
        """Follow a capacity in bytes per window; it holds even when it is above the rate."""
        setting = self._plan.at(self._plan.ratio_of(capacity_bytes))
        self._apply(setting, int(min(capacity_bytes, 2**62)))

    def set_marks(self, fraction: float) -> None:
        """Expect so many marked tuples: from the next load on, room is set aside for them."""
        self._marked_share = fraction

    def adopt(self, old: Self) -> None:
        """Go on with the counters, the ledger and what the receiver has, where that still fits."""
        sent: dict[str, int] = dict(zip(old.parts, old._sent_values.tolist(), strict=True))
        self._sent_values = np.array([sent.get(name, 0) for name in self.parts], dtype=np.int64)
        self._totals = old._totals
        self._memory.adopt(old._memory)
        self._read_ahead = None
        self._memory.spread(self._setting.tuple_rate)

    def units(self, batch: Batch) -> int:
        """Return the bytes of a batch before shedding."""
        self._read_ahead = self._read(batch)
        return self._read_ahead.units

    def decide(
        self, batch: Batch, *, draws: Draws = None, most: int = UNLIMITED, weighted: bool = False
    ) -> Decision:
        """Decide on a batch that has been read; return which attribute of which tuple is sent.

        When ``most`` bites, the batch is decided with the plan's setting for so few bytes, and what
        may be sent rises over the batch as the plan alone would have sent it.
        """
        return self.decide_marked(batch, NO_MARKS, draws=draws, most=most)

    def decide_marked(
        self,
        batch: Batch,
        marks: BoolArray,
        *,
        ahead: int = UNLIMITED,
        draws: Draws = None,
        most: int = UNLIMITED,
        weighted: bool = False,
    ) -> Decision:
        """Decide; marked tuples are sent whole, as long as they fit into the window and ``most``.

        The next marked tuple comes after ``ahead`` others that follow the batch; room is made for
        it in time. ``marks`` is changed: a tuple that does not fit loses its mark and is decided
        on like any other. Tuples of unknown streams keep theirs, but nothing of them is sent.
        """
        keep, sent, cut = self._decide(batch, draws, most, marks, ahead)
        return Decision(keep, int(sent.sum()), cut)

    def send(self, batch: Any) -> Sent:
        """Decide on a batch of any form; return what leaves the source."""
        try:
            read = batches.read(batch, self._schema)
            keep, sent, _ = self._decide(read, None, UNLIMITED)
            return Sent(self.parts, read.columns, keep, sent)
        except Refusal as refusal:
            keep = self._refused(refusal.rows)
            return Sent(self.parts, {}, keep, np.zeros(len(keep), dtype=np.int64))

    def _install(self, plan: Plan) -> None:
        self._plan = plan
        streams = plan.streams
        named = [*(name for stream in streams for name in stream.cid), plan.stream_attribute]
        self._schema = Schema(plan.attributes, tuple(dict.fromkeys(n for n in named if n)))
        present = np.stack([s.present for s in streams])
        kept = np.stack([s.kept for s in streams])
        role = np.where(kept & plan.informative, kernels.FOLLOWED, kernels.KEPT)
        if plan.method == "paper":  # as printed: without its attributes a tuple still names itself
            role[:] = kernels.CONSTANT
        self._role = np.where(present, np.where(kept, role, kernels.SHEDDABLE), kernels.ABSENT)
        self._whole = np.stack([np.stack([s.sizes for s in streams])] * 3)
        score = np.stack([s.score for s in streams]) * plan.weight
        weight = np.broadcast_to(plan.weight, score.shape)
        self._real = np.stack([np.stack([s.scale for s in streams]), score, weight, *[score] * 3])
        self._cycle = min(plan.window, sum(s.cycle_length for s in streams))
        self._longest = float(max(s.full_bytes for s in streams))
        self._sent_values = np.zeros(len(plan.attributes), dtype=np.int64)
        self._memory = Memory(plan, self._max_entities)

    def _apply(self, setting: Setting, capacity: int | None = None) -> None:
        capacity = setting.capacity_bytes if capacity is None else capacity
        self._load, aside = setting.load, self._aside(capacity)
        if aside:
            setting = self._plan.at(self._plan.ratio_of(capacity - aside))
        self._followed = self._follow(setting, capacity, aside)
        self._setting = setting
        self._memory.spread(self._setting.tuple_rate)

    def _aside(self, capacity: int) -> int:
        """Return the bytes per window that marked tuples are expected to take."""
        taken = self._marked_share * self._plan.window * self._plan.tuple_bytes
        return max(min(math.ceil(taken), capacity), 0)

    def _follow(
        self, setting: Setting, capacity: int, aside: int, pace: float = np.inf
    ) -> _Followed:
        whole, real = self._whole.copy(), self._real.copy()
        promises = self._plan.promises(setting)
        whole[kernels.PERIOD], whole[kernels.SLOT] = setting.period, promises.slot
        real[kernels.BAND] = setting.band
        real[kernels.LIMIT], real[kernels.RANK] = promises.limit, promises.rank
        pace = max(min(pace, (capacity - aside) / self._plan.window), 1e-9)
        one = int(self._longest) + int(setting.header_bytes.max())
        reserve = min(promises.window_bytes, max(capacity - aside, 0))
        return _Followed(
            whole, real, setting.header_bytes, promises.cycle, setting.tuple_rate,
            self._plan.refresh, capacity, aside, one, reserve, pace,
            max(pace * self._plan.window, float(one)),
            kernels.GAIN_STEP / max(self._cycle, kernels.SHORTEST),
        )  # fmt: skip

    def _decide(
        self,
        batch: Batch,
        draws: NDArray[np.uint32] | None,
        most: int,
        marks: BoolArray = NO_MARKS,
        ahead: int = UNLIMITED,
    ) -> tuple[BoolArray, IntArray, int]:
        """Return which attributes are sent, the bytes of every tuple, and the bytes cut."""
        read, most = self._read(batch), max(0, most)
        self._read_ahead = None
        followed = self._followed
        drawn = NO_NUMBERS if draws is None else draws.astype(np.int64)
        slots = self._memory.entities.slots_of(read.columns, read.streams, batch.rows)
        self._memory.grow()
        saved, marked = None, marks.copy()
        if most < read.units + batch.rows * int(followed.header.max()):
            saved = Saved(self._memory, slots)
        keep, sent, planned = self._run(read, slots, drawn, NO_NUMBERS, marked, ahead, followed)
        total = int(sent.sum())
        if draws is None:
            planned = total
        if saved is not None and total > most:
            saved.restore()
            whole = sent * marked if marked.size else np.zeros_like(sent)
            others, left = max(total - int(whole.sum()), 1), max(most - int(whole.sum()), 0)
            allowance = np.floor(np.cumsum(sent - whole) / others * left).astype(np.int64)
            allowance = np.minimum(allowance + np.cumsum(whole), most)
            followed = self._follow_less(read, followed, left, others)
            marked = marks.copy()
            keep, sent, _ = self._run(read, slots, drawn, allowance, marked, ahead, followed)
            total = int(sent.sum())
        marks[:] = marked
        self._sent_values += keep.sum(axis=0)
        unknown = int(np.count_nonzero(read.streams < 0))
        counted = (
            batch.rows, int(keep.any(axis=1).sum()), read.units, total, batch.unknown, unknown,
        )  # fmt: skip
        for place, count in enumerate(counted):
            self._totals[place] += count
        return keep, sent, planned - total

    def _follow_less(self, read: _Read, at: _Followed, most: int, total: int) -> _Followed:
        """Return what to follow when only ``most`` of ``total`` bytes may be sent of a batch."""
        setting = self._plan.at(self._setting.load * most / total)
        rate = setting.tuple_rate
        if rate.max() * self._bytes(read, self._role >= kernels.KEPT) > most:
            # Longer than planned: whole tuples, as many as fit, evenly over the entities.
            rate = np.minimum(rate, most / read.units)
            setting = replace(setting, tuple_rate=rate)
        self._memory.spread(rate)
        capacity = at.capacity if at.capacity >= 0 else UNLIMITED
        return self._follow(setting, capacity, at.aside, most / read.batch.rows)

    def _run(
        self,
        read: _Read,
        slots: IntArray,
        draws: IntArray,
        allowance: IntArray,
        marks: BoolArray,
        ahead: int,
        at: _Followed,
    ) -> tuple[BoolArray, IntArray, int]:
        plan, memory, columns = self._plan, self._memory, read.columns
        there = np.array([name in columns for name in plan.attributes])
        typed = [name not in columns or columns[name].numeric for name in plan.attributes]
        numeric = plan.numeric & np.array(typed)
        values = np.full((len(plan.attributes), read.batch.rows), np.nan)
        for j, name in enumerate(plan.attributes):
            if name in columns:
                values[j] = columns[name].values
        keep = np.zeros((read.batch.rows, len(plan.attributes)), dtype=np.bool_)
        sent = np.zeros(read.batch.rows, dtype=np.int64)
        planned = kernels.decide(
            slots, read.streams, values, read.length, draws, allowance, marks, ahead,
            np.stack([numeric.astype(np.int64), read.text]), self._role * there, *at,
            memory.last, memory.age, memory.thinning, memory.ring, memory.ints, memory.floats,
            keep, sent,
        )  # fmt: skip
        return keep, sent, planned

    def _read(self, batch: Batch) -> _Read:
        """Return a batch as numbers: the one whose units were asked for last, or anew."""
        if self._read_ahead is not None and self._read_ahead.batch is batch:
            return self._read_ahead
        plan = self._plan
        columns = {}
        text = np.full(len(plan.attributes), -1, dtype=np.int64)
        lengths: list[IntArray] = []
        for j, name in enumerate(plan.attributes):
            if name not in batch.columns:
                continue
            try:
                column = columns[name] = _encoded(batch.columns[name], bool(plan.numeric[j]))
            except batches.UNREADABLE as error:
                raise Refusal(f"column {name} cannot be read: {error}", batch.rows) from None
            if plan.kinds[j] == "text" and column.length is not None:
                text[j] = len(lengths)
                lengths.append(column.length)
        length = np.stack(lengths) if lengths else np.empty((0, batch.rows), dtype=np.int64)
        streams = self._memory.entities.streams_of(columns, batch.rows)
        read = _Read(batch, columns, streams, length, text, 0)
        return read._replace(units=self._bytes(read, self._role != kernels.ABSENT))

    def _bytes(self, read: _Read, chosen: BoolArray) -> int:
        """Return the bytes of a batch's values; ``chosen`` are (stream, attribute)."""
        there = np.array([name in read.columns for name in self.parts])
        known = read.streams[read.streams >= 0]
        fixed = np.where(chosen & there & (read.text < 0), self._whole[kernels.SIZE], 0)
        total = int((np.bincount(known, minlength=len(fixed)) * fixed.sum(axis=1)).sum())
        for j in np.flatnonzero(read.text >= 0):
            mine = (read.streams >= 0) & chosen[np.maximum(read.streams, 0), j]
            total += int(read.length[read.text[j], mine].sum())
        return total

    def _refused(self, rows: int) -> BoolArray:
        self._totals[0] += rows
        self._totals[5] += rows
        return self.nothing(rows)


def _encoded(column: Any, numeric: bool) -> Encoded:
    """Return a column as numbers; where the plan has numbers, text is read as numbers if it can."""
    encoded = encode(column)
    if numeric and not encoded.numeric and encoded is not column:
        try:
            plain = column.to_pylist() if is_arrow(column) else column
            return Encoded(np.asarray(plain, dtype=np.float64), True)
        except (TypeError, ValueError):
            return encoded
    return encoded
