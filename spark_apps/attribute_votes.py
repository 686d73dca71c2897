"""Successor votes on Spark: the cycle identifier of streams of any length.

Rows are range-partitioned by stream order; every partition counts which value follows which, and
the driver adds the one transition across each border. Counts are whole numbers, so the result is
that of :func:`planning.attributes.cycles.detect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from planning.attributes import cycles
from planning.attributes.cycles import CycleIdentifier, Detector, Replicated, Votes
from planning.columns import Encoded
from spark_apps.session import map_in_arrow

COUNTED = "attribute int, value double, next double, n long, edge int, partition int"
FIRST, LAST, INSIDE = 0, 1, -1


def detect(
    ordered: DataFrame,
    names: Sequence[str],
    rows: int,
    head: Mapping[str, Encoded],
    detector: Detector,
) -> CycleIdentifier:
    """Return the cycle identifier of one stream.

    Parameters
    ----------
    ordered
        Numeric columns ``names``, range-partitioned and sorted in stream order.
    names
        The attributes that may be part of the CID.
    rows
        How many rows there are.
    head
        The first ``cycles.PAIR_ROWS`` rows, in memory.
    detector
        ``votes``, or ``exact`` for the paper's, which looks at the first rows only.
    """
    if detector == "exact":
        return cycles.detect(head, names, "exact")
    votes = cast_votes(ordered, names, rows)
    replicated: list[Replicated] = []
    distinct: dict[str, int] = {}
    for name in names:
        if name in votes:
            distinct[name] = len(votes[name].transitions)
            cycle = cycles.elected_cycle(votes[name])
            if cycle is not None:
                replicated.append(cycle)
    return cycles.complete(head, distinct, replicated)


def cast_votes(ordered: DataFrame, names: Sequence[str], rows: int) -> dict[str, Votes]:
    """Return the votes of every attribute that has more than one value but not too many."""
    counted = _transitions(ordered, names).persist()
    try:
        borders = _border_transitions(counted, names)
        inside = counted.where(F.col("edge") == INSIDE).select("attribute", "value", "next", "n")
        if borders:
            inside = inside.unionByName(
                counted.sparkSession.createDataFrame(
                    borders, "attribute int, value double, next double, n long"
                )
            )
        return _elected(inside, names, rows)
    finally:
        counted.unpersist()


def _transitions(ordered: DataFrame, names: Sequence[str]) -> DataFrame:
    """Count transitions inside every partition, and report its first and last row."""

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [
            np.stack([batch.column(n).to_numpy(zero_copy_only=False) for n in names], axis=1)
            for batch in batches
            if batch.num_rows
        ]
        if not parts:
            return
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        values = np.concatenate(parts) + 0.0
        for j in range(len(names)):
            yield _counted(values[:, j], j, number)

    return map_in_arrow(ordered.select(*names), kernel, COUNTED)


def _counted(values: np.ndarray, attribute: int, number: int) -> pa.RecordBatch:
    codes, places = np.unique(values, return_inverse=True)
    pairs, counts = np.unique(places[:-1] * len(codes) + places[1:], return_counts=True)
    value = np.concatenate([codes[pairs // len(codes)], values[[0, -1]]])
    follower = np.concatenate([codes[pairs % len(codes)], [np.nan, np.nan]])
    n = np.concatenate([counts, [0, 0]]).astype(np.int64)
    edge = np.concatenate([np.full(len(pairs), INSIDE), [FIRST, LAST]]).astype(np.int32)
    size = len(value)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(size, attribute, dtype=np.int32)), pa.array(value, from_pandas=False),
            pa.array(follower, from_pandas=False), pa.array(n), pa.array(edge),
            pa.array(np.full(size, number, dtype=np.int32)),
        ],
        names=["attribute", "value", "next", "n", "edge", "partition"],
    )  # fmt: skip


def _border_transitions(
    counted: DataFrame, names: Sequence[str]
) -> list[tuple[int, float, float, int]]:
    """Return the transitions from the last row of a partition to the first of the next."""
    table = counted.where(F.col("edge") != INSIDE).toArrow()
    partition = table.column("partition").to_numpy()
    edge = table.column("edge").to_numpy()
    attribute = table.column("attribute").to_numpy()
    value = table.column("value").to_numpy()
    at = {
        (int(p), int(e), int(a)): float(v)
        for p, e, a, v in zip(partition, edge, attribute, value, strict=True)
    }
    filled = sorted(set(partition.tolist()))
    return [
        (j, at[before, LAST, j], at[after, FIRST, j], 1)
        for before, after in pairwise(filled)
        for j in range(len(names))
    ]


def _elected(inside: DataFrame, names: Sequence[str], rows: int) -> dict[str, Votes]:
    """Add up transitions, keep each value's most frequent successor, and collect both."""
    summed = inside.groupBy("attribute", "value", "next").agg(F.sum("n").alias("n"))
    voted = summed.groupBy("attribute", "value").agg(
        F.sum("n").alias("total"), F.max(F.struct("n", "next")).alias("top")
    )
    targets = summed.select("attribute", F.col("next").alias("value")).distinct()
    every = voted.join(targets, ["attribute", "value"], "outer")
    size = F.count("*").over(Window.partitionBy("attribute"))
    kept = every.withColumn("size", size).where(
        (F.col("size") >= 2) & (F.col("size") <= cycles.limit_of(rows))
    )
    table = kept.select(
        "attribute", "value", F.coalesce("total", F.lit(0)).alias("total"),
        F.coalesce(F.col("top.n"), F.lit(0)).alias("n"), F.col("top.next").alias("next"),
    ).toArrow()  # fmt: skip
    return _votes(table, names)


def _votes(table: pa.Table, names: Sequence[str]) -> dict[str, Votes]:
    columns: Mapping[str, np.ndarray] = {
        name: table.column(name).to_numpy() for name in table.column_names
    }
    votes = {}
    for j, name in enumerate(names):
        mine = columns["attribute"] == j
        if not mine.any():
            continue
        order = np.argsort(columns["value"][mine])
        value = columns["value"][mine][order]
        total = columns["total"][mine][order].astype(np.int64)
        count = columns["n"][mine][order].astype(np.int64)
        follower = np.searchsorted(value, columns["next"][mine][order].astype(np.float64))
        majority = 2 * count > total
        votes[name] = Votes(
            name, total, np.where(majority, follower, -1), np.where(majority, count, 0)
        )
    return votes
