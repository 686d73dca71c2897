"""From statistics to a plan: importance, regions by price, levels (Sections 3.1 to 3.3).

Planning weighs errors by an importance per cell, chosen so *true* errors fall. The paper's InAcc =
Σ m_i·Δ_i counts queries by area. The errors that users see count nodes: E_P averages |p − p*| over
the nodes in a result, and divides by the result's size. So here a node inside query q weighs 1/n_q
(n_q nodes lie in q), and the importance of a cell is what its nodes weigh together. Two things
beyond a query's border matter as well: a node that errs may be counted by mistake, and a node that
leaves the schedule of Δmin stays out of step for a while after it has entered. Both fade with
distance d, so outside a query the weight falls to ``neighbour`` · exp(−d/``reach``). A small
background, even over nodes, decides all remaining ties towards even throttlers.

Leaving Δmin has a price of its own (the error does not start at zero there): see ``departure`` in
:class:`planning.lira.model.ErrorAxis`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import FloatArray, single_precision
from planning.errors import StatisticsError
from planning.lira.model import Bounds, ErrorAxis, Frame, ReductionCurve, fitted_departure
from planning.lira.partition.halving import Halvings
from planning.lira.partition.pricing import best_partition
from planning.lira.partition.quadtree import QuadTree
from planning.lira.partition.regions import Partition
from planning.lira.plan import Levels, Plan
from planning.lira.printed.gridreduce import grid_reduce
from planning.lira.queries import queries_of
from planning.lira.statistics import Grid, Statistics

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

FINEST_HALVING = 1024  # cells per side; beyond it the dyadic rectangles do not fit in memory
NO_DIFFERENCE = 1e-6  # ratios closer than this are one level: rounding, not importance
STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # rings around a query, in reaches
UNSEEN = 0.5  # objects that every query may hold besides those that the samples show in it
CHUNK = 2048  # queries handled at once


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Return the plan whose setting at every z is optimal for its regions."""
    return solve(statistics, *queries_of(definition), definition.parameters)


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Return ``heuristic``: throttlers are optimal at every z, but only for regions in levels.

    Regions of about the same importance share a level, and so a throttler. No bound is known for
    what that rounding loses.
    """
    return "heuristic"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Return why the plan may disappoint, each with the remedy."""
    chosen, found = definition.parameters, []
    low = [load for load in definition.gate.loads if load < plan.floor]
    if low:
        found.append(
            f"At Δmax {plan.floor:.2f} of the updates remain, so loads such as {min(low):g} can "
            "only be met by reports that wait: raise highest_threshold."
        )
    if plan.regions < chosen.regions // 2:
        found.append(
            f"Only {plan.regions} of {chosen.regions} regions are worth making, as the samples "
            "tell too few places apart: land more samples, raise cells, or ask for fewer regions."
        )
    return found


def solve(
    measured: Statistics, queries: FloatArray, query_weights: FloatArray, chosen: Parameters
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
    departure = chosen.departure
    if departure is None:
        fitted = fitted_departure(measured.thresholds, measured.errors)
        departure = fitted if chosen.objective == "nodes" else 0.0
    axis = ErrorAxis.of(curve, departure)
    weight = update_weight(grid, chosen.speed_factor)
    per_object = float(grid.nodes.sum() / max(measured.objects, 1))
    importance, inside = importance_of(grid, queries, query_weights, chosen, per_object)
    partition = partition_of(importance, weight, grid, axis, chosen)
    level, ratio = levels_of(partition.sums(importance), partition.sums(weight), chosen.levels)
    errors = np.interp(frame.thresholds, measured.thresholds, measured.errors)
    return Plan(
        frame=frame,
        partition=partition,
        level=level,
        ratio=ratio,
        weight=_by_level(level, partition.sums(weight), ratio.size),
        inside=_by_level(level, partition.sums(inside), ratio.size),
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
    grid: Grid, queries: FloatArray, weights: FloatArray, chosen: Parameters, least_nodes: float
) -> tuple[FloatArray, FloatArray]:
    """Return two grids ``[iy, ix]``: what planning minimises, and the part inside queries.

    The part inside sums to 1 over all cells (to 0 without queries): with an error e in every cell,
    the predicted E_P is Σ inside·e. Samples show few of the objects that come to sparse places, and
    one alone may be a query's whole result: so every query holds ``UNSEEN`` objects more than they
    show, anywhere in it.

    Parameters
    ----------
    queries, weights
        Rows (x_low, y_low, x_high, y_high), and how much each query counts.
    chosen
        How weight fades outside a query, and the share of the total importance that is spread
        evenly over nodes.
    least_nodes
        A query counts as holding at least this many, in the unit of ``grid.nodes``.

    Examples
    --------
    >>> from planning.lira.parameters import Parameters
    >>> nodes, zeros = np.array([[3, 1], [2, 2]]), np.zeros((2, 2))
    >>> q = np.array([[0.0, 0.0, 2.0, 1.0]])
    >>> importance, inside = importance_of(
    ...     Grid((0, 0, 2, 2), nodes, zeros, zeros), q, np.ones(1),
    ...     Parameters(neighbour_importance=0, background=0.25), least_nodes=2,
    ... )
    >>> importance.round(5).tolist(), inside.round(5).tolist()
    ([[0.79375, 0.33125], [0.0625, 0.0625]], [[0.7, 0.3], [0.0, 0.0]])
    """
    n = grid.nodes.astype(np.float64)
    share = weights / weights.sum() if weights.sum() > 0 else weights
    reach_m = chosen.reach_m or chosen.highest_threshold
    rings = [(0.0, 1.0)] + [
        (s * reach_m, chosen.neighbour_importance * float(np.exp(-(s - STEPS[0] / 2))))
        for s in STEPS
    ]
    inside = np.zeros_like(n)
    to_come = np.zeros_like(n)
    per_node = np.zeros_like(n)
    for start in range(0, len(queries), CHUNK):
        part, weight = queries[start : start + CHUNK], share[start : start + CHUNK]
        x, y = _covered(part, 0.0, n.shape[0], grid.bounds)
        area = y.sum(axis=1) * x.sum(axis=1)
        unseen = np.where(area > 0, UNSEEN * least_nodes, 0.0)
        held = np.einsum("qi,ij,qj->q", y, n, x, optimize=True) + unseen
        each = weight / np.maximum(held, least_nodes)
        inside += (y * each[:, None]).T @ x
        to_come += (y * (each * unseen / np.maximum(area, 1e-300))[:, None]).T @ x
        for k, (wide, level) in enumerate(rings):
            step = level - (rings[k + 1][1] if k + 1 < len(rings) else 0.0)
            if step > 0:
                x, y = _covered(part, wide, n.shape[0], grid.bounds)
                per_node += step * ((y * each[:, None]).T @ x)
    held_inside = _rounded(inside * n + to_come)
    if chosen.objective == "nodes":
        even = chosen.background / float(n.sum())
        return _rounded(n * (per_node + even) + to_come), held_inside
    total = grid.queries.sum()
    area = grid.queries / total if total > 0 else grid.queries
    return area + chosen.background * n / n.sum(), held_inside


def _covered(
    queries: FloatArray, wide: float, cells: int, bounds: Bounds
) -> tuple[FloatArray, FloatArray]:
    """Return, per query and column (row), the share that the query, widened, covers."""
    x_low, y_low, x_high, y_high = bounds
    shares = []
    for low, high, bottom, top in (
        (queries[:, 0], queries[:, 2], x_low, x_high),
        (queries[:, 1], queries[:, 3], y_low, y_high),
    ):
        width = (top - bottom) / cells
        edges = bottom + width * np.arange(cells + 1)
        overlap = np.minimum(high[:, None] + wide, edges[1:]) - np.maximum(
            low[:, None] - wide, edges[:-1]
        )
        shares.append(np.clip(overlap / width, 0.0, 1.0))
    return shares[0], shares[1]


def _rounded(grid: FloatArray) -> FloatArray:
    """Round to twelve digits of the largest cell: the order of summation must not matter."""
    largest = float(grid.max(initial=0.0))
    if largest == 0.0:
        return grid
    unit = 2.0 ** np.floor(np.log2(largest) - 40)
    return np.asarray(np.rint(grid / unit) * unit)


def partition_of(
    importance: FloatArray, weight: FloatArray, grid: Grid, axis: ErrorAxis, chosen: Parameters
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
    """Sum up by level, in single precision, as both encodings of the plan store it."""
    return single_precision(np.bincount(level, weights=values, minlength=levels))
