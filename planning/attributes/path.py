"""The exact frontier of loss against bytes: a multiple-choice knapsack solved for every capacity.

Every attribute offers a menu of options (sent always, sent every k-th time, sent on change beyond a
band, never); each costs bytes and loses information. One dynamic program over bytes gives the
smallest loss for every budget at once; the points where it falls are the frontier. A plain choice
of attributes (the paper's problem) is the menu {sent, shed}.

Several streams share a channel. *Proportional* sharing (paper V) gives every stream the same drop
rate (R − C)/R. *Pooled* sharing adds the frontiers up: the bytes go where they save most, whichever
stream that is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput

MAX_UNITS = 1_000_000  # weights beyond this total are rounded up to a coarser unit
POOL_POINTS = 512  # points per frontier when several are added up
SLACK = 1e-12
LINES = 4  # sides of the hull that bound the share of tuples with anything due


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Row p of every array is one undominated choice; weights rise, losses fall.

    ``exact`` is false if weights had to be rounded up to fit ``MAX_UNITS``.
    """

    weight: IntArray
    loss: FloatArray
    choice: NDArray[np.uint8]  # (points, items): the option of each item
    exact: bool = True

    def best(self, budget: float) -> int:
        """Return the index of the point of least loss within the budget, -1 if none fits."""
        return int(np.searchsorted(self.weight, budget, side="right")) - 1


@numba.njit(cache=True)
def _solve(weights: Any, losses: Any, start: Any, total: int) -> Any:
    """Return best loss per weight, and the option that each stage took to get there."""
    items = len(start) - 1
    best = np.full(total + 1, np.inf)
    best[0] = 0.0
    option = np.zeros((items, total + 1), np.uint8)
    reach = 0
    for i in range(items):
        fresh = np.full(total + 1, np.inf)
        widest = 0
        for o in range(start[i], start[i + 1]):
            shift = weights[o]
            widest = max(widest, shift)
            for w in range(reach + 1):
                loss = best[w] + losses[o]
                if loss < fresh[w + shift]:
                    fresh[w + shift] = loss
                    option[i, w + shift] = o - start[i]
        best = fresh
        reach += widest
    return best, option


def solve(weights: Sequence[Sequence[int]], losses: Sequence[Sequence[float]]) -> Frontier:
    """Return the frontier over all ways to take one option per item.

    Parameters
    ----------
    weights
        Per item, the integer cost of each option (at most 256 options).
    losses
        Per item, what each option loses.

    >>> f = solve([[4, 0], [4, 0], [8, 0]], [[0, 3], [0, 1], [0, 2]])
    >>> f.weight.tolist(), f.loss.tolist()
    ([0, 4, 8, 12, 16], [6.0, 3.0, 2.0, 1.0, 0.0])
    >>> f.choice[1].tolist()
    [0, 1, 1]
    """
    for item, (w, v) in enumerate(zip(weights, losses, strict=True)):
        if not len(w) or len(w) != len(v) or len(w) > 256:
            raise InvalidInput(
                f"item {item} must offer 1 to 256 options with one loss each, got {len(w)} weights "
                f"and {len(v)} losses"
            )
        if min(w) < 0 or not np.isfinite(v).all():
            raise InvalidInput(
                f"item {item} must have weights >= 0 and finite losses, got {w} and {v}"
            )
    start = np.cumsum([0, *(len(w) for w in weights)])
    flat = np.array([x for w in weights for x in w], dtype=np.int64)
    value = np.array([x for v in losses for x in v], dtype=np.float64)
    total = sum(max(w) for w in weights) if weights else 0
    unit = max(1, int(np.gcd.reduce(flat)) if len(flat) else 1)
    exact = total // unit <= MAX_UNITS
    if not exact:
        unit = -(-total // MAX_UNITS)
    rounded = -(-flat // unit)
    reach = sum(int(rounded[a:b].max()) for a, b in zip(start[:-1], start[1:], strict=True))
    best, option = _solve(rounded, value, start, reach)
    points = new_lows(best)
    choice = np.zeros((len(points), len(weights)), dtype=np.uint8)
    at = points.copy()
    for i in range(len(weights) - 1, -1, -1):
        choice[:, i] = option[i, at]
        at = at - rounded[start[i] + choice[:, i]]
    real = np.zeros(len(points), dtype=np.int64)
    for i in range(len(weights)):
        real += flat[start[i] + choice[:, i]]
    return Frontier(real, best[points], choice, exact)


def new_lows(losses: FloatArray) -> IntArray:
    """Return the places where a sequence falls below all earlier values.

    >>> new_lows(np.array([3.0, 3.0, 1.0, 2.0, 0.0])).tolist()
    [0, 2, 4]
    """
    before = np.minimum.accumulate(np.append(np.inf, losses))[:-1]
    return np.flatnonzero(losses < before)


def spread_points(rising: FloatArray, points: int) -> IntArray:
    """Return at most ``points`` places of a rising sequence, even over its values; both ends stay.

    >>> spread_points(np.arange(10.0), 4).tolist()
    [0, 3, 6, 9]
    """
    if points < 2:
        raise InvalidInput(f"points must be >= 2, got {points}; a frontier has two ends")
    if len(rising) <= points:
        return np.arange(len(rising))
    goals = np.linspace(float(rising[0]), float(rising[-1]), points)
    return np.unique(np.searchsorted(rising, goals + SLACK, side="right") - 1)


def lines_above(x: FloatArray, y: FloatArray) -> list[tuple[float, float]]:
    """Return (intercept, slope) of a few lines whose minimum lies on or above all points.

    They are sides of the points' concave hull, and the level of the highest point.

    >>> lines_above(np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 0.5, 0.5, 0.75]))
    [(0.75, 0.0), (0.0, 0.5), (0.416667, 0.083333)]
    """
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        while hull and (point[0] <= hull[-1][0] or _below(hull, point)):
            hull.pop()
        hull.append(point)
    top = max(y.tolist())
    rising = [(a, _slope(a, b)) for a, b in itertools.pairwise(hull) if _slope(a, b) > 0]
    sides = [(y0 - slope * x0, slope) for (x0, y0), slope in rising]
    few = spread_points(np.arange(len(sides), dtype=np.float64), LINES)
    return [(top, 0.0), *((round(sides[k][0], 6), round(sides[k][1], 6)) for k in few)]


def _below(hull: list[tuple[float, float]], point: tuple[float, float]) -> bool:
    """Whether the end of a hull lies below the line from the point before it to a new point."""
    return len(hull) > 1 and _slope(hull[-2], point) >= _slope(*hull[-2:])


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A frontier of one or more streams: ratio and loss are shares of the whole channel's."""

    rate: float  # R of these streams, bytes per tuple of the channel
    ratio: FloatArray  # bytes sent over the rate, rising
    loss: FloatArray  # weighted, not yet divided by the channel's total weight
    choice: NDArray[np.uint8]
    thinning: IntArray  # (points, streams)
    complete: bool  # no weight was rounded, and no undominated point left out

    def take(self, index: IntArray) -> Part:
        """Return some of the points."""
        return Part(
            self.rate, self.ratio[index], self.loss[index], self.choice[index],
            self.thinning[index], self.complete,
        )  # fmt: skip

    def undominated(self) -> Part:
        """Return the points that no other point beats in both bytes and loss."""
        order = np.lexsort((self.loss, self.ratio))
        return self.take(order[new_lows(self.loss[order])])

    def thinned(self, points: int, needed: IntArray | None = None) -> Part:
        """Return at most ``points`` points, spread evenly over the ratio; both ends stay.

        Those that are ``needed`` stay as well, even if they are more.
        """
        chosen = spread_points(self.ratio, points)
        if needed is not None and len(self.ratio) > points:
            few = spread_points(self.ratio, max(2, points - len(needed)))
            chosen = np.union1d(few, needed)
        kept = self.take(chosen)
        return replace(kept, complete=self.complete and len(kept.ratio) == len(self.ratio))


def stacked(parts: Sequence[Part]) -> Part:
    """Return the points of one stream's frontiers together, dominated ones included."""
    return Part(
        parts[0].rate,
        np.concatenate([p.ratio for p in parts]),
        np.concatenate([p.loss for p in parts]),
        np.concatenate([p.choice for p in parts]),
        np.concatenate([p.thinning for p in parts]),
        all(p.complete for p in parts),
    )


def proportional(parts: Sequence[Part]) -> Part:
    """Return the frontier when every stream keeps to the same ratio of its own rate."""
    ratio = np.unique(np.concatenate([p.ratio for p in parts]))
    ratio = ratio[ratio >= max(float(p.ratio[0]) for p in parts)]
    chosen = [p.take(np.searchsorted(p.ratio, ratio + SLACK, side="right") - 1) for p in parts]
    return Part(
        math.fsum(p.rate for p in parts),
        ratio,
        np.sum([p.loss for p in chosen], axis=0),
        np.concatenate([p.choice for p in chosen], axis=1),
        np.concatenate([p.thinning for p in chosen], axis=1),
        all(p.complete for p in parts),
    )


def pooled(parts: Sequence[Part]) -> Part:
    """Return the frontier when streams share bytes freely: the sums of their points."""
    total = parts[0]
    for part in parts[1:]:
        total, part = total.thinned(POOL_POINTS), part.thinned(POOL_POINTS)
        rate = total.rate + part.rate
        spent = (total.ratio * total.rate)[:, None] + (part.ratio * part.rate)[None, :]
        loss = total.loss[:, None] + part.loss[None, :]
        order = np.lexsort((loss.ravel(), spent.ravel()))
        best = order[new_lows(loss.ravel()[order])]
        first, second = np.unravel_index(best, loss.shape)
        total = Part(
            rate,
            spent[first, second] / rate,
            loss[first, second],
            np.concatenate([total.choice[first], part.choice[second]], axis=1),
            np.concatenate([total.thinning[first], part.thinning[second]], axis=1),
            total.complete and part.complete,
        )
    return total
