"""The statistics of LIRA, from samples of any size: the grid of α × α cells, and measured f(Δ).

Reads ``samples/train`` of the run and writes ``statistics.json``. One pass over the positions with
one integer cell id; the queries are spread over the cells on the driver. f(Δ) is measured by
replaying dead reckoning over every object's track: rows are grouped by object, sorted by
time, and replayed by a compiled kernel in each partition. Gives the same numbers as
:func:`planning.lira.statistics.build`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from planning.arrays import FloatArray
from planning.families import Definition
from planning.lira.kernels import MICRO
from planning.lira.model import Bounds, check_bounds
from planning.lira.parameters import Parameters
from planning.lira.queries import queries_of
from planning.lira.statistics import (
    Grid,
    Replay,
    Statistics,
    assemble,
    complete,
    replay,
    scope_of,
)
from spark_apps.session import StatisticsApp, map_in_arrow

OBJECT, TIME, X, Y, SPEED = "object_id", "time", "x", "y", "speed"


def grid_statistics(positions: DataFrame, cells: int, bounds: Bounds) -> DataFrame:
    """Sum up the positions of every cell that has any.

    Parameters
    ----------
    positions
        Columns x, y and speed; rows outside the bounds are not counted.
    cells
        α, the number of cells on each side.
    bounds
        x_low, y_low, x_high, y_high; the upper borders belong to the last cells.

    Returns
    -------
    DataFrame
        ``cell`` (iy · α + ix), ``nodes``, ``speed_micro`` (exact sum in millionths) and
        ``mean_speed``.
    """
    x_low, y_low, x_high, y_high = check_bounds(bounds, cells)
    inside = F.col(X).between(x_low, x_high) & F.col(Y).between(y_low, y_high)
    cell = _step(X, x_low, x_high, cells) + _step(Y, y_low, y_high, cells) * cells
    return (
        positions.where(inside)
        .select(
            cell.cast("int").alias("cell"), F.rint(F.col(SPEED) * MICRO).cast("long").alias("micro")
        )
        .groupBy("cell")
        .agg(F.count("*").alias("nodes"), F.sum("micro").alias("speed_micro"))
        .select(
            "cell",
            "nodes",
            "speed_micro",
            (F.col("speed_micro") / F.lit(MICRO) / F.col("nodes")).alias("mean_speed"),
        )
    )


def build_grid(
    positions: DataFrame, queries: FloatArray, cells: int, bounds: Bounds
) -> Grid:
    """Build the statistics grid from the clean rows in ``positions``."""
    filled = grid_statistics(positions, cells, bounds).toArrow()
    place = filled.column("cell").to_numpy()
    nodes = np.zeros(cells * cells, dtype=np.int64)
    speeds = np.zeros(cells * cells, dtype=np.int64)
    nodes[place] = filled.column("nodes").to_numpy()
    speeds[place] = filled.column("speed_micro").to_numpy()
    return assemble(nodes, speeds, queries, cells, bounds)


def replayed(positions: DataFrame, levels: FloatArray, highest_speed: float) -> Replay:
    """Replay dead reckoning over all tracks; objects are spread over the partitions."""

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not parts:
            return
        table = pa.Table.from_batches(parts)
        ids, times, x, y = (
            table.column(name).to_numpy().astype(np.float64) for name in (OBJECT, TIME, X, Y)
        )
        seen = replay(ids, times, x, y, levels, highest_speed)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.arange(levels.size)),
                pa.array(seen.reports),
                pa.array(seen.error_micro),
                pa.array(np.full(levels.size, seen.rows)),
                pa.array(np.full(levels.size, seen.objects)),
            ],
            names=["level", "reports", "error_micro", "rows", "objects"],
        )

    tracks = positions.select(OBJECT, TIME, X, Y).repartition(F.col(OBJECT))
    schema = "level long, reports long, error_micro long, rows long, objects long"
    sums = [F.sum(name).alias(name) for name in ("reports", "error_micro", "rows", "objects")]
    summed = map_in_arrow(tracks, kernel, schema).groupBy("level").agg(*sums).toArrow()
    summed = summed.sort_by("level")
    columns = {name: summed.column(name).to_numpy() for name in summed.column_names}
    if not summed.num_rows:
        zeros = np.zeros(levels.size, dtype=np.int64)
        return Replay(zeros, zeros, 0, 0)
    return Replay(
        columns["reports"], columns["error_micro"], int(columns["rows"][0]),
        int(columns["objects"][0]),
    )  # fmt: skip


def build(positions: DataFrame, definition: Definition[Parameters]) -> Statistics:
    """Build the family's statistics from the clean rows in ``positions``."""
    positions = positions.select(OBJECT, TIME, X, Y, SPEED).cache()
    bounds, cells, levels = scope_of(definition)
    rectangles, _ = queries_of(definition)
    counted = build_grid(positions, rectangles, cells, bounds)
    seen = replayed(positions, levels, definition.parameters.highest_speed)
    return complete(counted, levels, seen)


def _step(axis: str, low: float, high: float, cells: int) -> Column:
    """Return the index of the cell along one axis."""
    index = F.floor((F.col(axis) - F.lit(low)) * F.lit(cells / (high - low)))
    return F.least(index, F.lit(cells - 1))


def describe(statistics: Statistics) -> str:
    """Say how many positions are in how many cells."""
    nodes = statistics.grid.nodes
    return f"{nodes.sum()} positions in {nodes.size} cells"


APP = StatisticsApp("statistics_grid", __doc__, Parameters, build, describe)

if __name__ == "__main__":
    sys.exit(APP.main(sys.argv[1:]))
