"""GREEDYINCREMENT (Algorithm 2), the paper's own throttler setting, for comparison.

Optimal without fairness (Theorem 3.1, convex f); with a fairness threshold it is not: use
:mod:`planning.lira.path`. Deviations from the paper, all needed to make it run: the decrease rate
n·s·r is kept apart from the gain (which is infinite for m = 0); breakpoints are Δmin + k·c; regions
with neither nodes nor queries do not hold the minimum down; a fairness threshold of 0 means
Uniform Δ, as Section 3.1.1 says, where the printed form would shed nothing.

The algorithm is written once: :func:`increment` is plain Python for lists, heap and all, and is
compiled for arrays.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from planning.arrays import FloatArray
from planning.errors import check_between
from planning.lira.model import ReductionCurve

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
        return np.full(m.size, uniform_threshold(curve.thresholds, curve.hull, z))
    throttlers = _compiled(
        m, w, curve.thresholds, curve.hull, float(fairness_threshold), z, float(w.sum())
    )
    return np.array(throttlers)


def increment(
    m: Any, w: Any, d: Any, f: Any, fairness: float, z: float, total: float
) -> list[float]:
    """GREEDYINCREMENT over the breakpoints d of f; ``total`` is the sum of w.

    >>> increment([2.0, 0.0], [1.0, 1.0], [5.0, 10.0, 15.0], [1.0, 0.5, 0.3], 10.0, 0.75, 2.0)
    [5.0, 10.0]
    """
    regions, last = len(m), len(d) - 1
    delta = [d[0]] * regions
    segment = [0] * regions
    spent = total * f[0]
    budget = z * spent
    heap = [(0.0, 0.0, 0) for _ in range(0)]

    def insert(i: int) -> None:
        """Push (−gain, −decrease rate, region); infinite gains are told apart by their rate."""
        k = segment[i]
        rate = w[i] * (f[k] - f[k + 1]) / (d[k + 1] - d[k])
        gain = rate / m[i] if m[i] > 0.0 else math.inf
        heapq.heappush(heap, (-gain, -rate, i))

    active = [i for i in range(regions) if m[i] > 0.0 or w[i] > 0.0]
    for i in active:
        insert(i)
    blocked = [False] * regions
    minimum, at_minimum = d[0], len(active)
    while spent > budget and len(heap) > 0:
        _, negative_rate, i = heapq.heappop(heap)
        rate, before = -negative_rate, delta[i]
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
                minimum = min([delta[j] for j in active])
                at_minimum = len([j for j in active if delta[j] <= minimum + TOUCH])
                changed = True
        if delta[i] >= minimum + fairness - TOUCH and segment[i] < last:
            blocked[i] = True
        elif segment[i] < last and spent > budget:
            insert(i)
        if changed:
            for j in active:
                if blocked[j] and delta[j] < minimum + fairness - TOUCH:
                    blocked[j] = False
                    insert(j)
    return delta


_compiled = njit(cache=True)(increment)


def uniform_threshold(d: Any, f: Any, z: float) -> float:
    """Return Uniform Δ: the smallest threshold with f(Δ) ≤ z, f linear between the breakpoints d.

    Δmax if there is none.

    >>> uniform_threshold([5.0, 10.0, 15.0], [1.0, 0.5, 0.3], 0.75)
    7.5
    """
    check_between("throttle_fraction", z, 0, 1, remedy="pass a fraction")
    for k in range(len(d) - 1):
        if f[k + 1] <= z:
            fall = f[k] - f[k + 1]
            share = (f[k] - z) / fall if fall > 0 else 0.0
            return float(max(d[k] + share * (d[k + 1] - d[k]), d[0]))
    return float(d[-1])
