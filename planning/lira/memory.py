"""The nodes that a shedder has seen, and what it has counted: all that outlives a plan.

An object that stays silent is forgotten once others need the room, and begins anew if it returns:
memory grows with the objects of the last while, not with all that there ever were.

An ``object_id`` is a label (:func:`planning.batches.label`): 7, 7.0, ``"7"`` and ``b"7"`` are one
object. Whole numbers are found in a compiled hash table, other names in a dictionary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from planning import batches
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.lira import kernels

LARGEST = 2**63 - 1
FEW = 1024  # objects for which there is always room
NEWER = 0.9  # the time that so many of the objects' last positions are not after is the present
SHORTEST = 200  # reports due in a period, at least


class Fleet:
    """Slots of objects, their nodes' state (:data:`planning.lira.kernels.FIELDS`), and counters.

    >>> fleet = Fleet()
    >>> fleet.find(np.array([7.0, np.nan, 8.0])).tolist(), fleet.find(np.array(["8", "7"])).tolist()
    ([0, -1, 1], [1, 0])
    """

    def __init__(self, silence_s: float = math.inf) -> None:
        self.silence_s = silence_s
        self.objects = 0
        self.period = SHORTEST
        self.nodes: FloatArray = np.full((FEW, kernels.FIELDS), np.nan)
        self.counts: IntArray = np.zeros(kernels.COUNTS, dtype=np.int64)
        self.offered = 0
        self.dropped = 0
        self._names: dict[str, int] = {}
        self._crowded = FEW
        self._keys: IntArray = np.zeros(2 * FEW, dtype=np.int64)
        self._places: IntArray = np.full(2 * FEW, -1, dtype=np.int64)

    def find(self, column: Any) -> IntArray:
        """Return every object's slot, -1 for a row without id; new objects get the next one."""
        if self.objects >= self._crowded:
            self._forget()
        ids, known = _whole(column)
        if known is None:
            slots = self._named(column)
        else:
            slots = self._numbered(ids, known)
            if not known.all():
                slots[~known] = self._named(batches.filtered(column, ~known))
        if self.objects > len(self.nodes):
            self._resize(max(self.objects, 2 * len(self.nodes)))
        return slots

    def _resize(self, size: int) -> None:
        nodes = np.full((size, kernels.FIELDS), np.nan)
        nodes[: len(self.nodes)] = self.nodes
        self.nodes = nodes

    def _forget(self) -> None:
        """Forget who has been silent for long; the others move up."""
        last = self.nodes[: self.objects, 2]
        known = last[last == last]
        # A few clocks that are wrong must not make everybody else look silent.
        now = float(np.quantile(known, NEWER)) if known.size else 0.0
        stay = last > now - self.silence_s
        gone = self.nodes[: self.objects][~stay]
        self.counts[kernels.WANTED] -= np.count_nonzero(gone[:, kernels.WAITS] > 0.0)
        places = np.cumsum(stay) - 1
        self._names = {n: int(places[s]) for n, s in self._names.items() if stay[s]}
        used = self._places >= 0
        keys, slots = self._keys[used], self._places[used]
        self._table(keys[stay[slots]], places[slots[stay[slots]]], 0)
        self.nodes = self.nodes[: self.objects][stay]
        self.objects = len(self.nodes)
        self._crowded = max(FEW, 2 * self.objects)
        self._resize(self._crowded)

    def _numbered(self, ids: IntArray, known: BoolArray) -> IntArray:
        if 2 * (self.objects + len(ids)) > len(self._keys):
            used = self._places >= 0
            self._table(self._keys[used], self._places[used], len(ids))
        slots = np.full(len(ids), -1, dtype=np.int64)
        self.objects = int(kernels.find(ids, known, self._keys, self._places, self.objects, slots))
        return slots

    def _table(self, keys: IntArray, places: IntArray, more: int) -> None:
        """Make the hash table anew, with room for as many objects and ``more``."""
        size = 1 << (4 * (max(self.objects, FEW // 4) + more)).bit_length()
        self._keys = np.zeros(size, dtype=np.int64)
        self._places = np.full(size, -1, dtype=np.int64)
        everyone = np.ones(len(keys), dtype=np.bool_)
        kernels.find(keys, everyone, self._keys, self._places, self.objects, places)

    def _named(self, column: Any) -> IntArray:
        # A batch has few positions of each object: looking them up is faster than sorting them.
        if isinstance(column, np.ndarray) and column.dtype.kind == "U":
            column = column.astype(object)
        elif str(getattr(column, "type", "")) in ("string", "large_string", "string_view"):
            column = column.to_numpy(zero_copy_only=False)
        slots = batches.codes(column, self._names)
        new = slots < 0
        if new.any():
            rest = batches.filtered(column, new).tolist()
            names = [name for name in dict.fromkeys(map(batches.label, rest)) if name]
            for name in names:
                self._names[name] = self._slot(name)
            if names:
                slots = batches.codes(column, self._names)
        return slots

    def _slot(self, name: str) -> int:
        """Return the slot of a name; that of a whole number is found among the numbers."""
        if len(name) <= 20 and name.removeprefix("-").isdecimal() and str(int(name)) == name:
            number = int(name)
            if -LARGEST - 1 <= number <= LARGEST:
                return int(self._numbered(np.array([number]), np.ones(1, dtype=np.bool_))[0])
        self.objects += 1
        return self.objects - 1


def _whole(column: Any) -> tuple[IntArray, BoolArray | None]:
    """Return the whole numbers of a column and where it has them; not anywhere if it has texts."""
    valid: Any = True
    if batches.library(column) == "pyarrow":
        import pyarrow

        if pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type):
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            column = column.fill_null(0).to_numpy(zero_copy_only=False)
    kind = column.dtype.kind if isinstance(column, np.ndarray) else ""
    if kind == "f":
        whole = valid & (np.floor(column) == column) & (np.abs(column) < float(LARGEST))
        return np.where(whole, column, 0).astype(np.int64), whole
    if kind and kind in "iu":
        whole = valid & (column <= LARGEST if column.dtype == np.uint64 else column == column)
        return np.array(column, dtype=np.int64, order="C"), whole
    return np.empty(0, dtype=np.int64), None
