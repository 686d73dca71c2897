"""The expectations that suites are made of, as plain documents.

A suite is ``{"name", "meta", "expectations": [{"type", "kwargs", "severity"}]}``. ``meta.columns``
names the columns a sample must have, with their types (float, int, category, text, time); times are
seconds since 1970 UTC. A bound ``{"$PARAMETER": name}`` is filled in when the suite is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planning.errors import Mistake
from planning.samples import LARGEST
from planning.sections import Attribute
from planning.stages.batch_rules import EXISTS, NEWEST, ROW_COUNT
from planning.streams import StreamDefinition

Expectation = dict[str, Any]
Suite = dict[str, Any]

CHOICE = ("samples", "expectations")
"""Where a definition chooses its suite."""
OLDEST = {"$PARAMETER": "oldest_s"}
LATEST = {"$PARAMETER": "latest_s"}


def expectation(kind: str, severity: str = "critical", **kwargs: Any) -> Expectation:
    """Return one expectation; a ``critical`` one is enforced, a ``warning`` only reported."""
    return {"type": kind, "kwargs": kwargs, "severity": severity}


def present(column: str) -> Expectation:
    """Batch rule: some row of the batch has the column."""
    return expectation(EXISTS, column=column)


def filled(column: str) -> Expectation:
    """Row rule: the value is present."""
    return expectation("expect_column_values_to_not_be_null", column=column)


def between(column: str, low: Any, high: Any) -> Expectation:
    """Row rule: the value is finite and in [low, high]."""
    return expectation(
        "expect_column_values_to_be_between", column=column, min_value=low, max_value=high
    )


def one_of(column: str, values: Iterable[str]) -> Expectation:
    """Row rule: the value is one of those listed."""
    return expectation(
        "expect_column_values_to_be_in_set", column=column, value_set=list(values)
    )


def attribute_rules(attribute: Attribute) -> list[Expectation]:
    """Row rules of one attribute: present, finite, and inside its domain."""
    name = attribute.name
    if attribute.open:
        return [filled(name)]
    if attribute.type == "category":
        return [filled(name), one_of(name, attribute.values)]
    low, high = attribute.bounds
    return [filled(name), between(name, low, high)]


def require(definition: StreamDefinition, names: Iterable[str], suite: str, remedy: str) -> None:
    """Refuse a definition that lacks attributes that a suite checks."""
    known = [attribute.name for attribute in definition.attributes]
    missing = [name for name in names if name not in known]
    if missing:
        field, allowed = f"attributes of stream {definition.stream}", ", ".join(missing)
        allowed += f" for the expectations {suite!r}"
        raise Mistake(field, allowed, ", ".join(known), remedy, verb="name", at=CHOICE)


def time_rules(definition: StreamDefinition, column: str) -> list[Expectation]:
    """Row rules of the time column; with ``max_age_s`` the batch must be fresh.

    A time far ahead of the clock is refused: one such row would make a stale batch look fresh.
    """
    if definition.samples.max_age_s is None:
        return [filled(column), between(column, -LARGEST, LARGEST)]
    fresh = expectation(NEWEST, column=column, min_value=OLDEST, max_value=None)
    return [filled(column), between(column, -LARGEST, LATEST), fresh]


def suite(
    name: str,
    definition: StreamDefinition,
    columns: Mapping[str, str],
    rules: Sequence[Expectation],
) -> Suite:
    """Return the suite: all columns are present, the rules hold, and enough rows are left."""
    enough = expectation(ROW_COUNT, min_value=definition.samples.min_rows, max_value=None)
    return {
        "name": name,
        "meta": {"stream": definition.stream, "columns": dict(columns)},
        "expectations": [*(present(column) for column in columns), *rules, enough],
    }


def timed_suite(
    name: str,
    definition: StreamDefinition,
    columns: Mapping[str, str],
    rules: Sequence[Expectation],
) -> Suite:
    """Return the suite, with the rules of the time column if the definition names one.

    It may be one of the attributes; then its own rules suffice, unless the batch must be fresh.
    """
    column, age = definition.samples.time_column, definition.samples.max_age_s
    if column is None or (column in columns and age is None):
        return suite(name, definition, columns, rules)
    timed = [rule for rule in time_rules(definition, column) if rule not in rules]
    typed = {**columns, column: columns.get(column, "time")}
    return suite(name, definition, typed, [*rules, *timed])
