"""The suite for counts of a query network's elements."""

from __future__ import annotations

from typing import Any

import pytest

from expectations import operators, rules
from planning.errors import InvalidInput


class Attribute:
    def __init__(self, name: str, values: tuple[str, ...] = ()) -> None:
        self.name, self.values = name, values
        self.type = "category" if values else "int"
        self.bounds = (0.0, 1e9)


class Definition:
    stream = "requests"

    def __init__(self, *attributes: Attribute) -> None:
        from planning.fit import examples
        from planning.fit.parameters import Parameters

        class Samples:
            time_column = None
            max_age_s = None
            min_rows = 50
            expectations = "operators"

        self.attributes = attributes
        self.samples = Samples()
        self.parameters = Parameters(network=examples.figure_1().to_document())


COUNTS = [Attribute(n) for n in ("period", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")]
ELEMENT = Attribute("element", ("i1", "i2", "a1", "a2", "b1", "b2"))


def kinds(suite: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e["kwargs"] for e in suite["expectations"] if e["type"] == kind]


def test_elements_are_known_counts_are_not_negative_and_all_inputs_occur():
    suite = rules.suite_for(Definition(ELEMENT, *COUNTS))
    assert kinds(suite, rules.IN_SET) == [
        {"column": "element", "value_set": ["i1", "i2", "a1", "a2", "b1", "b2"]}
    ]
    assert {k["column"]: k["min_value"] for k in kinds(suite, rules.BETWEEN)} == dict.fromkeys(
        (a.name for a in COUNTS), 0.0
    )
    assert kinds(suite, "expect_column_distinct_values_to_contain_set") == [
        {"column": "element", "value_set": ["i1", "i2"]}
    ]
    assert kinds(suite, "expect_table_row_count_to_be_between")[0]["min_value"] == 50


def test_missing_attributes_are_named():
    with pytest.raises(InvalidInput, match="must name cpu_us"):
        operators.build_suite(Definition(ELEMENT, *COUNTS[:-1]))


def test_the_suite_is_offered():
    assert "operators" in rules.available()
