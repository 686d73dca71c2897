"""The suites: what they require of each kind of sample."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from expectations import building, rules
from planning.errors import InvalidInput
from planning.stages.batch_rules import EXISTS
from planning.streams import StreamDefinition, parse


def definition(**changes: Any) -> StreamDefinition:
    document: dict[str, Any] = {
        "stream": "s",
        "family": "sifter",
        "attributes": [
            {"name": "x", "domain": [0, 10]},
            {"name": "y", "type": "int", "domain": [-5, 5]},
            {"name": "kind", "type": "category", "values": ["a", "b"]},
        ],
    }
    return parse({**document, **changes}, "s.yaml")


def kwargs_of(suite: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e["kwargs"] for e in suite["expectations"] if e["type"] == kind]


def test_tuples_require_every_attribute_inside_its_domain():
    suite = rules.suite_for(definition(samples={"min_rows": 7}))
    assert suite["meta"]["columns"] == {"x": "float", "y": "int", "kind": "category"}
    assert [k["column"] for k in kwargs_of(suite, EXISTS)] == ["x", "y", "kind"]
    assert [k["column"] for k in kwargs_of(suite, rules.NOT_NULL)] == ["x", "y", "kind"]
    assert kwargs_of(suite, rules.BETWEEN) == [
        {"column": "x", "min_value": 0.0, "max_value": 10.0},
        {"column": "y", "min_value": -5.0, "max_value": 5.0},
    ]
    assert kwargs_of(suite, rules.IN_SET) == [{"column": "kind", "value_set": ["a", "b"]}]
    assert kwargs_of(suite, "expect_table_row_count_to_be_between") == [
        {"min_value": 7, "max_value": None}
    ]
    assert {e["severity"] for e in suite["expectations"]} == {"critical"}


def test_age_is_checked_only_with_a_time_column_and_a_limit():
    newest = "expect_column_max_to_be_between"
    for samples in ({}, {"time_column": "at"}, {"max_age_s": 60}):
        assert kwargs_of(rules.suite_for(definition(samples=samples)), newest) == []
    suite = rules.suite_for(definition(samples={"time_column": "at", "max_age_s": 60}))
    resolved = rules.resolve(suite, {"oldest_s": 40.0, "latest_s": 400.0})
    assert kwargs_of(resolved, newest) == [{"column": "at", "min_value": 40.0, "max_value": None}]
    at = [k for k in kwargs_of(resolved, rules.BETWEEN) if k["column"] == "at"]
    assert at == [{"column": "at", "min_value": -building.LARGEST, "max_value": 400.0}]
    assert kwargs_of(suite, newest)[0]["min_value"] == building.OLDEST  # left as it was


def test_an_attribute_can_be_the_time_whose_age_is_checked():
    newest = "expect_column_max_to_be_between"
    timed = {"time_column": "x", "max_age_s": 60}
    suite = rules.suite_for(definition(samples=timed))
    assert suite["meta"]["columns"]["x"] == "float"
    assert [k["column"] for k in kwargs_of(suite, newest)] == ["x"]
    assert [k["column"] for k in kwargs_of(suite, rules.NOT_NULL)] == ["x", "y", "kind"]
    without_limit = rules.suite_for(definition(samples={"time_column": "x"}))
    assert without_limit == rules.suite_for(definition())


def test_positions_require_who_when_where_and_how_fast():
    suite = rules.suite_for(definition(samples={"expectations": "positions"}))
    assert suite["meta"]["columns"] == {
        "object_id": "text", "time": "time",
        "x": "float", "y": "int", "kind": "category", "speed": "float",
    }  # fmt: skip
    speed = [k for k in kwargs_of(suite, rules.BETWEEN) if k["column"] == "speed"]
    assert speed == [{"column": "speed", "min_value": 0.0, "max_value": building.LARGEST}]


def test_positions_without_axes_are_refused_with_the_remedy():
    flat = definition(
        attributes=[{"name": "lon", "domain": [0, 1]}], samples={"expectations": "positions"}
    )
    with pytest.raises(InvalidInput, match="must name x, y for .* got lon; rename"):
        rules.suite_for(flat)


def test_row_rules_are_told_apart_from_batch_rules_and_tolerate_a_share():
    rows, batch = rules.split(rules.suite_for(definition()))
    assert {e["type"] for e in rows} == {rules.NOT_NULL, rules.BETWEEN, rules.IN_SET}
    assert {e["type"] for e in batch} == {EXISTS, "expect_table_row_count_to_be_between"}
    assert {e["kwargs"]["mostly"] for e in rules.tolerant(rows, 0.25)} == {0.75}
    assert all("mostly" not in e["kwargs"] for e in rows)


def test_only_suites_are_offered():
    offered = rules.available()
    assert {"positions", "tuples"} <= set(offered)
    assert not {"building", "checkpoint", "rules"} & set(offered)


def test_importing_the_suites_loads_neither_spark_nor_great_expectations():
    code = (
        "import sys, expectations.rules as r; r.available(); "
        "print([m for m in ('great_expectations', 'pyspark') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"
