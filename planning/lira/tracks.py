"""The two recorded sets of tracks, each with thresholds and queries that suit its scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planning.arrays import FloatArray
from planning.lira.experiment import Experiment
from planning.lira.parameters import Parameters
from planning.lira.realdata import dense_trace
from planning.lira.trace import Trace

BUSES = "austin_buses"
VESSELS = "vessels_gulf_of_mexico_20220103"
FIRST_S, SPAN_S = 3600.0, 7200.0  # of the buses' morning
TICK_S = 5.0
LONGEST_GAP_S = 300.0


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

    def experiment(self) -> Experiment:
        """Return the experiment: statistics from the first half, errors on the second."""
        return Experiment(
            1, parameters=self.parameters, trace=self.trace, warm_up=self.warm_up, period=12,
            correct_every=self.correct_every,
        )  # fmt: skip

    def queries(self, experiment: Experiment) -> FloatArray:
        """Return queries that follow the objects."""
        return experiment.queries("proportional", self.query_count, self.query_side_m)


def load_tracks(folder: Path) -> list[Tracks]:
    """Return the recorded tracks found below ``folder``; none if there are none."""
    found = []
    for name, make in ((BUSES, buses), (VESSELS, vessels)):
        path = folder / "lira" / f"{name}.parquet"
        if path.is_file():
            found.append(make(path))
    return found


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
