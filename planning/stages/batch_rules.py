"""Batch rules: what makes a whole batch of samples unusable, and how that is worded.

Airflow validates on Spark with Great Expectations, ``headgate plan`` in memory. Both reject the
same batches with the same words. A failure is a plain document with the keys of :func:`failure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from planning.samples import time_column
from planning.streams import StreamDefinition

EXISTS = "expect_column_to_exist"
ROW_COUNT = "expect_table_row_count_to_be_between"
NEWEST = "expect_column_max_to_be_between"
QUARANTINED = "samples.max_quarantined"
SPLIT = "gate.holdout"
ORDER = (ROW_COUNT, NEWEST, QUARANTINED)
ROW_RULE = "expect_column_values_"
"""How names of rules about single rows begin; these fail by the share of bad rows, not alone."""
CLOCK_SKEW_S = 300.0
SHOWN = 3

Failure = dict[str, Any]


def clock(definition: StreamDefinition, now_s: float) -> dict[str, float]:
    """Return the oldest time the newest row may have, and the latest that a row may have.

    >>> from planning.examples import demo_definition
    >>> clock(demo_definition("sifter"), now_s=0.0)  # no limit of age
    {}
    """
    age = definition.samples.max_age_s
    return {} if age is None else {"oldest_s": now_s - age, "latest_s": now_s + CLOCK_SKEW_S}


def unfit_rows(
    definition: StreamDefinition, clean: int, newest_s: float | None, now_s: float
) -> list[Failure]:
    """Return the failures if the clean rows are too few, or too old.

    >>> from planning.examples import demo_definition
    >>> [broken] = unfit_rows(demo_definition("sifter"), clean=7, newest_s=None, now_s=0.0)
    >>> broken["expectation"], broken["observed"]
    ('expect_table_row_count_to_be_between', 7)
    """
    failures = []
    least, oldest_s = definition.samples.min_rows, clock(definition, now_s).get("oldest_s")
    if clean < least:
        failures.append(failure(ROW_COUNT, clean, {"min_value": least}, rows=clean))
    if newest_s is not None and oldest_s is not None and newest_s < oldest_s:
        allowed = {"min_value": oldest_s}
        failures.append(failure(NEWEST, newest_s, allowed, clean, time_column(definition)))
    return failures


def too_much_quarantined(
    definition: StreamDefinition, rows: int, quarantined: int
) -> list[Failure]:
    """Return the failure of ``samples.max_quarantined``, if there is one.

    >>> from planning.examples import demo_definition
    >>> [broken] = too_much_quarantined(demo_definition("sifter"), rows=100, quarantined=30)
    >>> broken["observed"], broken["allowed"]
    (0.3, {'max_value': 0.05})
    """
    allowed = definition.samples.max_quarantined
    if quarantined <= allowed * rows:
        return []
    broken = failure(QUARANTINED, quarantined / rows, {"max_value": allowed}, rows)
    return [{**broken, "unexpected": quarantined}]


def empty_split(definition: StreamDefinition, train: int, holdout: int) -> list[Failure]:
    """Return the failure of a split that leaves nothing to learn from, or nothing to judge by.

    >>> from planning.examples import demo_definition
    >>> [broken] = empty_split(demo_definition("sifter"), train=200, holdout=0)
    >>> broken["observed"]
    '200 / 0'
    """
    if train and holdout:
        return []
    allowed = {"min_value": 1, "holdout": definition.gate.holdout}
    return [failure(SPLIT, f"{train} / {holdout}", allowed, train + holdout)]


def failure(
    rule: str, observed: Any, allowed: dict[str, Any], rows: int, column: str | None = None
) -> Failure:
    """Return what failed: rule, column, observed, allowed, number of rows.

    >>> failure(ROW_COUNT, 7, {"min_value": 100}, rows=7)["severity"]
    'critical'
    """
    return {
        "expectation": rule,
        "column": column,
        "observed": observed,
        "allowed": allowed,
        "unexpected": None,
        "rows": rows,
        "severity": "critical",
        "error": "",
    }


def report(
    definition: StreamDefinition,
    collected: Mapping[str, Any],
    *,
    rows: int,
    clean: int,
    reasons: Mapping[str, int],
    sizes: Mapping[str, int],
    failures: Sequence[Failure],
    quarantine: str,
    warnings: Sequence[Failure] = (),
    data_docs: str = "",
) -> dict[str, Any]:
    """Return what ``validation.json`` holds; a rejected batch has the paragraph in ``error``.

    >>> from planning.examples import demo_definition
    >>> ticks = demo_definition("sifter")
    >>> rejected = report(
    ...     ticks, {"files": []}, rows=100, clean=70, reasons={"price is missing": 30},
    ...     sizes={"train": 0, "holdout": 0}, failures=too_much_quarantined(ticks, 100, 30),
    ...     quarantine="q")
    >>> rejected["success"], rejected["error"].partition(": ")[2].partition(";")[0]
    (False, 'samples.max_quarantined allows 0.05 of the rows, got 30 of 100 quarantined: price is \
missing (30)')
    """
    made = {
        "success": not failures,
        "rows": rows,
        "clean": clean,
        "quarantined": rows - clean,
        "reasons": dict(reasons),
        **sizes,
        "failures": list(failures),
        "warnings": list(warnings),
        "files": [file["path"] for file in collected["files"]],
        "set_aside": collected.get("set_aside", []),
        "quarantine": quarantine,
        "data_docs": data_docs,
    }
    return {**made, "error": _explained(definition, failures, made) if failures else ""}


def worst(reasons: Mapping[str, int]) -> str:
    """Return the most frequent reasons, with the number of rows for each.

    >>> worst({"price is missing": 2, "volume is not a number": 7})
    'volume is not a number (7), price is missing (2)'
    """
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} ({count})" for reason, count in ranked[:SHOWN])


def _explained(
    definition: StreamDefinition, failures: Sequence[Failure], made: Mapping[str, Any]
) -> str:
    """Return the paragraph; failures that only follow from another one are left out."""
    missing = [f["column"] for f in failures if f["expectation"] == EXISTS]
    if missing:
        said = [
            f"the samples lack the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} in "
            "every row; have the source write them, or correct the stream definition"
        ]
    elif not made["rows"]:
        said = [_no_rows(made)]
    else:
        ranked = sorted(failures, key=lambda f: [*ORDER, f["expectation"]].index(f["expectation"]))
        sentences = (_sentence(definition, f, made) for f in ranked)
        said = [sentence for sentence in sentences if sentence]
    docs = f", the Data Docs in {made['data_docs']}" if made["data_docs"] else ""
    return (
        f"the samples of stream {definition.stream} were rejected: {'. Also: '.join(said)}. "
        "Nothing was published; the last plan stays in force. Quarantined rows with their reasons "
        f"are in {made['quarantine']}{docs}"
    )


def _no_rows(made: Mapping[str, Any]) -> str:
    aside = [f"{f['path']} ({f['reason']})" for f in made["set_aside"][:SHOWN]]
    because = f"; set aside were {', '.join(aside)}" if aside else ""
    return (
        f"there are no rows in the {len(made['files'])} collected files{because}; check that the "
        "source writes samples"
    )


def _sentence(definition: StreamDefinition, failed: Failure, made: Mapping[str, Any]) -> str:
    samples = definition.samples
    rule = failed["expectation"]
    if failed["error"]:
        return f"{rule} could not be checked ({failed['error']})"
    if rule == ROW_COUNT:
        return (
            f"samples.min_rows asks for at least {samples.min_rows} clean rows, got "
            f"{made['clean']} of {made['rows']}; wait for more samples or lower it"
        )
    if rule == NEWEST and failed["column"] == time_column(definition):
        if failed["observed"] is None:
            return ""
        newest = datetime.fromtimestamp(float(failed["observed"]), UTC)
        return (
            f"the newest sample is of {newest:%Y-%m-%d %H:%M:%S} UTC, older than "
            f"samples.max_age_s = {samples.max_age_s:g} allows; check that the source still writes"
        )
    if rule == QUARANTINED:
        return (
            f"samples.max_quarantined allows {samples.max_quarantined:.4g} of the rows, got "
            f"{made['quarantined']} of {made['rows']} quarantined: {worst(made['reasons'])}; "
            "repair the source, or correct the domains in the stream definition"
        )
    if rule == SPLIT:
        return (
            f"gate.holdout = {definition.gate.holdout:g} splits the clean rows into "
            f"{failed['observed']} (train / holdout), and neither may be empty; collect more "
            "samples, or choose gate.holdout_by columns with more distinct values"
        )
    if str(rule).startswith(ROW_RULE):
        return ""
    column = f" of {failed['column']}" if failed["column"] else ""
    return f"{rule}{column} allows {failed['allowed']}, observed {failed['observed']}"
