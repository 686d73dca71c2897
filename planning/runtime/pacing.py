"""Every so-manieth item, evenly spaced and without random numbers."""

from __future__ import annotations

import numpy as np

from planning.arrays import BoolArray
from planning.errors import check_between

UNIT_BITS = 32
UNIT = 1 << UNIT_BITS


class Pacer:
    """Picks a fraction of items: a credit grows by the fraction, and a whole credit picks an item.

    The credit is an integer in units of 2**-32, so that batches and single items give the same
    decisions, and of the first n items at most ceil(fraction * n) are picked.

    >>> pacer = Pacer(0.25)
    >>> pacer.next(8).tolist()
    [False, False, False, True, False, False, False, True]
    >>> [pacer.next_one() for _ in range(4)]
    [False, False, False, True]
    """

    def __init__(self, fraction: float, phase: int = 0) -> None:
        self._credit = phase % UNIT
        self.fraction = fraction

    @property
    def fraction(self) -> float:
        """The fraction picked, to 2**-32; it may change at any time."""
        return self._step / UNIT

    @fraction.setter
    def fraction(self, value: float) -> None:
        self._step = int(check_between("fraction", value, 0.0, 1.0) * UNIT)

    def next(self, count: int) -> BoolArray:
        """Return which of the next ``count`` items are picked."""
        credits = self._credit + self._step * np.arange(1, count + 1, dtype=np.int64)
        picked = (credits >> UNIT_BITS) > ((credits - self._step) >> UNIT_BITS)
        if count:
            self._credit = int(credits[-1]) % UNIT
        return np.asarray(picked, dtype=np.bool_)

    def next_one(self) -> bool:
        """Return whether the next item is picked."""
        total = self._credit + self._step
        self._credit = total % UNIT
        return total >= UNIT
