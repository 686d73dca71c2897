"""What every app needs: a quiet Spark session, paths as Spark spells them, exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from upath import UPath

from planning.errors import BatchRejected, PlanningError
from planning.stages.run import Run

EXIT_ERROR = 1
EXIT_REJECTED = 3

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Ten times Spark's default: a NumPy kernel pays its fixed cost once per batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # pandas writes nanoseconds; Spark reads them only as plain integers.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SPARKS_SHUFFLE_PARTITIONS = "200"
SMALL_SHUFFLE_PARTITIONS = "8"
SCHEMES = {"s3": "s3a", "gcs": "gs", "": "file"}


def session(app: str) -> SparkSession:
    """Return the session of an app; the master is the one that ``spark-submit`` was given."""
    builder = SparkSession.builder.appName(f"headgate {app}")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    # What the apps shuffle is small: aggregates. A user's own setting stays.
    if spark.conf.get("spark.sql.shuffle.partitions") == SPARKS_SHUFFLE_PARTITIONS:
        spark.conf.set("spark.sql.shuffle.partitions", SMALL_SHUFFLE_PARTITIONS)
    return spark


def spark_path(path: UPath) -> str:
    """Return a path as Spark's file systems name it.

    >>> spark_path(UPath("/tmp/a")), spark_path(UPath("s3://bucket/a"))
    ('file:///tmp/a', 's3a://bucket/a')
    """
    if path.protocol in ("", "file"):
        return "file://" + path.absolute().path
    scheme, _, rest = str(path).partition("://")
    return f"{SCHEMES.get(scheme, scheme)}://{rest}"


def quoted(column: str) -> str:
    """Return a column's name so that Spark takes dots and spaces in it as they are."""
    return "`" + column.replace("`", "``") + "`"


def read_parquet(spark: SparkSession, path: UPath, columns: Sequence[str]) -> DataFrame:
    """Read some columns of a Parquet folder that an earlier stage wrote."""
    return spark.read.parquet(spark_path(path)).select(*(quoted(c) for c in columns))


def run_app(
    app: str,
    argv: Sequence[str],
    work: Callable[[SparkSession, Run, argparse.Namespace], None],
    parser: argparse.ArgumentParser,
) -> int:
    """Parse the arguments, do the work in a session, turn errors into one line and an exit code.

    0: done; 1: error; 2: wrong arguments; 3: the batch was rejected.
    """
    parser.add_argument("--run", required=True, help="folder (path or URL) of the planning run")
    arguments = parser.parse_args(list(argv))
    try:
        work(session(app), Run.at(arguments.run), arguments)
    except BatchRejected as error:
        print(f"{app}: {error}", file=sys.stderr)
        return EXIT_REJECTED
    except PlanningError as error:
        print(f"{app}: {error}", file=sys.stderr)
        return EXIT_ERROR
    return 0
