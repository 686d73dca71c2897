"""What outlives a plan: the entities, what the receiver has of each, and the ledger of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.attributes import kernels
from planning.attributes.plan import SLOWEST, Plan
from planning.columns import Encoded, row_keys, value_code

MAX_ENTITIES = 65_536
FIRST_ENTITIES = 64
CHEAP = 1 << 18  # remembered values that may be copied between two batches
GOLDEN = 0.6180339887498949  # successive multiples spread evenly over [0, 1)


class Entities:
    """Which stream and which entity a tuple belongs to, as small numbers.

    A growing table from CID values to slots 0, 1, 2 … in order of first appearance.
    """

    def __init__(self, plan: Plan, limit: int = MAX_ENTITIES) -> None:
        self._streams = [(stream.name, stream.cid) for stream in plan.streams]
        self._stream_attribute = plan.stream_attribute
        self._cids = tuple(dict.fromkeys(cid for _, cid in self._streams))
        self._limit = max(1, limit)
        self._codes = {kind: self._stream_codes(kind) for kind in (False, True)}
        self.clear()

    @property
    def room(self) -> int:
        """How many slots there may be before the table grows."""
        return len(self._known)

    def clear(self) -> None:
        """Forget all entities."""
        self.count = 0
        self._known = np.empty(0, dtype=np.int64)
        self._grow(min(FIRST_ENTITIES, self._limit))

    def same(self, other: Entities) -> bool:
        """Whether both give the same tuples the same slots."""
        return (self._streams, self._stream_attribute, self._limit) == (
            other._streams, other._stream_attribute, other._limit,
        )  # fmt: skip

    def locate(self, columns: Mapping[str, Encoded], rows: int) -> tuple[IntArray, IntArray]:
        """Return (stream, slot) of every row; -1 for an unknown stream or a full table."""
        streams = self.streams_of(columns, rows)
        return streams, self.slots_of(columns, streams, rows)

    def streams_of(self, columns: Mapping[str, Encoded], rows: int) -> IntArray:
        """Return the stream of every row, -1 for an unknown one."""
        if not self._stream_attribute:
            return np.zeros(rows, dtype=np.int64)
        column = columns.get(self._stream_attribute)
        codes, streams = self._codes[column is not None and column.numeric]
        if column is None or not len(codes):
            return np.full(rows, -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(codes, column.values), len(codes) - 1)
        return np.where(codes[place] == column.values, streams[place], -1)

    def slots_of(self, columns: Mapping[str, Encoded], streams: IntArray, rows: int) -> IntArray:
        """Return the slot of every row, -1 where the table is full."""
        keys = self._keys(columns, streams, rows)
        slots = np.empty(rows, dtype=np.int64)
        while True:
            self.count = kernels.find_slots(
                keys, self._table, self._known, self.count, self.room, slots
            )
            if self.count < self.room or self.room >= self._limit:
                return slots
            self._grow(min(4 * self.room, self._limit))

    def _stream_codes(self, numeric: bool) -> tuple[FloatArray, IntArray]:
        """Return the streams' codes in a column of numbers or of text, in order, and whose."""
        coded = []
        for s, (name, _) in enumerate(self._streams):
            try:
                coded.append((value_code(name, numeric), s))
            except ValueError:  # no number
                continue
        coded.sort()
        return np.array([code for code, _ in coded]), np.array([s for _, s in coded], np.int64)

    def _keys(self, columns: Mapping[str, Encoded], streams: IntArray, rows: int) -> IntArray:
        nowhere = Encoded(np.full(rows, np.nan), True)
        keys = np.zeros(rows, dtype=np.int64)
        for cid in self._cids:
            parts = [columns.get(name, nowhere) for name in cid]
            named = row_keys([*parts, Encoded(streams.astype(np.float64), True)], rows)
            mine = [s for s, (_, own) in enumerate(self._streams) if own == cid]
            keys = np.where(np.isin(streams, mine), named, keys) if len(self._cids) > 1 else named
        return keys

    def _grow(self, room: int) -> None:
        known = self._known[: self.count].copy()
        self._known = np.append(known, np.zeros(room - self.count, dtype=np.int64))
        size = 1 << (4 * room - 1).bit_length()  # a power of two, at most a quarter full
        self._table = np.full(size, -1, dtype=np.int64)
        again = np.empty(self.count, dtype=np.int64)
        kernels.find_slots(known, self._table, self._known, 0, room, again)


class Memory:
    """What the receiver has of every entity, and the ledger of the bytes of the last W tuples."""

    def __init__(self, plan: Plan, limit: int) -> None:
        self._attributes = plan.attributes
        self.entities = Entities(plan, limit)
        self.ring = np.zeros((3, plan.window), dtype=np.int64)
        self.clear()

    def clear(self) -> None:
        """Start as new."""
        self.entities.clear()
        self.ring[:] = 0
        self.ints = np.zeros(7, dtype=np.int64)
        self.floats = np.zeros(3)
        self.last = np.empty((0, len(self._attributes)))
        self.age = np.empty((0, len(self._attributes)), dtype=np.int32)
        self.thinning = np.empty(0)
        self._spread = False
        self.grow()

    def grow(self) -> None:
        """Make room for as many entities as are known."""
        have, attributes = self.age.shape
        more = self.entities.room - have
        if more <= 0:
            return
        self.last = np.vstack([self.last, np.full((more, attributes), np.nan)])
        self.age = np.vstack([self.age, np.full((more, attributes), -1, dtype=np.int32)])
        self.thinning = np.append(self.thinning, (np.arange(have, have + more) * GOLDEN) % 1.0)

    def spread(self, tuple_rate: FloatArray) -> None:
        """Put entities that are thinned for the first time at different phases.

        Later entities wait longer, so that two tuples of neighbours are never close together.
        Afterwards phases move on, whatever the load: a load that jitters silences nobody.
        """
        slowest = max(float(tuple_rate.min()), SLOWEST)
        if slowest < 1.0 and not self._spread:
            self._spread = True
            spacing = max(1, round(1.0 / slowest))
            self.thinning = (spacing - 1 - np.arange(len(self.thinning)) % spacing) / spacing

    def adopt(self, old: Memory) -> None:
        """Go on with another memory, as far as entities, attributes and window are the same."""
        if self.ring.shape == old.ring.shape:
            ring, ints = old.ring, old.ints
        else:
            window = self.ring.shape[1]
            recent = np.roll(old.ring, -int(old.ints[kernels.POSITION]), axis=1)[:, -window:]
            ring = np.zeros_like(self.ring)
            ring[:, window - recent.shape[1] :] = recent
            ints = np.concatenate(([0], ring.sum(axis=1), old.ints[kernels.CLOCK :]))
        self.clear()
        self.ring, self.ints, self.floats = ring, ints, old.floats
        if not self.entities.same(old.entities):
            return
        if self._attributes == old._attributes:
            last, age = old.last, old.age
        elif old.age.size <= CHEAP:
            last, age = self._by_name(old)
        else:
            return
        self.entities, self.last, self.age = old.entities, last, age
        self.thinning, self._spread = old.thinning, old._spread

    def _by_name(self, old: Memory) -> tuple[FloatArray, Any]:
        mine = [j for j, name in enumerate(self._attributes) if name in old._attributes]
        theirs = [old._attributes.index(self._attributes[j]) for j in mine]
        shape = len(old.age), len(self._attributes)
        last, age = np.full(shape, np.nan), np.full(shape, -1, dtype=np.int32)
        last[:, mine], age[:, mine] = old.last[:, theirs], old.age[:, theirs]
        return last, age


class Saved:
    """A copy of what deciding on tuples of some entities may change."""

    def __init__(self, memory: Memory, slots: IntArray) -> None:
        rows, count, window = len(slots), memory.entities.count, memory.ring.shape[1]
        self._memory = memory
        self._slots: Any = slice(count) if count <= rows else np.unique(slots[slots >= 0])
        self._places: Any = slice(window)
        if rows < window:
            self._places = (memory.ints[kernels.POSITION] + np.arange(rows)) % window
        self._arrays: tuple[Any, ...] = memory.last, memory.age, memory.thinning
        self._rows = [array[self._slots].copy() for array in self._arrays]
        self._ring = memory.ring[:, self._places].copy()
        self._ints, self._floats = memory.ints.copy(), memory.floats.copy()

    def restore(self) -> None:
        """Undo the batch."""
        memory = self._memory
        for array, rows in zip(self._arrays, self._rows, strict=True):
            array[self._slots] = rows
        memory.ring[:, self._places] = self._ring
        memory.ints[:], memory.floats[:] = self._ints, self._floats
