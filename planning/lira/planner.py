"""From statistics to a plan: importance, regions by price, levels (Sections 3.1 to 3.3, exact)."""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.arrays import FloatArray, single_precision
from planning.errors import StatisticsError
from planning.lira.axis import ErrorAxis, fit_errors
from planning.lira.gridreduce import grid_reduce
from planning.lira.halving import Halvings
from planning.lira.model import Frame
from planning.lira.objective import Importance, node_importance
from planning.lira.partition import Partition
from planning.lira.plan import Levels, Plan
from planning.lira.pricing import best_partition
from planning.lira.quadtree import QuadTree
from planning.lira.queries import queries_of
from planning.lira.reduction import ReductionCurve
from planning.lira.statistics import Grid, Statistics

FINEST_HALVING = 1024  # cells a side; beyond it all dyadic rectangles do not fit in memory
NO_DIFFERENCE = 1e-6  # ratios closer than this are one level: rounding, not importance


def plan(statistics: Statistics, definition: Any) -> Plan:
    """Return the plan whose setting at every z is optimal for its regions."""
    return solve(statistics, *queries_of(definition), definition.parameters)


def solve(
    measured: Statistics, queries: FloatArray, query_weights: FloatArray, chosen: Any
) -> Plan:
    """Make regions and levels; ``chosen`` are the family's parameters."""
    grid = measured.grid
    frame = Frame(
        grid.bounds, grid.nodes.shape[0], chosen.lowest_threshold, chosen.highest_threshold,
        chosen.segments,
    )  # fmt: skip
    curve = ReductionCurve.even(
        frame.low, frame.high, frame.segments, measured.thresholds, measured.reports
    )
    _, fitted = fit_errors(measured.thresholds, measured.errors)
    departure = fitted if chosen.departure is None else chosen.departure
    if chosen.objective == "paper" and chosen.departure is None:
        departure = 0.0
    axis = ErrorAxis.of(curve, departure)
    weight = update_weight(grid, chosen.speed_factor)
    per_object = float(grid.nodes.sum() / max(measured.objects, 1))
    importance = importance_of(grid, queries, query_weights, chosen, least_nodes=per_object)
    partition = partition_of(importance.total, weight, grid, axis, chosen)
    level, ratio = levels_of(
        partition.sums(importance.total), partition.sums(weight), chosen.levels
    )
    errors = np.interp(frame.thresholds, measured.thresholds, measured.errors)
    return Plan(
        frame=frame,
        partition=partition,
        level=level,
        ratio=ratio,
        weight=_by_level(level, partition.sums(weight), ratio.size),
        inside=_by_level(level, partition.sums(importance.inside), ratio.size),
        reduction=single_precision(curve.raw),
        errors=single_precision(errors),
        departure=departure,
        fairness_threshold=chosen.fairness_threshold,
        throttle_fraction=chosen.throttle_fraction,
        reports_per_position=float(measured.reports[0] / max(measured.rows, 1)),
    )


def update_weight(grid: Grid, speed_factor: bool) -> FloatArray:
    """Return n, or n·s/ŝ (Section 3.1.2), per cell; sums to 1."""
    nodes = grid.nodes.astype(np.float64)
    if speed_factor:
        moving = nodes * grid.mean_speed
        nodes = moving if moving.sum() > 0 else nodes
    total = nodes.sum()
    if not total > 0:
        raise StatisticsError("the statistics grid must hold at least one node, got none")
    return np.asarray(nodes / total)


def importance_of(
    grid: Grid, queries: FloatArray, weights: FloatArray, chosen: Any, *, least_nodes: float
) -> Importance:
    """Return what the plan minimises, per cell."""
    nodes = grid.nodes.astype(np.float64)
    by_nodes = node_importance(
        nodes, queries, weights, grid.bounds,
        reach_m=chosen.reach_m or chosen.highest_threshold, neighbour=chosen.neighbour_importance,
        background=chosen.background, least_nodes=least_nodes,
    )  # fmt: skip
    if chosen.objective == "nodes":
        return by_nodes
    total = grid.queries.sum()
    even = chosen.background * nodes / nodes.sum()
    area = grid.queries / total if total > 0 else grid.queries
    return Importance(area + even, by_nodes.inside)


def partition_of(
    importance: FloatArray, weight: FloatArray, grid: Grid, axis: ErrorAxis, chosen: Any
) -> Partition:
    """Return the shedding regions that the parameters ask for."""
    side = importance.shape[0]
    if chosen.partitioner == "grid":
        return Partition.even(side, chosen.regions)
    if chosen.partitioner == "gridreduce":
        nodes = grid.nodes.astype(np.float64)
        return grid_reduce(
            nodes, grid.queries, axis.curve, chosen.regions, chosen.throttle_fraction
        )
    fine = chosen.partitioner == "halving" and side <= FINEST_HALVING
    trees = Halvings(importance, weight) if fine else QuadTree(importance, weight)
    partition, _ = best_partition(
        trees, importance, weight, axis.curve, chosen.regions, chosen.throttle_fraction,
        chosen.fairness_threshold,
    )  # fmt: skip
    return partition


def levels_of(
    importance: FloatArray, weight: FloatArray, levels: int
) -> tuple[Levels, FloatArray]:
    """Quantise m/w: evenly in the logarithm from the least to the greatest positive ratio.

    Regions without weight cause no updates; they take the level of their importance per region,
    the highest if they have any, else the lowest.

    >>> level, ratio = levels_of(np.array([1.0, 4.0, 0.0]), np.array([1.0, 1.0, 1.0]), 3)
    >>> level.tolist(), ratio.tolist()
    ([1, 2, 0], [0.0, 1.0, 4.0])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = importance / weight
    some = (importance > 0) & (weight > 0)
    free = bool(((importance == 0) & (weight > 0)).any())
    ratio = np.zeros(levels)
    level = np.zeros(importance.size, dtype=np.uint8)
    if some.any():
        least, most = float(quotient[some].min()), float(quotient[some].max())
        first = 1 if free else 0
        steps = levels - 1 - first
        if most > least * (1 + NO_DIFFERENCE) and steps > 0:
            place = np.log(quotient[some] / least) / np.log(most / least)
            level[some] = first + np.rint(place * steps).astype(np.uint8)
            ratio[first:] = least * (most / least) ** (np.arange(steps + 1) / steps)
        else:
            level[some] = first
            ratio[first:] = most
    level[(importance > 0) & (weight == 0)] = levels - 1
    return level, single_precision(ratio)


def _by_level(level: Levels, values: FloatArray, levels: int) -> FloatArray:
    """Sum up by level, in single precision, as both encodings of the plan hold it."""
    return single_precision(np.bincount(level, weights=values, minlength=levels))
