"""The paper's test bench (Section 4.2): whole fleets on a dense trace, under plans and baselines.

Every fleet reports by dead reckoning under a map of thresholds; at regular moments the queries'
results are compared with those that Δmin everywhere would give. What is sent is held near z by the
run-time correction alone: the exact ledger, which never lets more than z pass, belongs to the
:class:`~planning.lira.shedder.Shedder`, and Section 4 has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.lira.fleet import Fleet, ReferenceRun, ThresholdMap, reference_run
from benchmarks.lira.greedy import uniform_threshold
from benchmarks.lira.trace import Trace
from planning.arrays import FloatArray, IntArray
from planning.errors import StatisticsError
from planning.lira.memory import BudgetCorrection
from planning.lira.model import ReductionCurve
from planning.lira.plan import Plan
from planning.lira.queries import query_errors

LOSS_SEED = 7  # of Random Drop
Maps = Callable[[float], ThresholdMap]
"""Thresholds over the plane at every z."""


@dataclass(frozen=True, slots=True)
class QueryErrors:
    """Errors of a set of query results, averaged over queries and evaluation times.

    Attributes
    ----------
    containment, position
        E_C (a ratio) and E_P (metres); 0 without queries.
    containment_deviation
        D_ev of E_C over queries (each query's error first averaged over time).
    """

    containment: float
    position: float
    containment_deviation: float

    @classmethod
    def of(cls, containment: FloatArray, position: FloatArray) -> QueryErrors:
        """Average the errors of every query, from :func:`~planning.lira.queries.query_errors`.

        >>> QueryErrors.of(np.array([0.0, 0.5]), np.array([3.0, 5.0]))
        QueryErrors(containment=0.25, position=4.0, containment_deviation=0.25)
        """
        if not containment.size:
            return cls(0.0, 0.0, 0.0)
        return cls(float(containment.mean()), float(position.mean()), float(containment.std()))

    @property
    def containment_variation(self) -> float:
        """C_ov = D_ev / E of containment; 0 without error."""
        return self.containment_deviation / self.containment if self.containment > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """One fleet: errors, and updates relative to Δmin over the evaluated time."""

    errors: QueryErrors
    updates: float


class Bench:
    """A dense trace on which plans and baselines are measured.

    Parameters
    ----------
    trace
        The fresh part of a trace.
    low
        Δmin.
    warm_up
        Ticks before errors and updates count.
    period
        Ticks between two evaluations of the queries.
    correct_every
        Periods between two corrections: several reports per node, or the loop overreacts.
    """

    def __init__(
        self,
        trace: Trace,
        low: float,
        *,
        warm_up: int = 300,
        period: int = 60,
        correct_every: int = 1,
    ) -> None:
        self.trace, self.low, self.warm_up = trace, low, warm_up
        self.correct_every = correct_every
        self.ticks: IntArray = np.arange(warm_up + period - 1, trace.ticks, period)
        if not self.ticks.size:
            raise StatisticsError(
                f"a bench needs more than {warm_up + period} ticks, got {trace.ticks}"
            )
        self.reference: ReferenceRun = reference_run(trace, low, self.ticks, warm_up)

    def measure(
        self,
        queries: FloatArray,
        maps: Maps,
        load: float,
        *,
        admit: float = 1.0,
        correct: bool = True,
    ) -> Result:
        """Run a fleet under ``maps(z)`` and compare the queries' results with the correct ones.

        ``admit`` below 1 is Random Drop: the server admits only that fraction of the reports.
        """
        fleet = Fleet(self.trace, admit, LOSS_SEED)
        correction = BudgetCorrection(load)
        asked = load
        fleet.run(maps(asked), self.warm_up)
        views = np.empty((self.ticks.size, self.trace.nodes, 2))
        reports = np.empty(self.ticks.size, dtype=np.int64)
        for k, tick in enumerate(self.ticks.tolist()):
            reports[k] = fleet.run(maps(asked), tick + 1)
            views[k] = fleet.predicted()
            if correct and admit == 1.0 and (k + 1) % self.correct_every == 0:
                lately = slice(k + 1 - self.correct_every, k + 1)
                due = int(self.reference.reports[lately].sum())
                asked = correction.observe(int(reports[lately].sum()), due)
        errors = QueryErrors.of(*query_errors(queries, self.reference.predicted, views))
        return Result(errors, int(reports.sum()) / max(int(self.reference.reports.sum()), 1))

    def random_drop(self, queries: FloatArray, load: float) -> Result:
        """Nodes report as under Δmin; the server drops the excess (baseline 1)."""
        return self.measure(queries, lambda _: self.everywhere(self.low), load, admit=load)

    def uniform(self, queries: FloatArray, load: float, curve: ReductionCurve) -> Result:
        """One threshold everywhere (baseline 2, Uniform Δ)."""

        def maps(z: float) -> ThresholdMap:
            return self.everywhere(uniform_threshold(curve.thresholds, curve.raw, z))

        return self.measure(queries, maps, load)

    def plan(
        self, queries: FloatArray, load: float, plan: Plan, *, correct: bool = True
    ) -> Result:
        """Run the fleet under a plan's throttlers."""
        return self.measure(queries, lambda z: plan_map(plan, z), load, correct=correct)

    def everywhere(self, threshold: float) -> ThresholdMap:
        """Return one threshold over the whole space."""
        return ThresholdMap.uniform(self.trace.bounds, threshold)


def plan_map(plan: Plan, load: float) -> ThresholdMap:
    """Return a plan's thresholds at one z, over the cells."""
    return ThresholdMap(plan.frame.bounds, plan.at(load).by_level[plan.raster])
