"""Measure f(Δ) and the error of Δ by replaying dead reckoning over recorded positions.

Positions come as rows sorted by object and time, at whatever times they were recorded. Every level
Δ is replayed on its own; the error of a level is its distance from what Δmin predicts at the same
moment. An object's first row is reported at every level and counts nowhere. A move faster than the
highest speed is a jump: it is reported like any deviation, but with no velocity. Rows whose time
does not advance are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from planning.arrays import FloatArray, IntArray

MICRO = 1e6  # sums are kept in whole millionths, so that their order leaves no trace


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Reports and summed errors (whole micrometres) per level, and the rows they come from."""

    reports: IntArray
    error_micro: IntArray
    rows: int
    objects: int


def levels_between(low: float, high: float, count: int = 19) -> FloatArray:
    """Return the thresholds to measure: dense near Δmin, where f falls fastest.

    >>> levels_between(5.0, 100.0, 3).tolist()
    [5.0, 28.75, 100.0]
    """
    return low + (high - low) * (np.arange(count) / (count - 1)) ** 2


def replay(
    object_id: FloatArray, time_s: FloatArray, x: FloatArray, y: FloatArray, levels: FloatArray,
    highest_speed: float,
) -> Replay:  # fmt: skip
    """Replay rows in any order; equal rows in another order give the same numbers."""
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(time_s) & np.isfinite(object_id)
    order = np.lexsort((y[finite], x[finite], time_s[finite], object_id[finite]))
    ids, times, xs, ys = (
        np.ascontiguousarray(c[finite][order], dtype=np.float64) for c in (object_id, time_s, x, y)
    )
    reports = np.zeros(levels.size, np.int64)
    errors = np.zeros(levels.size, np.int64)
    rows = _replay(
        ids, times, xs, ys, np.ascontiguousarray(levels), highest_speed, reports, errors
    )
    objects = int(np.unique(ids).size)
    return Replay(reports, errors, int(rows), objects)


@njit(cache=True)
def _replay(objects, times, xs, ys, levels, highest_speed, reports, errors):  # type: ignore[no-untyped-def]
    count = levels.size
    model = np.zeros((count, 5))  # x, y, vx, vy, t of the last report per level
    rows = 0
    for i in range(objects.size):
        x, y, t = xs[i], ys[i], times[i]
        if i == 0 or objects[i] != objects[i - 1]:
            for k in range(count):
                model[k] = (x, y, 0.0, 0.0, t)
            last_x, last_y, last_t = x, y, t
            continue
        if not t > last_t:
            continue
        vx = (x - last_x) / (t - last_t)
        vy = (y - last_y) / (t - last_t)
        if vx * vx + vy * vy > highest_speed * highest_speed:
            vx = vy = 0.0
        rows += 1
        base_x = base_y = 0.0
        for k in range(count):
            age = t - model[k, 4]
            px = model[k, 0] + model[k, 2] * age
            py = model[k, 1] + model[k, 3] * age
            gap = (x - px) ** 2 + (y - py) ** 2
            if gap > levels[k] * levels[k]:
                model[k] = (x, y, vx, vy, t)
                reports[k] += 1
                px, py = x, y
            if k == 0:
                base_x, base_y = px, py
            errors[k] += np.int64(np.rint(np.hypot(px - base_x, py - base_y) * MICRO))
        last_x, last_y, last_t = x, y, t
    return rows
