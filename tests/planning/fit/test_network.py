"""The network document: what it means, and every way it can be wrong."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
import yaml

from benchmarks.fit.examples import figure_1, figure_7
from benchmarks.fit.networks import random_network
from planning.errors import InvalidInput, PlanningError
from planning.fit import QueryNetwork
from planning.fit.network.graph import fragments

PLAIN: dict[str, Any] = {
    "name": "plain",
    "nodes": [
        {"id": "A", "capacity": 10.0, "parent": None},
        {"id": "B", "capacity": 5.0, "parent": "A"},
    ],
    "inputs": [{"id": "i", "max_rate": 8.0}, {"id": "k", "max_rate": 4.0}],
    "operators": [
        {"id": "f", "node": "A", "type": "filter", "cost": 0.5, "selectivity": 0.25,
         "inputs": ["i"]},
        {"id": "j", "node": "B", "type": "join", "cost": 2.0, "selectivity": 0.1,
         "inputs": ["f", "k"], "windows": [20.0, 5.0]},
        {"id": "u", "node": "B", "type": "union", "cost": 0.1, "selectivity": 1.0,
         "inputs": ["f", "k"]},
    ],
    "outputs": [
        {"id": "matches", "stream": "j", "weight": 2.0},
        {"id": "all", "stream": "u", "weight": 0.5},
    ],
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(PLAIN)
    *way, last = path.split(".")
    place: Any = document
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    if value is KeyError:
        del place[last]
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return document


def test_flows_by_hand():
    network = QueryNetwork.from_document(PLAIN)
    done = network.evaluate({"i": 8.0, "k": 4.0})
    # f emits 2/s; the join yields 0.1*5 per tuple of f and 0.1*20 per tuple of k.
    assert done.outputs == pytest.approx({"matches": 2 * 0.5 + 4 * 2.0, "all": 6.0})
    assert done.loads == pytest.approx({"A": 4.0, "B": 2.0 * 6 + 0.1 * 6})
    assert done.throughput == pytest.approx(2.0 * 9.0 + 0.5 * 6.0)
    assert done.overloaded == ("B",)
    assert not done.feasible


def test_drops_on_arcs_with_ports():
    network = QueryNetwork.from_document(PLAIN)
    drops = {"i->f": 0.5, "f->j:0": 1.0, "k->j:1": 0.25, "j->matches": 0.5}
    done = network.evaluate([8.0, 4.0], drops)
    assert done.outputs == pytest.approx({"matches": 0.5 * 3 * 2.0, "all": 1.0 + 4.0})
    assert done.loads == pytest.approx({"A": 2.0, "B": 2.0 * 3 + 0.1 * 5})


def test_arc_names():
    names = [arc.name for arc in QueryNetwork.from_document(PLAIN).arcs]
    assert names == ["i->f", "f->j:0", "k->j:1", "f->u:0", "k->u:1", "j->matches", "u->all"]


def test_files_of_both_kinds_are_read_and_written(tmp_path):
    network = QueryNetwork.from_document(PLAIN)
    for name in ("network.json", "network.yaml"):
        network.write(tmp_path / name)
        assert QueryNetwork.read(tmp_path / name).to_document() == network.to_document()


def test_document_round_trips_as_json_and_yaml():
    network = QueryNetwork.from_document(PLAIN)
    again = QueryNetwork.from_document(json.loads(json.dumps(network.to_document())))
    assert again.to_document() == network.to_document()
    third = QueryNetwork.from_document(yaml.safe_load(yaml.safe_dump(network.to_document())))
    assert third.to_document() == network.to_document()


def test_table_1_rows():
    """Loads of the five plans of Table 1 (the throughput columns assume a fair scheduler)."""
    network = figure_1()
    rows = {(1, 1): (3, 4), (1 / 3, 1 / 3): (1, 4 / 3), (1, 0): (1, 3), (0, 1 / 2): (1, 1 / 2),
            (1 / 5, 2 / 5): (1, 1)}  # fmt: skip
    for (top, bottom), (at_a, at_b) in rows.items():
        done = network.evaluate([1, 1], {"i1->a1": 1 - top, "i2->a2": 1 - bottom})
        assert done.loads == pytest.approx({"A": at_a, "B": at_b})
    assert network.evaluate([1 / 5, 2 / 5]).throughput == pytest.approx(3 / 5)


def test_figure_7_loads():
    network = figure_7()
    assert network.evaluate([0.2]).loads["A"] == pytest.approx(1.6)
    assert network.evaluate([0.2], {"i->common": 0.375}).throughput == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("nodes.0.capacity", 0, "node A"),
        ("nodes.0.capacity", -1, "node A"),
        ("nodes.0.capacity", float("nan"), "node A"),
        ("nodes.1.parent", "Z", "node B"),
        ("nodes.0.parent", "B", "cycle"),
        ("nodes", [], "nodes"),
        ("inputs.0.max_rate", 0, "input i"),
        ("inputs.0.max_rate", float("inf"), "input i"),
        ("inputs.1.id", "i", "i twice"),
        ("operators.0.cost", KeyError, "operator f"),
        ("operators.0.cost", -0.1, "operator f"),
        ("operators.0.cost", float("nan"), "operator f"),
        ("operators.0.cost", "cheap", "operator f"),
        ("operators.0.selectivity", 1.5, "operator f"),
        ("operators.0.selectivity", -0.5, "operator f"),
        ("operators.0.selectivity", KeyError, "operator f"),
        ("operators.1.selectivity", -0.5, "operator j"),
        ("operators.0.node", "Z", "operator f"),
        ("operators.0.type", "sort", "operator f"),
        ("operators.0.inputs", ["nowhere"], "operator f"),
        ("operators.0.inputs", [], "operator f"),
        ("operators.0.inputs", ["i", "k"], "operator f"),
        ("operators.0.inputs", ["u"], "got one through f, u$"),
        ("operators.0.inputs", "i", "operator f"),
        ("operators.1.windows", KeyError, "join j"),
        ("operators.1.windows", [1.0], "join j"),
        ("operators.0.windows", [1, 2], "operator f"),
        ("operators.0.speed", 3, "speed"),
        ("outputs.0.stream", "z", "output matches"),
        ("outputs.0.weight", -1, "output matches"),
        ("outputs", [], "outputs"),
        ("outputs.1.id", "matches", "matches twice"),
        ("links", [{"from": "A", "to": "Z", "capacity": 1}], "A->Z"),
        ("links", [{"from": "A", "to": "B", "capacity": 0}], "A->B"),
    ],
)
def test_bad_documents_name_what_is_wrong(path: str, value: Any, named: str):
    with pytest.raises(InvalidInput, match=named):
        QueryNetwork.from_document(changed(path, value))


def test_joins_may_emit_more_than_arrives():
    network = QueryNetwork.from_document(changed("operators.1.selectivity", 3.0))
    assert network.evaluate([0.0, 1.0]).outputs["matches"] == pytest.approx(60.0)


@pytest.mark.parametrize("rates", [[1.0], [1, 2, 3], [1, -1], [1, float("nan")], [float("inf"), 1]])
def test_bad_rate_vectors(rates: list[float]):
    with pytest.raises(InvalidInput, match="rate"):
        QueryNetwork.from_document(PLAIN).evaluate(rates)


def test_bad_rate_names_and_drops():
    network = QueryNetwork.from_document(PLAIN)
    with pytest.raises(InvalidInput, match="missing: k"):
        network.evaluate({"i": 1.0})
    with pytest.raises(InvalidInput, match="unknown: z"):
        network.evaluate({"i": 1.0, "k": 1.0, "z": 1.0})
    with pytest.raises(InvalidInput, match="nowhere"):
        network.evaluate([1, 1], {"nowhere": 0.5})
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="i->f"):
            network.evaluate([1, 1], {"i->f": bad})


def test_every_error_is_a_planning_error():
    assert issubclass(InvalidInput, PlanningError)


def test_fragments_are_cut_at_servers_and_streams_not_at_inputs():
    network = QueryNetwork.from_document(
        {
            "name": "two",
            "nodes": [{"id": n, "capacity": 1, "parent": None} for n in "ABC"],
            "inputs": [{"id": i, "max_rate": 1} for i in ("x", "y")],
            "operators": [
                {"id": o, "node": n, "type": "map", "cost": 1, "selectivity": 1, "inputs": [i]}
                for o, n, i in (("p", "A", "x"), ("q", "B", "x"), ("r", "B", "y"), ("s", "C", "p"))
            ],
            "outputs": [{"id": f"o{k}", "stream": k, "weight": 1} for k in ("q", "r", "s", "x")],
        }
    )
    parts = fragments(network)
    assert [{o.id for o in part.operators} for part in parts] == [{"p", "s"}, {"q", "r"}]
    assert [part.input_ids for part in parts] == [("x",), ("x", "y")]


def test_fragment_throughputs_add_up():
    rng = np.random.default_rng(8)
    for _ in range(20):
        network = random_network(rng, inputs=4, nodes=5, operators=6)
        rates = dict(zip(network.input_ids, network.max_rates * rng.random(4), strict=True))
        parts = fragments(network)
        total = sum(
            part.evaluate({i: rates[i] for i in part.input_ids}).throughput for part in parts
        )
        assert total == pytest.approx(network.evaluate(rates).throughput)
