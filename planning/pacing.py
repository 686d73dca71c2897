"""The one credit rule: a credit grows by a step per item, and a carry picks the item.

Credits are whole numbers in units of 2**-32 items, so that nothing is rounded: batches and single
items lead to the same decisions, and of the first n items at most ceil(fraction * n) are picked.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import BoolArray, IntArray
from planning.errors import check_between

ONE_BITS = 32
ONE = 1 << ONE_BITS
"""An item, in units of credit."""
UNLIMITED = 1 << 62
"""A limit that never bites."""
GOLDEN = 2654435769  # 2**32 / golden ratio


class Pacer:
    """Picks a fraction of the items, evenly spaced and without random numbers.

    >>> pacer = Pacer(0.25)
    >>> pacer.next(8).tolist()
    [False, False, False, True, False, False, False, True]
    >>> [pacer.next_one() for _ in range(4)]
    [False, False, False, True]
    """

    def __init__(self, fraction: float, phase: int = 0) -> None:
        self._credit = phase % ONE
        self.fraction = fraction

    @property
    def fraction(self) -> float:
        """The fraction picked, to 2**-32; it may change at any time."""
        return self._step / ONE

    @fraction.setter
    def fraction(self, value: float) -> None:
        self._step = int(check_between("fraction", value, 0.0, 1.0) * ONE)

    @property
    def ahead(self) -> int:
        """How many items come before the next one that is picked."""
        return -(-(ONE - self._credit) // self._step) - 1 if self._step else UNLIMITED

    def next(self, count: int) -> BoolArray:
        """Return which of the next ``count`` items are picked."""
        credits = self._credit + self._step * np.arange(1, count + 1, dtype=np.int64)
        picked = (credits >> ONE_BITS) > ((credits - self._step) >> ONE_BITS)
        if count:
            self._credit = int(credits[-1]) % ONE
        return np.asarray(picked, dtype=np.bool_)

    def next_one(self) -> bool:
        """Return whether the next item is picked."""
        total = self._credit + self._step
        self._credit = total % ONE
        return total >= ONE


def spread_credits(count: int) -> IntArray:
    """Return initial credits in [0, 1), evenly spread for any count, so that none drop in step.

    >>> (spread_credits(4) / ONE).round(2).tolist()
    [0.5, 0.12, 0.74, 0.35]
    """
    return (np.arange(count, dtype=np.int64) * GOLDEN + ONE // 2) % ONE
