"""GREEDYINCREMENT (Algorithm 2), the paper's own throttler setting, compiled, for comparison.

Optimal without fairness (Theorem 3.1, convex f); with a fairness threshold it is not: use
:mod:`planning.lira.throttlers`. Deviations from the print, all needed to make it run: the decrease
rate n·s·r is kept apart from the gain (which is infinite for m = 0); breakpoints are Δmin + k·c;
regions with neither nodes nor queries do not hold the minimum down; a fairness threshold of 0 means
Uniform Δ, as Section 3.1.1 says, where the print would shed nothing. The same in plain Python, line
by line: :mod:`planning.lira.printed`.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from planning.arrays import FloatArray
from planning.errors import check_between
from planning.lira.reduction import ReductionCurve

TOUCH = 1e-9  # metres; closer to the fairness limit than this counts as on it


def greedy_increment(
    importance: ArrayLike,
    weight: ArrayLike,
    curve: ReductionCurve,
    fairness_threshold: float,
    throttle_fraction: float,
) -> FloatArray:
    """Return the throttlers that Algorithm 2 sets for one throttle fraction.

    >>> curve = ReductionCurve.of([5, 10, 15], [1.0, 0.5, 0.3])
    >>> greedy_increment([2.0, 0.0], [1.0, 1.0], curve, 10, 0.75).tolist()
    [5.0, 10.0]
    """
    z = check_between("throttle_fraction", throttle_fraction, 0, 1)
    m = np.ascontiguousarray(importance, dtype=np.float64)
    w = np.ascontiguousarray(weight, dtype=np.float64)
    if fairness_threshold == 0:
        convex = ReductionCurve(curve.thresholds, curve.hull, curve.hull)
        return np.full(m.size, convex.inverse(z))
    throttlers: FloatArray = _greedy(
        m, w, curve.thresholds, curve.hull, float(fairness_threshold), z
    )
    return throttlers


@njit(cache=True)
def _greedy(m, w, d, f, fairness, z):  # type: ignore[no-untyped-def]
    l, segments = m.size, d.size - 1  # noqa: E741
    rates = (f[:-1] - f[1:]) / (d[1:] - d[:-1])
    delta = np.full(l, d[0])
    segment = np.zeros(l, np.int64)
    spent = w.sum() * f[0]
    budget = z * spent
    active = (m > 0.0) | (w > 0.0)
    heap = [(0.0, 0.0, np.int64(0)) for _ in range(0)]
    for j in range(l):
        if active[j]:
            _insert(heap, j, m, w, rates, segment)
    blocked = np.zeros(l, np.bool_)
    minimum = d[0]
    at_minimum = int(active.sum())
    while spent > budget and len(heap) > 0:
        _, negative_rate, popped = heapq.heappop(heap)
        i = np.int64(popped)
        rate = -negative_rate
        before = delta[i]
        step = min(d[segment[i] + 1], minimum + fairness) - before
        if rate > 0.0:
            step = min(step, (spent - budget) / rate)
        delta[i] = before + step
        spent -= step * rate
        if delta[i] >= d[segment[i] + 1] - TOUCH:
            delta[i] = d[segment[i] + 1]
            segment[i] += 1
        changed = False
        if before <= minimum + TOUCH and delta[i] > minimum + TOUCH:
            at_minimum -= 1
            if at_minimum == 0:
                minimum, at_minimum = _lowest(delta, active)
                changed = True
        if delta[i] >= minimum + fairness - TOUCH and segment[i] < segments:
            blocked[i] = True
        elif segment[i] < segments and spent > budget:
            _insert(heap, i, m, w, rates, segment)
        if changed:
            for j in range(l):
                if blocked[j] and delta[j] < minimum + fairness - TOUCH:
                    blocked[j] = False
                    _insert(heap, j, m, w, rates, segment)
    return delta


@njit(cache=True)
def _insert(heap, i, m, w, rates, segment):  # type: ignore[no-untyped-def]
    """Push (−gain, −decrease rate, region); infinite gains are told apart by their rate."""
    rate = w[i] * rates[segment[i]]
    gain = rate / m[i] if m[i] > 0.0 else np.inf
    heapq.heappush(heap, (-gain, -rate, np.int64(i)))


@njit(cache=True)
def _lowest(delta, active):  # type: ignore[no-untyped-def]
    """Return the lowest throttler of an active region, and how many have it."""
    lowest = np.inf
    for j in range(delta.size):
        if active[j] and delta[j] < lowest:
            lowest = delta[j]
    count = 0
    for j in range(delta.size):
        if active[j] and delta[j] <= lowest + TOUCH:
            count += 1
    return lowest, count
