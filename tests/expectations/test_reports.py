"""The suite for reports: what names a tuple is required, readings may be missing."""

from __future__ import annotations

from typing import Any

from expectations import rules
from planning.stages.batch_rules import EXISTS
from planning.streams import StreamDefinition, parse


def definition(**parameters: Any) -> StreamDefinition:
    return parse(
        {
            "stream": "s",
            "family": "attributes",
            "attributes": [
                {"name": "sequence", "type": "int", "domain": [0, 100]},
                {"name": "who", "type": "category", "values": ["a", "b"]},
                {"name": "x", "domain": [0, 10]},
                {"name": "y", "domain": [0, 10]},
            ],
            "samples": {"expectations": "reports", "time_column": "at"},
            "parameters": {"order_by": ["sequence"], **parameters},
        },
        "s.yaml",
    )


def columns_of(suite: dict[str, Any], kind: str) -> list[str]:
    return [e["kwargs"]["column"] for e in suite["expectations"] if e["type"] == kind]


def test_only_what_names_or_orders_a_tuple_is_required() -> None:
    suite = rules.suite_for(definition(cid=["who"], must_keep=["y"]))
    assert columns_of(suite, rules.NOT_NULL) == ["sequence", "who", "y", "at"]
    assert columns_of(suite, rules.BETWEEN) == ["sequence", "x", "y", "at"]
    assert columns_of(suite, rules.IN_SET) == ["who"]
    assert columns_of(suite, EXISTS) == ["sequence", "who", "x", "y", "at"]


def test_a_shared_channel_needs_its_stream() -> None:
    suite = rules.suite_for(definition(stream_attribute="who"))
    assert "who" in columns_of(suite, rules.NOT_NULL)
