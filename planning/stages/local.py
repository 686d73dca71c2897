"""Validate and statistics without Spark: the NumPy reference, for small data.

Rows are judged by the attributes' types and domains (:func:`planning.samples.broken_rules`) and
batches by :mod:`planning.stages.batch_rules`, as on Spark. The Great Expectations suites may
require more there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from planning import families
from planning.arrays import BoolArray, Columns
from planning.errors import BatchRejected
from planning.samples import (
    LARGEST,
    broken_rules,
    read_columns,
    read_json_lines,
    take,
    time_column,
    typed,
)
from planning.stages import batch_rules
from planning.stages.holdout import Holdout, Landed
from planning.stages.run import Run
from planning.streams import StreamDefinition


def validate(run: Run, *, now_s: float | None = None) -> None:
    """Split the collected rows into train, holdout and quarantine; reject a bad batch.

    >>> import tempfile
    >>> from planning.examples import demo_run
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = demo_run(Home.at(folder), "sifter")
    ...     validate(run)
    ...     report = run.read("validation")
    >>> report["rows"], report["quarantined"], report["train"] + report["holdout"]
    (20000, 16, 19984)
    """
    definition = run.definition()
    now_s = time.time() if now_s is None else now_s
    given, landed = _read_collected(run, definition)
    latest_s = batch_rules.clock(definition, now_s).get("latest_s", LARGEST)
    broken = broken_rules(given, definition, latest_s)
    clean = ~np.any([np.zeros(_rows(given), dtype=np.bool_), *broken.values()], axis=0)
    good = take(typed(given, definition), clean)
    rows, kept = len(clean), int(clean.sum())
    failures = batch_rules.unfit_rows(definition, kept, _newest_s(good, definition), now_s)
    failures += batch_rules.too_much_quarantined(definition, rows, rows - kept)
    landed = landed._replace(file=landed.file[clean], row=landed.row[clean])
    held = _held_out(good, landed, definition)
    sizes = {"train": 0, "holdout": 0}
    if not failures:
        sizes = {"train": int((~held).sum()), "holdout": int(held.sum())}
        failures = batch_rules.empty_split(definition, **sizes)
    report = batch_rules.report(
        definition,
        run.read("collected"),
        rows=rows,
        clean=kept,
        reasons={reason: int(broken[reason].sum()) for reason in sorted(broken)},
        sizes=sizes,
        failures=failures,
        quarantine=str(run.quarantine),
    )
    _write_quarantine(run.quarantine, given, broken, ~clean)
    run.write("validation", report)
    if failures:
        raise BatchRejected(report["error"])
    _write(run.train, take(good, ~held))
    _write(run.holdout, take(good, held))


def statistics(run: Run) -> None:
    """Build the family's statistics from the train rows.

    >>> import tempfile
    >>> from planning.examples import demo_run
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = demo_run(Home.at(folder), "sifter")
    ...     validate(run)
    ...     statistics(run)
    ...     sum(run.read("statistics")["counts"]) == run.read("validation")["train"]
    True
    """
    definition = run.definition()
    room = families.family(definition.family).room("statistics")
    samples = read_columns(run.train, definition.sample_columns)
    run.write("statistics", room.build(samples, definition).to_document())


def _read_collected(
    run: Run, definition: StreamDefinition
) -> tuple[dict[str, np.ndarray], Landed]:
    names, files = definition.sample_columns, run.read("collected")["files"]
    read = read_columns if definition.samples.format == "parquet" else read_json_lines
    parts = [read(UPath(file["path"]), names) for file in files]
    sizes = [_rows(part) for part in parts]
    landed = Landed(
        np.repeat(np.arange(len(files)), sizes),
        np.concatenate([np.arange(size) for size in sizes]),
        tuple(file["digest"] for file in files),
        tuple(file["rows"] for file in files),
    )
    return {name: np.concatenate([part[name] for part in parts]) for name in names}, landed


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _newest_s(columns: Columns, definition: StreamDefinition) -> float | None:
    column = time_column(definition)
    if column is None or column not in columns or not _rows(columns):
        return None
    return float(np.max(columns[column]))


def _held_out(columns: Columns, landed: Landed, definition: StreamDefinition) -> BoolArray:
    holdout = Holdout.of(definition)
    times = None
    if holdout.clock:
        times = holdout.times_of(columns[holdout.clock].astype(np.float64))
    return holdout.chosen(columns, landed, times)


def _write(folder: UPath, columns: Columns) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "part-0.parquet").open("wb") as stream:
        pq.write_table(pa.table(dict(columns)), stream)


def _write_quarantine(
    folder: UPath, columns: Columns, broken: Mapping[str, BoolArray], bad: BoolArray
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index in np.flatnonzero(bad).tolist():
        row = {name: values[index : index + 1].tolist()[0] for name, values in columns.items()}
        reasons = [reason for reason, rows in broken.items() if rows[index]]
        lines.append(json.dumps({"row": row, "reasons": reasons}, default=str))
    (folder / "part-0.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
