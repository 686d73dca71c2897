"""Trees while they grow, best region first, and the partitions they become.

A tree is three arrays: ``axis`` (-1 at leaves), ``cut`` and ``left``, the place of the left child,
which the right one follows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints
from planning.sifter.model import LEAF, Partition
from planning.sifter.model import cut_between as plain_cut_between

cut_between = njit(cache=True)(plain_cut_between)


def partition_of(axis: IntArray, cut: FloatArray, left: IntArray) -> Partition:
    """Return the partition of the tree below node 0.

    >>> axis, cut = np.array([0, 1, -1, -1, -1]), np.array([0.5, 0.2, 0.0, 0.0, 0.0])
    >>> partition_of(axis, cut, np.array([1, 3, 0, 0, 0])).cut.tolist()
    [0.5, 0.2, 0.0, 0.0, 0.0]
    """
    inner, children = (axis != LEAF).tolist(), left.tolist()
    order: list[int] = []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if inner[node]:
            waiting += [children[node] + 1, children[node]]
    cuts = np.where(axis[order] == LEAF, 0.0, cut[order])
    return Partition(frozen_ints(axis[order]), frozen(cuts))
