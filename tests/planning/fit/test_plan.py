"""The plan: loads, qualities, servers, and lightness."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import planning.fit
from benchmarks.fit import examples
from benchmarks.fit.networks import random_network
from planning.errors import InvalidInput
from planning.fit import Plan, QueryNetwork
from planning.fit.planner import plan_network
from planning.fit.printed.distributions import Exponential
from planning.fit.shedder import Shedder


def test_planning_is_deterministic(plan: Plan):
    method = {"regions": "exact"}.get(plan.method, plan.method)
    again = plan_network(
        examples.figure_9("c"), method=method, error=0.1, workload=Exponential(0.2, 2)
    )
    assert again.to_bytes() == plan.to_bytes()


def test_at_takes_vectors_names_and_scalars(plan: Plan):
    by_name = plan.at({"i1": 60.0, "i2": 30.0})
    assert by_name == plan.at([60.0, 30.0]) == plan.at(np.array([60.0, 30.0]))
    assert by_name == {
        plan.network.arcs[k].name: value
        for k, value in enumerate(plan.at_many(np.array([[60.0, 30.0]]))[0])
        if value > 0
    }
    half = plan.at(0.5)
    assert half == plan.at(plan.reference / 0.5)
    assert plan.at(1.0) == {}
    assert max(plan.network.evaluate(plan.reference).loads.values()) == pytest.approx(1.0)


def test_bad_loads(plan: Plan):
    for bad in (-0.1, 1.5, float("nan")):
        with pytest.raises(InvalidInput, match="load must lie in"):
            plan.at(bad)
    with pytest.raises(InvalidInput, match="i2"):
        plan.at([1.0, float("nan")])
    for bad in (float("nan"), float("inf"), -1.0):
        with pytest.raises(InvalidInput, match="rate of input i2 must be finite and >= 0"):
            plan.at_many(np.array([[1.0, 2.0], [1.0, bad]]))
    with pytest.raises(InvalidInput, match=r"rows of 2 numbers, got shape \(2, 3\)"):
        plan.at_many(np.ones((2, 3)))
    assert plan.at_many(np.empty((0, 2))).shape == (0, len(plan.network.arcs))


def test_rates_outside_the_planned_space_stay_feasible(plan: Plan):
    for rates in ([1e3, 5.0], [1e6, 1e6], [0.0, 400.0]):
        assert plan.network.evaluate(rates, plan.at(rates)).feasible


def test_quality_rises_with_the_share_afforded():
    plan = plan_network(examples.many_servers(5, 6))
    quality = [plan.predicted_quality(z) for z in np.linspace(0, 1, 41)]
    assert np.all(np.diff(quality) >= -1e-9)
    assert quality[0] == 0.0
    assert quality[-1] == pytest.approx(1.0)


def test_every_server_gets_its_own_drops():
    document = examples.figure_1().to_document()
    document["operators"].append(
        {"id": "b3", "node": "B", "type": "map", "cost": 1, "selectivity": 1, "inputs": ["b1"]}
    )
    document["outputs"].append({"id": "o3", "stream": "b3", "weight": 0.1})
    plan = plan_network(QueryNetwork.from_document(document))
    arcs = [arc.name for arc in plan.network.arcs]
    applied = {s: {a for a, own in zip(arcs, plan.applied_by(s), strict=True) if own} for s in "AB"}
    assert applied["A"] | applied["B"] == set(arcs)
    assert not applied["A"] & applied["B"]
    dropped = plan.at([1.0, 1.0])
    assert {arc for arc in dropped if arc in applied["A"]} == {"i1->a1", "i2->a2"} & set(dropped)
    assert {arc: dropped[arc] for arc in dropped if arc in applied["B"]} == pytest.approx(
        {"b1->b3": 1.0}
    )


def test_the_share_that_passes_is_that_of_the_shedder(plan: Plan):
    """Items of the inputs in the proportions of the observed rates, offered by input."""
    share = plan.reference / plan.reference.sum()
    counts = np.round(share * 20_000).astype(int)
    items = np.repeat(plan.network.input_ids, counts)
    for z in (0.05, 0.3, 0.7, 1.0):
        kept = Shedder(plan, z).offer({"input": items}).sum()
        assert plan.passed_fraction(z) == pytest.approx(kept / len(items), abs=2e-4)
    assert plan.passed_fraction(1.0) == 1.0
    assert plan.passed_fraction([0.0, 0.0]) == 1.0


def test_links_count_in_what_is_affordable_and_what_passes():
    """A link of half the rate: the plan passes half, although the servers are idle."""
    document = examples.figure_1().to_document()
    for operator in document["operators"]:
        operator["cost"] = 1e-3
    document["links"] = [{"from": "A", "to": "B", "capacity": 1.0}]
    plan = plan_network(QueryNetwork.from_document(document))
    assert plan.affordable([1.0, 1.0]) == pytest.approx(0.5)
    assert plan.passed_fraction([1.0, 1.0]) == pytest.approx(0.5)
    assert plan.network.evaluate([1.0, 1.0], plan.at([1.0, 1.0])).feasible
    for z in (0.1, 0.5, 0.9):
        assert plan.passed_fraction(z) == pytest.approx(z)


@pytest.mark.parametrize("seed", range(12))
def test_arcs_that_are_not_nested_are_found(seed: int):
    """The knots tell what a dense scan of loads does."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, inputs=4, nodes=3, operators=10)
    plan = plan_network(network, method="simplex", reference=rng.random(4) * network.max_rates)
    loads = np.linspace(0.001, 1.0, 2000)
    drops = plan.at_many(plan.reference / loads[:, None])
    rises = (np.diff(drops, axis=0) > 1e-9).any(axis=0)
    scanned = {network.arcs[a].name for a in np.flatnonzero(rises)}
    assert set(plan.not_nested) == scanned
    assert plan.summary()["not_nested"] == list(plan.not_nested)


def test_arcs_that_drop_everything_have_no_estimate():
    plan = plan_network(examples.figure_1())
    assert plan.without_estimate([1.0, 1.0]) == ()
    assert plan_network(examples.figure_7()).without_estimate([0.5]) == ("common->bottom",)


def test_public_names_resolve_lazily():
    assert {name: getattr(planning.fit, name) for name in planning.fit.__all__}
    with pytest.raises(AttributeError):
        planning.fit.nothing  # noqa: B018
    script = (
        "import sys; import planning.fit.plan, planning.fit.shedder;"
        "from planning.fit import QueryNetwork, Plan;"
        "heavy = {'ortools', 'scipy', 'pandas', 'pydantic', 'matplotlib', 'pyarrow', 'numba'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
