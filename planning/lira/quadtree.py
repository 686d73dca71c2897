"""The cheapest quad-tree for a price: :mod:`planning.lira.halving` with quarters for halves.

    C(node) = min( cost(node) + μ,  sum of C over its four quarters )

Needs memory and time in proportion to the grid, where all dyadic rectangles need four times the
square of the side: the choice for very fine grids.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.lira import pyramid
from planning.lira.partition import Symbols, padded
from planning.lira.pricing import Prices, square_side

DEEPEST = 256  # nodes that wait while a tree is walked: three a level, and to spare


class QuadTree:
    """All quad-tree nodes over a grid, as in :mod:`planning.lira.pyramid`."""

    def __init__(self, importance: FloatArray, weight: FloatArray) -> None:
        self.side = square_side(importance, weight)
        self.size = padded(self.side)
        self.charge = 0.0
        self._m = pyramid.sum_up(importance, self.size)
        self._w = pyramid.sum_up(weight, self.size)
        self._cost = np.empty_like(self._m)
        self._best = np.empty_like(self._m)

    def price(self, prices: Prices) -> None:
        """Compute what every node's region costs."""
        prices.fill(self._m[None], self._w[None], self._cost[None])

    def count(self, charge: float) -> int:
        """Return the leaves of the cheapest tree at this charge per region."""
        _quarter(self._cost, self._best, self.size, charge)
        return int(_leaves(self._cost, self._best, charge))

    def symbols(self, charge: float, regions: int) -> Symbols:
        """Return the cheapest tree, filled up to l leaves."""
        _quarter(self._cost, self._best, self.size, charge)
        found: Symbols = _filled_up(self._cost, self._best, self.size, charge, regions)
        return found


@njit(cache=True)
def _quarter(cost, best, size, charge):  # type: ignore[no-untyped-def]
    """C of every node, finest level first."""
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


@njit(cache=True)
def _push_quarters(stack, depth, level, y, x):  # type: ignore[no-untyped-def]
    for c in range(4):
        stack[depth + c] = (level + 1, 2 * y + c // 2, 2 * x + c % 2)
    return depth + 4


@njit(cache=True)
def _leaves(cost, best, charge):  # type: ignore[no-untyped-def]
    """Count the leaves of the cheapest tree; a tie goes to fewer regions."""
    leaves = 0
    stack = np.empty((DEEPEST, 3), np.int64)
    stack[0] = (0, 0, 0)
    depth = 1
    while depth > 0:
        depth -= 1
        level, y, x = stack[depth]
        i = pyramid.node_at(level, y, x)
        if best[i] >= cost[i] + charge:
            leaves += 1
        else:
            depth = _push_quarters(stack, depth, level, y, x)
    return leaves


@njit(cache=True)
def _filled_up(cost, best, size, charge, regions):  # type: ignore[no-untyped-def]
    """Walk the cheapest tree again, then split leaves, the largest gain first, up to l of them."""
    bottom = pyramid.last_level(size)
    split = np.zeros(cost.size, np.bool_)
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    leaves = 0
    splits = 0
    stack = np.empty((DEEPEST, 3), np.int64)
    stack[0] = (0, 0, 0)
    depth = 1
    while depth > 0:
        depth -= 1
        level, y, x = stack[depth]
        i = pyramid.node_at(level, y, x)
        if best[i] >= cost[i] + charge:
            leaves += 1
            gain = _split_gain(cost, level, y, x) if level < bottom else 0.0
            if gain > 0.0:
                heapq.heappush(heap, (-gain, level, y, x))
        else:
            split[i] = True
            splits += 1
            depth = _push_quarters(stack, depth, level, y, x)
    while leaves + 3 <= regions and len(heap) > 0:
        _, level, y, x = heapq.heappop(heap)
        split[pyramid.node_at(level, y, x)] = True
        splits += 1
        leaves += 3
    return pyramid.halvings(split, bottom, splits)


@njit(cache=True)
def _split_gain(cost, level, y, x):  # type: ignore[no-untyped-def]
    """Return what the four quarters of a node cost less than the node."""
    side = 1 << (level + 1)
    i = pyramid.node_at(level + 1, 2 * y, 2 * x)
    quarters = (cost[i] + cost[i + 1]) + (cost[i + side] + cost[i + side + 1])
    return cost[pyramid.node_at(level, y, x)] - quarters
