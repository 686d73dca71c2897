"""Section 5.1.1: how well basic windows of a given size capture a match probability."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planning.arrays import FloatArray
from planning.joins.model import coverage

Density = Callable[[FloatArray], FloatArray]
STEPS = 4000


def basic_window_probabilities(
    density: Density, window_s: float, basic_window_s: float, steps: int = 200
) -> FloatArray:
    """Return p_{i,j}: the mean over x of the probability that B_{i,j} covers.

    >>> flat = basic_window_probabilities(lambda age: np.full(age.shape, 0.5), 2.0, 1.0)
    >>> flat.round(3).tolist()
    [0.25, 0.5, 0.25]
    """
    ages = (np.arange(STEPS) + 0.5) / STEPS * window_s
    cumulative = np.concatenate(([0.0], np.cumsum(density(ages)))) * window_s / STEPS
    edges = np.arange(STEPS + 1) / STEPS * window_s
    n = 1 + int(np.ceil(window_s / basic_window_s))
    phases = (np.arange(steps) + 0.5) / steps
    result = np.zeros(n)
    for j in range(n):
        ends = np.array([coverage(j + 1, x, window_s, basic_window_s) for x in phases])
        covered = np.interp(ends[:, 1], edges, cumulative) - np.interp(
            ends[:, 0], edges, cumulative
        )
        result[j] = covered.mean()
    return result


def used_area(
    probabilities: FloatArray, extents: FloatArray, window_s: float, fraction: float
) -> float:
    """Return p_u: the probability covered when r' * w seconds are compared, the best first.

    The paper counts every basic window as b seconds; here their mean lengths are used, so that
    r' = 1 covers everything.

    >>> used_area(np.array([0.2, 0.6, 0.2]), np.array([0.5, 1.0, 0.5]), 2.0, 0.75)
    0.8
    """
    ratio = probabilities / np.maximum(extents, 1e-12)
    left, total = fraction * window_s, 0.0
    for j in np.argsort(-ratio, kind="stable"):
        part = min(1.0, left / extents[j]) if extents[j] > 0 else 0.0
        total += part * float(probabilities[j])
        left -= float(extents[j])
        if left <= 0:
            break
    return total


def best_area(density: Density, window_s: float, extent_s: float) -> float:
    """Return g(f, a): the largest probability that intervals of total length a can cover.

    >>> round(best_area(lambda age: 1.0 - age / 2, 2.0, 1.0), 3)
    0.75
    """
    ages = (np.arange(STEPS) + 0.5) / STEPS * window_s
    values = np.sort(density(ages))[::-1]
    number = extent_s / window_s * STEPS
    whole = int(number)
    part = (number - whole) * values[whole] if whole < STEPS else 0.0
    return float((values[:whole].sum() + part) * window_s / STEPS)


def optimality(
    density: Density, window_s: float, basic_window_s: float, fraction: float
) -> float:
    """Return phi = p_u / g: output over the best possible at load r' and basic window size b."""
    from planning.joins.model import Windows

    extents = Windows((window_s, window_s), basic_window_s).extents_s[0]
    probabilities = basic_window_probabilities(density, window_s, basic_window_s)
    share = min(1.0, fraction)
    area = used_area(probabilities, extents, window_s, share)
    best = best_area(density, window_s, share * window_s)
    return area / best if best > 0 else 1.0
