"""Validate and statistics without Spark: the NumPy reference, for small data.

Row-level rules are the attributes' domains; batch-level rules are the definition's ``min_rows`` and
``max_quarantined``. The Spark apps check more (Great Expectations suites) and scale further.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from planning import families, sampling
from planning.arrays import BoolArray, Columns
from planning.errors import BatchRejected
from planning.samples import blamed, in_domain, read_columns, read_json_lines, take, typed
from planning.stages.run import Run
from planning.streams import StreamDefinition

OUT_OF_DOMAIN = "an attribute is missing, no number or outside its domain"


def validate(run: Run) -> None:
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
    given = _read_collected(run, definition)
    columns = typed(given, definition)
    rows = len(next(iter(columns.values())))
    clean = in_domain(columns, definition)
    good = take(columns, clean)
    held = _held_out(good, definition)
    quarantined = rows - int(clean.sum())
    error = _batch_error(definition, rows, quarantined) or _split_error(definition, held)
    if error and quarantined:
        error += f"; {blamed(columns, definition)}"
    report = {
        "success": not error,
        "rows": rows,
        "clean": rows - quarantined,
        "quarantined": quarantined,
        "reasons": {OUT_OF_DOMAIN: quarantined} if quarantined else {},
        "failures": [error] if error else [],
        "error": error,
        "data_docs": "",
        "train": int((~held).sum()),
        "holdout": int(held.sum()),
    }
    _write_quarantine(run.quarantine, take(given, ~clean))
    run.write("validation", report)
    if error:
        raise BatchRejected(error)
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


def _read_collected(run: Run, definition: StreamDefinition) -> dict[str, np.ndarray]:
    names = definition.sample_columns
    read = read_columns if definition.samples.format == "parquet" else read_json_lines
    parts = [read(UPath(file["path"]), names) for file in run.read("collected")["files"]]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _batch_error(definition: StreamDefinition, rows: int, quarantined: int) -> str:
    samples = definition.samples
    if rows - quarantined < samples.min_rows:
        return (
            f"stream {definition.stream}: samples.min_rows asks for at least {samples.min_rows} "
            f"clean rows, got {rows - quarantined} of {rows}; collect more samples or lower it"
        )
    if quarantined > samples.max_quarantined * rows:
        return (
            f"stream {definition.stream}: at most {samples.max_quarantined:.0%} of the rows may be "
            f"quarantined, got {quarantined} of {rows}; repair the source or widen the domains"
        )
    return ""


def _split_error(definition: StreamDefinition, held: BoolArray) -> str:
    if held.any() and not held.all():
        return ""
    return (
        f"stream {definition.stream}: gate.holdout = {definition.gate.holdout:g} splits the clean "
        f"rows into {(~held).sum()} to learn from and {held.sum()} held out, and neither may be 0; "
        "collect more samples, or choose gate.holdout_by columns with more distinct values"
    )


def _held_out(columns: Columns, definition: StreamDefinition) -> BoolArray:
    by = definition.gate.holdout_by or tuple(columns)
    keys = sampling.stable_keys([columns[name] for name in by])
    return sampling.in_holdout(keys, definition.gate.holdout)


def _write(folder: UPath, columns: Columns) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "part-0.parquet").open("wb") as stream:
        pq.write_table(pa.table(dict(columns)), stream)


def _write_quarantine(folder: UPath, columns: Columns) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    rows = [dict(zip(columns, row, strict=True)) for row in values]
    lines = [json.dumps({"row": row, "reasons": [OUT_OF_DOMAIN]}, default=str) for row in rows]
    (folder / "part-0.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
