"""The paper's own algorithms: compiled as in plain Python, and where they miss the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lira import reading
from benchmarks.lira.greedy import greedy_increment, increment, uniform_threshold
from planning.errors import InvalidInput
from planning.lira.model import ReductionCurve
from planning.lira.path import ThrottlerPath
from planning.lira.printed.gridreduce import grid_reduce


def grids(seed: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    nodes = rng.gamma(0.3, 3.0, (side, side)).round(3)
    queries = (rng.random((side, side)) < 0.3) * rng.random((side, side)).round(3)
    return nodes, queries


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("z", [0.3, 0.5, 0.75])
def test_compiled_gridreduce_equals_plain_python(curve, seed, z):
    nodes, queries = grids(seed, 16)
    made = grid_reduce(nodes, queries, curve, 40, z)
    root = reading.build_tree(nodes.tolist(), queries.tolist())
    plain = sorted((t.x, t.y, t.side, t.side) for t in reading.grid_reduce(root, curve, 40, z))
    assert sorted(map(tuple, made.rectangles.tolist())) == plain


@pytest.mark.parametrize("fairness", [3.0, 50.0, 500.0])
def test_compiled_greedy_equals_plain_python(curve, fairness):
    rng = np.random.default_rng(1)
    for _ in range(40):
        m = rng.exponential(1, 12) * (rng.random(12) < 0.7)
        w = rng.exponential(1, 12) * (rng.random(12) < 0.9)
        z = float(rng.uniform(0.1, 1))
        lists = (a.tolist() for a in (m, w, curve.thresholds, curve.hull))
        plain = increment(*lists, fairness, z, float(w.sum()))
        np.testing.assert_allclose(greedy_increment(m, w, curve, fairness, z), plain, atol=1e-6)


def test_more_regions_than_cells_gives_all_cells(curve):
    nodes, queries = grids(3, 4)
    assert grid_reduce(nodes, queries, curve, 1000, 0.5).regions == 16


def test_greedy_is_optimal_without_fairness_and_not_with_it(curve):
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(200):
        m = rng.exponential(1, 20) * (rng.random(20) < 0.7)
        w = rng.exponential(1, 20)
        z = float(rng.uniform(curve.floor, 1))
        free = ThrottlerPath.of(m, w, curve, 200.0).at(z)
        assert m @ greedy_increment(m, w, curve, 200.0, z) == pytest.approx(free.inaccuracy)
        fair = ThrottlerPath.of(m, w, curve, 50.0).at(z)
        printed = m @ greedy_increment(m, w, curve, 50.0, z)
        assert printed >= fair.inaccuracy * (1 - 1e-9)
        missed += printed > fair.inaccuracy * (1 + 1e-6)
    assert missed > 20


def test_printed_fairness_of_zero_means_uniform(curve):
    greedy = greedy_increment([1.0, 0.0, 3.0], [1.0, 2.0, 0.0], curve, 0.0, 0.5)
    uniform = uniform_threshold(curve.thresholds, curve.hull, 0.5)
    np.testing.assert_allclose(greedy, uniform, atol=1e-6)


@given(st.floats(0, 1))
def test_uniform_is_the_smallest_threshold_that_meets_the_budget(z):
    curve = ReductionCurve.of([5, 10, 15, 20, 30], [1.0, 0.6, 0.65, 0.4, 0.3])
    threshold = uniform_threshold(curve.thresholds, curve.raw, z)
    if z < curve.floor:
        assert threshold == curve.high
    else:
        assert curve(threshold) <= z + 1e-9
        assert threshold == curve.low or curve(max(threshold - 1e-6, 5.0)) > z - 1e-6


def test_uniform_refuses_a_percentage():
    with pytest.raises(InvalidInput, match="throttle_fraction must lie in"):
        uniform_threshold([5, 10], [1, 0.5], 50)


def test_grids_must_be_square(curve):
    with pytest.raises(InvalidInput, match="square"):
        grid_reduce(np.ones((2, 3)), np.ones((2, 3)), curve, 4, 0.5)
    with pytest.raises(InvalidInput, match="regions"):
        grid_reduce(np.ones((2, 2)), np.ones((2, 2)), curve, 0, 0.5)
