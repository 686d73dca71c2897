"""Trees while they grow, best region first, and the partition that becomes of them.

A tree is three arrays: ``axis`` (-1 at leaves), ``cut`` and ``left``, the place of the left child,
after which the right one stands.
"""

from __future__ import annotations

from typing import Any

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
    dimension, cuts = _preorder(axis, cut, left)
    return Partition(frozen_ints(dimension), frozen(cuts))


@njit(cache=True)
def _preorder(axis: Any, cut: Any, left: Any) -> Any:
    """Return axes and cuts in preorder."""
    dimension, cuts = np.empty(axis.size, np.int64), np.zeros(axis.size)
    stack = np.empty(axis.size + 1, np.int64)
    stack[0] = 0
    depth, used = 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        dimension[used] = axis[node]
        if axis[node] != LEAF:
            cuts[used] = cut[node]
            stack[depth], stack[depth + 1] = left[node] + 1, left[node]
            depth += 2
        used += 1
    return dimension[:used], cuts[:used]
