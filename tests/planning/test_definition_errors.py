"""Mistakes keep their parts from where they are raised to where they are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from planning.definition_errors import Lines, Place, problems_of
from planning.errors import InvalidInput, Mistake, Problem, check_between

LINES: Lines = {
    (): 1,
    ("parameters",): 2,
    ("parameters", "windows"): 3,
    ("parameters", "windows", 1): 5,
    ("parameters", "windows", 1, "size"): 6,
}


def problem(check: Callable[[], Any], below: Place = ("parameters",)) -> Problem:
    """Return what becomes of an error that the check of the field ``windows`` raises."""

    class Parameters(BaseModel):
        windows: int

        @field_validator("windows")
        @classmethod
        def _checked(cls, value: int) -> int:
            check()
            return value

    with pytest.raises(ValidationError) as caught:
        Parameters.model_validate({"windows": 1})
    [made] = problems_of(caught.value, "a.yaml", LINES, Parameters, below)
    return made


def raising(error: Exception) -> Callable[[], None]:
    def check() -> None:
        raise error

    return check


def test_every_part_arrives_with_file_and_line() -> None:
    mistake = Mistake(
        "size of window 1", "above 0", "-1", "give seconds", verb="lie", at=(1, "size")
    )
    assert problem(raising(mistake)) == Problem(
        "a.yaml", 6, "parameters.windows[1].size: size of window 1", "above 0", "-1",
        remedy="give seconds", verb="lie",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "at", "shown", "line"),
    [
        ("windows", (), "parameters.windows", 3),
        ("parameters.windows", (), "parameters.windows", 3),
        ("size", (1, "size"), "parameters.windows[1].size", 6),
        ("size", (1, "size", "unit"), "parameters.windows[1].size.unit: size", 6),
        ("window 7", (7,), "parameters.windows[7]: window 7", 3),
    ],
)
def test_a_field_is_named_once_and_found_on_the_nearest_line(
    field: str, at: Place, shown: str, line: int
) -> None:
    made = problem(raising(Mistake(field, "right", "wrong", at=at)))
    assert (made.field, made.line) == (shown, line)


def test_nothing_is_read_out_of_a_sentence() -> None:
    """A plain error is shown whole, whatever its words."""
    made = problem(raising(ValueError("gate.holdout must be small, got 1; shrink it")))
    assert made == Problem(
        "a.yaml", 3, "parameters.windows", "valid", "gate.holdout must be small, got 1; shrink it"
    )


def test_general_checks_have_parts_too() -> None:
    made = problem(lambda: check_between("windows", 1.4, 0, 1, remedy="pass a fraction"))
    assert (made.verb, made.allowed, made.got, made.remedy) == (
        "lie", "in [0, 1]", "1.4", "pass a fraction",
    )  # fmt: skip
    assert str(made) == (
        "a.yaml:3: parameters.windows must lie in [0, 1], got 1.4; pass a fraction"
    )


def test_a_mistake_outside_a_definition_is_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="^load must lie in") as caught:
        check_between("load", 2, 0, 1)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == "load must lie in [0, 1], got 2"
