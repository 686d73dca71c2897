"""From statistics to plans: every partitioner and objective, odd queries, levels."""

from __future__ import annotations

import numpy as np
import pytest

from planning.errors import InvalidInput
from planning.lira.planner import levels_of, node_importance, solver_status
from planning.lira.planner import plan as make_plan
from planning.lira.statistics import build


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
    nodes = np.array([[9.0, 1.0], [5.0, 5.0]])
    queries = np.array([[0.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 2.0]])
    made = node_importance(
        nodes, queries, np.array([1.0, 3.0]), (0, 0, 2, 2),
        reach_m=1, neighbour=0, background=0, least_nodes=1,
    )  # fmt: skip
    # Query 1 holds 10 nodes and weighs a quarter; query 2 holds 5 and weighs the rest.
    np.testing.assert_allclose(made.inside, [[0.225, 0.025], [0.75, 0.0]], atol=1e-9)
    np.testing.assert_allclose(made.total, made.inside)
    near = node_importance(
        nodes, queries, np.ones(2), (0, 0, 2, 2),
        reach_m=1, neighbour=0.3, background=0.01, least_nodes=1,
    )  # fmt: skip
    assert near.inside.sum() == pytest.approx(1.0)
    assert 0 < near.total[1, 1] < near.total[1, 0]
    with pytest.raises(InvalidInput, match="at least one cell"):
        node_importance(
            np.zeros((2, 2)), queries, np.ones(2), (0, 0, 2, 2),
            reach_m=1, neighbour=0, background=0, least_nodes=1,
        )  # fmt: skip


def test_levels_keep_the_order():
    rng = np.random.default_rng(0)
    m, w = rng.exponential(1, 500), rng.exponential(1, 500)
    level, ratio = levels_of(m, w, 64)
    assert (np.diff(level[np.argsort(m / w, kind="stable")].astype(int)) >= 0).all()
    assert np.abs(np.log(ratio[level] / (m / w))).max() <= np.log(ratio[1] / ratio[0]) / 2 + 1e-5


def test_a_plan_is_never_called_exact_because_its_regions_share_levels(plan, define):
    assert solver_status(plan, define()) == "heuristic"
