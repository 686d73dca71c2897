"""FIT's statistics on Spark equal the NumPy reference, bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from planning.examples import demo_definition
from planning.streams import StreamDefinition

pytestmark = pytest.mark.spark

SCHEMA = (
    "period long, element string, tuples_in long, tuples_in_1 long, tuples_out long, cpu_us long"
)


def samples(definition: StreamDefinition, batch: int, periods: int) -> dict[str, np.ndarray]:
    """Return clean demo counts in random order; a few rows are gone, a few are there twice."""
    from planning.fit import demo

    columns = {n: np.asarray(v) for n, v in demo.counts(batch, definition, periods).items()}
    rng = np.random.default_rng(batch)
    there = rng.random(len(columns["period"])) > 0.01
    rows = np.flatnonzero(there & (columns["tuples_out"] >= 0))
    rows = rng.permutation(np.concatenate([rows, rows[:7]]))
    return {name: values[rows] for name, values in columns.items()}


def frame(spark: Any, columns: dict[str, np.ndarray], partitions: int) -> Any:
    rows = list(zip(*(c.tolist() for c in columns.values()), strict=True))
    return spark.createDataFrame(rows, SCHEMA).repartition(partitions)


def written(statistics: Any) -> str:
    return json.dumps(statistics.to_document(), sort_keys=True)


@pytest.mark.parametrize(("batch", "size", "partitions"), [(1, 500, 1), (2, 40, 5)])
def test_spark_equals_numpy(spark, batch, size, partitions):
    from planning.fit import statistics
    from spark_apps.operator_statistics import build

    definition = demo_definition("fit").with_parameters({"rate_sample": size})
    columns = samples(definition, batch, 120)
    reference = statistics.build(columns, definition)
    assert 60 < reference.periods < 120  # some periods lack an input
    assert len(reference.rates) == min(size, reference.periods)
    made = build(frame(spark, columns, partitions), definition)
    assert written(made) == written(reference)


def test_sums_and_counts_have_the_stated_columns(spark):
    from pyspark.testing import assertDataFrameEqual

    from spark_apps.operator_statistics import PERIOD, element_sums, period_counts, successive

    rows = [(1, "a", 0, 0, 5, 0), (1, "b", 0, 0, 7, 0), (2, "a", 0, 0, 9, 0), (1, "f", 4, 2, 3, 60)]
    given = spark.createDataFrame(rows, SCHEMA)
    counts = period_counts(given, ["b", "a"])
    stated = spark.createDataFrame([(1, 7, 5)], f"`{PERIOD}` long, b long, a long")
    assertDataFrameEqual(counts, stated)
    three = spark.createDataFrame([(1, 7, 5), (2, 8, 6), (4, 9, 9)], stated.schema)
    assert [tuple(pair) for pair in successive(three, ["b", "a"]).collect()] == [(7, 5, 8, 6)]
    expected = [("a", 0, 0, 14, 0), ("b", 0, 0, 7, 0), ("f", 4, 2, 3, 60)]
    schema = "element string, tuples_in long, tuples_in_1 long, tuples_out long, cpu_us long"
    assertDataFrameEqual(element_sums(given), spark.createDataFrame(expected, schema))


def test_no_complete_period_is_an_error_of_its_own(spark):
    from planning.errors import StatisticsError
    from spark_apps.operator_statistics import build

    lonely = spark.createDataFrame([(1, "images", 0, 0, 5, 0)], SCHEMA)
    with pytest.raises(StatisticsError, match="at least one period"):
        build(lonely, demo_definition("fit"))
