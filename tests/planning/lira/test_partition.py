"""Quad-tree and halving: against brute force and the paper's partitioner."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import InvalidInput
from planning.lira.model import ReductionCurve
from planning.lira.partition.halving import Halvings
from planning.lira.partition.pricing import Prices, best_partition
from planning.lira.partition.quadtree import QuadTree
from planning.lira.partition.regions import Partition, grid_side, padded
from planning.lira.path import ThrottlerPath
from planning.lira.printed.gridreduce import grid_reduce


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
    made = [grid_reduce(nodes, queries, curve, regions, z)]
    for trees in (Halvings(importance, nodes), QuadTree(importance, nodes)):
        made.append(best_partition(trees, importance, nodes, curve, regions, z, 50.0)[0])
    for partition in made:
        assert tiles(partition)
        assert 1 <= partition.regions <= regions
        np.testing.assert_allclose(partition.sums(nodes).sum(), nodes.sum())


def test_regions_of_the_paper():
    assert grid_side(250) == 128
    assert grid_side(4000) == 512
    assert padded(100) == 128
    assert Partition.even(128, 250).regions == 256
    assert Partition.even(128, 250, at_most=True).regions == 128


def halvings(x, y, w, h):
    """Return both ways to halve a rectangle."""
    ways = []
    if w > 1:
        ways.append([(x, y, w // 2, h), (x + w // 2, y, w // 2, h)])
    if h > 1:
        ways.append([(x, y, w, h // 2), (x, y + h // 2, w, h // 2)])
    return ways


def quarters(x, y, w, h):
    """Return the one way to split a node of a quad-tree."""
    corners = [(x + a, y + b) for a in (0, w // 2) for b in (0, h // 2)]
    return [[(*corner, w // 2, h // 2) for corner in corners]] if w > 1 else []


def brute_force(cost, charge, side, ways):
    """Cheapest partition, straight from the recursion in the modules' docstrings."""

    @cache
    def best(*rectangle):
        splits = (sum(best(*part) for part in parts) for parts in ways(*rectangle))
        return min([cost(*rectangle) + charge, *splits])

    return best(0, 0, side, side)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("trees", "ways"), [(Halvings, halvings), (QuadTree, quarters)])
def test_the_tree_is_the_cheapest_for_a_price(curve, seed, trees, ways):
    nodes, queries = grids(seed, 8)
    importance = queries + 0.01 * nodes
    fairness, window, price = 30.0, 10.0, 5.0
    levels = np.concatenate([curve.thresholds, [window, window + fairness]])
    levels = np.unique(np.clip(levels, window, window + fairness))

    def cost(x, y, w, h):
        m, n = importance[y : y + h, x : x + w].sum(), nodes[y : y + h, x : x + w].sum()
        return (m * levels + price * n * curve.convex(levels)).min()

    all_trees = trees(importance, nodes)
    all_trees.price(Prices(curve, price, window, fairness))
    for charge in (0.0, 0.05, 0.5, 2.0):
        leaves = all_trees.count(charge)
        made = Partition.of(8, all_trees.symbols(charge, leaves))
        assert made.regions == leaves
        total = sum(cost(*row) + charge for row in made.rectangles.tolist())
        assert total == pytest.approx(brute_force(cost, charge, 8, ways))


@pytest.mark.parametrize("trees", [Halvings, QuadTree])
def test_better_regions_lower_the_predicted_inaccuracy(scene, trees):
    queries = scene.queries("proportional", 15)
    counted = scene.statistics(queries, 64).grid
    nodes, asked = counted.nodes.astype(float), counted.queries
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


@pytest.mark.parametrize("trees", [Halvings, QuadTree])
def test_grids_must_be_square(trees):
    with pytest.raises(InvalidInput, match="square"):
        trees(np.ones((2, 3)), np.ones((2, 3)))


def test_regions_that_gain_nothing_are_not_made(curve):
    """Two halves that differ, each the same throughout: two regions say all, however large l is."""
    nodes = np.ones((16, 16))
    importance = np.where(np.arange(16)[None, :] < 8, 1.0, 5.0) * np.ones((16, 1))
    made, _ = best_partition(
        Halvings(importance, nodes), importance, nodes, curve, 100, 0.5, 50.0, start=None
    )
    assert made.rectangles.tolist() == [[0, 0, 8, 16], [8, 0, 8, 16]]
