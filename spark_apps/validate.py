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
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from upath import UPath

from expectations import checkpoint, rules
from expectations.building import Suite
from planning.errors import BatchRejected, Mistake
from planning.stages import batch_rules
from planning.stages.holdout import BINS, ORDER, Holdout, Landed, Times
from planning.stages.run import MADE_AHEAD, Run
from planning.streams import StreamDefinition
from spark_apps.reading import FILE, LINE, RAW, ROW, never_filled, read_samples
from spark_apps.session import arrays_of, map_in_arrow, quoted, run_app, spark_path

REASONS = "_reasons"
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


def clean_rows(judged: DataFrame, columns: Mapping[str, str], *places: str) -> DataFrame:
    """Return the rows that broke no rule, in the declared types, with their places if wanted."""
    whole = [c for c, kind in columns.items() if kind == "int"]
    return judged.where(_is_clean()).select(
        *(F.col(quoted(c)).cast("long").alias(c) if c in whole else quoted(c) for c in columns),
        *places,
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


def with_holdout(
    clean: DataFrame, holdout: Holdout, files: Sequence[Mapping[str, Any]]
) -> DataFrame:
    """Replace rows' places by one number that rises along the stream, and say which are held out.

    The split depends on values, files and rows' places in them (:mod:`planning.stages.holdout`),
    not on partitions or machines.
    """
    names = [c for c in clean.columns if c not in (FILE, ROW)]
    number = {_plain(spark_path(UPath(file["path"]))): k for k, file in enumerate(files)}
    digests = tuple(str(file["digest"]) for file in files)
    lengths = tuple(int(file["rows"]) for file in files)
    times = _times(clean, holdout)

    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = arrays_of(batch, names)
            spelled = batch.column(FILE).dictionary_encode()
            of = [number[unquote(_plain(path))] for path in spelled.dictionary.to_pylist()]
            file = np.array(of, dtype=np.int64)[spelled.indices.to_numpy()]
            landed = Landed(file, arrays_of(batch, [ROW])[ROW].astype(np.int64), digests, lengths)
            held_out = holdout.chosen(columns, landed, times)
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(n) for n in names), pa.array(landed.order), pa.array(held_out)],
                names=[*names, ORDER, HELD_OUT],
            )

    fields = [field for field in clean.schema.fields if field.name in names]
    fields += [T.StructField(ORDER, T.LongType()), T.StructField(HELD_OUT, T.BooleanType())]
    return map_in_arrow(clean, split, T.StructType(fields))


def holdout_of(definition: StreamDefinition, columns: Mapping[str, str]) -> Holdout:
    """Return how the rows are split, by columns that the suite reads."""
    holdout = Holdout.of(definition)
    by = {*holdout.by, *((holdout.clock,) if holdout.clock else ())}
    unknown = sorted(by - set(columns))
    if unknown:
        allowed = f"columns of the samples ({', '.join(columns)})"
        at = ("gate", "holdout_by")
        raise Mistake("gate.holdout_by", allowed, ", ".join(unknown), verb="name", at=at)
    return holdout


def _plain(path: str) -> str:
    """Return a path without its scheme."""
    return path.partition(":")[2].lstrip("/")


def _times(clean: DataFrame, holdout: Holdout) -> Times | None:
    """Return which times are held out, if rows are split by time."""
    if holdout.clock is None:
        return None
    at = F.col(quoted(holdout.clock)).cast("double")
    known = clean.where(at.isNotNull() & ~F.isnan(at))
    low, high = known.agg(F.min(at), F.max(at)).collect()[0]
    if low is None or low == high:
        return None
    place = F.least(F.floor((at - low) / (high - low) * BINS), F.lit(BINS - 1))
    counts = np.zeros(BINS, dtype=np.int64)
    for bin_, rows in known.groupBy(place.alias("bin")).count().select("bin", "count").collect():
        counts[bin_] = rows
    return holdout.times(low, high, counts)


def validate(spark: SparkSession, run: Run, data_docs: UPath, now_s: float) -> dict[str, Any]:
    """Validate a run's samples; write the outputs and return what ``validation.json`` holds."""
    definition = run.definition()
    suite = rules.resolve(rules.suite_for(definition), batch_rules.clock(definition, now_s))
    columns: dict[str, str] = suite["meta"]["columns"]
    holdout, collected = holdout_of(definition, columns), run.read("collected")
    judged = judge(spark, collected["files"], suite)
    checked = checkpoint.run(
        _checks(definition, judged, suite), data_docs, run.folder.name, definition.retention.runs
    )
    failures = checked["failures"]
    failures += batch_rules.too_much_quarantined(definition, judged.total, judged.quarantined)
    quarantined_rows(judged.rows).write.mode("overwrite").json(spark_path(run.quarantine))
    sizes = {"train": 0, "holdout": 0}
    if not failures:
        clean = clean_rows(judged.rows, columns, FILE, ROW)
        keyed = with_holdout(clean, holdout, collected["files"])
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
    kept = [*(quoted(c) for c in columns), ORDER]
    train = keyed.where(~F.col(HELD_OUT)).select(*kept)
    # The gate sheds the held-out rows in order, so that order must not depend on partitions.
    holdout = keyed.where(HELD_OUT).orderBy(ORDER).select(*kept)
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
