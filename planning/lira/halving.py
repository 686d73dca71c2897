"""Better regions: the cheapest tree of halvings for a price, by dynamic programming.

With a price λ per update and a fairness window [t, t + F] the objective is additive over regions:
a region with importance m and weight w costs min over Δ in the window of m·Δ + λ·w·f(Δ). Charge μ
for every region besides, and the cheapest partition follows bottom-up. Of dyadic rectangles, a
rectangle is either one region, or its two halves across, or its two halves upright,

    C(R) = min( cost(R) + μ,  C(left) + C(right),  C(lower) + C(upper) );

of a quad-tree, one region or its four quarters. Raising μ merges regions; μ is searched until the
tree has at most l leaves, and the few left over are spent on the splits that gain most. Price and
partition alternate: the exact throttlers of one partition give the price for the next.
"""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.errors import InvalidInput, check_between
from planning.lira.partition import Partition, Symbols, padded
from planning.lira.reduction import ReductionCurve
from planning.lira.throttlers import Setting, ThrottlerPath

SEARCH_STEPS = 40
WORTH = 0.005  # another round must have gained this much
TABLE_SHIFT = 48  # drop all but sign, exponent and four mantissa bits of a float64
TABLE_SIZE = 1 << 15
LEFT_OVER = 0.05  # share of l that may be left to single splits
NOTHING = 1e-10  # of the whole cost


class Trees(Protocol):
    """A set of trees over one grid from which the cheapest is drawn."""

    side: int
    charge: float  # the last one found, where the next search starts

    def price(self, prices: Prices) -> None:
        """Compute what every possible region costs."""

    def count(self, charge: float) -> int:
        """Return the leaves of the cheapest tree when each region is charged ``charge``."""

    def symbols(self, charge: float, regions: int) -> Symbols:
        """Return that tree, with splits added where they gain most until it has l leaves."""


class Prices:
    """What regions cost at one price: the hull's corners, clipped to the fairness window."""

    def __init__(self, curve: ReductionCurve, price: float, window: float, fairness: float) -> None:
        d, f = curve.thresholds, curve.hull
        rates = np.maximum((f[:-1] - f[1:]) / np.diff(d), 0.0)
        corner = np.concatenate([[True], np.diff(rates) < -1e-12 * rates[0]])
        ends = np.concatenate([corner, [True]])
        self.rates = np.minimum.accumulate(rates[corner])
        self.levels = np.clip(d[ends], window, min(window + fairness, curve.high))
        self.fractions = curve.convex(self.levels)
        self.price = price
        self.table = _rate_table(self.rates)


def best_partition(
    trees: Trees,
    importance: FloatArray,
    weight: FloatArray,
    curve: ReductionCurve,
    regions: int,
    throttle_fraction: float,
    fairness_threshold: float,
    *,
    rounds: int = 3,
    start: Partition | None = None,
) -> tuple[Partition, Setting]:
    """Alternate price and partition at one throttle fraction, as long as it helps.

    ``importance`` should be positive wherever ``weight`` is (a small background does it): else a
    mild budget costs nothing and leaves the partition undetermined.
    """
    z = check_between("throttle_fraction", throttle_fraction, 0, 1)
    if regions < 1:
        raise InvalidInput(f"regions must be at least 1, got {regions}")
    # Nothing is shed at z = 1 and nothing can be chosen at z = f(Δmax): plan a little inside.
    floor = float(curve.hull[-1])
    inner = min(max(z, floor + 0.02 * (1 - floor)), 1 - 0.02 * (1 - floor))

    def setting_of(partition: Partition) -> Setting:
        sums = partition.sums(importance), partition.sums(weight)
        return ThrottlerPath.of(*sums, curve, fairness_threshold).at(inner)

    chosen = start or Partition.even(trees.side, regions, at_most=True)
    setting = setting_of(chosen)
    least = 1e-9 * float(importance.sum()) / max(float(weight.sum()), 1e-300)
    for _ in range(rounds):
        price = max(setting.price, least)
        trees.price(Prices(curve, price, setting.window, fairness_threshold))
        scale = setting.inaccuracy + price * float(weight.sum())
        trees.charge = _charge(trees, regions, trees.charge, scale)
        candidate = Partition.of(trees.side, trees.symbols(trees.charge, regions))
        new = setting_of(candidate)
        same = new.inaccuracy <= setting.inaccuracy * (1 + 1e-9)
        if not new.inaccuracy < setting.inaccuracy and not (
            same and candidate.regions < chosen.regions
        ):
            break
        done = new.inaccuracy > setting.inaccuracy * (1 - WORTH)
        chosen, setting = candidate, new
        if done:
            break
    return chosen, setting


def _charge(trees: Trees, regions: int, guess: float, scale: float) -> float:
    """Search a charge per region that leaves at most l leaves, and not many fewer.

    The number of leaves falls about as a power of the charge, so the search steps along a line in
    the logarithms, inside the bracket found so far. A region that gains less than ``NOTHING`` of
    the whole cost, ``scale``, is not worth having: the search ends there with fewer than l.
    """
    smallest = NOTHING * scale
    target = regions * (1.0 - 0.5 * LEFT_OVER)
    enough = regions * (1.0 - LEFT_OVER) - 1
    low, high = 0.0, np.inf  # too many leaves, few enough
    charge = guess if guess > smallest else 0.01 * scale / regions
    power, before = 1.0, (0.0, 0.0)
    for _ in range(SEARCH_STEPS):
        count = trees.count(charge)
        if count > regions:
            low = charge
        else:
            high = charge
            if count >= enough:
                break
        here = (float(np.log(charge)), float(np.log(count)))
        if before[0] and abs(here[0] - before[0]) > 1e-9:
            slope = (before[1] - here[1]) / (here[0] - before[0])
            power = min(max(slope, 0.2), 5.0) if slope > 0 else power
        before = here
        charge *= float((count / target) ** (1.0 / power))
        if not low < charge < high:
            if high == np.inf:
                charge = 2.0 * low
            else:
                charge = float(np.sqrt(low * high)) if low > 0 else 0.1 * high
        if high <= smallest or (high - low) < 1e-12 * high:
            break
        charge = max(charge, smallest)
    return float(high)


@njit(cache=True)
def _rate_table(rates):  # type: ignore[no-untyped-def]
    """For every leading-bits bucket of a ratio: the corners surely crossed at its upper end."""
    edges = (np.arange(1, TABLE_SIZE + 1) << TABLE_SHIFT).view(np.float64)
    table = np.zeros(TABLE_SIZE, np.int32)
    k = rates.size
    for bucket in range(TABLE_SIZE):
        edge = edges[bucket]
        while k > 0 and not rates[k - 1] >= edge:
            k -= 1
        table[bucket] = k
    return table


@njit(cache=True)
def _costs(m, w, price, levels, fractions, rates, table, out):  # type: ignore[no-untyped-def]
    """Compute the cheapest m·Δ + λ·w·f(Δ) of every rectangle in a flat run."""
    ratio = np.empty(m.size)
    scale = 1.0 / price
    for i in range(m.size):
        ratio[i] = m[i] * scale / w[i] if w[i] > 0.0 else (np.inf if m[i] > 0.0 else 0.0)
    bits = ratio.view(np.int64)
    for i in range(m.size):
        k = table[bits[i] >> TABLE_SHIFT]
        x = ratio[i]
        while k < rates.size and rates[k] >= x:
            k += 1
        out[i] = m[i] * levels[k] + price * w[i] * fractions[k]


class Halvings:
    """All dyadic rectangles of a grid: [u, v], both numbered as in a binary heap, root 1."""

    def __init__(self, importance: FloatArray, weight: FloatArray) -> None:
        self.side = _square_side(importance, weight)
        self.size = padded(self.side)
        self.charge = 0.0
        self._m, self._w, self._cost, self._best = (
            np.zeros((2 * self.size, 2 * self.size)) for _ in range(4)
        )
        self.refill(importance, weight)

    def refill(self, importance: FloatArray, weight: FloatArray) -> None:
        """Take new grids of the same size; memory is used again."""
        if _square_side(importance, weight) != self.side:
            raise InvalidInput(f"grids must have {self.side} cells a side, got {weight.shape}")
        for cells, sums in ((importance, self._m), (weight, self._w)):
            _rectangle_sums(np.ascontiguousarray(cells, dtype=np.float64), self.size, sums)

    def price(self, prices: Prices) -> None:
        """Compute what every rectangle costs."""
        p = prices
        _price_rectangles(
            self._m, self._w, p.price, p.levels, p.fractions, p.rates, p.table, self._cost
        )

    def count(self, charge: float) -> int:
        """Return the leaves of the cheapest tree at this charge per region."""
        _halve(self._cost, self._best, self.size, charge)
        return int(_halving_leaves(self._cost, self._best, self.size, charge)[0])

    def symbols(self, charge: float, regions: int) -> Symbols:
        """Return the cheapest tree, filled up to l leaves."""
        _halve(self._cost, self._best, self.size, charge)
        _, symbols = _halving_leaves(self._cost, self._best, self.size, charge)
        filled: Symbols = _fill_halvings(symbols, self._cost, self.size, regions)
        return filled


def _square_side(importance: FloatArray, weight: FloatArray) -> int:
    if importance.shape != weight.shape or importance.ndim != 2 or len(set(weight.shape)) != 1:
        raise InvalidInput(
            "importance and weight must be square grids of one size, got "
            f"{importance.shape} and {weight.shape}"
        )
    return int(importance.shape[0])


@njit(cache=True)
def _rectangle_sums(cells, size, out):  # type: ignore[no-untyped-def]
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
def _price_rectangles(m, w, price, levels, fractions, rates, table, out):  # type: ignore[no-untyped-def]
    for u in range(1, m.shape[0]):
        _costs(m[u], w[u], price, levels, fractions, rates, table, out[u])


@njit(cache=True)
def _halve(cost, best, size, charge):  # type: ignore[no-untyped-def]
    """C(R) for all rectangles, small ones first."""
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
def _halving_leaves(cost, best, size, charge):  # type: ignore[no-untyped-def]
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
            symbols[used] = 0
            leaves += 1
        elif u < size and best[2 * u, v] + best[2 * u + 1, v] <= best[u, v]:
            symbols[used] = 1
            stack[depth] = (2 * u + 1, v)
            stack[depth + 1] = (2 * u, v)
            depth += 2
        else:
            symbols[used] = 2
            stack[depth] = (u, 2 * v + 1)
            stack[depth + 1] = (u, 2 * v)
            depth += 2
        used += 1
    return leaves, symbols[:used]


@njit(cache=True)
def _fill_halvings(symbols, cost, size, regions):  # type: ignore[no-untyped-def]
    """Split leaves, the largest gain first, until there are l or nothing is gained."""
    node = np.empty((symbols.size, 2), np.int64)
    stack = np.empty((128, 2), np.int64)
    stack[0] = (1, 1)
    depth = 1
    leaves = 0
    heap = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(symbols.size):
        depth -= 1
        u, v = stack[depth]
        node[i] = (u, v)
        if symbols[i] == 0:
            leaves += 1
            gain, how = _split_gain(cost, size, u, v)
            if gain > 0.0:
                heapq.heappush(heap, (-gain, np.int64(i), np.int64(how)))
        elif symbols[i] == 1:
            stack[depth] = (2 * u + 1, v)
            stack[depth + 1] = (2 * u, v)
            depth += 2
        else:
            stack[depth] = (u, 2 * v + 1)
            stack[depth + 1] = (u, 2 * v)
            depth += 2
    extra = np.zeros(symbols.size, np.uint8)
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
            out[used + 1] = 0
            out[used + 2] = 0
            used += 3
        else:
            out[used] = symbols[i]
            used += 1
    return out


@njit(cache=True)
def _split_gain(cost, size, u, v):  # type: ignore[no-untyped-def]
    across = cost[2 * u, v] + cost[2 * u + 1, v] if u < size else np.inf
    upright = cost[u, 2 * v] + cost[u, 2 * v + 1] if v < size else np.inf
    if across <= upright:
        return cost[u, v] - across, 1
    return cost[u, v] - upright, 2
