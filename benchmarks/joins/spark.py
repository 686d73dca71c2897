"""The match histogram on Spark over ever more pairs: rows shuffled, and seconds.

``python -m benchmarks.joins.spark`` prints, for a million up to several hundred million pairs
within the windows, how many rows Spark shuffles (tuples and their copies for the next block, never
a pair) and what the count costs.
"""

from __future__ import annotations

import os
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.joins.definitions import pair_definition
from benchmarks.spark_grid import cpu_seconds
from planning.joins.model import Condition, Windows
from spark_apps.match_histogram import BLOCK_WINDOWS, build
from spark_apps.session import session

WINDOWS = Windows((3.0, 5.0), 1.0)
LONGEST_S = max(WINDOWS.window_s)
SPAN_S = 2000.0
ITEMS = 4
RATES = (8, 80, 160)  # tuples per second and stream; pairs grow with the square
DEFINITION = pair_definition(WINDOWS, Condition("overlap", 2), vocabulary=41, items=ITEMS)


def samples(spark: SparkSession, rate: int) -> DataFrame:
    return spark.range(int(2 * rate * SPAN_S), numPartitions=4).selectExpr(
        "if(id % 2 = 0, '0', '1') as stream",
        f"cast(id as double) / {2 * rate} as time_s",
        *(f"cast(pmod(hash(id, {k}), 40) as double) as item_{k}" for k in range(ITEMS)),
    )


def measure() -> list[tuple[int, int, int, float, float]]:
    """Return tuples, rows shuffled, pairs, seconds and CPU seconds per rate."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")
    spark = session("benchmark")
    build(samples(spark, 1), DEFINITION)  # workers, compiled code
    rows = []
    for rate in RATES:
        tuples = samples(spark, rate).cache()
        number = tuples.count()
        block = BLOCK_WINDOWS * LONGEST_S
        copies = tuples.where(F.col("time_s") % block >= block - LONGEST_S).count()
        begun, busy = time.perf_counter(), cpu_seconds()
        statistics = build(tuples, DEFINITION)
        spent = time.perf_counter() - begun, cpu_seconds() - busy
        rows.append((number, number + copies, int(statistics.comparisons.sum()), *spent))
        tuples.unpersist()
    spark.stop()
    return rows


def main() -> None:
    print("tuples | rows shuffled | pairs within the windows | seconds | CPU seconds")
    for number, moved, pairs, seconds, busy in measure():
        print(f"{number:,} | {moved:,} | {pairs:,} | {seconds:.1f} | {busy:.1f}")


if __name__ == "__main__":
    main()
