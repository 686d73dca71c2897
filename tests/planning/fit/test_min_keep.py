"""``min_keep``: every drop location keeps its share, at the least loss; capacities come first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs
from scipy.optimize import linprog

from benchmarks.fit import examples
from benchmarks.fit.networks import random_network
from planning.fit import Plan, QueryNetwork, demo
from planning.fit.model import MethodLimit
from planning.fit.planner import plan_network
from planning.fit.program import optimum
from planning.fit.shedder import Shedder
from planning.fit.simplex.shedding import shedding_program


def best_by_highs(network: QueryNetwork, rates: np.ndarray) -> tuple[float, float]:
    """Return the least shortfall and then the highest throughput, in the flows that pass arcs.

    One variable per arc and one shortfall per drop location; an arc that is none passes all.
    """
    arcs, program = network.arcs, shedding_program(network)
    shedding = {int(a): k for k, a in enumerate(program.locations) if a >= 0}
    size = len(arcs) + len(shedding)
    short = {a: len(arcs) + k for k, a in enumerate(shedding)}
    fixed, fixed_to, most, at_most = [], [], [], []
    for a, arc in enumerate(arcs):
        row, given = np.zeros(size), 0.0
        if arc.stream in network.input_ids:
            given = float(rates[network.input_ids.index(arc.stream)])
        else:
            for port, into in enumerate(network.arcs_into[arc.stream]):
                row[into] -= network.operator[arc.stream].gain(port)
        row[a] += 1.0
        if a not in shedding:
            fixed.append(row)
            fixed_to.append(given)
            continue
        most.append(row)
        at_most.append(given)
        keep = -network.min_keep * row
        keep[a] = -1.0
        keep[short[a]] = -1.0
        most.append(keep)
        at_most.append(-network.min_keep * given)
    for node in network.nodes:
        row = np.zeros(size)
        for operator in network.operators:
            if operator.node == node.id:
                row[list(network.arcs_into[operator.id])] += operator.cost
        most.append(row)
        at_most.append(node.capacity)
    highest = {a: program.scale[k] for a, k in shedding.items()}
    shortfall = np.zeros(size)
    for a, place in short.items():
        shortfall[place] = 1.0 / highest[a]
    value = np.zeros(size)
    for output in network.outputs:
        value[network.arc_index[f"{output.stream}->{output.id}"]] -= output.weight
    equal = (np.array(fixed), fixed_to) if fixed else (None, None)
    first = linprog(shortfall, np.array(most), at_most, *equal)
    assert first.status == 0
    second = linprog(value, np.array([*most, shortfall]), [*at_most, first.fun + 1e-9], *equal)
    assert second.status == 0
    return float(first.fun), float(-second.fun)


def shortfall(network: QueryNetwork, rates: np.ndarray, drops: np.ndarray) -> float:
    program = shedding_program(network)
    flows = network.evaluate_many(rates[None, :], drops[None, :]).arcs[0]
    total = 0.0
    for place, a in enumerate(program.locations):
        if a >= 0 and drops[a] > 1 - network.min_keep:
            arriving = (
                flows[a] / (1 - drops[a]) if drops[a] < 1 else arriving_at(network, a, rates, drops)
            )
            total += (drops[a] - 1 + network.min_keep) * arriving / program.scale[place]
    return total


def arriving_at(network: QueryNetwork, arc: int, rates: np.ndarray, drops: np.ndarray) -> float:
    open_arc = drops.copy()
    open_arc[arc] = 0.0
    return float(network.evaluate_many(rates[None, :], open_arc[None, :]).arcs[0, arc])


@pytest.mark.parametrize("seed", range(25))
def test_the_optimum_agrees_with_highs(seed: int):
    rng = np.random.default_rng(seed)
    drawn = random_network(rng, inputs=3, nodes=2, operators=7)
    network = structs.replace(drawn, min_keep=float(rng.choice([0.05, 0.3, 0.6])))
    plan = plan_network(network, method="simplex")
    for rates in rng.uniform(0.0, 2.0, (6, 3)) * network.max_rates:
        if network.evaluate(rates).feasible:
            assert plan.at(rates) == {}
            continue
        drops = plan.fractions(rates)
        done = network.evaluate_many(rates[None, :], drops[None, :])
        least, best = best_by_highs(network, rates)
        assert (done.loads <= network.capacities * (1 + 1e-9)).all()
        assert shortfall(network, rates, drops) == pytest.approx(least, abs=1e-7)
        assert done.throughput[0] == pytest.approx(best, rel=1e-6, abs=1e-7)
        assert optimum(network, rates, "glop").throughput == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_nothing_is_left_without_estimates_while_capacities_allow():
    network = structs.replace(demo.network(), min_keep=0.05)
    plan, free = plan_network(network), plan_network(demo.network())
    assert plan.method == "regions"
    for z in (0.9, 0.5, 0.2):
        assert plan.fractions(z).max() <= 0.95 + 1e-9
        assert plan.without_estimate(z) == ()
        assert plan.network.evaluate(plan.rates_at(z), plan.at(z)).feasible
        assert plan.predicted_quality(z) <= free.predicted_quality(z) + 1e-9
    assert free.without_estimate(0.2) != ()
    starved = plan.rates_at(0.001)
    assert plan.network.evaluate(starved, plan.at(starved)).feasible
    weights = Shedder(plan, 0.2)
    assert (1.0 - weights._steps / 2**32).min() >= 0.05 - 1e-9


def test_a_link_shared_by_arcs_keeps_the_share_on_each():
    """Where a sender's port and an arc both drop, what is left after both counts."""
    document = examples.figure_7().to_document()
    document["nodes"].append({"id": "B", "capacity": 0.3, "parent": "A"})
    for operator in document["operators"][1:]:
        operator["node"] = "B"
    document["links"] = [{"from": "A", "to": "B", "capacity": 0.2}]
    network = QueryNetwork.from_document({**document, "min_keep": 0.1})
    assert "" in shedding_program(network).names
    for rate in (0.25, 0.5, 1.0):
        plan = plan_network(network, method="simplex")
        drops = plan.at([rate])
        assert max(drops.values()) <= 0.9 + 1e-9 or rate > 0.5
        assert network.evaluate([rate], drops).feasible


def test_the_share_travels_with_the_plan_and_is_absent_by_default(define: Any):
    network = structs.replace(examples.figure_1(), min_keep=0.3)
    plan = plan_network(network)
    for again in (Plan.from_bytes(plan.to_bytes()), Plan.from_document(plan.to_document())):
        assert again.network.min_keep == 0.3
        assert again.at([1.0, 1.0]) == plan.at([1.0, 1.0])
    assert "min_keep" not in examples.figure_1().to_document()
    assert define(demo.network(), min_keep=0.1).parameters.query_network.min_keep == 0.1
    with pytest.raises(ValueError, match="min_keep"):
        QueryNetwork.from_document({**examples.figure_1().to_document(), "min_keep": 1.5})


@pytest.mark.parametrize("method", ["solver", "c_fit"])
def test_methods_with_an_error_bound_refuse_it(method: str):
    network = structs.replace(examples.figure_1(), min_keep=0.3)
    with pytest.raises(MethodLimit, match="min_keep"):
        plan_network(network, method=method)
