"""What a plan does to positions it has not seen: true errors, beside the paper's baselines.

``evaluate`` (the pipeline's gate) offers recorded positions to a real shedder and compares what the
server then believes with what it would believe under Δmin. ``Bench`` does the same with a dense
trace, whole fleets and queries over time: the experiments of Section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from planning.arrays import BoolArray, Columns, FloatArray, IntArray
from planning.errors import StatisticsError, check_between
from planning.families import Outcome
from planning.lira.correction import BudgetCorrection
from planning.lira.dead_reckoning import Fleet, ReferenceRun, ThresholdMap, reference_run
from planning.lira.plan import Plan
from planning.lira.queries import QueryErrors, of, query_errors
from planning.lira.reduction import ReductionCurve
from planning.lira.shedder import Shedder
from planning.lira.trace import Trace

BATCH = 2000
Maps = Callable[[float], ThresholdMap]


def evaluate(
    plan: Plan, samples: Columns, definition: Any, loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Shed ``samples`` with the plan at each load, and at random, and compare.

    Quality is 1 − E_P/Δmax, not below 0. ``offered`` counts the reports that Δmin causes, and
    ``passed_fraction`` is relative to them.
    """
    rows = in_order(samples)
    if not len(rows["time"]):
        raise StatisticsError("samples must hold at least one position, got none")
    queries, _ = of(definition)
    fastest = definition.parameters.highest_speed
    full = _shed(plan, rows, 1.0, fastest)
    correct = server_view(rows, full, fastest)
    due = int(full.sum()) - np.unique(rows["object_id"]).size
    scale = plan.frame.high

    def quality(keep: BoolArray) -> float:
        errors = query_errors(queries, correct[None], server_view(rows, keep, fastest)[None])
        return max(0.0, 1.0 - errors.position / scale)

    outcomes = []
    for load in loads:
        keep = _shed(plan, rows, load, fastest)
        first = _first_rows(rows["object_id"])
        drawn = full & (first | _spread(len(full), load))
        outcomes.append(
            Outcome(
                load=float(load),
                predicted_quality=plan.predicted_quality(load),
                quality=quality(keep),
                random_quality=quality(drawn),
                passed_fraction=(int((keep & ~first).sum()) / due) if due else 0.0,
                offered=max(due, 1),
            )
        )
    return tuple(outcomes)


def in_order(samples: Columns) -> dict[str, np.ndarray]:
    """Return the positions by time, objects of one moment by id."""
    names = ("object_id", "time", "x", "y")
    columns = {n: np.asarray(samples[n]) for n in names}
    order = np.lexsort((columns["object_id"], columns["time"]))
    return {n: values[order] for n, values in columns.items()}


def _shed(plan: Plan, rows: dict[str, np.ndarray], load: float, fastest: float) -> BoolArray:
    shedder = Shedder(plan, load, highest_speed=fastest)
    size = len(rows["time"])
    masks = [
        shedder.offer({n: v[start : start + BATCH] for n, v in rows.items()})
        for start in range(0, size, BATCH)
    ]
    return np.concatenate(masks)


def _spread(size: int, load: float) -> BoolArray:
    """Draw a fixed fraction of places, without pattern and without a random generator."""
    check_between("load", load, 0.0, 1.0)
    mixed = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) < load * 2.0**53)


def _first_rows(ids: np.ndarray) -> BoolArray:
    first = np.zeros(len(ids), dtype=np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return first


def server_view(rows: dict[str, np.ndarray], keep: BoolArray, fastest: float) -> FloatArray:
    """Return where the server believes each row's object is, given the reports that were kept."""
    _, slots = np.unique(rows["object_id"], return_inverse=True)
    out = np.empty((len(keep), 2))
    times, xs, ys = (np.ascontiguousarray(rows[n], dtype=np.float64) for n in ("time", "x", "y"))
    _view(slots.astype(np.int64), times, xs, ys, keep, fastest, int(slots.max(initial=0)) + 1, out)
    return out


@njit(cache=True)
def _view(slots, times, xs, ys, keep, fastest, objects, out):  # type: ignore[no-untyped-def]
    last = np.full((objects, 3), np.nan)
    known = np.full((objects, 5), np.nan)
    for i in range(slots.size):
        s = slots[i]
        t, x, y = times[i], xs[i], ys[i]
        vx = vy = 0.0
        if t > last[s, 2]:
            vx, vy = (x - last[s, 0]) / (t - last[s, 2]), (y - last[s, 1]) / (t - last[s, 2])
            if vx * vx + vy * vy > fastest * fastest:
                vx = vy = 0.0
        if not t <= last[s, 2]:
            last[s] = (x, y, t)
        if keep[i]:
            known[s] = (x, y, vx, vy, t)
        age = t - known[s, 4]
        out[i, 0] = known[s, 0] + known[s, 2] * age
        out[i, 1] = known[s, 1] + known[s, 3] * age


@dataclass(frozen=True, slots=True)
class Result:
    """One fleet: errors, and updates relative to Δmin over the evaluated time."""

    errors: QueryErrors
    updates: float
    reports: int


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

    def run(
        self,
        maps: Maps,
        load: float,
        *,
        admit: float = 1.0,
        correct: bool = True,
        floor: float = 0.0,
        seed: int = 7,
    ) -> tuple[FloatArray, IntArray]:
        """Run a fleet under ``maps(z)``; return the server's views and the reports per period.

        ``admit`` below 1 is Random Drop: the server admits only that fraction of the reports.
        """
        fleet = Fleet(self.trace, admit, seed)
        correction = BudgetCorrection(load, floor=floor)
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
        return views, reports

    def measure(self, queries: FloatArray, views: FloatArray, reports: IntArray) -> Result:
        """Return the errors of a run's query results."""
        errors = query_errors(queries, self.reference.predicted, views)
        total = int(reports.sum())
        return Result(errors, total / max(int(self.reference.reports.sum()), 1), total)

    def random_drop(self, queries: FloatArray, load: float, seed: int = 7) -> Result:
        """Nodes report as under Δmin; the server drops what is too much (baseline 1)."""
        run = self.run(lambda _: self.everywhere(self.low), load, admit=load, seed=seed)
        return self.measure(queries, *run)

    def uniform(
        self, queries: FloatArray, load: float, curve: ReductionCurve, *, correct: bool = True
    ) -> Result:
        """One threshold everywhere (baseline 2, Uniform Δ)."""
        run = self.run(
            lambda z: self.everywhere(curve.inverse(z)), load, correct=correct, floor=curve.floor
        )
        return self.measure(queries, *run)

    def plan(
        self, queries: FloatArray, load: float, plan: Plan, *, correct: bool = True
    ) -> Result:
        """Run the fleet under a plan's throttlers."""
        run = self.run(lambda z: plan_map(plan, z), load, correct=correct, floor=plan.floor)
        return self.measure(queries, *run)

    def everywhere(self, threshold: float) -> ThresholdMap:
        """Return one threshold over the whole space."""
        return ThresholdMap.uniform(self.trace.bounds, threshold)


def plan_map(plan: Plan, load: float) -> ThresholdMap:
    """Return a plan's thresholds at one z, over the cells."""
    return ThresholdMap(plan.frame.bounds, plan.at(load).by_level[plan.raster])
