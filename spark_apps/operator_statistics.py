"""Operator statistics of FIT: measured costs, selectivities and rates, from samples of any size.

Reads ``samples/train`` of the run and writes ``statistics.json``: counts per element are summed,
rate vectors of complete periods are made and a bounded sample of them is drawn, all on Spark. Gives
the same bytes as :func:`planning.fit.statistics.build`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from planning.arrays import FloatArray
from planning.families import Definition
from planning.fit.parameters import Parameters
from planning.fit.statistics import SUMS, Statistics, assemble, no_periods
from spark_apps.drawing import draw_sample
from spark_apps.session import StatisticsApp, quoted

PERIOD = "->period"
"""A column's name that no input can have."""


def element_sums(samples: DataFrame) -> DataFrame:
    """Sum the counts of every element: ``element`` and the summed columns."""
    return (
        samples.groupBy("element")
        .agg(*(F.sum(F.col(name).cast("long")).alias(name) for name in SUMS))
        .select("element", *SUMS)
    )


def period_counts(samples: DataFrame, inputs: Sequence[str]) -> DataFrame:
    """Return the periods in which all inputs were counted, and the tuples of every input."""
    counted = (
        samples.where(F.col("element").isin(list(inputs)))
        .groupBy("period")
        .pivot("element", list(inputs))
        .agg(F.sum(F.col("tuples_out").cast("long")))
    )
    return counted.dropna().select(
        F.col("period").cast("long").alias(PERIOD), *(quoted(name) for name in inputs)
    )


def successive(counts: DataFrame, inputs: Sequence[str]) -> DataFrame:
    """Return the counts of every period whose next one was counted too, and those of that one."""
    later = [f"->{k}" for k in range(len(inputs))]
    following = counts.select(
        (F.col(PERIOD) - 1).alias(PERIOD),
        *(F.col(quoted(name)).alias(new) for name, new in zip(inputs, later, strict=True)),
    )
    columns = (quoted(name) for name in (*inputs, *later))
    return counts.join(following, PERIOD).select(*columns)


def build(samples: DataFrame, definition: Definition[Parameters]) -> Statistics:
    """Build the statistics from the clean rows in ``samples``."""
    network = definition.parameters.query_network
    inputs = network.input_ids
    counts = period_counts(samples, inputs).persist()
    totals = counts.agg(
        F.count("*").alias("periods"),
        *(F.sum(quoted(name)).alias(f"sum {k}") for k, name in enumerate(inputs)),
        *(F.max(quoted(name)).alias(f"max {k}") for k, name in enumerate(inputs)),
    ).collect()[0]
    if not totals["periods"]:
        raise no_periods(network)
    size = definition.parameters.rate_sample
    vectors = counts.select(*(quoted(name) for name in inputs))
    drawn = draw_sample(vectors, _vectors, size)
    pairs = successive(counts, inputs)
    following = np.empty((0, 2 * len(inputs)))
    if not pairs.isEmpty():
        following = draw_sample(pairs, _vectors, size)
    counts.unpersist()
    sums = {
        row["element"]: {name: int(row[name]) for name in SUMS}
        for row in element_sums(samples).collect()
    }
    places = range(len(inputs))
    return assemble(
        sums,
        np.array([totals[f"sum {k}"] for k in places], dtype=np.int64),
        np.array([totals[f"max {k}"] for k in places], dtype=np.int64),
        int(totals["periods"]),
        drawn,
        following,
        definition,
    )


def _vectors(batch: pa.RecordBatch) -> FloatArray:
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    return np.column_stack(columns).astype(np.float64)


def describe(statistics: Statistics) -> str:
    """Say how much was measured."""
    measured, inputs = len(statistics.tuples), len(statistics.network.inputs)
    return f"{measured} operators measured, {statistics.periods} periods of {inputs} inputs"


APP = StatisticsApp("operator_statistics", __doc__, Parameters, build, describe)

if __name__ == "__main__":
    sys.exit(APP.main(sys.argv[1:]))
