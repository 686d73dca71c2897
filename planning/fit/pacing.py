"""The drop operator, compiled: a credit per arc, no random numbers, whole windows where asked."""

from __future__ import annotations

from numba import njit

from planning.arrays import BoolArray, IntArray
from planning.pacing import ONE


@njit(cache=True)
def decide(
    codes: IntArray,
    step: IntArray,
    span: IntArray,
    tail: IntArray,
    credit: IntArray,
    position: IntArray,
    dropping: BoolArray,
    left: IntArray,
    offered: IntArray,
    dropped: IntArray,
    keep: BoolArray,
) -> None:
    """Decide on each item by the credit of its arc.

    Every ``span`` items (1, or a batch of windows) the credit grows by ``step``; a carry drops the
    span, except for the ``tail`` items that complete the windows of a kept span before it.
    """
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
        carries = 0
        total = credit[arc]
        # Counts of a control period are small against 2**31, so the product fits 64 bits.
        total += step[arc] * counts[arc]
        carries = total // ONE
        credit[arc] = total - carries * ONE
        kept[arc] = counts[arc] - carries
