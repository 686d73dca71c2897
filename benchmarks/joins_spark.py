"""The match histogram on Spark over ever more pairs: rows that move, and seconds.

``python -m benchmarks.joins_spark`` prints, for a million up to several hundred million pairs
within the windows, how many rows Spark shuffles (tuples and their copies for the next block, never
a pair) and what the count costs.
"""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.spark_grid import cpu_seconds
from planning.joins.parameters import Parameters
from planning.sections import Attribute
from spark_apps.match_histogram import BLOCK_WINDOWS, build
from spark_apps.session import session

WINDOWS_S = (3.0, 5.0)
SPAN_S = 2000.0
ITEMS = tuple(f"item_{k}" for k in range(4))
RATES = (8, 80, 160)  # tuples per second and stream; pairs grow with the square


def definition() -> Any:
    return SimpleNamespace(
        attributes=(
            Attribute(name="side", type="category", values=("a", "b")),
            Attribute(name="at_s", type="float", domain=(0, 1e6)),
            *(Attribute(name=name, type="int", domain=(-1, 40)) for name in ITEMS),
        ),
        parameters=Parameters(
            stream="side", time="at_s", items=ITEMS, threshold=2, window_s=WINDOWS_S,
            size_bounds=(),
        ),
    )  # fmt: skip


def samples(spark: SparkSession, rate: int) -> DataFrame:
    return spark.range(int(2 * rate * SPAN_S), numPartitions=4).selectExpr(
        "if(id % 2 = 0, 'a', 'b') as side",
        f"cast(id as double) / {2 * rate} as at_s",
        *(f"cast(pmod(hash(id, {k}), 40) as double) as {name}" for k, name in enumerate(ITEMS)),
    )


def measure() -> list[tuple[int, int, int, float, float]]:
    """Return tuples, rows shuffled, pairs, seconds and CPU seconds per rate."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    spark = session("benchmark")
    build(samples(spark, 1), definition())  # workers, compiled code
    rows = []
    for rate in RATES:
        tuples = samples(spark, rate).cache()
        number = tuples.count()
        block = BLOCK_WINDOWS * max(WINDOWS_S)
        copies = tuples.where(F.col("at_s") % block >= block - max(WINDOWS_S)).count()
        begun, busy = time.perf_counter(), cpu_seconds()
        found = build(tuples, definition())
        spent = time.perf_counter() - begun, cpu_seconds() - busy
        rows.append((number, number + copies, int(found.comparisons.sum()), *spent))
        tuples.unpersist()
    spark.stop()
    return rows


def main() -> None:
    print("tuples | rows shuffled | pairs within the windows | seconds | CPU seconds")
    for number, moved, pairs, seconds, busy in measure():
        print(f"{number:,} | {moved:,} | {pairs:,} | {seconds:.1f} | {busy:.1f}")


if __name__ == "__main__":
    main()
