"""Feasible input tables: the paper's entries, error bounds, merges, and what to guard against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fit_errors import errors

from benchmarks.fit import examples
from benchmarks.fit.networks import random_network
from planning.fit import Plan, QueryNetwork, optimum
from planning.fit.demo import operator
from planning.fit.dfit import point_quadtree
from planning.fit.dfit.chains import chain_bound
from planning.fit.dfit.sampling import Sampling, plan_sampling, smallest_optimum
from planning.fit.dfit.servers import servers_of
from planning.fit.dfit.tables import Bound, leaf_table
from planning.fit.kernels.lookup import best_below
from planning.fit.model import MethodLimit
from planning.fit.planner import plan_network
from planning.fit.printed import cfit
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex


def network_of(
    nodes: dict[str, tuple[float, str | None]],
    inputs: dict[str, float],
    operators: list[dict[str, Any]],
    outputs: dict[str, float],
) -> QueryNetwork:
    return QueryNetwork.from_document(
        {
            "name": "test",
            "nodes": [{"id": n, "capacity": c, "parent": p} for n, (c, p) in nodes.items()],
            "inputs": [{"id": i, "max_rate": r} for i, r in inputs.items()],
            "operators": operators,
            "outputs": [{"id": f"o {s}", "stream": s, "weight": w} for s, w in outputs.items()],
        }
    )


def check(network: QueryNetwork, error: float, points: int = 30_000) -> Plan:
    """Every overloaded point, small rates included, is within the bound."""
    rng = np.random.default_rng(1)
    plan = plan_network(network, method="c_fit", error=error)
    for power in (1, 3, 8):
        relative = errors(plan, rng.random((points, len(network.inputs))) ** power)
        assert relative.max(initial=0.0) <= error + 1e-9
    return plan


def test_an_entry_of_node_b_of_figure_1():
    """(0.3, 0.1, null, 0.4) is an entry of B: feasible as it is, score 0.4."""
    server = servers_of(examples.figure_1())["B"]
    sampling = Sampling(0.1, 0.1, 1, {"a1@B": 0.01, "a2@B": 0.01}, {"a1@B": 1.0, "a2@B": 1.0})
    table = leaf_table(server, sampling, None, 10_000)
    loads = table.rates @ [3.0, 1.0]
    assert (loads <= 1 + 1e-9).all()
    np.testing.assert_allclose(table.score, table.rates.sum(axis=1))
    assert (table.keep == 1).all()
    assert table.rates[:, 0].max() <= 1 / 3
    assert table.rates[:, 0].max() > 0.9 / 3


def test_figure_7_is_feasible_with_a_plan_up_to_a_third():
    server = servers_of(examples.figure_7())["A"]
    sampling = Sampling(0.1, 0.02, 1, {"i@A": 0.01}, {"i@A": 1.0})
    table = leaf_table(server, sampling, Bound(np.array([[8.0]])), 10_000)
    top = table.rates.max()
    assert 0.98 / 3 <= top <= 1 / 3 / 0.98  # a row above a third is worth less than one below
    row = int(np.argmin(np.abs(table.rates[:, 0] - 0.2)))
    rate = table.rates[row, 0]
    column = table.arcs.index("common->bottom")
    assert 1 - table.keep[row, column] == pytest.approx((8 * rate - 1) / (5 * rate))
    assert table.score[row] == pytest.approx(2 * rate - (8 * rate - 1) / 5)


@pytest.mark.parametrize("letter", "abcde")
def test_the_papers_chains(letter: str):
    check(examples.figure_9(letter), 0.05, 100_000)


def test_splits_in_leaf_and_root():
    check(examples.figure_7(), 0.05)
    check(examples.fan_out(8), 0.01)
    split_in_root = network_of(
        {"A": (2.0, None), "B": (0.6, "A"), "C": (0.5, "A")},
        {"x": 3.0},
        [operator("a", "A", "map", 0.4, 1.0, "x"), operator("b", "B", "filter", 0.5, 0.5, "a"),
         operator("c", "C", "map", 0.7, 1.0, "a")],
        {"b": 1.0, "c": 0.8},
    )  # fmt: skip
    plan = check(split_in_root, 0.05)
    assert "a->c" in plan.at([3.0])  # the branch with less demand is dropped locally


@pytest.mark.parametrize("kind", ["union", "join"])
def test_merges_on_a_server_with_children(kind: str):
    more = {"windows": [4.0, 10.0]} if kind == "join" else {}
    network = network_of(
        {"A": (2.0, None), "B": (1.0, "A")},
        {"x": 2.0, "y": 3.0},
        [operator("a", "A", "map", 0.7, 1.0, "x"), operator("b", "A", "filter", 0.3, 0.8, "y"),
         operator("m", "A", kind, 0.2, 0.1 if kind == "join" else 1.0, "a", "b", **more),
         operator("c", "B", "map", 0.6, 1.0, "m")],
        {"c": 1.0},
    )  # fmt: skip
    check(network, 0.1)


def test_several_children_and_three_levels():
    network = network_of(
        {"A": (1.5, None), "B": (0.8, "A"), "C": (0.7, "A"), "D": (0.3, "B")},
        {"x": 2.0, "y": 2.0},
        [operator("a", "A", "map", 0.4, 1.0, "x"), operator("e", "A", "map", 0.5, 0.9, "y"),
         operator("b", "B", "filter", 0.5, 0.6, "a"), operator("c", "C", "map", 0.6, 1.0, "e"),
         operator("d", "D", "map", 0.4, 1.0, "b")],
        {"c": 1.0, "d": 2.0},
    )  # fmt: skip
    check(network, 0.1)


def test_outputs_and_dead_ends_on_servers_with_children():
    network = network_of(
        {"A": (1.0, None), "B": (0.5, "A")},
        {"x": 2.0},
        [operator("a", "A", "map", 0.4, 1.0, "x"), operator("s", "A", "filter", 0.3, 0.5, "a"),
         operator("w", "A", "map", 0.5, 1.0, "a"), operator("b", "B", "map", 0.5, 1.0, "a")],
        {"s": 1.0, "b": 1.0},
    )  # fmt: skip
    plan = check(network, 0.1)
    assert plan.at([2.0])["a->w"] == pytest.approx(1.0)  # worth nothing, dropped first


def test_a_parent_sheds_for_its_child_even_when_idle():
    network = network_of(
        {"A": (100.0, None), "B": (0.5, "A")},
        {"x": 1.0, "y": 1.0},
        [operator("a", "A", "map", 1, 1, "x"), operator("c", "A", "map", 1, 1, "y"),
         operator("b", "B", "map", 1, 1, "a"), operator("d", "B", "map", 2, 1, "c")],
        {"b": 1.0, "d": 1.0},
    )  # fmt: skip
    plan = check(network, 0.05)
    done = network.evaluate([1, 1], plan.at([1, 1]))
    assert done.loads["A"] < 2
    assert done.loads["B"] <= 0.5 + 1e-9


def test_random_trees_hold_their_bound_or_are_refused():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(14):
        network = random_network(rng, inputs=2, nodes=2, operators=5, tree=True)
        try:
            check(network, 0.1, 5000)
            held += 1
        except MethodLimit:
            continue
    assert held >= 3


def test_pareto_pruning_would_leave_points_without_a_row():
    """One slow stream: only rows below it fit, and none of them is Pareto-maximal."""
    network = examples.figure_9("b")
    sampling = plan_sampling(network, 0.05)
    table = cfit.build_tables(network, sampling)["A"]
    slow = np.array([0.01 * table.rates[:, 0].max(), network.max_rates[1]])
    below = (table.rates <= slow).all(axis=1)
    best = table.rates[below][table.score[below].argmax()]
    dominated = ((table.rates >= best).all(axis=1) & (table.rates > best).any(axis=1)).any()
    assert dominated  # a Pareto filter would have thrown the only good row away


def test_kept_rows_become_infeasible_when_all_coordinates_rise():
    network = examples.figure_9("d")
    sampling = plan_sampling(network, 0.1)
    table = cfit.build_tables(network, sampling)["A"]
    use = shedding_program(network).raw_use / network.max_rates
    assert (table.rates @ use.T <= 1 + 1e-9).all()
    raised = sampling.raised(table.rates, table.zeros)
    assert (raised @ use.T > 1).any(axis=1).all()


def test_the_feasibility_triangle_only_leaves_out_what_is_never_needed():
    network = examples.figure_9("c")
    sampling = plan_sampling(network, 0.1)
    server = servers_of(network)["B"]
    whole = leaf_table(server, sampling, None, 10**6)
    triangle = leaf_table(server, sampling, chain_bound(network, server, triangle=True), 10**6)
    exact = leaf_table(server, sampling, chain_bound(network, server, triangle=False), 10**6)
    assert exact.count < triangle.count < whole.count
    kept = {tuple(row) for row in triangle.rates.tolist()}
    assert {tuple(row) for row in exact.rates.tolist()} <= kept


def test_floors_cost_less_than_their_budget():
    for network in (examples.figure_9("b"), examples.figure_7()):
        program = shedding_program(network)
        least = smallest_optimum(program)
        rng = np.random.default_rng(3)
        points = rng.random((20_000, len(network.inputs))) ** 4
        over = points[(points @ program.raw_use.T > 1).any(axis=1)]
        dropped = WarmSimplex(program).dropped(over)
        best = over @ program.full_throughput - dropped @ program.lost_throughput
        assert best.min() >= least * (1 - 1e-9)


def test_the_best_row_below_equals_a_scan():
    rng = np.random.default_rng(7)
    for dims in (1, 2, 3, 5):
        points = rng.integers(0, 6, (400, dims)).astype(float)
        score = np.round(rng.random(400), 2)
        index, order = point_quadtree.build(points, score)
        stack = np.empty(401, dtype=np.int64)
        for _ in range(200):
            limit = rng.uniform(0, 6, dims)
            row = best_below(index, limit, stack)
            below = (points <= limit).all(axis=1)
            if not below.any():
                assert row == -1
            else:
                assert score[order[row]] == score[below].max()


def test_rates_just_below_a_row_still_match_it():
    network = examples.figure_9("b")
    plan = plan_network(network, method="c_fit", error=0.1)
    table = plan.parts[0].table
    row = table.index.points[len(table.index.points) // 2]
    exactly = network.evaluate(row * 1.0, plan.at(row)).throughput
    just_below = network.evaluate(row, plan.at(row * (1 - 1e-12))).throughput
    assert just_below == pytest.approx(exactly)


def test_limits_are_declared():
    with pytest.raises(MethodLimit, match="sample points of server B"):
        plan_network(examples.wide(8), method="c_fit", error=0.1)
    with pytest.raises(MethodLimit, match="at most 100,|at most 100 "):
        plan_network(examples.figure_9("b"), method="c_fit", error=0.05, max_plans=100)
    late = examples.figure_1().to_document()
    late["operators"][1]["inputs"] = ["i1"]  # an input that enters at the child
    with pytest.raises(MethodLimit, match="input i1 enters at server B"):
        plan_network(QueryNetwork.from_document(late), method="c_fit", error=0.1)


def test_fragments_are_tabled_separately():
    network = examples.web()
    plan = plan_network(network, method="c_fit", error=0.1)
    assert len(plan.parts) == 3
    rates = network.max_rates * 0.8
    best = optimum(network, rates).throughput
    done = network.evaluate(rates, plan.at(rates))
    assert done.feasible
    assert 0.9 * best <= done.throughput <= best * (1 + 1e-9)
