"""The cheapest quad-tree for a price: :mod:`planning.lira.halving` with quarters for halves.

Needs memory and time in proportion to the grid, where all dyadic rectangles need four times the
square of the side: the choice for very fine grids.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.lira.gridreduce import _quad_symbols, pyramid
from planning.lira.halving import Prices, _costs, _square_side
from planning.lira.partition import Symbols, padded


class QuadTree:
    """All quad-tree nodes over a grid, level by level, root first."""

    def __init__(self, importance: FloatArray, weight: FloatArray) -> None:
        self.side = _square_side(importance, weight)
        self.size = padded(self.side)
        self.charge = 0.0
        self._m = pyramid(importance, self.size)
        self._w = pyramid(weight, self.size)
        self._cost = np.empty_like(self._m)
        self._best = np.empty_like(self._m)

    def price(self, prices: Prices) -> None:
        """Compute what every node's region costs."""
        p = prices
        _costs(self._m, self._w, p.price, p.levels, p.fractions, p.rates, p.table, self._cost)

    def count(self, charge: float) -> int:
        """Return the leaves of the cheapest tree at this charge per region."""
        return int(_quarter(self._cost, self._best, self.size, charge))

    def symbols(self, charge: float, regions: int) -> Symbols:
        """Return the cheapest tree, filled up to l leaves."""
        _quarter(self._cost, self._best, self.size, charge)
        found: Symbols = _quad_tree(self._cost, self._best, self.size, charge, regions)
        return found


@njit(cache=True)
def _quarter(cost, best, size, charge):  # type: ignore[no-untyped-def]
    """C of every node, finest level first; returns the leaves of the cheapest tree."""
    start = (size * size - 1) // 3
    for i in range(start, start + size * size):
        best[i] = cost[i] + charge
    while size > 1:
        half = size // 2
        above = start - half * half
        for y in range(half):
            top = start + 2 * y * size
            for x in range(half):
                i = top + 2 * x
                quarters = (best[i] + best[i + 1]) + (best[i + size] + best[i + size + 1])
                here = above + y * half + x
                best[here] = min(cost[here] + charge, quarters)
        start = above
        size = half
    return _leaves(cost, best, charge)


@njit(cache=True)
def _node(level, y, x):  # type: ignore[no-untyped-def]
    """Place of a node in the arrays: level by level from the root, rows within."""
    return ((1 << (2 * level)) - 1) // 3 + y * (1 << level) + x


@njit(cache=True)
def _leaves(cost, best, charge):  # type: ignore[no-untyped-def]
    leaves = 0
    stack = np.empty((256, 3), np.int64)
    stack[0] = (0, 0, 0)
    depth = 1
    while depth > 0:
        depth -= 1
        level, y, x = stack[depth]
        i = _node(level, y, x)
        if best[i] >= cost[i] + charge:
            leaves += 1
            continue
        for c in range(4):
            stack[depth] = (level + 1, 2 * y + c // 2, 2 * x + c % 2)
            depth += 1
    return leaves


@njit(cache=True)
def _quad_tree(cost, best, size, charge, regions):  # type: ignore[no-untyped-def]
    bottom = 0
    while (1 << bottom) < size:
        bottom += 1
    split = np.zeros(cost.size, np.bool_)
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    leaves = 0
    splits = 0
    stack = np.empty((256, 3), np.int64)
    stack[0] = (0, 0, 0)
    depth = 1
    while depth > 0:
        depth -= 1
        level, y, x = stack[depth]
        i = _node(level, y, x)
        if best[i] >= cost[i] + charge:
            leaves += 1
            if level < bottom:
                side = 1 << (level + 1)
                first = _node(level + 1, 2 * y, 2 * x)
                gain = cost[i] - (
                    (cost[first] + cost[first + 1]) + (cost[first + side] + cost[first + side + 1])
                )
                if gain > 0.0:
                    heapq.heappush(heap, (-gain, level, y, x))
            continue
        split[i] = True
        splits += 1
        for c in range(4):
            stack[depth] = (level + 1, 2 * y + c // 2, 2 * x + c % 2)
            depth += 1
    while leaves + 3 <= regions and len(heap) > 0:
        _, level, y, x = heapq.heappop(heap)
        split[_node(level, y, x)] = True
        splits += 1
        leaves += 3
    return _quad_symbols(split, bottom, splits)
