"""The other end: what arrives; what was not sent is filled with the last value, with its age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes.memory import MAX_ENTITIES, Entities
from planning.attributes.plan import Plan
from planning.columns import encode, is_arrow, objects

NEVER_RECEIVED = -1


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
            name: c.to_pylist() if hasattr(c, "to_pylist") else c.tolist()
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


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """Whole tuples again: row i of every column is the i-th sent tuple.

    ``staleness`` counts the reports of the entity since a value was received: 0 is fresh, -1 has
    never been received (the value is null). ``staleness_s`` is the same in seconds when times were
    given, NaN for never.
    """

    columns: Mapping[str, NDArray[Any]]
    staleness: IntArray
    staleness_s: FloatArray | None = None


class Receiver:
    """Keeps the last value of every attribute of every entity and fills forward with it."""

    def __init__(self, plan: Plan, *, max_entities: int = MAX_ENTITIES) -> None:
        self._plan = plan
        self._entities = Entities(plan, max_entities)
        width = len(plan.attributes)
        self._value = np.empty((0, width), dtype=object)
        self._age = np.empty((0, width), dtype=np.int64)
        self._time = np.empty((0, width))
        self._grow()

    def accept(self, sent: Sent, times_s: FloatArray | None = None) -> Received:
        """Return the sent tuples of a batch with every attribute filled.

        Parameters
        ----------
        sent
            What a shedder with the same plan sent.
        times_s
            The time of every tuple of the batch, for staleness in seconds.
        """
        rows = np.flatnonzero(sent.tuples)
        columns = {
            name: _column(sent.columns[name])[rows]
            for name in self._plan.attributes
            if name in sent.columns
        }
        encoded = {name: encode(column) for name, column in columns.items()}
        _, slots = self._entities.locate(encoded, len(rows))
        self._grow()
        # Tuples of entities beyond the table are separate groups, without memory.
        groups = np.where(slots >= 0, slots, -1 - np.arange(len(rows)))
        order = np.argsort(groups, kind="stable")
        first = np.ones(len(rows), dtype=np.bool_)
        first[1:] = np.diff(groups[order]) != 0
        now = None if times_s is None else np.asarray(times_s, dtype=np.float64)[rows]
        staleness = np.full((len(rows), len(self._plan.attributes)), NEVER_RECEIVED)
        seconds = None if now is None else np.full(staleness.shape, np.nan)
        filled: dict[str, NDArray[Any]] = {}
        for j, name in enumerate(self._plan.attributes):
            keep = sent.keep[rows, j]
            column = columns.get(name)
            if column is None:
                column = np.full(len(rows), None, dtype=object)
                keep = np.zeros(len(rows), dtype=np.bool_)
            filled[name] = self._fill(j, column, keep, slots, order, first, staleness, now, seconds)
        return Received(filled, staleness, seconds)

    def _fill(
        self,
        j: int,
        column: NDArray[Any],
        keep: BoolArray,
        slots: IntArray,
        order: IntArray,
        first: BoolArray,
        staleness: IntArray,
        now: FloatArray | None,
        seconds: FloatArray | None,
    ) -> NDArray[Any]:
        """Fill one attribute forward within every entity, starting from what is remembered."""
        n = len(order)
        if not n:
            return column
        slot = slots[order]
        there = keep[order]
        values = column[order].astype(object)
        born = np.where(there, 0, NEVER_RECEIVED)
        time = np.full(n, np.nan) if now is None else np.where(there, now[order], np.nan)
        carry = np.flatnonzero(first & ~there & (slot >= 0))
        values[carry] = self._value[slot[carry], j]
        old = self._age[slot[carry], j]
        born[carry] = np.where(old >= 0, old + 1, NEVER_RECEIVED)
        time[carry] = self._time[slot[carry], j]
        source = np.maximum.accumulate(np.where(there | first, np.arange(n), 0))
        values = values[source]
        values[born[source] < 0] = None
        age = np.where(born[source] >= 0, born[source] + np.arange(n) - source, NEVER_RECEIVED)
        time = time[source]
        ends = np.append(np.flatnonzero(first)[1:] - 1, n - 1)
        ends = ends[slot[ends] >= 0]
        self._value[slot[ends], j] = values[ends]
        self._age[slot[ends], j] = age[ends]
        self._time[slot[ends], j] = time[ends]
        result = np.empty(n, dtype=object)
        result[order] = values
        staleness[order, j] = age
        if seconds is not None and now is not None:
            seconds[order, j] = now[order] - time
        return _plain(result, column.dtype)

    def _grow(self) -> None:
        have, width = self._age.shape
        more = self._entities.room - have
        if more > 0:
            self._value = np.vstack([self._value, np.full((more, width), None, dtype=object)])
            self._age = np.vstack([self._age, np.full((more, width), NEVER_RECEIVED)])
            self._time = np.vstack([self._time, np.full((more, width), np.nan)])


def _column(column: Any) -> NDArray[Any]:
    if hasattr(column, "to_pylist"):
        column = column.to_pylist()
    return column if isinstance(column, np.ndarray) else objects(column)


def _plain(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers as float64 with NaN for null, everything else as objects."""
    if dtype.kind in "fiu":
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    return values
