"""LIRA's statistics on Spark equal the NumPy reference, tracks and all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def fleet() -> Any:
    from planning.streams import parse

    names = ("object_id", "time", "x", "y", "speed")
    document = {
        "stream": "fleet",
        "family": "lira",
        "attributes": [{"name": n, "domain": [0, 3000 if n in "xy" else 1e6]} for n in names],
        "queries": {
            "inline": [
                {"ranges": {"x": [200, 900], "y": [300, 1200]}},
                {"ranges": {"x": [1500, 2100]}},
            ]
        },
        "parameters": {"regions": 30, "cells": 16},
    }
    return parse(document, "fleet.yaml")


def tracks(seed: int) -> dict[str, np.ndarray]:
    from benchmarks.lira.trace import generate_trace

    trace = generate_trace(seed, cars=40, seconds=80, side_m=3000)
    nodes, ticks, _ = trace.positions.shape
    rng = np.random.default_rng(seed)
    order = rng.permutation(nodes * ticks)
    flat = trace.positions.reshape(-1, 2).astype(np.float64)[order]
    return {
        "object_id": np.repeat(np.arange(nodes), ticks)[order],
        "time": np.tile(np.arange(ticks, dtype=float), nodes)[order],
        "x": flat[:, 0],
        "y": flat[:, 1],
        "speed": rng.gamma(2.0, 5.0, order.size),
    }


def frame(spark: Any, columns: dict[str, np.ndarray], partitions: int) -> Any:
    rows = list(zip(*(values.tolist() for values in columns.values()), strict=True))
    schema = "object_id long, time double, x double, y double, speed double"
    return spark.createDataFrame(rows, schema).repartition(partitions)


@pytest.mark.parametrize("partitions", [1, 5])
def test_spark_equals_numpy(spark, fleet, partitions):
    from planning.lira import statistics
    from spark_apps.statistics_grid import build

    columns = tracks(4)
    reference = statistics.build(columns, fleet)
    made = build(frame(spark, columns, partitions), fleet)
    assert made.to_document() == reference.to_document()
    assert made.objects == 40
    assert made.reports[0] > made.reports[-1] > 0


def test_samples_without_tracks_are_refused(spark, fleet):
    from planning.errors import StatisticsError
    from spark_apps.statistics_grid import build

    columns = {name: values[:40] for name, values in tracks(4).items()}
    columns["object_id"] = np.arange(40)
    with pytest.raises(StatisticsError, match="objects that move"):
        build(frame(spark, columns, 2), fleet)


def test_the_app_reads_train_and_writes_the_statistics(spark, make_run, fleet):
    from planning.lira.statistics import build
    from spark_apps.session import spark_path
    from spark_apps.statistics_grid import APP

    run = make_run({}, fleet)
    columns = tracks(5)
    frame(spark, columns, 2).write.parquet(spark_path(run.train))
    assert APP.main(["--run", run.uri]) == 0
    assert run.read("statistics") == build(columns, fleet).to_document()
