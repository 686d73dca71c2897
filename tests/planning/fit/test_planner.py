"""The optimum: brute force and the paper's worked examples; what a plan is made from and says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fit.examples import figure_1, figure_7
from benchmarks.fit.networks import random_network, relative_errors
from planning.errors import InvalidInput, StatisticsError
from planning.fit import QueryNetwork, demo, statistics
from planning.fit.planner import plan, plan_network, solver_status
from planning.fit.printed.distributions import Empirical, Exponential
from planning.fit.program import NetworkProgram, optimum
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex


def drawn(seed: int, **more: Any) -> QueryNetwork:
    rng = np.random.default_rng(seed)
    size = {"inputs": int(rng.integers(1, 6)), "nodes": int(rng.integers(1, 5)),
            "operators": int(rng.integers(2, 15))}  # fmt: skip
    return random_network(rng, tree=bool(seed % 2), links=seed % 3 == 0, **{**size, **more})


@pytest.mark.parametrize("solver", ["simplex", "glop", "highs"])
def test_table_1_and_figure_7(solver: Any):
    best = optimum(figure_1(), {"i1": 1, "i2": 1}, solver)
    assert best.throughput == pytest.approx(3 / 5, abs=1e-12)
    assert best.drops == pytest.approx({"i1->a1": 4 / 5, "i2->a2": 3 / 5}, abs=1e-9)
    assert best.loads == pytest.approx({"A": 1, "B": 1})
    split = optimum(figure_7(), [0.2], solver)
    assert split.throughput == pytest.approx(0.28, abs=1e-12)
    assert split.drops == pytest.approx({"common->bottom": 0.6}, abs=1e-9)


def test_figure_7_sheds_the_input_only_after_the_branch():
    network = figure_7()
    assert optimum(network, [1 / 8]).drops == {}
    third = optimum(network, [1 / 3])
    assert third.drops["common->bottom"] == pytest.approx(1.0)
    assert third.drops.get("i->common", 0.0) == pytest.approx(0.0, abs=1e-9)
    beyond = optimum(network, [0.5])
    assert beyond.drops["i->common"] == pytest.approx(1 / 3)


def test_the_warm_solution_does_not_depend_on_what_was_solved_before():
    rng = np.random.default_rng(5)
    for seed in range(40):
        program = shedding_program(drawn(seed))
        rates = rng.random((200, len(program.max_rates)))
        together = WarmSimplex(program).dropped(rates)
        backwards = WarmSimplex(program).dropped(np.ascontiguousarray(rates[::-1]))
        np.testing.assert_allclose(together, backwards[::-1], atol=1e-9)
        alone = np.array([WarmSimplex(program).dropped(r[None, :])[0] for r in rates[:10]])
        np.testing.assert_allclose(together[:10], alone, atol=1e-9)


def test_long_runs_do_not_drift():
    network = drawn(9, inputs=5, operators=14)
    program = shedding_program(network)
    rng = np.random.default_rng(2)
    warm = WarmSimplex(program)
    for _ in range(30):
        warm.dropped(rng.random((2000, 5)))
    rates = rng.random((20, 5))
    dropped = warm.dropped(rates)
    model = NetworkProgram(network)
    for point, drops in zip(rates, dropped, strict=True):
        mine = point @ program.full_throughput - drops @ program.lost_throughput
        assert mine == pytest.approx(model.resolve(point * program.max_rates), rel=1e-9)


def test_badly_scaled_networks_stay_feasible_and_optimal():
    """Costs, rates and capacities over several orders of magnitude, zero costs and selectivities.

    Where its own tolerance allows, GLOP must agree; it may find less, never more.
    """
    rng = np.random.default_rng(77)
    for seed in range(60):
        document = drawn(seed).to_document()
        document.pop("links", None)
        for operator in document["operators"]:
            operator["cost"] *= float(10 ** rng.uniform(-4, 1) * (rng.random() < 0.9))
            if rng.random() < 0.1:
                operator["selectivity"] = 0.0
        for each in document["inputs"]:
            each["max_rate"] *= float(10 ** rng.uniform(-3, 4))
        full = QueryNetwork.from_document(document).evaluate(
            [i["max_rate"] for i in document["inputs"]]
        )
        for node in document["nodes"]:
            share = float(10 ** rng.uniform(-3, 0.5))
            node["capacity"] = max(full.loads[node["id"]], 1e-9) * share
        network = QueryNetwork.from_document(document)
        made = plan_network(network, max_regions=3000)
        model = NetworkProgram(network)
        for power in (0.5, 1, 5):
            rates = network.max_rates * rng.random(len(network.inputs)) ** power
            best = optimum(network, rates)
            chosen = network.evaluate(rates, made.at(rates))
            assert chosen.feasible
            assert network.evaluate(rates, best.drops).feasible
            assert chosen.throughput == pytest.approx(best.throughput, rel=1e-9, abs=1e-12)
            assert best.throughput >= model.resolve(rates) * (1 - 1e-9) - 1e-9 * full.throughput


def test_brute_force_over_drop_fractions():
    """No grid of drop fractions on all arcs beats the optimum, and a fine one comes close."""
    network = QueryNetwork.from_document(
        {
            "name": "small",
            "nodes": [{"id": "A", "capacity": 2, "parent": None},
                      {"id": "B", "capacity": 1.5, "parent": "A"}],
            "inputs": [{"id": "x", "max_rate": 2}],
            "operators": [
                {"id": "a", "node": "A", "type": "filter", "cost": 1, "selectivity": 0.8,
                 "inputs": ["x"]},
                {"id": "b", "node": "B", "type": "map", "cost": 1, "selectivity": 1,
                 "inputs": ["a"]},
                {"id": "c", "node": "A", "type": "map", "cost": 0.5, "selectivity": 0.5,
                 "inputs": ["a"]},
            ],
            "outputs": [{"id": "o", "stream": "b", "weight": 1},
                        {"id": "p", "stream": "c", "weight": 3}],
        }
    )  # fmt: skip
    best = optimum(network, [2.0])
    grid = np.array(list(itertools.product(np.linspace(0, 1, 41), repeat=3)))
    drops = np.zeros((len(grid), len(network.arcs)))
    drops[:, [network.arc_index[a] for a in ("x->a", "a->b", "a->c")]] = grid
    done = network.evaluate_many(np.full((len(grid), 1), 2.0), drops)
    highest = done.throughput[(done.loads <= network.capacities).all(axis=1)].max()
    assert highest <= best.throughput + 1e-9
    assert highest >= 0.97 * best.throughput


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 1.0), st.floats(1.0, 3.0))
def test_optimum_is_monotone_and_concave(seed: int, share: float, factor: float):
    network = drawn(seed)
    rng = np.random.default_rng(seed)
    low = network.max_rates * rng.random(len(network.inputs)) * share
    high = low * factor + network.max_rates * 0.1 * rng.random(len(network.inputs))
    bottom, top = optimum(network, low).throughput, optimum(network, high).throughput
    middle = optimum(network, (low + high) / 2).throughput
    assert bottom <= top * (1 + 1e-9) + 1e-12
    assert middle >= (bottom + top) / 2 * (1 - 1e-9) - 1e-12


def test_rates_that_fit_are_not_shed():
    rng = np.random.default_rng(4)
    for seed in range(40):
        network = drawn(seed)
        rates = network.max_rates * rng.random(len(network.inputs)) * 0.1
        if network.evaluate(rates).feasible:
            assert optimum(network, rates).drops == {}


def test_streams_without_value_are_shed_first():
    document = figure_1().to_document()
    document["outputs"] = [{"id": "o2", "stream": "b2", "weight": 1}]
    network = QueryNetwork.from_document(document)
    best = optimum(network, [1, 1])
    assert best.throughput == pytest.approx(0.5)
    assert best.drops["i1->a1"] == pytest.approx(1.0)


def test_zero_rates_keep_everything():
    best = optimum(figure_1(), [0, 0])
    assert best.drops == {}
    assert best.throughput == 0
    one = optimum(figure_1(), [0, 1])
    assert one.drops == pytest.approx({"i2->a2": 0.5})


def test_rates_beyond_max_rate_are_still_optimal():
    network = figure_1()
    assert optimum(network, [50, 50]).throughput == pytest.approx(3 / 5)
    assert optimum(network, [50, 50], "highs").throughput == pytest.approx(3 / 5)


def test_unknown_solver():
    with pytest.raises(InvalidInput, match="simplex, glop, highs"):
        optimum(figure_1(), [1, 1], "guess")


def test_solver_w_plans_for_the_observed_rates(define, samples):
    definition = define(demo.network(), method="solver_w", error=0.2)
    observed = statistics.build(samples, definition)
    made = plan(observed, definition)
    assert made.plan_count > 0
    again = plan_network(
        observed.network,
        method="solver_w",
        error=0.2,
        workload=Empirical(observed.rates / observed.network.max_rates),
        reference=observed.mean_rates,
    )
    assert replace(made, qualities=()).to_bytes() == again.to_bytes()
    busier = Empirical(np.clip(2 * observed.rates / observed.network.max_rates, 0, 1))
    other = plan_network(observed.network, method="solver_w", error=0.2, workload=busier)
    assert other.plan_count != made.plan_count


@pytest.mark.parametrize(
    ("choice", "status"),
    [
        ({"method": "exact"}, "exact"),
        ({"method": "regions"}, "exact"),
        ({"method": "simplex"}, "exact"),
        ({"method": "solver"}, "within 0.1"),
        ({"method": "solver_w", "error": 0.05}, "within 0.05 expected"),
        ({"method": "c_fit", "error": 0.2}, "within 0.2"),
    ],
)
def test_the_status_tells_how_near_the_optimum_a_plan_is(define, choice, status):
    definition = define(figure_1(), **choice)
    made = plan_network(figure_1(), **choice, workload=Exponential(0.2, 2))
    assert solver_status(made, definition) == status


def test_headroom_holds_the_capacities_in_that_share_of_fresh_periods(define, clean_samples):
    """Drops for the rates of the period before, at rates that the plan was not made from."""
    shares = {}
    for headroom in (0.0, 0.8, 0.95):
        definition = define(demo.network(), headroom=headroom)
        seen = statistics.build(clean_samples(definition, 0), definition)
        made = plan(seen, definition)
        counts = statistics.period_counts(clean_samples(definition, 7), seen.network)
        rates = counts / definition.parameters.period_s
        rates = made.reference.sum() / 0.6 * rates / rates.mean(axis=0).sum()
        drops = made.at_many(rates[:-1] * made.headroom)
        used = made.network.evaluate_many(rates[1:], drops).use(made.network).max(axis=1)
        shares[headroom] = float((used <= 1.0 + 1e-6).mean())
        assert (made.headroom == 1.0) == (headroom == 0.0)
    assert shares[0.0] < 0.7
    assert shares[0.8] > 0.76
    assert shares[0.95] > 0.93


def test_headroom_without_successive_periods_is_refused(define, samples):
    definition = define(demo.network(), headroom=0.9)
    even = {n: v[np.asarray(samples["period"]) % 2 == 0] for n, v in samples.items()}
    with pytest.raises(StatisticsError, match="pairs of successive periods, got 0"):
        plan(statistics.build(even, definition), definition)


def test_the_predicted_quality_is_that_of_rates_that_vary(define, clean_samples):
    """As a plain loop over fresh rate vectors finds it, each with the optimum of its own."""
    definition = define(demo.network())
    made = plan(statistics.build(clean_samples(definition, 0), definition), definition)
    steady = replace(made, qualities=())
    fresh = statistics.build(clean_samples(definition, 3), definition).rates
    use = shedding_program(made.network).use_per_tuple @ fresh.mean(axis=0)
    for load in (0.3, 0.5, 0.7, 0.9, 1.0):
        scaled = fresh / (use.max() * load)
        best = sum(optimum(made.network, rates).throughput for rates in scaled[::5])
        whole = sum(made.network.evaluate(rates).throughput for rates in scaled[::5])
        assert made.predicted_quality(load) == pytest.approx(best / whole, abs=0.04)
    assert steady.predicted_quality(1.0) - made.predicted_quality(1.0) > 0.05
    assert made.predicted_quality(0.0) == 0.0


def test_solver_w_is_as_good_on_fresh_rates_as_planned():
    network = demo.web()
    means = np.array([120 * demo.WEB_RATES[i] for i in network.input_ids])
    seen, fresh = demo.rates(0, 500, means), demo.rates(5, 3000, means)
    workload = Empirical(np.clip(seen / network.max_rates, 0, 1))
    for error in (0.02, 0.05):
        made = plan_network(network, method="solver_w", error=error, workload=workload)
        points = np.clip(fresh / network.max_rates, 0, 1)
        errors, overload = relative_errors(made, points)
        assert errors.sum() / len(points) <= error
        assert overload <= 1e-9
