"""Match histogram: the statistics of a windowed join, from sampled tuples of both streams.

Reads ``samples/train`` of the run and writes ``statistics.json``. Time is cut into blocks at least
one window long; a block gets its own tuples and those of the window before it, and counts hits and
comparisons of its own with the compiled join. So every pair within the windows is looked at in one
block, no pair is ever materialised, and blocks are independent of one another. Gives the same bytes
as :func:`planning.joins.statistics.build`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from planning.arrays import IntArray
from planning.errors import StatisticsError
from planning.families import Definition
from planning.joins.layout import Layout
from planning.joins.model import Condition, Windows
from planning.joins.parameters import Parameters
from planning.joins.statistics import Statistics, assemble, histogram, middle_of
from spark_apps.session import StatisticsApp, arrays_of, quoted

BLOCK_WINDOWS = 4  # a block is this many windows long; one more window is its context
SLACK = 1e-6  # of a window: rounding must not keep a tuple out of the context
SCHEMA = "part string, index long, count long, low double, high double"
HITS, MADE, TUPLES, EARLY_HITS, EARLY_MADE = "hits", "made", "tuples", "early hits", "early made"


def counts(
    samples: DataFrame, layout: Layout, windows: Windows, condition: Condition, middle: float
) -> DataFrame:
    """Count hits, comparisons and tuples: ``part``, flat ``index``, ``count``, time span.

    Hits and comparisons before ``middle`` are also counted by themselves.
    """
    names = layout.columns
    plain = [f"c{k}" for k in range(len(names))]
    time = F.col(plain[names.index(layout.time)])
    longest = max(windows.window_s)
    block_s = BLOCK_WINDOWS * longest
    own = F.floor(time / F.lit(block_s)).cast("long")
    last = F.floor((time + F.lit(longest * (1 + SLACK))) / F.lit(block_s)).cast("long")
    placed = (
        samples.select(*(F.col(quoted(name)) for name in names))
        .toDF(*plain)
        .where(time.isNotNull() & ~F.isnan(time))
        .select("*", own.alias("own"), F.explode(F.sequence(own, last)).alias("block"))
    )
    kernel = _block_kernel(layout, windows, condition, middle)
    return (
        placed.groupBy("block")
        .applyInArrow(kernel, SCHEMA)
        .groupBy("part", "index")
        .agg(
            F.sum("count").alias("count"), F.min("low").alias("low"), F.max("high").alias("high")
        )
        .select("part", "index", "count", "low", "high")
    )


def _block_kernel(
    layout: Layout, windows: Windows, condition: Condition, middle: float
) -> Callable[[pa.Table], pa.Table]:
    """Return the function that counts one block."""
    names = layout.columns
    types = len(layout.classes)

    def kernel(table: pa.Table) -> pa.Table:
        batch = table.combine_chunks().to_batches()[0]
        mine = np.asarray(batch.column("own")) == np.asarray(batch.column("block"))
        columns = arrays_of(batch, [f"c{k}" for k in range(len(names))])
        rows = dict(zip(names, columns.values(), strict=True))
        times = np.asarray(rows[layout.time], dtype=np.float64)[mine]
        if not times.size:
            return _rows({}, np.nan, np.nan)
        left, right = (layout.refine(part) for part in layout.streams_of(rows))
        begin = float(times.min())  # context tuples are all earlier
        end = float(times.max())
        hits, made = histogram(left, right, windows, condition, types, count_from=begin)
        early = hits, made
        if end >= middle:
            early = histogram(
                left, right, windows, condition, types, count_from=begin, count_to=middle
            )
        tuples = np.array(
            [np.bincount(p.kind[p.time >= begin], minlength=types) for p in (left, right)]
        )
        tables = {HITS: hits, MADE: made, TUPLES: tuples}
        tables |= {EARLY_HITS: early[0], EARLY_MADE: early[1]} if begin < middle else {}
        return _rows(tables, begin, end)

    return kernel


def _rows(tables: dict[str, IntArray], low: float, high: float) -> pa.Table:
    """Return the filled cells of the tables as rows of :data:`SCHEMA`."""
    parts: list[str] = []
    indices: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    numbers: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    for name, table in tables.items():
        flat = np.asarray(table).ravel()
        filled = np.flatnonzero(flat)
        parts += [name] * filled.size
        indices.append(filled)
        numbers.append(flat[filled])
    size = len(parts)
    return pa.table(
        {
            "part": pa.array(parts, pa.string()),
            "index": pa.array(np.concatenate(indices), pa.int64()),
            "count": pa.array(np.concatenate(numbers), pa.int64()),
            "low": pa.array(np.full(size, low), pa.float64()),
            "high": pa.array(np.full(size, high), pa.float64()),
        }
    )


def build(samples: DataFrame, definition: Definition[Parameters]) -> Statistics:
    """Build the match histogram from the clean rows in ``samples``."""
    layout = Layout.of(definition)
    parameters = definition.parameters
    windows = parameters.windows
    time = F.col(quoted(layout.time))
    span = samples.where(~F.isnan(time)).agg(F.min(time), F.max(time)).first()
    known = span is not None and span[0] is not None
    middle = middle_of(float(span[0]), float(span[1])) if span is not None and known else 0.0
    cells = counts(samples, layout, windows, parameters.join_condition, middle).toArrow()
    if not cells.num_rows:
        raise StatisticsError("samples must hold tuples of both streams, got none")
    n, z = windows.most, len(layout.classes)
    shapes = {HITS: (2, n, z, z), MADE: (2, n, z), TUPLES: (2, z)}
    shapes |= {EARLY_HITS: shapes[HITS], EARLY_MADE: shapes[MADE]}
    tables = {name: np.zeros(shape, dtype=np.int64) for name, shape in shapes.items()}
    for part, index, count in zip(
        cells.column("part").to_pylist(),
        cells.column("index").to_pylist(),
        cells.column("count").to_pylist(),
        strict=True,
    ):
        tables[part].ravel()[index] = count
    length = max(cells.column("high").to_pylist()) - min(cells.column("low").to_pylist())
    return assemble(
        windows, layout.classes, tables[HITS], tables[MADE], tables[TUPLES], length,
        (tables[EARLY_HITS], tables[EARLY_MADE]),
    )  # fmt: skip


def describe(statistics: Statistics) -> str:
    """Say how many pairs were compared."""
    pairs = int(statistics.comparisons.sum())
    return f"{statistics.samples} tuples, {pairs} pairs within the windows"


APP = StatisticsApp("match_histogram", __doc__, Parameters, build, describe)

if __name__ == "__main__":
    sys.exit(APP.main(sys.argv[1:]))
