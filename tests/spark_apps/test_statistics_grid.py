"""The statistics grid on Spark equals the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.testing import assertDataFrameEqual

pytestmark = pytest.mark.spark

BOUNDS = (-50.0, 10.0, 70.0, 42.0)


def positions(seed: int, rows: int, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions, every second one exactly on a border between cells or of the space."""
    rng = np.random.default_rng(seed)
    x_low, y_low, x_high, y_high = BOUNDS
    x, y = rng.uniform(x_low, x_high, rows), rng.uniform(y_low, y_high, rows)
    x[::2] = x_low + (x_high - x_low) * rng.integers(0, cells + 1, len(x[::2])) / cells
    y[::4] = y_high
    x[1::50] = x_high + 1e-9  # outside
    return x, y, rng.gamma(2, 6, rows)


def frame(spark: Any, x: np.ndarray, y: np.ndarray, speed: np.ndarray, partitions: int) -> Any:
    rows = list(zip(x.tolist(), y.tolist(), speed.tolist(), strict=True))
    return spark.createDataFrame(rows, "x double, y double, speed double").repartition(partitions)


@pytest.mark.parametrize(("seed", "cells"), [(1, 1), (2, 7), (3, 64)])
def test_spark_equals_numpy(spark, seed, cells):
    from planning.lira.statistics import grid
    from spark_apps.statistics_grid import build_grid

    x, y, speed = positions(seed, 3000, cells)
    queries = np.array([[0.0, 15.0, 30.0, 20.0], [-50.0, 10.0, 70.0, 42.0]])
    reference = grid(x, y, speed, queries, cells, BOUNDS)
    assert reference.nodes.sum() == 3000 - 60
    for partitions in (1, 4):
        made = build_grid(frame(spark, x, y, speed, partitions), queries, cells, BOUNDS)
        for name in ("nodes", "mean_speed", "queries"):
            np.testing.assert_array_equal(getattr(made, name), getattr(reference, name))


def test_rows_of_the_grid(spark):
    from spark_apps.statistics_grid import grid_statistics

    rows = [(0.0, 0.0, 1.0), (0.9, 0.9, 2.0), (4.0, 4.0, 7.0), (4.1, 0.0, 9.0), (None, 0.0, 9.0)]
    given = spark.createDataFrame(rows, "x double, y double, speed double")
    expected = spark.createDataFrame(
        [(0, 2, 3_000_000, 1.5), (3, 1, 7_000_000, 7.0)],
        "cell int, nodes long, speed_micro long, mean_speed double",
    )
    assertDataFrameEqual(grid_statistics(given, 2, (0.0, 0.0, 4.0, 4.0)), expected)
