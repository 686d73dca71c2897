"""Drops, compiled: from dropped rates to drop fractions, and the drop operator that applies them.

The drop operator keeps a credit per arc: no random numbers, and whole windows where they count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.simplex.shedding import Arrivals
from planning.pacing import ONE

if TYPE_CHECKING:
    from planning.fit.shedder import DropOperators

NOTHING = 1e-15
ROUNDING = 1e-12


@njit(cache=True)
def decide(codes: IntArray, drops: DropOperators, keep: BoolArray) -> None:
    """Decide on each item by the credit of its arc.

    Every ``span`` items (1, or a batch of windows) the credit grows by ``step``; a carry drops the
    span, except for the ``tail`` items that complete the windows of a kept span before it.
    """
    step, span, tail, credit, position, dropping, left, offered, dropped = drops
    for k in range(codes.shape[0]):
        arc = codes[k]
        offered[arc] += 1
        if position[arc] == 0:
            total = credit[arc] + step[arc]
            drop = total >= ONE
            credit[arc] = total - ONE if drop else total
            if not drop:
                left[arc] = tail[arc]
            dropping[arc] = drop
        position[arc] += 1
        if position[arc] >= span[arc]:
            position[arc] = 0
        keep[k] = True
        if dropping[arc]:
            if left[arc] > 0:
                left[arc] -= 1
            else:
                keep[k] = False
                dropped[arc] += 1


@njit(cache=True)
def kept_of(counts: IntArray, step: IntArray, credit: IntArray, kept: IntArray) -> None:
    """Pass a count of items per arc, as ``decide`` would one by one (span 1)."""
    for arc in range(counts.shape[0]):
        # Counts of a control period are small compared with 2**31, so the product fits 64 bits.
        total = credit[arc] + step[arc] * counts[arc]
        carries = total // ONE
        credit[arc] = total - carries * ONE
        kept[arc] = counts[arc] - carries


@njit(cache=True)
def affine(forms: FloatArray, row: int, rates: FloatArray) -> float:
    """Value of the form in ``row`` at ``rates``: its constant, then its coefficients.

    The row is not sliced off first: compiled code counts references to every slice, which takes
    longer than a short sum.

    >>> import numpy as np
    >>> affine(np.array([[1.0, 2.0, 3.0]]), 0, np.array([10.0, 100.0]))
    321.0
    """
    value: float = forms[row, 0]
    for k in range(rates.shape[0]):
        value += forms[row, k + 1] * rates[k]
    return value


@njit(cache=True)
def fractions(arrivals: Arrivals, rates: FloatArray, dropped: FloatArray, out: FloatArray) -> None:
    """Turn dropped rates into drop fractions; what does not arrive is kept (0/0 keeps all)."""
    per_rate, per_drop, port = arrivals
    count = per_rate.shape[0]
    for a in range(count):
        out[a] = 0.0
        if dropped[a] <= NOTHING:
            continue
        arriving = 0.0
        for k in range(rates.shape[0]):
            arriving += per_rate[a, k] * rates[k]
        for b in range(count):
            arriving -= per_drop[a, b] * dropped[b]
        if arriving > NOTHING:
            out[a] = min(dropped[a] / arriving, 1.0)
    for a in range(count):
        if port[a] >= 0:
            out[a] = 1.0 - (1.0 - out[port[a]]) * (1.0 - out[a])


@njit(cache=True)
def all_fit(use: FloatArray, rates: FloatArray) -> bool:
    """Whether rates need no shedding at any server or link.

    >>> import numpy as np
    >>> use = np.array([[0.5, 1.0]])
    >>> all_fit(use, np.array([1.0, 0.5])), all_fit(use, np.array([1.0, 0.6]))
    (True, False)
    """
    for n in range(use.shape[0]):
        total = 0.0
        for k in range(rates.shape[0]):
            total += use[n, k] * rates[k]
        if total > 1.0 + ROUNDING:
            return False
    return True
