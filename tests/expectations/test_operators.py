"""The suite for counts of a query network's elements."""

from __future__ import annotations

from typing import Any

import pytest

from expectations import operators, rules
from planning.errors import InvalidInput
from planning.examples import demo_definition
from planning.streams import parse

COUNTS = ("period", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")


def kinds(suite: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e["kwargs"] for e in suite["expectations"] if e["type"] == kind]


def test_elements_are_known_counts_are_not_negative_and_all_inputs_occur() -> None:
    definition = demo_definition("fit")
    suite = rules.suite_for(definition)
    elements = definition.attributes[definition.attribute_names.index("element")].values
    assert kinds(suite, rules.IN_SET) == [{"column": "element", "value_set": list(elements)}]
    lowest = {k["column"]: k["min_value"] for k in kinds(suite, rules.BETWEEN)}
    assert lowest == dict.fromkeys(COUNTS, 0.0)
    inputs = [entry["id"] for entry in definition.parameters.network["inputs"]]
    assert kinds(suite, "expect_column_distinct_values_to_contain_set") == [
        {"column": "element", "value_set": inputs}
    ]
    enough = kinds(suite, "expect_table_row_count_to_be_between")
    assert [k["min_value"] for k in enough] == [definition.samples.min_rows]


def other_family(*counts: str) -> Any:
    """Return a definition of another family that asks for the suite."""
    attributes = [{"name": name, "type": "int", "domain": [0, 1e9]} for name in counts]
    element = {"name": "element", "type": "category", "values": ["i1", "a1"]}
    document = {
        "stream": "requests",
        "family": "sifter",
        "attributes": [element, *attributes],
        "samples": {"expectations": "operators"},
    }
    return parse(document, "requests.yaml")


def test_another_family_has_no_inputs_that_must_occur() -> None:
    suite = rules.suite_for(other_family(*COUNTS))
    assert kinds(suite, "expect_column_distinct_values_to_contain_set") == []


def test_missing_attributes_are_named() -> None:
    with pytest.raises(InvalidInput, match="must name cpu_us"):
        operators.build_suite(other_family(*COUNTS[:-1]))


def test_the_suite_is_offered() -> None:
    assert "operators" in rules.available()
