"""The cheapest tree of halvings for a price, by dynamic programming over all dyadic rectangles.

With cost(R) of every rectangle as one region and a charge μ per region
(:mod:`planning.lira.partition.pricing`), a rectangle is either one region, or its two halves
across, or its two halves upright:

    C(R) = min( cost(R) + μ,  C(left) + C(right),  C(lower) + C(upper) )
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.lira.partition.pricing import Prices, square_side
from planning.lira.partition.regions import ACROSS, LEAF, UPRIGHT, Symbols, padded


class Halvings:
    """All dyadic rectangles of a grid: [u, v], both numbered as in a binary heap, root 1."""

    def __init__(self, importance: FloatArray, weight: FloatArray) -> None:
        self.side = square_side(importance, weight)
        self.size = padded(self.side)
        self.charge = 0.0
        self._m, self._w, self._cost, self._best = (
            np.zeros((2 * self.size, 2 * self.size)) for _ in range(4)
        )
        self.refill(importance, weight)

    def refill(self, importance: FloatArray, weight: FloatArray) -> None:
        """Take new grids of the same size; memory is reused."""
        if square_side(importance, weight) != self.side:
            raise InvalidInput(f"grids must have {self.side} cells a side, got {weight.shape}")
        for cells, sums in ((importance, self._m), (weight, self._w)):
            _rectangle_sums(np.ascontiguousarray(cells, dtype=np.float64), self.size, sums)

    def price(self, prices: Prices) -> None:
        """Compute what every rectangle costs."""
        prices.fill(self._m, self._w, self._cost)

    def count(self, charge: float) -> int:
        """Return the leaves of the cheapest tree at this charge per region."""
        _halve(self._cost, self._best, self.size, charge)
        return int(_cheapest_tree(self._cost, self._best, self.size, charge)[0])

    def symbols(self, charge: float, regions: int) -> Symbols:
        """Return the cheapest tree, filled up to l leaves."""
        _halve(self._cost, self._best, self.size, charge)
        _, symbols = _cheapest_tree(self._cost, self._best, self.size, charge)
        filled: Symbols = _fill_up(symbols, self._cost, self.size, regions)
        return filled


@njit(cache=True)
def _rectangle_sums(cells, size, out):  # type: ignore[no-untyped-def]
    """Sum up every rectangle: strips of one column first, then wider ones."""
    side = cells.shape[0]
    for x in range(side):
        for y in range(side):
            out[size + x, size + y] = cells[y, x]
    for u in range(2 * size - 1, 0, -1):
        if u < size:
            for v in range(2 * size):
                out[u, v] = out[2 * u, v] + out[2 * u + 1, v]
        else:
            for v in range(size - 1, 0, -1):
                out[u, v] = out[u, 2 * v] + out[u, 2 * v + 1]


@njit(cache=True)
def _halve(cost, best, size, charge):  # type: ignore[no-untyped-def]
    """Compute C(R) of all rectangles, small ones first."""
    for u in range(2 * size - 1, 0, -1):
        row, costs = best[u], cost[u]
        if u < size:
            low, high = best[2 * u], best[2 * u + 1]
            for v in range(1, 2 * size):
                row[v] = min(costs[v] + charge, low[v] + high[v])
        else:
            for v in range(1, 2 * size):
                row[v] = costs[v] + charge
        for v in range(size - 1, 0, -1):
            halves = row[2 * v] + row[2 * v + 1]
            if halves < row[v]:
                row[v] = halves


@njit(cache=True)
def _push_halves(stack, depth, u, v, symbol):  # type: ignore[no-untyped-def]
    """Put both halves of a rectangle on the stack, the lower one on top."""
    if symbol == ACROSS:
        stack[depth] = (2 * u + 1, v)
        stack[depth + 1] = (2 * u, v)
    else:
        stack[depth] = (u, 2 * v + 1)
        stack[depth + 1] = (u, 2 * v)
    return depth + 2


@njit(cache=True)
def _cheapest_tree(cost, best, size, charge):  # type: ignore[no-untyped-def]
    """Walk the cheapest tree: number of leaves and symbols; a tie goes to fewer regions."""
    symbols = np.empty(64, np.uint8)
    used = 0
    leaves = 0
    stack = np.empty((128, 2), np.int64)
    stack[0] = (1, 1)
    depth = 1
    while depth > 0:
        depth -= 1
        u, v = stack[depth]
        if used == symbols.size:
            symbols = np.concatenate((symbols, np.empty_like(symbols)))
        whole = cost[u, v] + charge
        if best[u, v] >= whole:
            symbols[used] = LEAF
            leaves += 1
        elif u < size and best[2 * u, v] + best[2 * u + 1, v] <= best[u, v]:
            symbols[used] = ACROSS
            depth = _push_halves(stack, depth, u, v, ACROSS)
        else:
            symbols[used] = UPRIGHT
            depth = _push_halves(stack, depth, u, v, UPRIGHT)
        used += 1
    return leaves, symbols[:used]


@njit(cache=True)
def _fill_up(symbols, cost, size, regions):  # type: ignore[no-untyped-def]
    """Split leaves, the largest gain first, until there are l or nothing is gained."""
    stack = np.empty((128, 2), np.int64)
    stack[0] = (1, 1)
    depth = 1
    leaves = 0
    heap = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(symbols.size):
        depth -= 1
        u, v = stack[depth]
        if symbols[i] == LEAF:
            leaves += 1
            gain, how = _split_gain(cost, size, u, v)
            if gain > 0.0:
                heapq.heappush(heap, (-gain, np.int64(i), np.int64(how)))
        else:
            depth = _push_halves(stack, depth, u, v, symbols[i])
    extra = np.zeros(symbols.size, np.uint8)  # how a leaf is split in the end
    added = 0
    while leaves + added < regions and len(heap) > 0:
        _, place, how = heapq.heappop(heap)
        extra[place] = how
        added += 1
    out = np.empty(symbols.size + 2 * added, np.uint8)
    used = 0
    for i in range(symbols.size):
        if extra[i] > 0:
            out[used] = extra[i]
            out[used + 1] = LEAF
            out[used + 2] = LEAF
            used += 3
        else:
            out[used] = symbols[i]
            used += 1
    return out


@njit(cache=True)
def _split_gain(cost, size, u, v):  # type: ignore[no-untyped-def]
    """Return what halving a region gains, and which way is better."""
    across = cost[2 * u, v] + cost[2 * u + 1, v] if u < size else np.inf
    upright = cost[u, 2 * v] + cost[u, 2 * v + 1] if v < size else np.inf
    if across <= upright:
        return cost[u, v] - across, ACROSS
    return cost[u, v] - upright, UPRIGHT
