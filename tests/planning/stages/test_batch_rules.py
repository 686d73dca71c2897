"""One set of rules: the batches that Spark rejects are rejected in memory, with the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from batch_cases import CASES, NOW_S, TIMED, Case, rows

from planning.errors import BatchRejected
from planning.stages import batch_rules, local
from planning.stages.batch_rules import NEWEST, failure


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_in_memory(case: Case, tmp_path: Path) -> None:
    run = case.lay_out(tmp_path)
    if case.said:
        with pytest.raises(BatchRejected) as rejected:
            local.validate(run, now_s=NOW_S)
        assert str(rejected.value) == run.read("validation")["error"]
    else:
        local.validate(run, now_s=NOW_S)
    case.check(run.read("validation"))
    assert run.train.exists() == run.holdout.exists() == (not case.said)


def test_the_clock_is_that_of_the_machine_unless_one_is_given(tmp_path: Path) -> None:
    run = Case("long ago", rows(40, at=0.0), 40, samples=TIMED).lay_out(tmp_path)
    with pytest.raises(BatchRejected, match="the newest sample is of 1970-01-01 00:00:00 UTC"):
        local.validate(run)
    local.validate(run, now_s=60.0)
    assert run.read("validation")["success"]


def test_a_rule_that_could_not_be_checked_is_reported(tmp_path: Path) -> None:
    definition = CASES[0].lay_out(tmp_path).definition()
    broken: dict[str, Any] = {**failure(NEWEST, None, {}, rows=3), "error": "no such column"}
    made = batch_rules.report(
        definition, {"files": [{"path": "a"}]}, rows=3, clean=3, reasons={}, failures=[broken],
        sizes={"train": 0, "holdout": 0}, quarantine="q",
    )  # fmt: skip
    assert "expect_column_max_to_be_between could not be checked (no such column)" in made["error"]
