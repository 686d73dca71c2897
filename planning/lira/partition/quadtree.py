"""The cheapest quad-tree for a price: as :mod:`planning.lira.partition.halving`, in quarters.

    C(node) = min( cost(node) + μ,  sum of C over its four quarters )

Needs memory and time in proportion to the grid, where all dyadic rectangles need four times the
square of the side: the choice for very fine grids.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.lira.partition import pyramid
from planning.lira.partition.pricing import Prices, square_side
from planning.lira.partition.regions import Symbols, padded

DEEPEST = 256  # nodes waiting while a tree is walked: three per level, with room to spare


class QuadTree:
    """All quad-tree nodes over a grid, as in :mod:`planning.lira.partition.pyramid`."""

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
        filled: Symbols = _filled_up(self._cost, self._best, self.size, charge, regions)
        return filled


@njit(cache=True)
def _quarter(cost, best, size, charge):  # type: ignore[no-untyped-def]
    """Compute C of every node, finest level first."""
    bottom = pyramid.last_level(size)
    for i in range(pyramid.node_at(bottom, 0, 0), cost.size):
        best[i] = cost[i] + charge
    for level in range(bottom - 1, -1, -1):
        for y in range(1 << level):
            for x in range(1 << level):
                i = pyramid.node_at(level, y, x)
                best[i] = min(cost[i] + charge, pyramid.sum_of_children(best, level, y, x))


@njit(cache=True)
def _leaves(cost, best, charge):  # type: ignore[no-untyped-def]
    """Count the leaves of the cheapest tree."""
    return _walk(cost, best, charge, -1, np.zeros(0, np.bool_), _no_splits())


@njit(cache=True)
def _filled_up(cost, best, size, charge, regions):  # type: ignore[no-untyped-def]
    """Walk the cheapest tree again, then split leaves, the largest gain first, up to l of them."""
    bottom = pyramid.last_level(size)
    split = np.zeros(cost.size, np.bool_)
    heap = _no_splits()
    leaves = _walk(cost, best, charge, bottom, split, heap)
    while leaves + 3 <= regions and len(heap) > 0:
        _, level, y, x = heapq.heappop(heap)
        split[pyramid.node_at(level, y, x)] = True
        leaves += 3
    return pyramid.halvings(split, bottom, (leaves - 1) // 3)


@njit(cache=True)
def _no_splits():  # type: ignore[no-untyped-def]
    """Return an empty heap of (−gain, level, y, x)."""
    return [(0.0, np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]


@njit(cache=True)
def _walk(cost, best, charge, bottom, split, heap):  # type: ignore[no-untyped-def]
    """Count the leaves of the cheapest tree; a tie goes to fewer regions.

    Marks the other nodes in ``split``, if it has room, and puts leaves above level ``bottom`` whose
    splitting gains anything on the heap.
    """
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
            if level < bottom:
                gain = cost[i] - pyramid.sum_of_children(cost, level, y, x)
                if gain > 0.0:
                    heapq.heappush(heap, (-gain, level, y, x))
            continue
        if split.size:
            split[i] = True
        for c in range(4):
            stack[depth + c] = (level + 1, 2 * y + c // 2, 2 * x + c % 2)
        depth += 4
    return leaves
