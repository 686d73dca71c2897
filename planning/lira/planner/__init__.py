"""From statistics to a plan: importance, regions by price, levels (Sections 3.1 to 3.3).

What is minimised, per cell, is in :mod:`planning.lira.planner.importance`.

Where a query has a ``max_delta``, regions end where it does: they are halved until the cells of
each are looked at by queries that ask for the same. A cell that such a query touches is bound as a
whole: it is the finest that a node can tell apart. Levels are then made for each such kind of cell
by itself, and the throttlers are found by :mod:`planning.lira.program`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, single_precision
from planning.errors import InfeasiblePlan
from planning.lira.model import ErrorAxis, Frame, ReductionCurve, fitted_departure
from planning.lira.partition.halving import Halvings
from planning.lira.partition.pricing import best_partition
from planning.lira.partition.quadtree import QuadTree
from planning.lira.partition.regions import Partition
from planning.lira.plan import Levels, Plan
from planning.lira.planner.importance import importance_of, update_weight
from planning.lira.printed.gridreduce import grid_reduce
from planning.lira.queries import Promises, promises_of, queries_of
from planning.lira.statistics import Grid, Statistics

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

FINEST_HALVING = 1024  # cells per side; beyond it the dyadic rectangles do not fit in memory
NO_DIFFERENCE = 1e-6  # ratios closer than this are one level: rounding, not importance
MOST_LEVELS = 256  # that nodes can be sent
MOST_WARNINGS = 5  # about guarantees
NO_PROMISES = Promises(np.zeros((0, 4)), ())


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Return the plan whose setting at every z is optimal for its regions."""
    ground = Ground.of(
        statistics, *queries_of(definition), definition.parameters, promises_of(definition)
    )
    made = ground.levelled(ground.partition())
    if not ground.promises.guarantees:
        return made
    from planning.lira.program import guaranteed  # OR-Tools, only where it is needed

    return guaranteed(made, ground)


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Return ``heuristic``: throttlers are optimal at every z, but only for regions in levels.

    Regions of about the same importance share a level, and so a throttler. No bound is known for
    what that rounding loses; what interpolating between loads does, a plan with guarantees states.
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
    lowest = min(definition.gate.loads)
    broken = [i for i, g in enumerate(plan.guarantees) if g.holds_from > lowest]
    reached = plan.kept(lowest) if broken else ()
    found += [
        f"{plan.guarantees[i]}; at load {lowest:g} throttlers there reach {reached[i]:.4g} m: "
        "raise its max_delta, give others a lower priority, or raise highest_threshold or "
        "fairness_threshold, so that other places make more room."
        for i in broken[:MOST_WARNINGS]
    ]
    if len(broken) > MOST_WARNINGS:
        found.append(
            f"So do {len(broken) - MOST_WARNINGS} more guarantees: ask for less, or for fewer."
        )
    return found


def solve(
    measured: Statistics, queries: FloatArray, query_weights: FloatArray, chosen: Parameters
) -> Plan:
    """Make regions and levels, without guarantees; ``chosen`` are the family's parameters."""
    ground = Ground.of(measured, queries, query_weights, chosen)
    return ground.levelled(ground.partition())


@dataclass(frozen=True, eq=False)
class Ground:
    """What statistics and definition say of every cell: all the numbers that a plan is made of.

    ``promises`` are the guarantees that are asked for. Grids are ``[iy, ix]``.
    """

    frame: Frame
    curve: ReductionCurve
    errors: FloatArray
    departure: float
    reports_per_position: float
    grid: Grid
    weight: FloatArray
    importance: FloatArray
    inside: FloatArray
    chosen: Parameters
    promises: Promises

    @classmethod
    def of(
        cls, measured: Statistics, queries: FloatArray, query_weights: FloatArray,
        chosen: Parameters, promises: Promises = NO_PROMISES,
    ) -> Ground:  # fmt: skip
        """Weigh the cells of the statistics grid."""
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
        per_object = float(grid.nodes.sum() / max(measured.objects, 1))
        importance, inside = importance_of(grid, queries, query_weights, chosen, per_object)
        return cls(
            frame, curve, np.interp(frame.thresholds, measured.thresholds, measured.errors),
            departure, float(measured.reports[0] / max(measured.rows, 1)), grid,
            update_weight(grid, chosen.speed_factor), importance, inside, chosen, promises,
        )  # fmt: skip

    def partition(self) -> Partition:
        """Return the regions: those that the parameters ask for, cut where guarantees end."""
        axis = ErrorAxis.of(self.curve, self.departure)
        return self.cut(
            partition_of(self.importance, self.weight, self.grid, axis, self.chosen)
        )

    def cut(self, partition: Partition) -> Partition:
        """Return the regions, halved until each is of one kind."""
        return partition.cut(self._kinds) if self.promises.guarantees else partition

    def levelled(self, partition: Partition) -> Plan:
        """Return the plan of regions: their levels, and what these weigh; no guarantees yet."""
        importance, weight = partition.sums(self.importance), partition.sums(self.weight)
        if self.promises.guarantees:
            x, y = partition.rectangles[:, 0], partition.rectangles[:, 1]
            level, ratio = _levels_by_kind(
                importance, weight, self._kinds[y, x], self.chosen.levels
            )
        else:
            level, ratio = levels_of(importance, weight, self.chosen.levels)
        return Plan(
            frame=self.frame,
            partition=partition,
            level=level,
            ratio=ratio,
            weight=_by_level(level, weight, ratio.size),
            inside=_by_level(level, partition.sums(self.inside), ratio.size),
            reduction=single_precision(self.curve.raw),
            errors=single_precision(self.errors),
            departure=self.departure,
            fairness_threshold=self.chosen.fairness_threshold,
            throttle_fraction=self.chosen.throttle_fraction,
            reports_per_position=self.reports_per_position,
        )

    @cached_property
    def priorities(self) -> list[int]:
        """The priorities of the guarantees that can bind at all, the highest first."""
        binding = {g.priority for g in self.promises.guarantees if g.value < self.frame.high}
        return sorted(binding, reverse=True)

    def most(self, made: Plan) -> FloatArray:
        """Return the least ``max_delta`` asked for per level and priority, ∞ where nobody asks."""
        out = np.full((made.ratio.size, len(self.priorities)), np.inf)
        for p in range(len(self.priorities)):
            np.minimum.at(out[:, p], made.raster.ravel(), self._most[p].ravel())
        return out

    def looks(self, made: Plan) -> BoolArray:
        """Return which levels each guarantee is about."""
        out = np.zeros((len(self._looked), made.ratio.size), dtype=np.bool_)
        for row, cells in zip(out, self._looked, strict=True):
            row[np.unique(made.raster[cells])] = True
        return out

    @cached_property
    def _looked(self) -> list[tuple[slice, slice]]:
        """The cells that each guaranteed query touches, reckoned as nodes look up theirs."""
        width, height = self.frame.cell_size
        x_low, y_low, _, _ = self.frame.bounds
        corners = (self.promises.rows - [x_low, y_low] * 2) * ([1.0 / width, 1.0 / height] * 2)
        cells = np.clip(np.floor(corners), 0, self.frame.side - 1).astype(np.int64).tolist()
        return [(slice(b, d + 1), slice(a, c + 1)) for a, b, c, d in cells]

    @cached_property
    def _most(self) -> FloatArray:
        """The least ``max_delta`` per priority and cell."""
        side = self.frame.side
        out = np.full((len(self.priorities), side, side), np.inf)
        for cells, g in zip(self._looked, self.promises.guarantees, strict=True):
            if g.priority in self.priorities:
                here = out[self.priorities.index(g.priority)][cells]
                np.minimum(here, g.value, out=here)
        return out

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        """A number per cell: the same where the same is asked for."""
        flat = self._most.reshape(len(self.priorities), self.weight.size).T
        return np.unique(flat, axis=0, return_inverse=True)[1].reshape(self.weight.shape)


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


def _levels_by_kind(
    importance: FloatArray, weight: FloatArray, kind: NDArray[np.int64], levels: int
) -> tuple[Levels, FloatArray]:
    """Quantise m/w of each kind of regions by itself; only levels that are used are kept."""
    while True:
        level = np.zeros(importance.size, dtype=np.int64)
        ratio = np.zeros(importance.size)
        for k in np.unique(kind):
            own, ratios = levels_of(importance[kind == k], weight[kind == k], levels)
            level[kind == k], ratio[kind == k] = k * MOST_LEVELS + own, ratios[own]
        used, first, level = np.unique(level, return_index=True, return_inverse=True)
        if used.size <= MOST_LEVELS:
            return level.astype(np.uint8), single_precision(ratio[first])
        if levels == 2:
            raise InfeasiblePlan(
                f"max_delta and priority of queries must differ in at most {MOST_LEVELS} ways in "
                f"one place or another, got {used.size}; let queries that overlap ask for the same"
            )
        levels = max(2, levels // 2)


def _by_level(level: Levels, values: FloatArray, levels: int) -> FloatArray:
    """Sum up by level, in single precision, as both encodings of the plan store it."""
    return single_precision(np.bincount(level, weights=values, minlength=levels))
