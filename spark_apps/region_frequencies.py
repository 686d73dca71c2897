"""Region frequencies: the statistics of an NR sifter, from samples of any size.

Reads ``samples/train`` of the run and writes ``statistics.json``. The bounded sample U is drawn on
Spark, the space is divided on the driver, and every row is counted in its region on Spark. Gives
the same bytes as :func:`planning.sifter.statistics.build`.
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
from planning.sifter import queries
from planning.sifter.model import Partition, Pins, Space
from planning.sifter.parameters import Parameters
from planning.sifter.partitioners import divide
from planning.sifter.statistics import RegionCounts, Statistics, assemble
from spark_apps.drawing import draw_sample
from spark_apps.session import StatisticsApp, arrays_of, map_in_arrow, quoted


def coded(samples: DataFrame, space: Space) -> DataFrame:
    """Return the attributes as numbers: a category as its code, null if it is none of them.

    Built-in expressions do in one step what the workers would do text by text.
    """
    columns: list[Column] = []
    for axis, codes in zip(space.axes, space.codes, strict=True):
        column = F.col(quoted(axis.name))
        if codes:
            pairs = [F.lit(part) for text, code in codes.items() for part in (text, float(code))]
            column = F.try_element_at(F.create_map(*pairs), column)
        columns.append(column.cast("double").alias(axis.name))
    return samples.select(*columns)


def points_of(batch: pa.RecordBatch, space: Space) -> FloatArray:
    """Return a batch's rows as points of the data space; rows with no place in it are left out."""
    points = space.matrix(arrays_of(batch, space.names))
    return np.asarray(points[~np.isnan(points).any(axis=1)])


def region_counts(
    points: DataFrame, partition: Partition, space: Space, pins: Pins
) -> DataFrame:
    """Count the rows of every region that has any: ``region``, ``tuples``, ``pinned``."""

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tuples, pinned = np.zeros((2, partition.regions), dtype=np.int64)
        for batch in batches:
            counts = RegionCounts.of(points_of(batch, space), partition, pins)
            tuples += counts.tuples
            pinned += counts.pinned
        filled = np.flatnonzero(tuples)
        yield pa.RecordBatch.from_arrays(
            [pa.array(filled), pa.array(tuples[filled]), pa.array(pinned[filled])],
            names=["region", "tuples", "pinned"],
        )

    return (
        map_in_arrow(points, kernel, "region long, tuples long, pinned long")
        .groupBy("region")
        .agg(F.sum("tuples").alias("tuples"), F.sum("pinned").alias("pinned"))
        .select("region", "tuples", "pinned")
    )


def build(samples: DataFrame, definition: Definition[Parameters]) -> Statistics:
    """Build the sifter's statistics from the clean rows in ``samples``."""
    space = Space.of(definition)
    asked = queries.of(definition)

    points = coded(samples, space)
    sample = draw_sample(
        points, lambda batch: points_of(batch, space), definition.parameters.sample_size
    )
    partition = divide(sample, definition, asked)
    counted = region_counts(points, partition, space, queries.pins_of(definition))
    counts = _dense(counted, partition.regions)
    return assemble(partition, counts, definition, sample, asked)


def _dense(counted: DataFrame, regions: int) -> RegionCounts:
    """Return the counts of all regions, 0 where there are no rows."""
    table = counted.toArrow()
    filled = table.column("region").to_numpy()
    tuples, pinned = np.zeros((2, regions), dtype=np.int64)
    tuples[filled] = table.column("tuples").to_numpy()
    pinned[filled] = table.column("pinned").to_numpy()
    return RegionCounts(tuples, pinned)


APP = StatisticsApp(
    "region_frequencies", __doc__, Parameters, build,
    lambda made: f"{made.samples} rows in {made.partition.regions} regions",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(APP.main(sys.argv[1:]))
