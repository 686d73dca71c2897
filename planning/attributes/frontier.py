"""The exact frontier of loss against bytes: a multiple-choice knapsack solved for every capacity.

Every attribute offers a menu of options (sent always, sent every k-th time, sent on change beyond a
band, never); each costs bytes and loses information. One dynamic programme over bytes gives the
smallest loss for every budget at once; the points where it falls are the frontier. A plain choice
of attributes (the paper's problem) is the menu {sent, shed}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput

MAX_UNITS = 1_000_000  # weights beyond this total are rounded up to a coarser unit


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
    found = np.flatnonzero(best < np.minimum.accumulate(np.append(np.inf, best))[:-1])
    choice = np.zeros((len(found), len(weights)), dtype=np.uint8)
    at = found.copy()
    for i in range(len(weights) - 1, -1, -1):
        choice[:, i] = option[i, at]
        at = at - rounded[start[i] + choice[:, i]]
    real = np.zeros(len(found), dtype=np.int64)
    for i in range(len(weights)):
        real += flat[start[i] + choice[:, i]]
    return Frontier(real, best[found], choice, exact)


def thinned(frontier: Frontier, points: int) -> Frontier:
    """Return at most ``points`` points, spread evenly over the weights; both ends stay.

    >>> f = thinned(solve([[1, 0]] * 9, [[0, 1]] * 9), 4)
    >>> f.weight.tolist()
    [0, 3, 6, 9]
    """
    if points < 2:
        raise InvalidInput(f"points must be >= 2, got {points}; a frontier has two ends")
    if len(frontier.weight) <= points:
        return frontier
    goals = np.linspace(frontier.weight[0], frontier.weight[-1], points)
    index = np.unique(np.searchsorted(frontier.weight, goals + 1e-9, side="right") - 1)
    return Frontier(
        frontier.weight[index], frontier.loss[index], frontier.choice[index], frontier.exact
    )
