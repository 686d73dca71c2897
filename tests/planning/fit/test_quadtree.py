"""Solver and Solver-W: error bounds hold at every point, and limits are declared."""

from __future__ import annotations

import numpy as np
import pytest
from fit_errors import errors

from benchmarks.fit import examples
from benchmarks.fit.experiments import library_scorer
from benchmarks.fit.networks import random_network
from benchmarks.fit.quadtrees import expected_error
from planning.errors import InvalidInput
from planning.fit import QueryNetwork
from planning.fit.model import MethodLimit
from planning.fit.planner import plan_network
from planning.fit.printed.distributions import Empirical, Exponential
from planning.fit.printed.quadtree import build as build_tree
from planning.fit.printed.quadtree import simplex_scorer
from planning.fit.simplex.shedding import shedding_program


@pytest.mark.parametrize("letter", "abcde")
def test_solver_keeps_its_bound(letter: str):
    plan = plan_network(examples.figure_9(letter), method="solver", error=0.05)
    points = np.random.default_rng(1).random((100_000, 2))
    assert errors(plan, points).max() <= 0.05 + 1e-9


def test_solver_keeps_its_bound_on_random_networks():
    rng = np.random.default_rng(3)
    for _ in range(12):
        network = random_network(rng, inputs=2, nodes=3, operators=7)
        plan = plan_network(network, method="solver", error=0.1)
        points = rng.random((20_000, 2)) ** rng.choice([1, 3])
        assert errors(plan, points).max(initial=0) <= 0.1 + 1e-9


def test_both_scorers_agree():
    program = shedding_program(examples.figure_9("c"))
    points = np.random.default_rng(0).random((50, 2))
    np.testing.assert_allclose(
        simplex_scorer(program)(points), library_scorer(program)(points), rtol=1e-9
    )


def test_points_of_a_cell_are_scaled_to_its_corner():
    """Figure 5: s = (60, 75) in the cell of r = (50, 50) is reduced by 50/60 and 50/75 first."""
    network = examples.chains("free", [1.0, 1.0], [0.1, 0.1], max_rates=[100, 100])
    plan = plan_network(network, method="solver", error=0.999)
    drops = plan.at([60, 75])
    target = plan.at([50, 50])
    for arc, share in (("i1->a1", 50 / 60), ("i2->a2", 50 / 75)):
        assert 1 - drops[arc] == pytest.approx(share * (1 - target.get(arc, 0.0)))


def test_solver_w_meets_the_expected_error_with_fewer_plans():
    for letter in "cde":
        program = shedding_program(examples.figure_9(letter))
        workload = Exponential(0.15, 2)
        solver = build_tree(program, 0.05)
        target = expected_error(solver, workload)
        weighted = build_tree(program, target, workload=workload)
        assert expected_error(weighted, workload) <= target + 1e-12
        assert solver.plan_count >= 1.8 * weighted.plan_count


def test_solver_w_error_is_expected_not_largest():
    network = examples.figure_9("d")
    workload = Exponential(0.15, 2)
    plan = plan_network(network, method="solver_w", error=0.02, workload=workload)
    points = workload.draw(np.random.default_rng(2), 100_000)
    relative = errors(plan, points)
    assert relative.sum() / len(points) <= 0.02
    assert relative.max() > 0.02


def test_inputs_without_value_do_not_divide_the_space():
    document = examples.figure_9("b").to_document()
    document["outputs"] = document["outputs"][:1]
    network = QueryNetwork.from_document(document)
    plan = plan_network(network, method="solver", error=0.05)
    assert plan.plan_count < 50
    points = np.random.default_rng(5).random((50_000, 2)) ** 3
    assert errors(plan, points).max() <= 0.05 + 1e-9


def test_limits_are_declared():
    with pytest.raises(MethodLimit, match="at most 1000"):
        plan_network(examples.wide(8), method="solver", error=0.1, max_plans=1000)
    with pytest.raises(InvalidInput, match="error"):
        plan_network(examples.figure_1(), method="solver", error=0.0)
    with pytest.raises(InvalidInput, match="workload"):
        plan_network(examples.figure_1(), method="solver_w", error=0.1)
    with pytest.raises(InvalidInput, match="method"):
        plan_network(examples.figure_1(), method="magic")


def test_workloads_are_probabilities():
    rng = np.random.default_rng(9)
    low = np.array([[0, 0], [0.5, 0], [0, 0.5], [0.5, 0.5]], dtype=float)
    for workload in (Exponential(0.3, 2), Empirical(rng.random((300, 2)))):
        parts = workload.probability(low, low + 0.5)
        assert parts.sum() == pytest.approx(1.0)
        drawn = workload.draw(np.random.default_rng(0), 20_000)
        seen = [((drawn >= a) & (drawn < a + 0.5)).all(axis=1).mean() for a in low]
        np.testing.assert_allclose(seen, parts, atol=0.015)


def test_observed_rates_can_be_the_workload():
    rng = np.random.default_rng(4)
    network = examples.figure_9("d")
    observed = Empirical(Exponential(0.1, 2).draw(rng, 500))
    plan = plan_network(network, method="solver_w", error=0.02, workload=observed)
    everywhere = plan_network(network, method="solver", error=0.02)
    assert plan.plan_count < everywhere.plan_count
