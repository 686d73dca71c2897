"""The nodes that a shedder has seen, and what it has counted: all that outlives a plan.

An ``object_id`` is a label (:func:`planning.batches.label`): 7, 7.0, ``"7"`` and ``b"7"`` are one
object. Whole numbers are found in a compiled hash table, other names in a dictionary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planning import batches
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.lira import kernels

LARGEST = 2**63 - 1


class Fleet:
    """Slots of objects, their nodes' state (:data:`planning.lira.kernels.FIELDS`), and counters.

    >>> fleet = Fleet()
    >>> fleet.find(np.array([7.0, np.nan, 8.0])).tolist(), fleet.find(np.array(["8", "7"])).tolist()
    ([0, -1, 1], [1, 0])
    """

    def __init__(self) -> None:
        self.objects = 0
        self.nodes: FloatArray = np.full((1024, kernels.FIELDS), np.nan)
        self.counts: IntArray = np.zeros(kernels.COUNTS, dtype=np.int64)
        self.offered = 0
        self.dropped = 0
        self._names: dict[str, int] = {}
        self._keys: IntArray = np.zeros(2048, dtype=np.int64)
        self._places: IntArray = np.full(2048, -1, dtype=np.int64)

    def find(self, column: Any) -> IntArray:
        """Return every object's slot, -1 for a row without id; new objects get the next one."""
        ids, known = _whole(column)
        if known is None:
            slots = self._named(column)
        else:
            slots = self._numbered(ids, known)
            if not known.all():
                slots[~known] = self._named(batches.filtered(column, ~known))
        if self.objects > len(self.nodes):
            size = max(self.objects, 2 * len(self.nodes))
            grown = np.full((size, kernels.FIELDS), np.nan)
            grown[: len(self.nodes)] = self.nodes
            self.nodes = grown
        return slots

    def _numbered(self, ids: IntArray, known: BoolArray) -> IntArray:
        if 2 * (self.objects + len(ids)) > len(self._keys):
            used = self._places >= 0
            old, places = self._keys[used], self._places[used]
            size = 1 << (4 * (self.objects + len(ids))).bit_length()
            self._keys = np.zeros(size, dtype=np.int64)
            self._places = np.full(size, -1, dtype=np.int64)
            everyone = np.ones(len(old), dtype=np.bool_)
            kernels.find(old, everyone, self._keys, self._places, self.objects, places)
        slots = np.full(len(ids), -1, dtype=np.int64)
        self.objects = int(kernels.find(ids, known, self._keys, self._places, self.objects, slots))
        return slots

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
