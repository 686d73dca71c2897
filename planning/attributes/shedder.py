"""The runtime: which attributes of which tuples are sent, never beyond the capacity.

Batches are mappings of columns, Arrow tables, or lists of rows. What happens to odd input:

- an attribute that is missing from a batch is not sent; its last value stays at the receiver;
- an attribute that the plan does not know is not sent, and counted; the next plan will know it;
- an attribute that changes its type is compared as text from then on, so the change is sent;
- a tuple of a stream the plan does not know, or of more entities than fit, is handled without
  memory: the former is dropped and counted, the latter gets whatever room is left;
- a batch that cannot be read at all is dropped and counted; ``offer`` never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes import kernels
from planning.attributes.plan import Plan, Setting
from planning.columns import (
    Encoded,
    columns_of,
    encode,
    is_arrow,
    length_of,
    row_keys,
    value_code,
)
from planning.shedder import BaseShedder, batch_size

MAX_ENTITIES = 65_536
FIRST_ENTITIES = 64
GOLDEN = 0.6180339887498949  # successive multiples spread evenly over [0, 1)
SLOWEST = 1e-6  # tuples are not spread further apart than this fraction


class Entities:
    """Which stream and which entity a tuple belongs to, as small numbers.

    A growing table from CID values to slots 0, 1, 2 … in order of first appearance.
    """

    def __init__(self, plan: Plan, limit: int = MAX_ENTITIES) -> None:
        self._streams = plan.streams
        self._stream_attribute = plan.stream_attribute
        self._cids = tuple(dict.fromkeys(s.cid for s in plan.streams))
        self._limit = max(1, limit)
        self.count = 0
        self._known = np.empty(0, dtype=np.int64)
        self._grow(min(FIRST_ENTITIES, self._limit))

    @property
    def room(self) -> int:
        """How many slots there may be before the table grows."""
        return len(self._known)

    def locate(self, columns: Mapping[str, Encoded], rows: int) -> tuple[IntArray, IntArray]:
        """Return (stream, slot) of every row; -1 for an unknown stream or a full table."""
        streams = self._streams_of(columns, rows)
        keys = self._keys(columns, streams, rows)
        slots = np.empty(rows, dtype=np.int64)
        while True:
            self.count = kernels.find_slots(
                keys, self._table, self._known, self.count, self.room, slots
            )
            if self.count < self.room or self.room >= self._limit:
                return streams, slots
            self._grow(min(4 * self.room, self._limit))

    def _streams_of(self, columns: Mapping[str, Encoded], rows: int) -> IntArray:
        if not self._stream_attribute:
            return np.zeros(rows, dtype=np.int64)
        streams = np.full(rows, -1, dtype=np.int64)
        column = columns.get(self._stream_attribute)
        if column is not None:
            for s, stream in enumerate(self._streams):
                streams[column.values == value_code(stream.name, column.numeric)] = s
        return streams

    def _keys(self, columns: Mapping[str, Encoded], streams: IntArray, rows: int) -> IntArray:
        nowhere = Encoded(np.full(rows, np.nan), True)
        keys = np.zeros(rows, dtype=np.int64)
        for cid in self._cids:
            parts = [columns.get(name, nowhere) for name in cid]
            named = row_keys([*parts, Encoded(streams.astype(np.float64), True)], rows)
            mine = [s for s, stream in enumerate(self._streams) if stream.cid == cid]
            keys = np.where(np.isin(streams, mine), named, keys) if len(self._cids) > 1 else named
        return keys

    def _grow(self, room: int) -> None:
        known = self._known[: self.count].copy()
        self._known = np.append(known, np.zeros(room - self.count, dtype=np.int64))
        size = 1 << (4 * room - 1).bit_length()  # a power of two, at most a quarter full
        self._table = np.full(size, -1, dtype=np.int64)
        again = np.empty(self.count, dtype=np.int64)
        kernels.find_slots(known, self._table, self._known, 0, room, again)


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


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What leaves the source: the columns, and which of their values are really there.

    ``keep[i, j]`` tells whether attribute j of tuple i is sent, ``tuples`` which tuples are sent at
    all; values elsewhere in ``columns`` never leave the source.
    """

    attributes: tuple[str, ...]
    columns: Mapping[str, Any]
    keep: BoolArray
    bytes: IntArray  # per tuple

    @property
    def tuples(self) -> BoolArray:
        """Which tuples are sent at all."""
        return np.asarray(self.keep.any(axis=1))

    def rows(self) -> list[dict[str, Any]]:
        """Return the sent tuples as rows with only the sent attributes."""
        plain = {
            name: c.to_pylist() if hasattr(c, "to_pylist") else list(c)
            for name, c in self.columns.items()
            if name in self.attributes
        }
        return [
            {
                name: plain[name][i]
                for j, name in enumerate(self.attributes)
                if self.keep[i, j] and name in plain
            }
            for i in np.flatnonzero(self.tuples)
        ]

    def to_arrow(self) -> Any:
        """Return an Arrow table of the sent tuples, null where nothing was sent.

        The column ``_present`` has one bit per attribute, so that null and absent differ.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = {}
        for j, name in enumerate(self.attributes):
            if name in self.columns:
                column = self.columns[name]
                column = column if is_arrow(column) else pa.array(column)
                absent = pa.array(~self.keep[:, j])
                columns[name] = pc.if_else(absent, pa.scalar(None, column.type), column)
        bits = np.packbits(self.keep, axis=1, bitorder="little")
        columns["_present"] = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(bits.shape[1]), len(bits), [None, pa.py_buffer(bits)]
        )
        return pa.table(columns).filter(pa.array(self.tuples))


class Shedder(BaseShedder[Plan, Setting, float]):
    """Sheds attributes with a plan at a capacity ratio.

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

    def __init__(self, plan: Plan, load: float = 1.0, *, max_entities: int = MAX_ENTITIES) -> None:
        self._max_entities = max_entities
        self._totals = [0] * 6
        super().__init__(plan, load)

    @property
    def counters(self) -> Counters:
        """What has been offered and sent since the shedder started."""
        offered, sent, offered_bytes, sent_bytes, unknown, unreadable = self._totals
        return Counters(
            offered, sent, offered_bytes, sent_bytes, self._sent_values.copy(), unknown, unreadable
        )

    @property
    def capacity_bytes(self) -> int:
        """C in bytes per window of ``plan.window`` tuples; -1: everything passes."""
        return self._capacity

    def set_load(self, load: float) -> None:
        """Follow a new capacity ratio; what the receiver has is remembered."""
        self._apply(self._plan.at(load))

    def set_capacity(self, capacity_bytes: float) -> None:
        """Follow a capacity in bytes per window; it holds even when it is above the rate."""
        setting = self._plan.at(self._plan.ratio_of(capacity_bytes))
        self._apply(setting, int(min(capacity_bytes, 2**62)))

    def swap(self, plan: Plan) -> None:
        """Follow a new plan at the same load.

        If it has the same attributes and entities, what the receiver has is remembered.
        """
        if _memory(plan) != _memory(self._plan):
            super().swap(plan)
            return
        self._plan = plan
        self._stack()
        self.set_load(self._load)

    def offer(self, batch: Any) -> BoolArray:
        """Decide on a batch; return which attribute (column) of which tuple (row) is sent."""
        return self.send(batch).keep

    def offer_one(self, item: Mapping[str, Any]) -> BoolArray:
        """Decide on one tuple."""
        return np.asarray(self.offer([item])[0])

    def send(self, batch: Any) -> Sent:
        """Decide on a batch; return what leaves the source."""
        try:
            columns = columns_of(batch)
            rows = length_of(columns)
            encoded = {n: encode(columns[n]) for n in self._plan.attributes if n in columns}
        except Exception:  # the data path must not stop for one bad batch
            rows = _rows(batch)
            self._totals[0] += rows
            self._totals[5] += rows
            nothing = np.zeros((rows, len(self._plan.attributes)), dtype=np.bool_)
            return Sent(self._plan.attributes, {}, nothing, np.zeros(rows, dtype=np.int64))
        sent = Sent(self._plan.attributes, columns, *self._decide(encoded, rows))
        self._totals[1] += int(sent.tuples.sum())
        self._totals[4] += len(set(columns) - set(self._plan.attributes))
        return sent

    def _install(self, plan: Plan) -> None:
        """Start with empty memory and an empty ledger."""
        self._plan = plan
        self._stack()
        self._sent_values = np.zeros(len(plan.attributes), dtype=np.int64)
        self._entities = Entities(plan, self._max_entities)
        self._ring = np.zeros(plan.window, dtype=np.int64)
        self._ints = np.zeros(2, dtype=np.int64)
        self._floats = np.zeros(4)
        self._last = np.empty((0, len(plan.attributes)))
        self._age = np.empty((0, len(plan.attributes)), dtype=np.int32)
        self._thinning = np.empty(0)
        self._grow()

    def _stack(self) -> None:
        streams = self._plan.streams
        self._sizes = np.stack([s.sizes for s in streams])
        self._present = np.stack([s.present for s in streams])
        self._kept = np.stack([s.kept for s in streams])
        self._scale = np.stack([s.scale for s in streams])
        self._score = np.stack([s.score for s in streams]) * self._plan.weight

    def _grow(self) -> None:
        """Make room for as many entities as are known."""
        have, attributes = self._age.shape
        more = self._entities.room - have
        if more <= 0:
            return
        self._last = np.vstack([self._last, np.full((more, attributes), np.nan)])
        self._age = np.vstack([self._age, np.full((more, attributes), -1, dtype=np.int32)])
        self._thinning = np.append(self._thinning, (np.arange(have, have + more) * GOLDEN) % 1.0)

    def _apply(self, setting: Setting, capacity: int | None = None) -> None:
        self._setting, self._load = setting, setting.load
        self._capacity = setting.capacity_bytes if capacity is None else capacity
        plan = self._plan
        pace = self._capacity / plan.window
        cycle = min(plan.window, sum(s.cycle_length for s in plan.streams))
        self._floats[kernels.STEP] = kernels.GAIN_STEP / cycle
        self._depth = max(pace * cycle, float(max(s.full_bytes for s in plan.streams)))
        least = max(
            s.kept_bytes + int(h) for s, h in zip(plan.streams, setting.header_bytes, strict=True)
        )
        # A thinned tuple must not be charged for what it does not send.
        thinned = bool((setting.tuple_rate < 1).any())
        self._reserve = 0 if thinned else max(0, min(least, int(pace)))
        slowest = float(setting.tuple_rate.min())
        spacing = max(1, round(1.0 / max(slowest, SLOWEST)))
        # Later entities wait longer, so that two tuples of neighbours are never close together.
        self._thinning = (spacing - 1 - np.arange(len(self._thinning)) % spacing) / spacing
        self._ring = np.maximum(self._ring, self._reserve)
        self._ints[kernels.CHARGED] = int(self._ring.sum())

    def _decide(self, columns: Mapping[str, Encoded], rows: int) -> tuple[BoolArray, IntArray]:
        plan = self._plan
        streams, slots = self._entities.locate(columns, rows)
        self._grow()
        there = np.array([name in columns for name in plan.attributes], dtype=np.bool_)
        numeric = plan.numeric & np.array(
            [name not in columns or columns[name].numeric for name in plan.attributes]
        )
        values = self._matrix(columns, rows)
        length, text = self._lengths(columns, rows)
        keep = np.zeros((rows, len(plan.attributes)), dtype=np.bool_)
        sent = np.zeros(rows, dtype=np.int64)
        setting = self._setting
        kernels.decide(
            slots, streams, values, length, text, there, numeric, self._sizes, self._present,
            self._kept, self._scale, plan.weight, self._score, plan.refresh, setting.period,
            setting.band, setting.header_bytes, self._capacity, setting.tuple_rate, self._reserve,
            self._depth, self._last, self._age, self._thinning, self._ring, self._ints,
            self._floats, keep, sent,
        )  # fmt: skip
        self._sent_values += keep.sum(axis=0)
        self._totals[0] += rows
        self._totals[2] += self._offered_bytes(streams, length, text, there)
        self._totals[3] += int(sent.sum())
        self._totals[5] += int((streams < 0).sum())
        return keep, sent

    def _offered_bytes(
        self, streams: IntArray, length: IntArray, text: IntArray, there: BoolArray
    ) -> int:
        fixed = self._present & there & (text < 0)
        counts = np.bincount(streams[streams >= 0], minlength=len(fixed))
        total = int((counts * np.where(fixed, self._sizes, 0).sum(axis=1)).sum())
        for j in np.flatnonzero(text >= 0):
            mine = (streams >= 0) & self._present[np.maximum(streams, 0), j]
            total += int(length[text[j], mine].sum())
        return total

    def _matrix(self, columns: Mapping[str, Encoded], rows: int) -> FloatArray:
        """Return the values that dead bands compare; nothing when no band is in force."""
        attributes = self._plan.attributes
        if not (self._setting.band >= 0).any():
            return np.empty((len(attributes), 0))
        values = np.empty((len(attributes), rows))
        for j, name in enumerate(attributes):
            values[j] = columns[name].values if name in columns else np.nan
        return values

    def _lengths(self, columns: Mapping[str, Encoded], rows: int) -> tuple[IntArray, IntArray]:
        """Return the bytes of text values, and the row of each attribute in them or -1."""
        text = np.full(len(self._plan.attributes), -1, dtype=np.int64)
        lengths: list[IntArray] = []
        for j, name in enumerate(self._plan.attributes):
            column = columns.get(name)
            if self._plan.kinds[j] == "text" and column is not None and column.length is not None:
                text[j] = len(lengths)
                lengths.append(column.length)
        stacked = np.stack(lengths) if lengths else np.empty((0, rows), dtype=np.int64)
        return stacked, text


def _memory(plan: Plan) -> Any:
    """Return what determines the layout of remembered values and of the ledger."""
    return plan.attributes, plan.window, [(s.name, s.cid) for s in plan.streams]


def _rows(batch: Any) -> int:
    try:
        return batch_size(batch)
    except TypeError:  # no length: no rows
        return 0
