"""Draw the bounded sample U on Spark: the same rows as :func:`planning.sampling.draw`.

Two passes and no shuffle of rows. The first counts rows per bucket of keys, which shows which
buckets contain the wanted ranks. The second fetches only those buckets, equal rows once with their
count, and the driver picks the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from planning.arrays import FloatArray, IntArray
from planning.errors import StatisticsError
from planning.sampling import KeyArray, key_order, sample_ranks, stable_keys
from spark_apps.session import map_in_arrow

BUCKET_BITS = 20
Points = Callable[[pa.RecordBatch], FloatArray]
"""From a batch of rows to an (n, d) array without NaN."""


def draw_sample(rows: DataFrame, points_of: Points, size: int) -> FloatArray:
    """Return the sample U as an (n, d) array, in key order; it fits in the driver's memory."""
    filled, counts = key_histogram(rows, points_of)
    if not counts.size:
        raise StatisticsError(
            "samples must hold at least one row with a number in every attribute, got none; "
            "check the landing folder and the quarantine"
        )
    ends = np.cumsum(counts)
    ranks = sample_ranks(int(ends[-1]), size)
    wanted = np.unique(np.searchsorted(ends, ranks, side="right"))
    values, copies = _rows_in(rows, points_of, filled[wanted])
    return pick(values, copies, ranks, filled, ends - counts)


def key_histogram(rows: DataFrame, points_of: Points) -> tuple[IntArray, IntArray]:
    """Return the buckets of keys that have rows, in order, and how many rows each has."""

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = np.zeros(1 << BUCKET_BITS, dtype=np.int64)
        for batch in batches:
            np.add.at(counts, _buckets(stable_keys(list(points_of(batch).T))), 1)
        filled = np.flatnonzero(counts)
        yield pa.RecordBatch.from_arrays(
            [pa.array(filled), pa.array(counts[filled])], names=["bucket", "rows"]
        )

    histogram = (
        map_in_arrow(rows, kernel, "bucket long, rows long")
        .groupBy("bucket")
        .agg(F.sum("rows").alias("rows"))
        .select("bucket", "rows")
        .toArrow()
        .sort_by("bucket")
    )
    return _integers(histogram, "bucket"), _integers(histogram, "rows")


def pick(
    values: FloatArray, copies: IntArray, ranks: IntArray, filled: IntArray, starts: IntArray
) -> FloatArray:
    """Return the rows at the given ranks of the key order.

    Parameters
    ----------
    values, copies
        The distinct rows of the wanted buckets, and how often each occurs.
    filled, starts
        All buckets with rows, and the rank of the first row in each.
    """
    keys = stable_keys(list(values.T))
    order = key_order(list(values.T), keys)
    buckets = _buckets(keys[order])
    ends = np.cumsum(copies[order])
    first = np.searchsorted(buckets, buckets, side="left")
    before = ends[first] - copies[order][first]
    ranks_after = starts[np.searchsorted(filled, buckets)] + ends - before
    return np.asarray(values[order][np.searchsorted(ranks_after, ranks, side="right")])


def _rows_in(
    rows: DataFrame, points_of: Points, buckets: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows whose keys are in the buckets, and how often each occurs."""
    width = len(rows.columns)
    names = [f"c{i}" for i in range(width)]

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            points = points_of(batch)
            here = np.isin(_buckets(stable_keys(list(points.T))), buckets)
            yield pa.RecordBatch.from_arrays(
                [pa.array(column) for column in points[here].T], names=names
            )

    schema = ", ".join(f"{name} double" for name in names)
    distinct = (
        map_in_arrow(rows, kernel, schema)
        .groupBy(*names)
        .agg(F.count("*").alias("copies"))
        .select(*names, "copies")
        .toArrow()
    )
    values = np.column_stack([distinct.column(name).to_numpy() for name in names])
    return values, _integers(distinct, "copies")


def _buckets(keys: KeyArray) -> IntArray:
    return (keys >> np.uint64(64 - BUCKET_BITS)).astype(np.int64)


def _integers(table: pa.Table, column: str) -> IntArray:
    return np.asarray(table.column(column).to_numpy(), dtype=np.int64)
