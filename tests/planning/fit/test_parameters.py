"""The family's part of a stream definition: what it refuses, and where it says the mistake is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from benchmarks.fit.examples import figure_7
from planning.errors import DefinitionError, InvalidInput, Mistake
from planning.fit import QueryNetwork, demo
from planning.fit.parameters import Parameters
from planning.fit.planner import plan_network


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


def without(kind: str, field: str):
    document = demo.figure_1().to_document()
    for item in document[kind]:
        item[field] = 0
    return document


@pytest.mark.parametrize(("document", "message"), [
    (without("outputs", "weight"), "weights of the outputs must be a number above 0"),
    (without("operators", "cost"), "costs of the operators must be a number above 0"),
    (
        {**demo.figure_1().to_document(), "links": [{"from": "A", "to": "A", "capacity": 1}]},
        "link A->A must join two nodes, got one",
    ),
])  # fmt: skip
def test_networks_that_no_plan_makes_sense_of_are_refused(document, message):
    with pytest.raises(ValidationError, match=message):
        Parameters(network=document)
    with pytest.raises(Mistake, match=message):
        plan_network(QueryNetwork.from_document(document))


@pytest.mark.parametrize("method", ["solver", "c_fit", "simplex", "exact"])
def test_a_part_without_cost_or_weight_is_planned_with_the_rest(method):
    """Figure 7 beside it on its own server: fragments are planned on their own."""
    other, document = figure_7().to_document(), demo.figure_1().to_document()
    for key in ("nodes", "inputs", "operators", "outputs"):
        renamed = json.dumps(other[key]).replace('"A"', '"C"').replace('"o', '"p')
        document[key] += json.loads(renamed)
    for output in document["outputs"][:2]:
        output["weight"] = 0
    plan = plan_network(QueryNetwork.from_document(document), method=method)
    done = plan.network.evaluate([1, 1, 0.2], plan.at([1, 1, 0.2]))
    assert done.feasible
    assert done.throughput == pytest.approx(0.28, rel=0.15)


@pytest.mark.parametrize("rates", [["1", "2"], "12", [None, 1.0], np.array(["1", "2"]), None])
def test_rates_that_are_texts_are_refused(rates):
    plan = plan_network(demo.figure_1())
    with pytest.raises(InvalidInput, match="rates of i1, i2 must be numbers"):
        plan.at(rates)
    with pytest.raises(InvalidInput, match="rates of i1, i2 must be numbers"):
        plan.at_many(np.array([["1", "2"]]))
