"""Better regions than the paper's: the cheapest tree for a price, price and tree in turn.

With a price λ per update and a fairness window [t, t + F] the objective is additive over regions:
a region with importance m and weight w costs min over Δ in the window of m·Δ + λ·w·f(Δ). Charge μ
per region on top, and the cheapest partition follows bottom-up, among all trees of dyadic
rectangles (:mod:`planning.lira.partition.halving`) or all quad-trees
(:mod:`planning.lira.partition.quadtree`). Raising μ merges regions; μ is searched until the tree
has at most l leaves, and the few left over are spent on the splits that gain most. Price and
partition alternate: the exact throttlers of one partition give the price for the next.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.errors import InvalidInput, check_between
from planning.lira.model import ReductionCurve
from planning.lira.partition.regions import Partition, Symbols
from planning.lira.path import PathPoint, ThrottlerPath

SEARCH_STEPS = 40
ROUNDS = 3
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

    def fill(self, importance: FloatArray, weight: FloatArray, cost: FloatArray) -> None:
        """Write what rectangles cost, given rows of their importance and weight."""
        _fill_costs(
            importance, weight, self.price, self.levels, self.fractions, self.rates, self.table,
            cost,
        )  # fmt: skip


def best_partition(
    trees: Trees,
    importance: FloatArray,
    weight: FloatArray,
    curve: ReductionCurve,
    regions: int,
    throttle_fraction: float,
    fairness_threshold: float,
    *,
    start: Partition | None = None,
) -> tuple[Partition, PathPoint]:
    """Alternate price and partition at one throttle fraction, as long as it helps.

    ``start`` are the regions to begin with, such as those of the last plan; else an even grid.
    ``importance`` should be positive wherever ``weight`` is (a small background is enough): else
    a mild budget costs nothing and leaves the partition undetermined.
    """
    z = check_between("throttle_fraction", throttle_fraction, 0, 1)
    if regions < 1:
        raise InvalidInput(f"regions must be at least 1, got {regions}")
    # Nothing is shed at z = 1 and nothing can be chosen at z = f(Δmax): plan a little inside.
    floor = float(curve.hull[-1])
    inner = min(max(z, floor + 0.02 * (1 - floor)), 1 - 0.02 * (1 - floor))

    def point_of(partition: Partition) -> PathPoint:
        sums = partition.sums(importance), partition.sums(weight)
        return ThrottlerPath.of(*sums, curve, fairness_threshold).at(inner)

    chosen = start or Partition.even(trees.side, regions, at_most=True)
    point = point_of(chosen)
    least = 1e-9 * float(importance.sum()) / max(float(weight.sum()), 1e-300)
    for _ in range(ROUNDS):
        price = max(point.price, least)
        trees.price(Prices(curve, price, point.window, fairness_threshold))
        scale = point.inaccuracy + price * float(weight.sum())
        trees.charge = _charge(trees, regions, trees.charge, scale)
        candidate = Partition.of(trees.side, trees.symbols(trees.charge, regions))
        new = point_of(candidate)
        same = new.inaccuracy <= point.inaccuracy * (1 + 1e-9)
        if not new.inaccuracy < point.inaccuracy and not (
            same and candidate.regions < chosen.regions
        ):
            break
        done = new.inaccuracy > point.inaccuracy * (1 - WORTH)
        chosen, point = candidate, new
        if done:
            break
    return chosen, point


def _charge(trees: Trees, regions: int, guess: float, scale: float) -> float:
    """Search for a charge per region that leaves at most l leaves, and not many fewer.

    The number of leaves falls roughly as a power of the charge, so the search steps along a line in
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


def square_side(importance: FloatArray, weight: FloatArray) -> int:
    """Return the cells per side of two square grids of the same size; refuse others."""
    if importance.shape != weight.shape or importance.ndim != 2 or len(set(weight.shape)) != 1:
        raise InvalidInput(
            "importance and weight must be square grids of one size, got "
            f"{importance.shape} and {weight.shape}"
        )
    return int(importance.shape[0])


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
def _fill_costs(m, w, price, levels, fractions, rates, table, cost):  # type: ignore[no-untyped-def]
    for row in range(m.shape[0]):
        _cheapest(m[row], w[row], price, levels, fractions, rates, table, cost[row])


@njit(cache=True)
def _cheapest(m, w, price, levels, fractions, rates, table, out):  # type: ignore[no-untyped-def]
    """Compute the cheapest m·Δ + λ·w·f(Δ) of every rectangle in a row."""
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
