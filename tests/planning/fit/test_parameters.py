"""The family's part of a stream definition: what it refuses, and where it says the mistake is."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from benchmarks.fit.examples import figure_7
from planning.errors import DefinitionError, Mistake
from planning.fit import demo
from planning.fit.parameters import Parameters


def test_a_mistake_in_the_network_names_the_element():
    broken = demo.figure_1().to_document()
    broken["operators"][0]["cost"] = -1
    with pytest.raises(ValidationError, match="cost of operator a1"):
        Parameters(network=broken)
    with pytest.raises(ValidationError, match="method"):
        Parameters(network=demo.figure_1().to_document(), method="magic")


def test_attributes_must_hold_counts_of_every_element(define):
    network = demo.figure_1()
    good = define(network)
    good.parameters.check_definition(good)
    element, *counts = [a.model_dump(exclude_defaults=True) for a in good.attributes]
    with pytest.raises(DefinitionError, match="none named element"):
        define(network, {"attributes": counts})
    fewer = {**element, "values": element["values"][:-1]}
    with pytest.raises(DefinitionError, match="with the values"):
        define(network, {"attributes": [fewer, *counts]})
    with pytest.raises(DefinitionError, match="holdout_by"):
        define(network, {"gate": {"holdout_by": []}})


def test_mistakes_say_where_they_are(define):
    network = demo.figure_1()
    other = define(figure_7())
    with pytest.raises(Mistake) as attributes:
        Parameters(network=network.to_document()).check_definition(other)
    assert attributes.value.at == ("attributes", 0)
    broken = network.to_document()
    broken["operators"][2]["inputs"] = ["nowhere"]
    with pytest.raises(Mistake) as stream:
        type(network).from_document(broken)
    assert stream.value.at == ("operators", 2, "inputs", 0)
    assert (stream.value.field, stream.value.got) == ("operator a2", "unknown stream 'nowhere'")


def test_mistakes_in_the_network_are_found_in_the_definition(define):
    broken = demo.network().to_document()
    broken["operators"][3]["inputs"] = ["shuttle", "nowhere"]
    with pytest.raises(DefinitionError, match="operator pages must read"):
        define(demo.network(), {"parameters": {"network": broken}})
    renamed = demo.network().to_document()
    renamed["operators"][-1]["id"] = "zip"
    renamed["outputs"][-1]["stream"] = "zip"
    with pytest.raises(DefinitionError, match="with the values"):
        define(demo.network(), {"parameters": {"network": renamed}})
