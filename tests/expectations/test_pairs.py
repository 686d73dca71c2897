"""The suite for pairs of streams."""

from __future__ import annotations

from typing import Any

import pytest

from expectations import pairs, rules
from planning.errors import InvalidInput
from planning.streams import StreamDefinition, parse


def definition(**changes: Any) -> StreamDefinition:
    document: dict[str, Any] = {
        "stream": "news",
        "family": "joins",
        "attributes": [
            {"name": "agency", "type": "category", "values": ["first", "second"]},
            {"name": "time_s", "domain": [0, 1e9]},
            {"name": "item", "type": "int", "domain": [-1, 99]},
        ],
        "samples": {"min_rows": 10},
        "parameters": {"stream": "agency"},
    }
    return parse({**document, **changes}, "news.yaml")


def test_both_streams_must_occur_and_items_may_be_absent() -> None:
    suite = rules.suite_for(definition())
    contain = [
        e["kwargs"]
        for e in suite["expectations"]
        if e["type"] == "expect_column_distinct_values_to_contain_set"
    ]
    assert contain == [{"column": "agency", "value_set": ["first", "second"]}]
    between = {
        e["kwargs"]["column"]: (e["kwargs"]["min_value"], e["kwargs"]["max_value"])
        for e in suite["expectations"]
        if e["type"] == rules.BETWEEN
    }
    assert between == {"time_s": (0.0, 1e9), "item": (-1.0, 99.0)}
    _, batch = rules.split(suite)
    assert contain[0] in [e["kwargs"] for e in batch]


def test_a_separate_time_column_is_required() -> None:
    made = definition(samples={"time_column": "landed_at", "max_age_s": 60})
    assert pairs.build_suite(made)["meta"]["columns"]["landed_at"] == "time"


def test_without_a_stream_attribute_it_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="category with two values .* parameters.stream"):
        pairs.build_suite(definition(family="sifter", parameters={}))
