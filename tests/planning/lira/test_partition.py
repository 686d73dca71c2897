"""GRIDREDUCE, quad-tree and halving: against plain Python, brute force, and the paper."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import InvalidInput
from planning.lira import printed
from planning.lira.greedy import greedy_increment
from planning.lira.gridreduce import grid_reduce
from planning.lira.halving import Halvings
from planning.lira.partition import Partition, grid_side, padded
from planning.lira.pricing import Prices, best_partition
from planning.lira.quadtree import QuadTree
from planning.lira.reduction import ReductionCurve
from planning.lira.throttlers import ThrottlerPath


def grids(seed: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    nodes = rng.gamma(0.3, 3.0, (side, side)).round(3)
    queries = (rng.random((side, side)) < 0.3) * rng.random((side, side)).round(3)
    return nodes, queries


def tiles(partition: Partition) -> bool:
    seen = np.zeros((partition.side, partition.side), dtype=int)
    for x, y, w, h in partition.rectangles:
        seen[y : y + h, x : x + w] += 1
    return bool((seen == 1).all())


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 5, 8, 12, 16]), st.integers(1, 40),
       st.floats(0.2, 0.95))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_every_partitioner_tiles_the_grid_with_at_most_l_regions(seed, side, regions, z):
    nodes, queries = grids(seed, side)
    nodes[0, 0] += 1.0
    d = 5.0 + np.arange(20) * 5
    curve = ReductionCurve.of(d, (5 / d) ** 0.6)
    importance = queries + 1e-3 * nodes
    found = [grid_reduce(nodes, queries, curve, regions, z)]
    for trees in (Halvings(importance, nodes), QuadTree(importance, nodes)):
        found.append(best_partition(trees, importance, nodes, curve, regions, z, 50.0)[0])
    for partition in found:
        assert tiles(partition)
        assert 1 <= partition.regions <= regions
        np.testing.assert_allclose(partition.sums(nodes).sum(), nodes.sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("z", [0.3, 0.5, 0.75])
def test_compiled_gridreduce_equals_plain_python(curve, seed, z):
    nodes, queries = grids(seed, 16)
    made = grid_reduce(nodes, queries, curve, 40, z)
    root = printed.build_tree(nodes.tolist(), queries.tolist())
    plain = sorted((t.x, t.y, t.side, t.side) for t in printed.grid_reduce(root, curve, 40, z))
    assert sorted(map(tuple, made.rectangles.tolist())) == plain


@pytest.mark.parametrize("fairness", [3.0, 50.0, 500.0])
def test_compiled_greedy_equals_plain_python(curve, fairness):
    rng = np.random.default_rng(1)
    for _ in range(40):
        m = rng.exponential(1, 12) * (rng.random(12) < 0.7)
        w = rng.exponential(1, 12) * (rng.random(12) < 0.9)
        z = float(rng.uniform(0.1, 1))
        plain = printed.greedy_increment(
            m.tolist(), w.tolist(), curve.thresholds.tolist(), curve.hull.tolist(), fairness, z
        )
        np.testing.assert_allclose(greedy_increment(m, w, curve, fairness, z), plain, atol=1e-6)


def test_regions_of_the_paper():
    assert grid_side(250) == 128
    assert grid_side(4000) == 512
    assert padded(100) == 128
    assert Partition.even(128, 250).regions == 256
    assert Partition.even(128, 250, at_most=True).regions == 128


def test_more_regions_than_cells_gives_all_cells(curve):
    nodes, queries = grids(3, 4)
    assert grid_reduce(nodes, queries, curve, 1000, 0.5).regions == 16


def brute_force(cost, charge, side):
    """Cheapest dyadic partition, straight from the recursion in the module's docstring."""

    @cache
    def best(x, y, w, h):
        value = cost(x, y, w, h) + charge
        if w > 1:
            value = min(value, best(x, y, w // 2, h) + best(x + w // 2, y, w // 2, h))
        if h > 1:
            value = min(value, best(x, y, w, h // 2) + best(x, y + h // 2, w, h // 2))
        return value

    return best(0, 0, side, side)


@pytest.mark.parametrize("seed", range(4))
def test_halving_is_the_cheapest_tree_for_a_price(curve, seed):
    nodes, queries = grids(seed, 8)
    importance = queries + 0.01 * nodes
    fairness, window, price = 30.0, 10.0, 5.0
    levels = np.concatenate([curve.thresholds, [window, window + fairness]])
    levels = np.unique(np.clip(levels, window, window + fairness))

    def cost(x, y, w, h):
        m, n = importance[y : y + h, x : x + w].sum(), nodes[y : y + h, x : x + w].sum()
        return (m * levels + price * n * curve.convex(levels)).min()

    trees = Halvings(importance, nodes)
    trees.price(Prices(curve, price, window, fairness))
    for charge in (0.0, 0.05, 0.5, 2.0):
        leaves = trees.count(charge)
        made = Partition.of(8, trees.symbols(charge, leaves))
        assert made.regions == leaves
        total = sum(cost(*row) + charge for row in made.rectangles.tolist())
        assert total == pytest.approx(brute_force(cost, charge, 8))


@pytest.mark.parametrize("trees", [Halvings, QuadTree])
def test_better_regions_lower_the_predicted_inaccuracy(scene, trees):
    queries = scene.queries("proportional", 15)
    found = scene.statistics(queries, 64).grid
    nodes, asked = found.nodes.astype(float), found.queries
    importance = asked + 1e-3 * asked.sum() * nodes / nodes.sum()
    for z in (0.3, 0.5, 0.75):
        paper = grid_reduce(nodes, asked, scene.curve, 60, z)
        ours, setting = best_partition(
            trees(importance, nodes), importance, nodes, scene.curve, 60, z, 50.0
        )
        old = ThrottlerPath.of(
            paper.sums(importance), paper.sums(nodes), scene.curve, 50.0
        ).at(z)
        assert ours.regions <= 60
        assert setting.inaccuracy < old.inaccuracy


@pytest.mark.parametrize(
    "symbols", [[], [1], [1, 0], [0, 0], [1, 0, 0, 0], [2, 2, 2, 0, 0, 0, 0], [3]]
)
def test_symbols_that_are_no_tree_are_refused(symbols):
    with pytest.raises(InvalidInput, match="one tree"):
        Partition.of(2, np.array(symbols, dtype=np.uint8))


def test_grids_must_be_square(curve):
    with pytest.raises(InvalidInput, match="square"):
        grid_reduce(np.ones((2, 3)), np.ones((2, 3)), curve, 4, 0.5)
    with pytest.raises(InvalidInput, match="square"):
        Halvings(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(InvalidInput, match="regions"):
        grid_reduce(np.ones((2, 2)), np.ones((2, 2)), curve, 0, 0.5)


def test_regions_that_gain_nothing_are_not_made(curve):
    """Two halves that differ, each the same throughout: two regions say all, however large l is."""
    nodes = np.ones((16, 16))
    importance = np.where(np.arange(16)[None, :] < 8, 1.0, 5.0) * np.ones((16, 1))
    made, _ = best_partition(
        Halvings(importance, nodes), importance, nodes, curve, 100, 0.5, 50.0, start=None
    )
    assert made.rectangles.tolist() == [[0, 0, 8, 16], [8, 0, 8, 16]]
