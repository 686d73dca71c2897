"""Certificates: sound plans pass, damaged ones are caught, and nothing is claimed beyond that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from benchmarks.fit import examples
from benchmarks.fit.networks import random_network
from benchmarks.fit.reference import asking
from planning.certifying import Contradiction, certify
from planning.fit import Plan, QueryNetwork, Statistics, planner
from planning.fit.path import CriticalRegions
from planning.fit.program import certifier

MOVED = 1e-6


def observed(network: QueryNetwork, rng: np.random.Generator, periods: int = 60) -> Statistics:
    """Return statistics of a network whose rates vary around a random mean."""
    mean = network.max_rates * rng.uniform(0.2, 0.6, len(network.inputs))
    rates = mean * np.exp(rng.normal(0.0, 0.3, (periods, len(network.inputs))))
    rates = np.minimum(rates, network.max_rates)
    pairs = np.hstack([rates[:-1], rates[1:]])
    return Statistics(network, rates.mean(axis=0), rates.max(axis=0), rates, periods, {}, pairs)


def drawn(seed: int, rng: np.random.Generator) -> QueryNetwork:
    """Return a network; with minimums and priorities, links or ``min_keep`` in some."""
    size = {"inputs": int(rng.integers(1, 5)), "nodes": int(rng.integers(1, 4)),
            "operators": int(rng.integers(3, 10)), "links": seed % 4 == 1}  # fmt: skip
    network = random_network(rng, **size) if seed % 2 else asking(rng, 0.3, **size)
    return structs.replace(network, min_keep=0.1) if seed % 5 == 4 else network


def planned(seed: int, define: Any) -> tuple[Plan, Statistics, Any]:
    rng = np.random.default_rng([17, seed])
    statistics = observed(drawn(seed, rng), rng)
    definition = define(random_network(rng))  # its own network is not looked at
    return planner.plan(statistics, definition), statistics, definition


@pytest.mark.parametrize("seed", range(40))
def test_sound_plans_are_optimal(seed: int, define: Any):
    plan, statistics, definition = planned(seed, define)
    made = certifier(plan, statistics, definition)
    found = certify(made, "exact", 60.0)
    assert found.status == "optimal", found
    assert found.loads == len(made.loads)
    assert found.gap <= 1e-7


class Damaged:
    """A plan whose drops are changed on their way out."""

    def __init__(self, plan: Plan, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self._plan, self._change = plan, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def at_many(self, rates: np.ndarray) -> np.ndarray:
        return np.clip(self._change(self._plan.at_many(rates)), 0.0, 1.0)

    def at(self, load: Any) -> dict[str, float]:
        network = self._plan.network
        rates = network.rate_vector(load)[None, :]
        return {a.name: d for a, d in zip(network.arcs, self.at_many(rates)[0].tolist(),
                                          strict=True) if d > 0}  # fmt: skip

    def predicted_quality(self, load: Any) -> float:
        """As the plan would say it of its own drops: only the drops are wrong."""
        if isinstance(load, float):
            return self._plan.predicted_quality(load)
        network, rates = self._plan.network, self._plan.network.rate_vector(load)
        full = network.evaluate(rates).throughput
        return network.evaluate(rates, self.at(load)).throughput / full if full > 0 else 1.0


def one_moved(plan: Plan, rng: np.random.Generator) -> Any:
    """One location drops 1 % more or less."""
    drops = plan.at_many(plan.reference[None, :] / 0.4)[0]
    arc, factor = rng.choice(np.flatnonzero(drops > 0)), rng.choice([0.99, 1.01])
    return Damaged(plan, lambda d: np.where(np.arange(d.shape[1]) == arc, d * factor, d))


def two_swapped(plan: Plan, rng: np.random.Generator) -> Any:
    shedding = [k for k, arc in enumerate(plan.network.arcs) if not arc.to_output]
    a, b = rng.choice(shedding, 2, replace=len(shedding) < 2)
    order = np.arange(len(plan.network.arcs))
    order[[a, b]] = order[[b, a]]
    return Damaged(plan, lambda d: d[:, order])


def other_capacity(plan: Plan, rng: np.random.Generator) -> Any:
    """One server is planned with 0.5 % more or less than it has."""
    nodes, factor = list(plan.network.nodes), float(rng.choice([0.995, 1.005]))
    k = int(rng.integers(len(nodes)))
    nodes[k] = structs.replace(nodes[k], capacity=nodes[k].capacity * factor)
    network = structs.replace(plan.network, nodes=tuple(nodes))
    made = planner.plan_network(network, reference=plan.reference)
    return replace(made, qualities=plan.qualities)


def other_rules(plan: Plan, rng: np.random.Generator) -> Any:
    """The rules of all critical regions drop 1 % more: they overload nothing, so they are used."""
    parts = [
        replace(part, table=part.table._replace(rule=part.table.rule * 1.01))
        if isinstance(part.table, CriticalRegions)
        else part
        for part in plan.parts
    ]
    return replace(plan, parts=tuple(parts))


def other_claim(plan: Plan, rng: np.random.Generator) -> Any:
    factor = float(rng.choice([0.99, 1.01]))
    return replace(plan, qualities=tuple(min(q * factor, 1.0) for q in plan.qualities))


DAMAGES = (one_moved, two_swapped, other_capacity, other_rules, other_claim)


def moves(plan: Any, damaged: Any, statistics: Statistics, made: Any) -> bool:
    """Whether quality, a capacity's use or a claim differ, at what the certificate looks at."""
    network = statistics.network
    scale = np.max(network.evaluate_many(
        statistics.rates.mean(axis=0)[None, :], np.zeros((1, len(network.arcs)))
    ).use(network))  # fmt: skip
    for load in made.loads:
        scalar = isinstance(load, float)
        rates = statistics.rates / (scale * load) if scalar else np.array([list(load.values())])
        before, after = (network.evaluate_many(rates, p.at_many(rates)) for p in (plan, damaged))
        full = network.evaluate_many(rates, np.zeros((len(rates), len(network.arcs)))).throughput
        if abs(before.throughput.sum() - after.throughput.sum()) > MOVED * full.sum():
            return True
        if after.use(network).max() > 1.0 + MOVED:
            return True
        if scalar and abs(plan.predicted_quality(load) - damaged.predicted_quality(load)) > MOVED:
            return True
    return False


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_plans_are_caught(damage: Any, define: Any):
    tried = 0
    for seed in range(24):
        rng = np.random.default_rng([18, seed])
        plan, statistics, definition = planned(seed, define)
        damaged = damage(plan, rng)
        made = certifier(damaged, statistics, definition)
        if moves(plan, damaged, statistics, made):
            tried += 1
            with pytest.raises(Contradiction):
                certify(made, "exact", 60.0)
    assert tried >= 16, "too few damages had an effect"


def test_a_minimum_that_does_not_hold_from_where_the_plan_says_is_caught(define: Any):
    tried = 0
    for seed in range(16):
        rng = np.random.default_rng([19, seed])
        statistics = observed(asking(rng, 0.6, inputs=3, nodes=2, operators=7), rng)
        definition = define(random_network(rng))
        plan = planner.plan(statistics, definition)
        assert certify(certifier(plan, statistics, definition), "exact", 60.0).status == "optimal"
        if max(plan.holds_from, default=0.0) > 0.35:
            tried += 1
            damaged = replace(plan, holds_from=tuple(0.0 for _ in plan.holds_from))
            with pytest.raises(Contradiction, match="minimum of output"):
                certify(certifier(damaged, statistics, definition), "exact", 60.0)
    assert tried >= 5


@pytest.mark.parametrize("method", ["solver", "c_fit", "solver_w"])
def test_tables_are_certified_within_what_they_admit(method: str, define: Any):
    network = examples.figure_9("c")
    rng = np.random.default_rng(5)
    statistics = observed(network, rng)
    definition = define(network, method=method, error=0.1)
    plan = planner.plan(statistics, definition)
    status = planner.solver_status(plan, definition)
    made = certifier(plan, statistics, definition)
    found = certify(made, status, 60.0)
    assert found.status.startswith("within")
    assert found.loads == len(made.loads) > 0
    assert found.gap > 1e-4
    assert ("expectation" in found.scope) == (method == "solver_w")
    if method != "solver_w":
        assert found.gap < 0.1 + 1e-9
        assert "within the error 0.1" in found.scope
        with pytest.raises(Contradiction, match="found one with"):
            certify(made, "within 0.001", 60.0)  # a plan that claims more than it keeps
    for shift in (-0.01, 0.01):
        wrong = Damaged(plan, lambda d, shift=shift: np.where(d > 0, d + shift, d))
        with pytest.raises(Contradiction):
            certify(certifier(wrong, statistics, definition), status, 60.0)  # type: ignore[arg-type]


def test_head_room_is_certified_at_the_rates_that_are_followed(define: Any):
    rng = np.random.default_rng(6)
    network = examples.figure_9("c")
    statistics, definition = observed(network, rng), define(network, headroom=0.9)
    plan = planner.plan(statistics, definition)
    assert plan.headroom > 1.1
    assert certify(certifier(plan, statistics, definition), "exact", 60.0).status == "optimal"
    for headroom in (1.0, plan.headroom * 0.99):  # its predictions are no longer those
        made = certifier(replace(plan, headroom=headroom), statistics, definition)
        with pytest.raises(Contradiction, match="claims quality"):
            certify(made, "exact", 60.0)


def test_windows_links_and_direct_outputs_are_certified(windowed: Any, define: Any):
    rng = np.random.default_rng(7)
    document = examples.figure_7().to_document()
    document["nodes"].append({"id": "B", "capacity": 0.3, "parent": "A"})
    for operator in document["operators"][1:]:
        operator["node"] = "B"
    document["links"] = [{"from": "A", "to": "B", "capacity": 0.2}]
    document["outputs"].append({"id": "raw", "stream": "i", "weight": 0.5})
    for network in (windowed(4), QueryNetwork.from_document(document)):
        statistics, definition = observed(network, rng), define(network)
        plan = planner.plan(statistics, definition)
        assert certify(certifier(plan, statistics, definition), "exact", 60.0).status == "optimal"


def test_without_time_there_is_a_bound_or_none_but_no_error(define: Any):
    plan, statistics, definition = planned(0, define)
    made = certifier(plan, statistics, definition)
    first = made.check(made.loads[0], 0.0)
    assert first.bound == np.inf
    assert certify(made, "exact", 1e-9).of == len(made.loads)


def test_a_plan_of_another_network_is_no_plan_of_this(define: Any):
    plan, statistics, definition = planned(0, define)
    other, _, _ = planned(1, define)
    assert other.network.arcs != plan.network.arcs
    with pytest.raises(Contradiction, match="its network is not that of the statistics"):
        certifier(other, statistics, definition)
