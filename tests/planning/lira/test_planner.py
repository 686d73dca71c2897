"""From statistics to plans: every partitioner and objective, odd queries, levels."""

from __future__ import annotations

import numpy as np
import pytest

from planning.errors import StatisticsError
from planning.lira.parameters import Parameters
from planning.lira.planner import levels_of, solver_status, warnings
from planning.lira.planner import plan as make_plan
from planning.lira.planner.importance import importance_of, update_weight
from planning.lira.statistics import Grid, build


def test_no_queries_is_uniform(samples, define):
    definition = define(())
    made = make_plan(build(samples, definition), definition)
    assert np.ptp(made.at(0.5).throttlers) < 1e-9
    assert made.predicted_quality(0.3) == 1.0


@pytest.mark.parametrize(
    "queries",
    [
        [(-1e6, -1e6, 1e6, 1e6)],  # larger than the space
        [(100, 100, 100, 100)],  # no area
    ],
)
def test_odd_queries_still_give_a_plan(samples, define, queries):
    definition = define(queries)
    made = make_plan(build(samples, definition), definition)
    assert made.at(0.5).expenditure <= 0.5 + 1e-6


def test_a_file_may_hold_queries_outside_the_space(samples, define, tmp_path):
    file = tmp_path / "asked.jsonl"
    file.write_text('{"ranges": {"x": [5000, 6000], "y": [5000, 6000]}}\n')
    definition = define((), file=file)
    made = make_plan(build(samples, definition), definition)
    assert made.at(0.5).expenditure <= 0.5 + 1e-6


@pytest.mark.parametrize("partitioner", ["halving", "quadtree", "gridreduce", "grid"])
@pytest.mark.parametrize("objective", ["nodes", "paper"])
def test_every_partitioner_and_objective_plans(statistics, define, partitioner, objective):
    made = make_plan(
        statistics, define(partitioner=partitioner, objective=objective, speed_factor=True)
    )
    assert made.regions <= 64
    assert made.at(0.5).expenditure <= 0.5 + 1e-6


def test_importance_counts_nodes_not_area():
    grid = Grid((0, 0, 2, 2), np.array([[9, 1], [5, 5]]), np.zeros((2, 2)), np.zeros((2, 2)))
    queries = np.array([[0.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 2.0]])
    alone = Parameters(reach_m=1, neighbour_importance=0, background=1e-12)
    total, inside = importance_of(grid, queries, np.array([1.0, 3.0]), alone, least_nodes=1)
    # Query 1 holds 10 nodes and weighs a quarter; query 2 holds 5 and weighs the rest. Each holds
    # half a node more, anywhere.
    first = 0.25 * np.array([9.25, 1.25]) / 10.5
    np.testing.assert_allclose(inside, [first, [0.75, 0.0]], atol=1e-9)
    np.testing.assert_allclose(total, inside, atol=1e-11)
    near = Parameters(reach_m=1, neighbour_importance=0.3, background=0.01)
    total, inside = importance_of(grid, queries, np.ones(2), near, least_nodes=1)
    assert inside.sum() == pytest.approx(1.0)
    assert 0 < total[1, 1] < total[1, 0]


def test_a_query_that_the_samples_show_empty_counts_where_somebody_might_come():
    grid = Grid((0, 0, 2, 2), np.array([[9, 0], [5, 5]]), np.zeros((2, 2)), np.zeros((2, 2)))
    alone = Parameters(reach_m=1, neighbour_importance=0, background=1e-12)
    empty = np.array([[1.0, 0.0, 2.0, 1.0]])
    total, inside = importance_of(grid, empty, np.ones(1), alone, least_nodes=1)
    np.testing.assert_allclose(inside, [[0.0, 0.5], [0.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(total, inside, atol=1e-9)


def test_a_grid_without_nodes_is_refused():
    nobody = np.zeros((2, 2), dtype=np.int64)
    with pytest.raises(StatisticsError, match="at least one node"):
        update_weight(Grid((0, 0, 2, 2), nobody, np.zeros((2, 2)), np.zeros((2, 2))), False)


def test_levels_keep_the_order():
    rng = np.random.default_rng(0)
    m, w = rng.exponential(1, 500), rng.exponential(1, 500)
    level, ratio = levels_of(m, w, 64)
    assert (np.diff(level[np.argsort(m / w, kind="stable")].astype(int)) >= 0).all()
    assert np.abs(np.log(ratio[level] / (m / w))).max() <= np.log(ratio[1] / ratio[0]) / 2 + 1e-5


def test_what_the_plan_cannot_reach_is_said(samples, statistics, define):
    definition = define()
    made = make_plan(statistics, definition)
    assert warnings(made, statistics, definition) == []
    coarse = define(highest_threshold=6, regions=500, cells=4)
    made = make_plan(build(samples, coarse), coarse)
    said = warnings(made, statistics, coarse)
    assert "raise highest_threshold" in said[0]
    assert "of 500 regions" in said[1]


def test_a_plan_is_never_called_exact_because_its_regions_share_levels(plan, define):
    assert solver_status(plan, define()) == "heuristic"
