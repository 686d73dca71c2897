"""The adaptation step: partition and throttlers from a statistics grid, timed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.lira import reading
from benchmarks.lira.greedy import increment
from benchmarks.lira.scene import Scene
from benchmarks.lira.setting import LOADS, QUERIES, REGIONS, SEEDS, scene_of, slowest, timed
from benchmarks.rows import Row, best_of, row
from planning.arrays import FloatArray
from planning.lira.model import ErrorAxis, ReductionCurve
from planning.lira.parameters import Parameters
from planning.lira.partition.halving import Halvings
from planning.lira.partition.pricing import best_partition
from planning.lira.partition.quadtree import QuadTree
from planning.lira.partition.regions import Partition
from planning.lira.path import ThrottlerPath
from planning.lira.planner.importance import importance_of, update_weight
from planning.lira.printed.gridreduce import grid_reduce_sums


def adaptation(quick: bool) -> list[Row]:
    """Time the adaptation step: partition and throttlers from a statistics grid."""
    scene = scene_of(SEEDS[0])
    rows = _adaptation_case(scene, 128, 250, 100, 1000.0, (0.001, 0.005))
    rows += _adaptation_case(scene, 512, 4000, 1600, 250.0, (0.010, 0.060))
    rows.append(_against_python(scene))
    return rows if quick else rows + _largest(scene)


def _adaptation_case(
    scene: Scene, side: int, regions: int, count: int, query_side: float,
    limits: tuple[float, float],
) -> list[Row]:  # fmt: skip
    queries = scene.queries("proportional", count, query_side)
    grid = scene.statistics(queries, side).grid
    nodes, asked = grid.nodes.astype(np.float64), grid.queries
    weight = update_weight(grid, False)
    chosen = Parameters(reach_m=0.1 * query_side)
    importance, _ = importance_of(grid, queries, np.ones(count), chosen, least_nodes=90.0)
    axis = ErrorAxis.of(scene.curve, 6.0).curve
    trees = Halvings(importance, weight)

    def paper(z: float) -> None:
        _paper_step(nodes, asked, scene.curve, regions, z)

    def better(z: float, start: Partition | None) -> Partition:
        trees.refill(importance, weight)
        if start is None:
            trees.charge = 0.0
        return best_partition(trees, importance, weight, axis, regions, z, 50.0, start=start)[0]

    by_paper = [best_of(9, partial(paper, z)) for z in LOADS]
    warm = [best_of(7, partial(better, z, better(z, None))) for z in LOADS]
    cold = [best_of(7, partial(better, z, None)) for z in LOADS]
    name = f"α = {side}, l = {regions}, slowest z"
    return [
        timed(f"adaptation, GRIDREDUCE + exact throttlers, {name}", limits[0], slowest(by_paper)),
        timed(f"adaptation, best halvings, from the last regions, {name}", limits[1],
              slowest(warm)),
        timed(f"adaptation, best halvings, from nothing, {name}", limits[1], slowest(cold)),
    ]  # fmt: skip


def _paper_step(
    nodes: FloatArray, asked: FloatArray, curve: ReductionCurve, regions: int, z: float
) -> Any:
    _, n, m = grid_reduce_sums(nodes, asked, curve, regions, z)
    return ThrottlerPath.of(m, n, curve, 50.0).at(z)


def _against_python(scene: Scene) -> Row:
    grid = scene.statistics(scene.queries("proportional", QUERIES), 128).grid
    nodes, asked = grid.nodes.astype(np.float64), grid.queries
    curve, regions = scene.curve, REGIONS
    n, m = nodes.tolist(), asked.tolist()
    d, f = curve.thresholds.tolist(), curve.hull.tolist()

    def heap() -> None:
        tree = reading.build_tree(n, m)
        leaves = reading.grid_reduce(tree, curve, regions, 0.5)
        increment([t.m for t in leaves], [t.n for t in leaves], d, f, 50.0, 0.5, tree.n)

    plain = best_of(5, heap)
    ours = best_of(20, lambda: _paper_step(nodes, asked, curve, regions, 0.5))
    ratio = plain.wall / ours.wall
    return row("adaptation against a plain Python heap implementation, α = 128, l = 250",
               ">= 100x", f"{ratio:.0f}x (CPU {plain.cpu / ours.cpu:.0f}x)",
               ratio >= 100)  # fmt: skip


def _largest(scene: Scene) -> list[Row]:
    rng = np.random.default_rng(1)
    side, regions = 4096, 100_000
    nodes = rng.gamma(0.1, 1.0, (side, side))
    asked = rng.random((side, side)) * (rng.random((side, side)) < 0.2)
    importance = asked + 1e-3 * nodes

    def better() -> None:
        trees = QuadTree(importance, nodes)
        best_partition(trees, importance, nodes, scene.curve, regions, 0.5, 50.0)

    paper = best_of(
        1, lambda: _paper_step(nodes, asked, scene.curve, regions, 0.5), warm=False
    )
    name = f"α = {side}, l = {regions}"
    return [
        timed(f"adaptation, GRIDREDUCE + exact throttlers, {name}", 5.0, paper),
        timed(f"adaptation, best quad-tree, {name}", 5.0, best_of(1, better, warm=False)),
    ]
