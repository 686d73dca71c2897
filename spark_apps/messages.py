"""Why a batch was rejected, in one paragraph: what is wrong, by how much, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from expectations.rules import EXISTS, ROW_TYPES
from planning.streams import StreamDefinition

QUARANTINED = "samples.max_quarantined"
SPLIT = "gate.holdout"
ROW_COUNT = "expect_table_row_count_to_be_between"
NEWEST = "expect_column_max_to_be_between"
SHOWN = 3


def too_much_quarantined(
    definition: StreamDefinition, rows: int, quarantined: int
) -> list[dict[str, Any]]:
    """Return the failure of ``samples.max_quarantined``, if there is one."""
    allowed = definition.samples.max_quarantined
    if quarantined <= allowed * rows:
        return []
    return [_failure(QUARANTINED, quarantined / rows, {"max_value": allowed}, quarantined, rows)]


def empty_split(definition: StreamDefinition, train: int, holdout: int) -> list[dict[str, Any]]:
    """Return the failure of a split that leaves nothing to learn from, or nothing to judge by."""
    if train and holdout:
        return []
    allowed = {"min_value": 1, "holdout": definition.gate.holdout}
    return [_failure(SPLIT, f"{train} / {holdout}", allowed, None, train + holdout)]


def explain(
    definition: StreamDefinition,
    failures: Sequence[Mapping[str, Any]],
    report: Mapping[str, Any],
) -> str:
    """Return the paragraph; failures that only follow from another one are left out."""
    missing = [f["column"] for f in failures if f["expectation"] == EXISTS]
    if missing:
        said = [
            f"the samples lack the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} in "
            "every row; have the source write them, or correct the stream definition"
        ]
    elif not report["rows"]:
        said = [_no_rows(report)]
    else:
        sentences = (_sentence(definition, f, report) for f in failures)
        said = [sentence for sentence in sentences if sentence]
    return (
        f"the samples of stream {definition.stream} were rejected: {'. Also: '.join(said)}. "
        f"Nothing was published; the last plan stays in force. Quarantined rows with their reasons "
        f"are in {report['quarantine']}, the Data Docs in {report['data_docs']}"
    )


def _no_rows(report: Mapping[str, Any]) -> str:
    aside = [f"{f['path']} ({f['reason']})" for f in report["set_aside"][:SHOWN]]
    because = f"; set aside were {', '.join(aside)}" if aside else ""
    return (
        f"there are no rows in the {len(report['files'])} collected files{because}; check that the "
        "source writes samples"
    )


def _sentence(
    definition: StreamDefinition, failure: Mapping[str, Any], report: Mapping[str, Any]
) -> str:
    samples = definition.samples
    kind = failure["expectation"]
    if failure["error"]:
        return f"{kind} could not be checked ({failure['error']})"
    if kind == QUARANTINED:
        worst = sorted(report["reasons"].items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
        reasons = ", ".join(f"{reason} ({count})" for reason, count in worst)
        return (
            f"samples.max_quarantined allows {samples.max_quarantined:.4g} of the rows, got "
            f"{report['quarantined']} of {report['rows']} quarantined: {reasons}; repair the "
            "source, or correct the domains in the stream definition"
        )
    if kind == ROW_COUNT:
        return (
            f"samples.min_rows asks for at least {samples.min_rows} clean rows, got "
            f"{report['clean']} of {report['rows']}; wait for more samples or lower it"
        )
    of_time = kind == NEWEST and failure["column"] == (samples.time_column or "time")
    if of_time and failure["observed"] is not None:
        newest = datetime.fromtimestamp(float(failure["observed"]), UTC)
        return (
            f"the newest sample is of {newest:%Y-%m-%d %H:%M:%S} UTC, older than "
            f"samples.max_age_s = {samples.max_age_s:g} allows; check that the source still writes"
        )
    if kind == SPLIT:
        return (
            f"gate.holdout = {definition.gate.holdout:g} splits the clean rows into "
            f"{failure['observed']} (train / holdout), and neither may be empty; collect more "
            "samples, or choose gate.holdout_by columns with more distinct values"
        )
    if kind in ROW_TYPES or of_time:
        return ""
    column = f" of {failure['column']}" if failure["column"] else ""
    return f"{kind}{column} allows {failure['allowed']}, observed {failure['observed']}"


def _failure(
    name: str, observed: Any, allowed: dict[str, Any], unexpected: int | None, rows: int
) -> dict[str, Any]:
    return {
        "expectation": name,
        "column": None,
        "observed": observed,
        "allowed": allowed,
        "unexpected": unexpected,
        "rows": rows,
        "severity": "critical",
        "error": "",
    }
