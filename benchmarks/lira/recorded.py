"""The two recorded sets of tracks, each with thresholds and queries that suit its scale.

Dead reckoning decides every tick, but buses and ships are recorded once a minute or two. Between
two records at most ``longest_gap_s`` apart an object is taken to move evenly; elsewhere it is
absent. Errors are then measured as on a generated trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.lira.scene import Scene
from benchmarks.lira.trace import Trace
from planning.arrays import FloatArray
from planning.errors import StatisticsError
from planning.lira.parameters import Parameters

BUSES = "austin_buses"
VESSELS = "vessels_gulf_of_mexico_20220103"
FIRST_S, SPAN_S = 3600.0, 7200.0  # of the buses' morning
TICK_S = 5.0
LONGEST_GAP_S = 300.0
MARGIN_M = 100.0  # of the space around all positions


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """Recorded tracks as a trace, and how to try LIRA on them."""

    name: str
    trace: Trace
    parameters: Parameters
    query_side_m: float
    query_count: int
    warm_up: int
    correct_every: int

    def scene(self) -> Scene:
        """Return the scene: statistics from the first half, errors on the second."""
        return Scene(
            1, parameters=self.parameters, trace=self.trace, warm_up=self.warm_up, period=12,
            correct_every=self.correct_every,
        )  # fmt: skip

    def queries(self, scene: Scene) -> FloatArray:
        """Return queries that follow the objects."""
        return scene.queries("proportional", self.query_count, self.query_side_m)


def load_tracks(folder: Path) -> list[Tracks]:
    """Return the recorded tracks below ``folder``; none if there are none."""
    tracks = []
    for name, make in ((BUSES, buses), (VESSELS, vessels)):
        path = folder / "lira" / f"{name}.parquet"
        if path.is_file():
            tracks.append(make(path))
    return tracks


def buses(path: Path) -> Tracks:
    """Read two hours of Austin's buses; recorded every minute or two, hence the wide thresholds."""
    ids, times, x, y = _columns(path, "time_s")
    some = (times >= FIRST_S) & (times < FIRST_S + SPAN_S)
    trace = dense_trace(
        ids[some], times[some], x[some], y[some], tick_s=TICK_S, longest_gap_s=LONGEST_GAP_S
    )
    chosen = Parameters(
        regions=250, lowest_threshold=25, highest_threshold=1000, fairness_threshold=500
    )
    return Tracks(BUSES, trace, chosen, 2000.0, 40, 120, 10)


def vessels(path: Path) -> Tracks:
    """Read twenty minutes of ships; most lie in harbours, hence the fine grid."""
    ids, times, x, y = _columns(path, "timestamp")
    trace = dense_trace(ids, times, x, y, tick_s=TICK_S, longest_gap_s=LONGEST_GAP_S)
    return Tracks(VESSELS, trace, Parameters(regions=250, cells=512), 20_000.0, 40, 24, 3)


def _columns(path: Path, time_column: str) -> tuple[FloatArray, ...]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["object_id", time_column, "x_m", "y_m"])
    times = table.column(time_column)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", tz=times.type.tz)).cast(pa.int64())
        seconds = times.to_numpy().astype(np.float64) / 1000.0
    else:
        seconds = times.to_numpy().astype(np.float64)
    return (
        table.column("object_id").to_numpy().astype(np.float64),
        seconds - (seconds.min() if time_column == "timestamp" else 0.0),
        table.column("x_m").to_numpy().astype(np.float64),
        table.column("y_m").to_numpy().astype(np.float64),
    )


def dense_trace(
    object_id: FloatArray,
    time_s: FloatArray,
    x: FloatArray,
    y: FloatArray,
    *,
    tick_s: float,
    longest_gap_s: float,
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
        float(np.floor(xs.min() - MARGIN_M)), float(np.floor(ys.min() - MARGIN_M)),
        float(np.ceil(xs.max() + MARGIN_M)), float(np.ceil(ys.max() + MARGIN_M)),
    )  # fmt: skip
    return Trace(positions, tick_s, bounds)
