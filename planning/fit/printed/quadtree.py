"""Solver and Solver-W: a region quadtree over the rate space (Section 5).

A cell of the quadtree is planned at its lowest corner; every point of it is first scaled down to
that corner. Throughput grows with the rates, so the relative difference of the optimal scores of
the two extreme corners bounds the error of all points between them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import check_between
from planning.fit.model import MethodLimit
from planning.fit.path import FEASIBLE, INNER, Quadtree
from planning.fit.printed.distributions import Distribution
from planning.fit.simplex.shedding import SheddingProgram
from planning.fit.simplex.warm import WarmSimplex

DEPTH = 48
ROUNDING = 1e-12
Scorer = Callable[[FloatArray], FloatArray]


def simplex_scorer(program: SheddingProgram) -> Scorer:
    """Score points by the warm simplex."""
    warm = WarmSimplex(program)

    def score(points: FloatArray) -> FloatArray:
        return program.throughput(points, warm.dropped(points))

    return score


@dataclass(slots=True, eq=False)
class Builder:
    """A quadtree while it is divided."""

    program: SheddingProgram
    scorer: Scorer
    workload: Distribution | None
    max_plans: int
    dims: IntArray
    plan: list[int] = field(default_factory=list)
    child: list[int] = field(default_factory=list)
    corner: list[FloatArray] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    heap: list[tuple[float, int, int]] = field(default_factory=list)
    total: float = 0.0
    infeasible: int = 0

    def add(self, low: FloatArray, size: float) -> None:
        """Append cells at ``low`` (rows, valued inputs only) with their bounds."""
        high = low + size
        probability = rank = np.ones(len(low))
        if self.workload is not None:
            fitted, judge = self.workload.folds()
            rank = self._probability(fitted, low, high)
            probability = rank if judge is fitted else self._probability(judge, low, high)
        top = self._points(high)
        fits = self.program.fits(top)
        errors = np.zeros(len(low))
        if not fits.all():
            best = self.scorer(top[~fits])
            least = self.scorer(self._points(low[~fits]))
            errors[~fits] = np.maximum(1.0 - least / best, 0.0)
        for k in range(len(low)):
            number = len(self.plan)
            self.plan.append(FEASIBLE if fits[k] else 0)
            self.child.append(0)
            self.corner.append(np.append(low[k], size))
            self.bound.append(float(errors[k]))
            self.weight.append(float(probability[k]))
            if not fits[k]:
                self.infeasible += 1
                self.total += float(probability[k] * errors[k])
                heapq.heappush(self.heap, (-float(rank[k] * errors[k]), number, number))

    def _points(self, valued: FloatArray) -> FloatArray:
        points = np.zeros((len(valued), len(self.program.max_rates)))
        points[:, self.dims] = valued
        return points

    def _probability(
        self, workload: Distribution, low: FloatArray, high: FloatArray
    ) -> FloatArray:
        lowest, highest = self._points(low), np.ones((len(high), len(self.program.max_rates)))
        highest[:, self.dims] = high
        return workload.probability(lowest, highest)

    def divide(self, cell: int) -> None:
        """Halve a cell along every valued input."""
        low, size = self.corner[cell][:-1], self.corner[cell][-1] / 2
        if size < 2.0**-DEPTH:
            raise MethodLimit(
                f"error must be reachable by {DEPTH} halvings of the rate space, got a cell with "
                f"error {self.bound[cell]:.3g}; use regions or simplex"
            )
        count = len(self.dims)
        bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        self.infeasible -= 1
        self.total -= self.weight[cell] * self.bound[cell]
        self.plan[cell] = INNER
        self.child[cell] = len(self.plan)
        self.add(low + bits * size, size)
        if self.infeasible > self.max_plans:
            which, still = "largest", -self.heap[0][0]
            if self.workload is not None:
                which, still = "expected", self.total
            raise MethodLimit(
                f"plans of the quadtree must number at most {self.max_plans}, more are needed; the "
                f"{which} error is still {still:.3g}: raise max_plans or error, or use regions or "
                "simplex"
            )


def build(
    program: SheddingProgram,
    error: float,
    *,
    workload: Distribution | None = None,
    max_plans: int = 1_000_000,
    scorer: Scorer | None = None,
) -> Quadtree:
    """Divide the rate space until the error bound holds.

    Without ``workload`` (Solver) every cell's error is at most ``error``; with it (Solver-W) the
    expected error is, of the fold of the workload that did not decide where to divide.
    """
    check_between("error", error, 0, 1, open_low=True)
    program.network.check_plain("solver" if workload is None else "solver_w")
    valued = program.valued_inputs
    builder = Builder(
        program,
        scorer or simplex_scorer(program),
        workload,
        max_plans,
        np.flatnonzero(valued).astype(np.int64),
    )
    builder.add(np.zeros((1, len(builder.dims))), 1.0)
    if workload is None:
        while builder.heap and -builder.heap[0][0] > error + ROUNDING:
            builder.divide(heapq.heappop(builder.heap)[2])
    else:
        while builder.heap and builder.total > error and -builder.heap[0][0] > 0:
            builder.divide(heapq.heappop(builder.heap)[2])
    return _finish(builder, valued)


def _finish(builder: Builder, valued: BoolArray) -> Quadtree:
    plan = np.array(builder.plan, dtype=np.int64)
    leaves = np.flatnonzero(plan >= 0)
    plan[leaves] = np.arange(len(leaves))
    dims = len(builder.dims)
    corners = np.array([builder.corner[k][:-1] for k in leaves]).reshape(len(leaves), dims)
    fractions = WarmSimplex(builder.program).fractions(builder._points(corners))
    return Quadtree(
        valued=valued,
        plan=plan,
        child=np.array(builder.child, dtype=np.int64),
        fractions=fractions,
        bound=np.array([builder.bound[k] for k in leaves]),
    )
