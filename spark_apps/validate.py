"""Validate the collected samples: quarantine bad rows, stop bad batches, split off the holdout.

Reads ``collected.json`` of the run; writes ``quarantine``, ``samples/train``, ``samples/holdout``
and ``validation.json``. A batch that breaks a batch-level rule ends with exit code 3 and one
paragraph on stderr; its samples are not written.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from upath import UPath

from expectations import checkpoint, rules
from expectations.building import Suite
from planning.errors import BatchRejected, Mistake
from planning.sampling import in_holdout, stable_keys
from planning.stages import batch_rules
from planning.stages.run import MADE_AHEAD, Run
from planning.streams import StreamDefinition
from spark_apps.reading import FILE, LINE, RAW, never_filled, read_samples
from spark_apps.session import arrays_of, map_in_arrow, quoted, run_app, spark_path

REASONS = "_reasons"
KEY = "_key"
HELD_OUT = "_held_out"


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """All rows with their reasons, and how many there are."""

    rows: DataFrame
    total: int
    clean: int
    missing: list[str]

    @property
    def quarantined(self) -> int:
        """Number of rows that broke a rule."""
        return self.total - self.clean


def judge(
    spark: SparkSession, files: Sequence[Mapping[str, Any]], suite: Suite
) -> Judged:
    """Read the files and attach to every row the list of rules that it breaks."""
    columns: dict[str, str] = suite["meta"]["columns"]
    rows, missing = read_samples(spark, files, columns)
    rows = rows.withColumn(REASONS, rules.reasons(suite, RAW, LINE)).persist()
    counted = rows.agg(
        F.count("*").alias("total"), F.count(F.when(_is_clean(), True)).alias("clean")
    ).collect()[0]
    if counted["total"] and not counted["clean"]:
        missing = never_filled(rows, list(columns))
    return Judged(rows, counted["total"], counted["clean"], missing)


def clean_rows(judged: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Return the rows that broke no rule, in the declared types."""
    whole = [c for c, kind in columns.items() if kind == "int"]
    return judged.where(_is_clean()).select(
        *(F.col(quoted(c)).cast("long").alias(c) if c in whole else quoted(c) for c in columns)
    )


def quarantined_rows(judged: DataFrame) -> DataFrame:
    """Return the rows that broke a rule: where they came from, why, and what they contained."""
    return judged.where(~_is_clean()).select(
        F.col(FILE).alias("file"),
        F.col(REASONS).alias("reasons"),
        F.when(F.col(LINE).isNull(), F.col(RAW)).alias("row"),
        F.col(LINE).alias("line"),
    )


def reason_counts(judged: DataFrame) -> dict[str, int]:
    """Return how many rows were quarantined for each reason."""
    counted = (
        judged.where(~_is_clean()).select(F.explode(REASONS).alias("reason"))
        .groupBy("reason").count().select("reason", "count")
    )
    return {row["reason"]: row["count"] for row in sorted(counted.collect())}


def with_holdout(clean: DataFrame, by: Sequence[str], fraction: float) -> DataFrame:
    """Add each row's stable key over the columns ``by``, and whether it is held out.

    The key is a function of the values alone (:func:`planning.sampling.stable_keys`), so the split
    does not depend on files, partitions or machines, and equal rows stay together.
    """

    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = stable_keys(list(arrays_of(batch, by).values()))
            held_out = in_holdout(keys, fraction)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(keys.view(np.int64)), pa.array(held_out)],
                names=[*batch.schema.names, KEY, HELD_OUT],
            )

    fields = [*clean.schema.fields]
    fields += [T.StructField(KEY, T.LongType()), T.StructField(HELD_OUT, T.BooleanType())]
    return map_in_arrow(clean, split, T.StructType(fields))


def holdout_columns(definition: StreamDefinition, columns: Mapping[str, str]) -> list[str]:
    """Return the columns whose values decide what is held out: all, unless the gate names some."""
    by = list(definition.gate.holdout_by) or list(columns)
    unknown = [name for name in by if name not in columns]
    if unknown:
        allowed = f"columns of the samples ({', '.join(columns)})"
        at = ("gate", "holdout_by")
        raise Mistake("gate.holdout_by", allowed, ", ".join(unknown), verb="name", at=at)
    return by


def validate(spark: SparkSession, run: Run, data_docs: UPath, now_s: float) -> dict[str, Any]:
    """Validate a run's samples; write the outputs and return what ``validation.json`` holds."""
    definition = run.definition()
    suite = rules.resolve(rules.suite_for(definition), batch_rules.clock(definition, now_s))
    columns: dict[str, str] = suite["meta"]["columns"]
    by = holdout_columns(definition, columns)
    collected = run.read("collected")
    judged = judge(spark, collected["files"], suite)
    checked = checkpoint.run(
        _checks(definition, judged, suite), data_docs, run.folder.name, definition.retention.runs
    )
    failures = checked["failures"]
    failures += batch_rules.too_much_quarantined(definition, judged.total, judged.quarantined)
    quarantined_rows(judged.rows).write.mode("overwrite").json(spark_path(run.quarantine))
    sizes = {"train": 0, "holdout": 0}
    if not failures:
        keyed = with_holdout(clean_rows(judged.rows, columns), by, definition.gate.holdout)
        sizes = _write_split(keyed.persist(), run, definition, columns)
        failures += batch_rules.empty_split(definition, **sizes)
    report = batch_rules.report(
        definition,
        collected,
        rows=judged.total,
        clean=judged.clean,
        reasons=reason_counts(judged.rows),
        sizes=sizes,
        failures=failures,
        warnings=checked["warnings"],
        quarantine=str(run.quarantine),
        data_docs=checked["data_docs"],
    )
    if failures:
        for folder in (run.train, run.holdout):
            _remove(folder)
    run.write("validation", report)
    return report


def _checks(
    definition: StreamDefinition, judged: Judged, suite: Suite
) -> list[checkpoint.Check]:
    """Return what Great Expectations checks: row rules on all rows, batch rules on clean ones."""
    of_rows, of_batch = rules.split(suite)
    columns: dict[str, str] = suite["meta"]["columns"]
    if judged.missing:
        there = judged.rows.select(*(quoted(c) for c in columns if c not in judged.missing))
        present = [rule for rule in of_batch if rule["type"] == batch_rules.EXISTS]
        return [checkpoint.Check(f"{definition.stream}.batch", there, present)]
    tolerated = rules.tolerant(of_rows, definition.samples.max_quarantined)
    return [
        checkpoint.Check(
            f"{definition.stream}.rows", judged.rows.select(*map(quoted, columns)), tolerated
        ),
        checkpoint.Check(f"{definition.stream}.batch", clean_rows(judged.rows, columns), of_batch),
    ]


def _write_split(
    keyed: DataFrame, run: Run, definition: StreamDefinition, columns: Mapping[str, str]
) -> dict[str, int]:
    """Write both parts if neither is empty; return their sizes."""
    counted = {row[HELD_OUT]: row["count"] for row in keyed.groupBy(HELD_OUT).count().collect()}
    sizes = {"train": counted.get(False, 0), "holdout": counted.get(True, 0)}
    if batch_rules.empty_split(definition, **sizes):
        return sizes
    kept = [quoted(c) for c in columns]
    # The gate sheds the held-out rows in order, so that order must not depend on partitions.
    times = [c for c, kind in columns.items() if kind == "time"]
    order = [*(quoted(c) for c in times), KEY, *kept]
    train = keyed.where(~F.col(HELD_OUT)).select(*kept)
    holdout = keyed.where(HELD_OUT).orderBy(*order).select(*kept)
    train.write.mode("overwrite").parquet(spark_path(run.train))
    holdout.write.mode("overwrite").parquet(spark_path(run.holdout))
    return sizes


def _is_clean() -> Column:
    return F.size(REASONS) == 0


def _remove(folder: UPath) -> None:
    """Remove what an earlier attempt of the run left behind."""
    if folder.exists():
        folder.fs.rm(folder.path, recursive=True)


def work(spark: SparkSession, run: Run, arguments: argparse.Namespace) -> None:
    """Validate the run's samples; reject a bad batch."""
    data_docs = UPath(arguments.data_docs) if arguments.data_docs else run.folder / "data_docs"
    report = validate(spark, run, data_docs, time.time())
    if not report["success"]:
        raise BatchRejected(report["error"])
    print(
        f"validate: {report['clean']} of {report['rows']} rows are clean, {report['train']} to "
        f"train, {report['holdout']} held out"
    )
    if arguments.then:
        make_statistics(spark, run, arguments)


def make_statistics(spark: SparkSession, run: Run, arguments: argparse.Namespace) -> None:
    """Make the statistics in this session, and leave a mark; the statistics stage then has them.

    Starting Spark costs more than reducing a small batch. Whatever fails here is left to the
    statistics stage, which does the work in a session of its own and says what is wrong.
    """
    spark.catalog.clearCache()
    try:
        importlib.import_module(f"spark_apps.{arguments.then}").APP.work(spark, run, arguments)
    except Exception as error:
        print(f"validate: {arguments.then} is left to its own stage: {error}")
        return
    run.write(MADE_AHEAD, {"app": arguments.then})


def main(argv: Sequence[str]) -> int:
    """Run the app."""
    options = {
        "--data-docs": "folder of the Data Docs; default: below the run",
        "--then": "app that makes the statistics right away",
    }
    return run_app("validate", argv, work, __doc__, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
