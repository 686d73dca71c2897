"""The family's part of a stream definition."""

from __future__ import annotations

from typing import Any

import pytest

from planning.attributes.parameters import Parameters
from planning.errors import DefinitionError
from planning.examples import demo_definition
from planning.streams import StreamDefinition, parse

PARTS = {"stream", "family", "attributes", "gate"}
DOCUMENT: dict[str, Any] = {
    **demo_definition("attributes").model_dump(mode="json", include=PARTS),
    "parameters": {"order_by": ["sequence"], "sizes": {"sequence": 0, "block": 0}},
}


def definition(**parameters: Any) -> StreamDefinition:
    document = {**DOCUMENT, "parameters": {**DOCUMENT["parameters"], **parameters}}
    return parse(document, "sensors.yaml")


def test_every_field_is_described() -> None:
    for name, field in Parameters.model_fields.items():
        assert field.description, name


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cid": ["nobody"]}, "parameters.cid must be among the attributes"),
        ({"must_keep": ["nobody"]}, "parameters.must_keep"),
        ({"order_by": ["nobody"]}, "parameters.order_by"),
        ({"sizes": {"nobody": 4}}, "parameters.sizes"),
        ({"stream_attribute": "nobody"}, "parameters.stream_attribute"),
        ({"sizes": {"temperature": -1}}, "parameters.sizes"),
        ({"periods": [2, 4]}, "periods that include 1"),
        ({"capacity_ratio": 0}, "parameters.capacity_ratio"),
        ({"method": "guess"}, "parameters.method"),
        ({"surprise": 1}, "parameters.surprise"),
        (
            {"must_keep": [a["name"] for a in DOCUMENT["attributes"]]},
            "at least one attribute that may be shed",
        ),
    ],
)
def test_mistakes_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        definition(**parameters)
