"""Which stream and which entity a tuple belongs to, as small numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planning.arrays import IntArray
from planning.attributes import kernels
from planning.attributes.encoding import Encoded, row_keys, stream_code
from planning.attributes.plan import Plan

MAX_ENTITIES = 65_536
FIRST_ENTITIES = 64


class Entities:
    """A growing table from CID values to slots 0, 1, 2 … in order of first appearance."""

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
                streams[column.values == stream_code(stream.name, column.numeric)] = s
        return streams

    def _keys(self, columns: Mapping[str, Encoded], streams: IntArray, rows: int) -> IntArray:
        nowhere = Encoded(np.full(rows, np.nan), True)
        keys = np.zeros(rows, dtype=np.int64)
        for cid in self._cids:
            parts = [columns.get(name, nowhere) for name in cid]
            found = row_keys([*parts, Encoded(streams.astype(np.float64), True)], rows)
            mine = [s for s, stream in enumerate(self._streams) if stream.cid == cid]
            chosen = np.isin(streams, mine) if len(self._cids) > 1 else slice(None)
            keys[chosen] = found[chosen]
        return keys

    def _grow(self, room: int) -> None:
        known = self._known[: self.count].copy()
        self._known = np.append(known, np.zeros(room - self.count, dtype=np.int64))
        size = 1
        while size < 4 * room:
            size *= 2
        self._table = np.full(size, -1, dtype=np.int64)
        again = np.empty(self.count, dtype=np.int64)
        kernels.find_slots(known, self._table, self._known, 0, room, again)
