"""Exact plans are exact, or refused: extreme costs, rates far above capacity, and bad tableaus."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fit import decades
from benchmarks.fit.networks import random_network
from planning.errors import PlanningError
from planning.fit import QueryNetwork
from planning.fit.demo import WEB_RATES, figure_1, network
from planning.fit.planner import plan_network
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex


@pytest.mark.parametrize("method", ["exact", "simplex"])
def test_costs_over_ten_decades_overload_nothing(method: str):
    """Against the capacities at every rate vector, and against HiGHS at a few."""
    tried = [decades.tried(seed, 2000, method, 2) for seed in range(50)]
    assert [reason for reason, _, _ in tried if reason] == []
    assert max(used for _, used, _ in tried) <= 1 + 1e-6
    assert max(error for _, _, error in tried) <= 1e-6


@pytest.mark.parametrize("seed", [2, 59, 140, 182, 254, 302, 326, 402])
def test_networks_on_which_rounding_used_to_win(seed: int):
    for method in ("exact", "simplex"):
        reason, used, error = decades.tried(seed, 5000, method, 5)
        assert not reason
        assert used <= 1 + 1e-6
        assert error <= 1e-6


@pytest.mark.parametrize("method", ["exact", "simplex"])
def test_the_optimum_does_not_depend_on_max_rate(method: str):
    document = network().to_document()
    for stream in document["inputs"]:
        stream["max_rate"] = 1e8
    far = QueryNetwork.from_document(document)
    rng = np.random.default_rng(0)
    means = np.array([100 * WEB_RATES[i] for i in far.input_ids])
    rates = means * np.exp(rng.normal(0, 1, (5000, 6)))
    done = far.evaluate_many(rates, plan_network(far, method=method).at_many(rates))
    best = far.evaluate_many(rates, plan_network(network()).at_many(rates)).throughput
    assert done.use(far).max() <= 1 + 1e-9
    np.testing.assert_allclose(done.throughput, best, rtol=1e-9)


def test_what_cannot_be_exact_is_refused_with_the_reason():
    document = figure_1().to_document()
    for stream in document["inputs"]:
        stream["max_rate"] = 1e13
    for method in ("exact", "simplex"):
        with pytest.raises(PlanningError, match=r"input i1 alone asks for .* lower its max_rate"):
            plan_network(QueryNetwork.from_document(document), method=method)


def test_a_table_that_fails_its_own_check_is_not_published(monkeypatch):
    from planning.fit import planner

    def halved(program, *limits):
        table = enumerate_regions(program, *limits)
        return table._replace(rule=table.rule / 2, facets=table.facets[:0], starts=table.starts * 0)

    enumerate_regions = planner.enumerate_regions
    plan_network(figure_1())
    monkeypatch.setattr(planner, "enumerate_regions", halved)
    made = plan_network(figure_1(), method="regions")  # its rules overload, so the simplex answers
    assert made.network.evaluate([1, 1], made.at([1, 1])).feasible
    quadtree = planner.quadtree.build
    monkeypatch.setattr(
        planner.quadtree,
        "build",
        lambda *given, **more: (t := quadtree(*given, **more))._replace(fractions=t.fractions / 2),
    )
    with pytest.raises(PlanningError, match="must overload nothing"):
        plan_network(figure_1(), method="solver")


def test_a_spoilt_tableau_is_noticed_and_made_anew():
    """Whatever is in the warm state, the answer is the optimum."""
    rng = np.random.default_rng(3)
    for seed in range(20):
        program = shedding_program(
            random_network(np.random.default_rng(seed), inputs=4, nodes=3, operators=10)
        )
        warm = WarmSimplex(program)
        expected = WarmSimplex(program).dropped(rates := rng.random((40, 4)))
        warm.dropped(rates[:20])
        size = program.tableau.size + program.cost.size
        state = warm._memory[-size - program.cost.shape[1] - 1 : -program.cost.shape[1] - 1]
        assert state.size == size
        state += rng.normal(0, 0.1, size)
        np.testing.assert_allclose(warm.dropped(rates[20:]), expected[20:], atol=1e-9)


def test_rates_without_a_certified_optimum_shed_all_inputs_alike():
    program = shedding_program(figure_1())
    program.tableau[0, 0] = np.nan  # as if rounding had left nothing of it
    warm = WarmSimplex(program)
    rates = np.array([[0.1, 0.1], [1.0, 1.0], [0.5, 0.5]])
    with pytest.raises(PlanningError, match="2 of 3 rate vectors have none"):
        warm.dropped(rates)
    np.testing.assert_allclose(warm.fractions(rates), [[0.0] * 2, [0.75] * 2, [0.5] * 2])
