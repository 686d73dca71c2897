"""The quad-tree over the statistics grid, as one flat array: a pyramid of levels, root first.

Level k has 2^k × 2^k nodes, row by row, and starts at (4^k − 1)/3; the last level is the grid,
padded to a power of two. The four children of node (level, y, x) are the nodes
(level + 1, 2y + c // 2, 2x + c % 2), c = 0 … 3.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.lira.partition.regions import ACROSS, LEAF, UPRIGHT


def sum_up(cells: FloatArray, size: int) -> FloatArray:
    """Return the sums of every node's cells (Stage I of Algorithm 1).

    >>> sum_up(np.array([[1.0, 2.0], [3.0, 4.0]]), 2).tolist()
    [10.0, 1.0, 2.0, 3.0, 4.0]
    """
    sums = np.empty((4 * size * size - 1) // 3)
    _sum_up(np.ascontiguousarray(cells, dtype=np.float64), size, sums)
    return sums


@njit(cache=True)
def _sum_up(cells, size, sums):  # type: ignore[no-untyped-def]
    start = (size * size - 1) // 3
    side = cells.shape[0]
    if side < size:
        sums[start:] = 0.0
    for y in range(side):
        for x in range(side):
            sums[start + y * size + x] = cells[y, x]
    for level in range(last_level(size) - 1, -1, -1):
        for y in range(1 << level):
            for x in range(1 << level):
                sums[node_at(level, y, x)] = sum_of_children(sums, level, y, x)


@njit(cache=True)
def node_at(level, y, x):  # type: ignore[no-untyped-def]
    """Return the place of a node in the array."""
    return ((1 << (2 * level)) - 1) // 3 + y * (1 << level) + x


@njit(cache=True)
def sum_of_children(values, level, y, x):  # type: ignore[no-untyped-def]
    """Return the sum over the four children of a node."""
    side = 1 << (level + 1)
    i = node_at(level + 1, 2 * y, 2 * x)
    return (values[i] + values[i + 1]) + (values[i + side] + values[i + side + 1])


@njit(cache=True)
def last_level(size):  # type: ignore[no-untyped-def]
    """Return the level of the cells of a grid with ``size`` = 2^level cells per side."""
    level = 0
    while (1 << level) < size:
        level += 1
    return level


@njit(cache=True)
def halvings(split, bottom, splits):  # type: ignore[no-untyped-def]
    """Write the quad-tree's splits as a partition's halvings: across, then upright in both."""
    symbols = np.empty(6 * splits + 1, np.uint8)
    used = 0
    stack = np.empty((8 * (bottom + 2), 3), np.int64)  # (level or −1 for an upright halving, y, x)
    stack[0] = (0, 0, 0)
    depth = 1
    while depth > 0:
        depth -= 1
        level, y, x = stack[depth]
        if level < 0:
            symbols[used] = UPRIGHT
        elif not split[node_at(level, y, x)]:
            symbols[used] = LEAF
        else:
            symbols[used] = ACROSS
            for cx in (1, 0):
                stack[depth] = (level + 1, 2 * y + 1, 2 * x + cx)
                stack[depth + 1] = (level + 1, 2 * y, 2 * x + cx)
                stack[depth + 2] = (-1, 0, 0)
                depth += 3
        used += 1
    return symbols[:used]
