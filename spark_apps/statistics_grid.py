"""The statistics grid of LIRA: nodes, mean speed and queries of α × α cells, from any size.

Reads ``samples/train`` of the run and writes ``statistics.json``. One pass over the positions with
one integer cell id; the queries are spread over the cells on the driver. Gives the same numbers as
:func:`planning.lira.statistics.grid`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from planning.arrays import FloatArray
from planning.lira.statistics import MICRO, Bounds, Grid, assemble, check_bounds
from planning.stages.run import Run
from planning.streams import StreamDefinition
from spark_apps.session import read_parquet, run_app

X, Y, SPEED = "x", "y", "speed"
PAPERS_CELLS = 128  # α, Table 2


def grid_statistics(positions: DataFrame, cells: int, bounds: Bounds) -> DataFrame:
    """Sum up the positions of every cell that has any.

    Parameters
    ----------
    positions
        Columns x, y and speed; rows outside the bounds count nowhere.
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


def build(
    positions: DataFrame, queries: FloatArray, cells: int, bounds: Bounds
) -> Grid:
    """Build the statistics grid from the clean rows in ``positions``."""
    found = grid_statistics(positions, cells, bounds).toArrow()
    place = found.column("cell").to_numpy()
    nodes = np.zeros(cells * cells, dtype=np.int64)
    speeds = np.zeros(cells * cells, dtype=np.int64)
    nodes[place] = found.column("nodes").to_numpy()
    speeds[place] = found.column("speed_micro").to_numpy()
    return assemble(nodes, speeds, queries, cells, bounds)


def rectangles(definition: StreamDefinition) -> FloatArray:
    """Return the definition's queries as rows x_low, y_low, x_high, y_high."""
    spans = {a.name: a.bounds for a in definition.attributes}
    rows = []
    for query in definition.queries.inline:
        (x_low, x_high), (y_low, y_high) = (query.ranges.get(axis, spans[axis]) for axis in (X, Y))
        rows.append((x_low, y_low, x_high, y_high))
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _step(axis: str, low: float, high: float, cells: int) -> Column:
    """Return the index of the cell along one axis."""
    index = F.floor((F.col(axis) - F.lit(low)) * F.lit(cells / (high - low)))
    return F.least(index, F.lit(cells - 1))


def _work(spark: SparkSession, run: Run, arguments: argparse.Namespace) -> None:
    definition = run.definition()
    spans = {a.name: a.bounds for a in definition.attributes}
    (x_low, x_high), (y_low, y_high) = spans[X], spans[Y]
    positions = read_parquet(spark, run.train, (X, Y, SPEED))
    bounds = (x_low, y_low, x_high, y_high)
    made = build(positions, rectangles(definition), arguments.cells, bounds)
    run.write("statistics", made.to_document())
    print(f"statistics_grid: {made.nodes.sum()} positions in {made.nodes.size} cells")


def main(argv: Sequence[str]) -> int:
    """Run the app."""
    parser = argparse.ArgumentParser(prog="statistics_grid", description=__doc__)
    parser.add_argument("--cells", type=int, default=PAPERS_CELLS, help="cells on each side")
    return run_app("statistics_grid", argv, _work, parser)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
