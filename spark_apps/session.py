"""What every app needs: a quiet Spark session, paths as Spark writes them, exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from upath import UPath

from planning.errors import BatchRejected, PlanningError
from planning.families import Statistics
from planning.sections import FamilyParameters
from planning.stages.holdout import ORDER
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
Kernel = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
SPARKS_SHUFFLE_PARTITIONS = "200"
SMALL_SHUFFLE_PARTITIONS = "8"
SCHEMES = {"s3": "s3a", "gcs": "gs"}


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

    >>> spark_path(UPath("/data/a")), spark_path(UPath("file:///data/a"))
    ('file:///data/a', 'file:///data/a')
    """
    if path.protocol in ("", "file"):
        return "file://" + path.absolute().path
    scheme, _, rest = str(path).partition("://")
    return f"{SCHEMES.get(scheme, scheme)}://{rest}"


def quoted(column: str) -> str:
    """Return a column's name so that Spark takes dots and spaces in it literally."""
    return "`" + column.replace("`", "``") + "`"


def read_parquet(
    spark: SparkSession, path: UPath, columns: Sequence[str], *, ordered: bool = False
) -> DataFrame:
    """Read some columns of a Parquet folder that an earlier stage wrote.

    With ``ordered`` also the rows' place in the stream, if the stage has noted it.
    """
    rows = spark.read.parquet(spark_path(path))
    places = [ORDER] if ordered and ORDER in rows.columns else []
    return rows.select(*(quoted(c) for c in (*columns, *places)))


def arrays_of(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return columns of a batch as NumPy arrays; null becomes NaN in numbers, None in texts."""
    return {name: batch.column(name).to_numpy(zero_copy_only=False) for name in names}


def map_in_arrow(rows: DataFrame, kernel: Kernel, schema: T.StructType | str) -> DataFrame:
    """Apply a kernel to batches of rows; unlike Spark's own method, take any column names."""
    names = rows.columns

    def renamed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return kernel(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*(f"c{i}" for i in range(len(names)))).mapInArrow(renamed, schema)


def run_app(
    app: str,
    argv: Sequence[str],
    work: Callable[[SparkSession, Run, argparse.Namespace], None],
    description: str | None,
    options: Mapping[str, str] | None = None,
) -> int:
    """Parse the arguments, do the work in a session, turn errors into one line and an exit code.

    ``options`` are further arguments, each with its help. 0: done; 1: error; 2: wrong arguments;
    3: the batch was rejected.
    """
    parser = argparse.ArgumentParser(prog=app, description=description)
    parser.add_argument("--run", required=True, help="folder (path or URL) of the planning run")
    for flag, meaning in (options or {}).items():
        parser.add_argument(flag, help=meaning)
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


@dataclass(frozen=True, slots=True)
class StatisticsApp:
    """An app that reduces a run's clean rows to a family's statistics.

    ``build(samples, definition)`` makes them, ``describe(statistics)`` puts them in a sentence.
    """

    name: str
    description: str | None
    parameters: type[FamilyParameters]
    build: Callable[[DataFrame, Any], Statistics]
    describe: Callable[[Any], str]
    ordered: bool = False
    """Whether rows come with their place in the stream, ``planning.stages.holdout.ORDER``."""

    def work(self, spark: SparkSession, run: Run, _: argparse.Namespace) -> None:
        """Make the statistics of the run."""
        definition = run.definition()
        samples = read_parquet(spark, run.train, definition.sample_columns, ordered=self.ordered)
        statistics = self.build(samples, definition.of(self.parameters))
        run.write("statistics", statistics.to_document())
        print(f"{self.name}: {self.describe(statistics)}")

    def main(self, argv: Sequence[str]) -> int:
        """Run the app; return its exit code."""
        return run_app(self.name, argv, self.work, self.description)
