"""The program against libraries, and beyond the paper: bandwidth, windows, priorities, minimums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.fit.examples import chains, figure_1, figure_7
from benchmarks.fit.networks import networks, random_network
from planning.fit import QueryNetwork
from planning.fit.model import MethodLimit
from planning.fit.planner import plan_network
from planning.fit.program import NetworkProgram, optimum


def test_random_networks_have_one_optimum_by_three_solvers():
    rng = np.random.default_rng(0)
    for network in networks(120, 21):
        rates = network.max_rates * rng.random(len(network.inputs)) ** 0.5
        best = optimum(network, rates)
        exactly = pytest.approx(best.throughput, abs=1e-9 * max(best.throughput, 1e-6))
        assert NetworkProgram(network).resolve(rates) == exactly
        assert NetworkProgram(network, "highs").resolve(rates) == exactly
        assert network.evaluate(rates, best.drops).feasible


def test_the_model_reports_its_status():
    program = NetworkProgram(figure_1())
    assert program.status == "NOT_SOLVED"
    passed = program.solve(np.array([1.0, 1.0]))
    assert program.status == "OPTIMAL"
    assert passed.tolist() == pytest.approx([0.2, 0.2, 0.4, 0.4, 0.2, 0.4])


def document_of(network: QueryNetwork, **changes: Any) -> dict[str, Any]:
    return {**network.to_document(), **changes}


def test_a_full_link_sheds_before_sending():
    wide = chains("c", [1, 1], [1, 1], capacity=10)
    assert optimum(wide, [1, 1]).drops == {}
    narrow = document_of(wide, links=[{"from": "A", "to": "B", "capacity": 0.5}])
    network = QueryNetwork.from_document(narrow)
    best = optimum(network, [1, 1])
    assert best.throughput == pytest.approx(0.5)
    done = network.evaluate([1, 1], best.drops)
    assert done.links == pytest.approx({"A->B": 0.5})
    assert network.evaluate([1, 1]).overloaded == ("A->B",)


def test_size_counts_on_links():
    document = chains("c", [1, 1], [1, 1], capacity=10).to_document()
    document["links"] = [{"from": "A", "to": "B", "capacity": 1.0}]
    document["operators"][0]["size"] = 4.0  # a1 is the heavier stream
    best = optimum(QueryNetwork.from_document(document), [1, 1])
    assert best.throughput == pytest.approx(1.0)
    assert best.drops == pytest.approx({"i1->a1": 1.0})


def test_a_stream_is_sent_once_to_a_server():
    """Two consumers of one stream on the same server need its tuples once on the link."""
    document = figure_7().to_document()
    document["nodes"] = [{"id": "A", "capacity": 100, "parent": None},
                         {"id": "B", "capacity": 100, "parent": "A"}]  # fmt: skip
    for operator in document["operators"][1:]:
        operator["node"] = "B"
    document["links"] = [{"from": "A", "to": "B", "capacity": 0.5}]
    network = QueryNetwork.from_document(document)
    best = optimum(network, [1.0])
    assert best.throughput == pytest.approx(1.0)  # half the tuples, to both outputs
    assert optimum(network, [1.0], "glop").throughput == pytest.approx(1.0)
    assert network.evaluate([1.0], best.drops).links == pytest.approx({"A->B": 0.5})


def diamond() -> QueryNetwork:
    """A sends to B and C, both send to D: no tree of servers."""
    operators = [("a", "A", ["x"]), ("b", "B", ["a"]), ("c", "C", ["a"]), ("d", "D", ["b", "c"])]
    return QueryNetwork.from_document(
        {
            "name": "diamond",
            "nodes": [{"id": n, "capacity": c, "parent": None}
                      for n, c in (("A", 2), ("B", 0.5), ("C", 0.8), ("D", 1.0))],
            "inputs": [{"id": "x", "max_rate": 2}],
            "operators": [
                {"id": o, "node": n, "type": "union" if len(i) > 1 else "map", "cost": 1,
                 "selectivity": 1, "inputs": i}
                for o, n, i in operators
            ],
            "outputs": [{"id": "o", "stream": "d", "weight": 1}],
        }
    )  # fmt: skip


def test_non_tree_graphs_are_planned_exactly_and_tables_refuse_them():
    network = diamond()
    best = optimum(network, [2.0])
    assert best.throughput == pytest.approx(1.0)
    assert best.throughput == pytest.approx(NetworkProgram(network).resolve(np.array([2.0])))
    plan = plan_network(network)
    assert network.evaluate([2.0], plan.at([2.0])).feasible
    with pytest.raises(MethodLimit, match="tree"):
        plan_network(network, method="c_fit")
    assert plan_network(network, method="solver", error=0.05).plan_count > 0


def test_sliding_windows_cost_more_tuples_per_kept_window(windowed: Any):
    network = windowed(batch=10)  # 1 + (40/10 - 1)/10 = 1.3 tuples per share of windows
    best = optimum(network, [20.0])
    done = network.evaluate([20.0], best.drops)
    assert done.feasible
    assert done.loads["A"] == pytest.approx(10.0)
    assert best.throughput == pytest.approx(1.0 / 1.3)
    assert optimum(windowed(1, size=10), [20.0]).throughput == pytest.approx(1.0)  # tumbling
    assert optimum(network, [10.0]).drops == {}  # fits whole: no windows are lost


def test_windowed_plans_hold_and_the_papers_methods_refuse(windowed: Any):
    network = windowed(batch=4)
    plan = plan_network(network)
    for rate in np.linspace(0.1, 40, 50):
        assert network.evaluate([rate], plan.at([rate])).feasible
    for method in ("solver", "c_fit"):
        with pytest.raises(MethodLimit, match="window"):
            plan_network(network, method=method)


def first_output(**changes: Any) -> QueryNetwork:
    """Return the paper's Figure 1 with another first output."""
    document = figure_1().to_document()
    document["outputs"][0].update(changes)
    return QueryNetwork.from_document(document)


def test_priorities_come_before_weights():
    network = first_output(priority=1)
    for solver in ("simplex", "glop", "highs"):
        best = optimum(network, [1, 1], solver)
        # Query 1 alone can have 1/3 (server B); what is left of A goes to query 2.
        assert best.outputs["o1"] == pytest.approx(1 / 3, abs=1e-8)
        assert best.outputs["o2"] == pytest.approx(0.0, abs=1e-8)


def test_minimum_throughput_is_kept_as_far_as_rates_allow():
    network = first_output(minimum=0.3)
    for solver in ("simplex", "glop", "highs"):
        best = optimum(network, [1, 1], solver)
        assert best.outputs == pytest.approx({"o1": 0.3, "o2": 0.1}, abs=1e-8)
        assert best.shortfalls == {}
    short = optimum(network, [0.2, 1.0])
    assert short.outputs["o1"] == pytest.approx(0.2)
    assert short.shortfalls == pytest.approx({"o1": 0.1})
    assert optimum(network, [0.2, 0.1]).drops == {}


def test_plans_with_priorities_minimums_and_links_are_exact():
    rng = np.random.default_rng(1)
    for seed in range(12):
        document = random_network(
            np.random.default_rng(seed), inputs=3, nodes=3, operators=8, links=True
        ).to_document()
        full = QueryNetwork.from_document(document).evaluate(
            [i["max_rate"] for i in document["inputs"]]
        )
        for k, output in enumerate(document["outputs"]):
            output["priority"] = k % 2
            output["minimum"] = 0.02 * full.outputs[output["id"]] if k % 3 == 0 else 0.0
        network = QueryNetwork.from_document(document)
        plan = plan_network(network, method="regions")
        for _ in range(20):
            rates = network.max_rates * rng.random(3)
            chosen = network.evaluate(rates, plan.at(rates))
            best = optimum(network, rates, "highs")
            assert chosen.feasible
            high = [o.id for o in network.outputs if o.priority == 1]
            weight = {o.id: o.weight for o in network.outputs}
            mine = sum(weight[o] * chosen.outputs[o] for o in high)
            theirs = sum(weight[o] * best.outputs[o] for o in high)
            assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-6)
            assert chosen.throughput == pytest.approx(best.throughput, rel=1e-6, abs=1e-6)
