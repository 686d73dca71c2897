"""Recorded tracks as dense traces: positions between two reports are interpolated.

Dead reckoning decides every tick, but buses and ships are recorded once a minute or two. Between
two records at most ``longest_gap_s`` apart an object is taken to move evenly; elsewhere it is
absent. Errors are then measured as on a generated trace.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray
from planning.errors import StatisticsError
from planning.lira.trace import Trace


def dense_trace(
    object_id: FloatArray,
    time_s: FloatArray,
    x: FloatArray,
    y: FloatArray,
    *,
    tick_s: float,
    longest_gap_s: float,
    margin_m: float = 100.0,
) -> Trace:
    """Return the trace of recorded rows in any order.

    >>> t = dense_trace(
    ...     np.array([1.0, 1.0]), np.array([0.0, 4.0]), np.array([0.0, 8.0]), np.zeros(2),
    ...     tick_s=2.0, longest_gap_s=10.0,
    ... )
    >>> t.positions[0].tolist()
    [[0.0, 0.0], [4.0, 0.0], [8.0, 0.0]]
    """
    finite = np.isfinite(object_id) & np.isfinite(time_s) & np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        raise StatisticsError("recorded tracks must hold at least one finite row, got none")
    ids, times, xs, ys = (
        np.asarray(c, dtype=np.float64)[finite] for c in (object_id, time_s, x, y)
    )
    order = np.lexsort((times, ids))
    ids, times, xs, ys = ids[order], times[order], xs[order], ys[order]
    names, first = np.unique(ids, return_index=True)
    start = float(times.min())
    ticks = int((times.max() - start) // tick_s) + 1
    clock = start + tick_s * np.arange(ticks)
    positions = np.full((names.size, ticks, 2), np.nan, dtype=np.float32)
    for row, (a, b) in enumerate(zip(first, [*first[1:], ids.size], strict=True)):
        t = times[a:b]
        at = np.searchsorted(t, clock, side="right") - 1
        known = (at >= 0) & (clock <= t[-1])
        here = at[known]
        later = np.minimum(here + 1, t.size - 1)
        known[known] = (t[later] - t[here] <= longest_gap_s) | (clock[known] == t[here])
        positions[row, known, 0] = np.interp(clock[known], t, xs[a:b])
        positions[row, known, 1] = np.interp(clock[known], t, ys[a:b])
    bounds = (
        float(np.floor(xs.min() - margin_m)), float(np.floor(ys.min() - margin_m)),
        float(np.ceil(xs.max() + margin_m)), float(np.ceil(ys.max() + margin_m)),
    )  # fmt: skip
    return Trace(positions, tick_s, bounds)
