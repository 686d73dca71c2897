"""The family's part of a stream definition, and the demo stream through the stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planning import families
from planning.attributes import demo
from planning.attributes.parameters import Parameters
from planning.errors import DefinitionError
from planning.streams import StreamDefinition, parse

DOCUMENT: dict[str, Any] = {
    "stream": "sensors",
    "family": "attributes",
    "attributes": [
        {"name": "sequence", "type": "int", "domain": [0, 1e12]},
        {"name": "block", "type": "int", "domain": [0, 1e12]},
        {"name": "machine", "type": "category", "values": [f"m{k:02d}" for k in range(12)]},
        {"name": "temperature", "domain": [-50, 200]},
        {"name": "pressure", "domain": [0, 20]},
        {"name": "humidity", "domain": [-50, 150]},
        {"name": "vibration", "domain": [0, 100]},
        {"name": "power", "domain": [0, 500]},
        {"name": "speed", "domain": [0, 5000]},
        {"name": "state", "type": "category", "values": ["idle", "running", "service"]},
    ],
    "parameters": {"order_by": ["sequence"], "sizes": {"sequence": 0, "block": 0}},
    "gate": {"holdout_by": ["block"]},
}


@pytest.fixture(autouse=True)
def _family_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(dict.fromkeys((*families.NAMES, "attributes")))
    monkeypatch.setattr(families, "NAMES", names)


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


@pytest.mark.parametrize("method", ["on_change", "periods"])
def test_the_demo_stream_is_planned_and_beats_tuple_dropping(method: str, tmp_path: Path) -> None:
    from planning.attributes import planner, simulate, statistics

    stream = definition(method=method)
    train, fresh = demo.reports(0, 600), demo.reports(1_000_000, 300)
    found = statistics.build(train, stream)
    assert found.streams[0].cycle.cid == ("machine",)
    plan = planner.plan(found, stream)
    for outcome in simulate.evaluate(plan, fresh, stream, (0.5, 0.7)):
        assert outcome.quality > outcome.random_quality
        assert outcome.passed_fraction <= outcome.load
        assert outcome.loss_ratio < 0.6


def test_demo_batches_are_lasting_and_their_own(tmp_path: Path) -> None:
    from upath import UPath

    first = demo.land(UPath(tmp_path), 3, definition())
    assert first.read_bytes() == demo.land(UPath(tmp_path / "again"), 3, definition()).read_bytes()
    a, b = demo.reports(0, 10), demo.reports(1, 10)
    assert not set(a["sequence"]) & set(b["sequence"])
    assert np.isfinite(a["temperature"]).all()
