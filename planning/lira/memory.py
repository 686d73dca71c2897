"""What a shedder remembers: nodes and counts, which outlive a plan, and how far off the plan is.

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
from planning.errors import check_between
from planning.lira import kernels

LARGEST = 2**63 - 1
FEW = 1024  # objects for which there is always room
NEWER = 0.9  # the time that so many of the objects' last positions are not after is the present
SHORTEST = 200  # reports due in a period, at least
HORIZON = 4.0  # periods over which a past excess is made up for


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


class BudgetCorrection:
    """Turns a wanted throttle fraction into the one to ask the plan for.

    A plan meets its budget for the f it was made with, but f is only a forecast: traffic changes,
    and regions differ from the average. So the fraction asked of the plan is divided by how far it
    was off recently, and any excess or shortfall of reports is made up for over the next few
    periods. What Δmin would have sent (``due``) is known: every node can run that model alongside
    its own.

    Parameters
    ----------
    throttle_fraction
        z, the wanted fraction.

    Examples
    --------
    If a plan always sends a tenth too much, it is asked for less and the sum comes out right:

    >>> correction = BudgetCorrection(0.5)
    >>> sent = 0.0
    >>> for _ in range(50):
    ...     kept = 1000 * correction.load * 1.1
    ...     sent += kept
    ...     _ = correction.observe(kept, 1000)
    >>> round(sent / 50_000, 3), round(correction.load, 3)
    (0.5, 0.455)
    """

    def __init__(self, throttle_fraction: float) -> None:
        self._bias = 1.0
        self._periods = 0
        self._excess = 0.0
        self._repaid = 0.0
        self.throttle_fraction = self.load = 1.0
        self.begin()
        self.aim(throttle_fraction)

    def begin(self) -> None:
        """Begin a period."""
        self._due, self._wanted_sum, self._load_sum = 0.0, 0.0, 0.0

    def aim(self, throttle_fraction: float, *, due: float = 0.0) -> None:
        """Follow another z, after ``due`` reports of this period; what was learned stays."""
        z = check_between("throttle_fraction", throttle_fraction, 0.0, 1.0)
        self._add_up(due)
        self.throttle_fraction, self.load = z, self.asked(z)

    def observe(self, kept: float, due: float, savings: float = 0.0) -> float:
        """Record a period: ``kept`` reports sent of ``due``; return the load from now on.

        ``savings`` is how many reports to stay below the budget, so that chance seldom exceeds it.
        """
        wanted, load = self.throttle_fraction, self.load
        if self._due:
            self._add_up(due)
            wanted, load = self._wanted_sum / due, self._load_sum / due
        self.begin()
        if not due > 0 or wanted >= 1.0:
            return self.load
        if kept > 0 and load > 0:
            off = kept / due / load
            self._bias = off if self._periods == 0 else (self._bias * off) ** 0.5
            self._bias = min(max(self._bias, 0.5), 2.0)
        self._periods += 1
        self._excess += kept - wanted * due
        # A budget that cannot be met must not be held against later periods.
        limit = 0.25 * HORIZON * due
        self._excess = min(max(self._excess, -limit), limit)
        self._repaid = (self._excess + savings) / due / HORIZON
        self.load = self.asked(self.throttle_fraction)
        return self.load

    def asked(self, throttle_fraction: float) -> float:
        """Return the load that the plan is asked for to get a throttle fraction."""
        if throttle_fraction >= 1.0:
            return 1.0
        return min(max((throttle_fraction - self._repaid) / self._bias, 0.0), 1.0)

    def _add_up(self, due: float) -> None:
        """Add what was wanted and asked for since the last change of z in this period."""
        self._wanted_sum += self.throttle_fraction * (due - self._due)
        self._load_sum += self.load * (due - self._due)
        self._due = due
