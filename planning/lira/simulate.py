"""What a plan does to positions it has not seen, beside random dropping and one Δ for all.

Recorded positions are offered to a node in miniature, budget and all; what the server then believes
is compared with what it would believe under Δmin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planning import rehearsal
from planning.arrays import BoolArray, Columns, FloatArray, IntArray
from planning.errors import StatisticsError, check_between
from planning.families import Outcome
from planning.hashing import GOLDEN, mixed
from planning.lira.kernels import believed
from planning.lira.partition.regions import Partition
from planning.lira.plan import Plan
from planning.lira.queries import queries_of, query_errors
from planning.rehearsal import USUAL, Load

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

CHANGES_EVERY = 100  # items: the size of batches while the load changes
GROUPS = 10  # of objects, one of which is left out at a time


def evaluate(
    plan: Plan,
    samples: Columns,
    definition: Definition[Parameters],
    loads: Sequence[Load],
) -> tuple[Outcome, ...]:
    """Shed ``samples`` with the plan at each load, at random, and with one Δ for all nodes.

    Quality is 1 − E_P/Δmax, at least 0, over the queries by weight. ``offered`` counts the reports
    that Δmin causes, and ``passed_fraction`` is relative to them.
    """
    rows = in_order(samples)
    if not len(rows["time"]):
        raise StatisticsError("samples must hold at least one position, got none")
    trial = _Trial(plan, rows, definition)
    return tuple(trial.outcome(load) for load in loads)


class _Trial:
    """Positions in order, and what is correct."""

    def __init__(
        self, plan: Plan, rows: dict[str, np.ndarray], definition: Definition[Parameters]
    ) -> None:
        self.plan, self.rows = plan, rows
        self.queries, self.weights = queries_of(definition)
        self.fastest = definition.parameters.highest_speed
        self.full = self.shed(plan, 1.0, USUAL)
        self.correct = server_view(rows, self.full, self.fastest)
        first = np.unique(rows["object_id"], return_index=True)[1]
        self.first = np.zeros(len(self.full), dtype=np.bool_)
        self.first[first] = True

    def outcome(self, load: Load) -> Outcome:
        """Try the plan at a load, or under loads that follow one another."""
        changing = isinstance(load, tuple)
        size = CHANGES_EVERY if changing else USUAL
        rows = len(self.full)
        at = rehearsal.along(load, rows)[np.arange(rows) // size * size]  # as in force
        keep, uniform = (self.shed(p, load, size) for p in (self.plan, one_delta(self.plan)))
        drawn = self.full & (self.first | _drawn(at))
        views = [server_view(self.rows, mask, self.fastest) for mask in (keep, drawn, uniform)]
        quality, random_quality, uniform_quality = (self.quality(view) for view in views)
        due = self.full & ~self.first
        within = at < 1.0 if changing else np.ones(rows, dtype=np.bool_)  # at 1 nothing is shed
        earned = float(at[due & within].sum())
        share = float(np.count_nonzero(keep & ~self.first & within)) / max(earned, 1e-300)
        steps = np.atleast_1d(np.asarray(load, dtype=np.float64)).tolist()
        mean = float(np.mean(steps))
        return Outcome(
            load=mean,
            predicted_quality=float(np.mean([self.plan.predicted_quality(z) for z in steps])),
            quality=quality,
            random_quality=random_quality,
            passed_fraction=mean * share if earned > 0 else 0.0,
            offered=max(int(np.count_nonzero(due)), 1),
            baselines={"one delta": uniform_quality},
            by_size={} if changing else self.by_size(steps[0], keep, quality),
            noise=self.noise(views[0], views[2 if uniform_quality >= random_quality else 1]),
            error=self.noise(views[0], self.correct),
            schedule=tuple(steps) if changing else (),
        )

    def shed(self, plan: Plan, load: Load, size: int, few: int | None = None) -> BoolArray:
        """Return which of the (first) positions pass."""
        rows = {name: values[:few] for name, values in self.rows.items()}
        options = {"highest_speed": self.fastest}
        return rehearsal.shed(plan, "lira", rows, load, size=size, options=options)

    def by_size(self, load: float, usual: BoolArray, quality: float) -> dict[str, float]:
        """Return the quality by batch size; equal decisions are not judged again."""

        def of_size(size: int, rows: int) -> float:
            keep = usual[:rows] if size == USUAL else self.shed(self.plan, load, size, rows)
            if rows == len(usual) and bool((keep == usual).all()):
                return quality
            part = {name: values[:rows] for name, values in self.rows.items()}
            return self.quality(server_view(part, keep, self.fastest))

        return rehearsal.by_size(len(usual), of_size)

    def quality(self, view: FloatArray, some: BoolArray | slice = slice(None)) -> float:
        """Return the quality of what the server believes, of some of the rows."""
        total = float(self.weights.sum())
        if not total > 0:
            return 1.0
        correct = self.correct[: len(view)]
        _, errors = query_errors(self.queries, correct[some][None], view[some][None])
        return max(0.0, 1.0 - float(self.weights @ errors) / total / self.plan.frame.high)

    def noise(self, ours: FloatArray, other: FloatArray) -> float:
        """Return the standard error of the difference of two qualities, by leaving objects out."""
        hashed = mixed(_codes(self.rows["object_id"]).astype(np.uint64) * np.uint64(GOLDEN))
        group = hashed % np.uint64(GROUPS)
        gaps = []
        for k in np.unique(group):
            others = group != k
            if others.any():
                gaps.append(self.quality(ours, others) - self.quality(other, others))
        return float(np.sqrt((len(gaps) - 1) * np.var(gaps))) if len(gaps) > 1 else 0.0


def one_delta(plan: Plan) -> Plan:
    """Return the plan that gives all nodes the same throttler at every load (Uniform Δ)."""
    levels = np.array([1.0, 0.0])
    return replace(
        plan, partition=Partition.even(plan.frame.side, 1), level=np.zeros(1, dtype=np.uint8),
        ratio=levels, weight=levels, inside=levels, guaranteed=None,
    )  # fmt: skip


def in_order(samples: Columns) -> dict[str, np.ndarray]:
    """Return the positions by time, those at the same time by object id."""
    names = ("object_id", "time", "x", "y")
    columns = {n: np.asarray(samples[n]) for n in names}
    order = np.lexsort((columns["object_id"], columns["time"]))
    return {n: values[order] for n, values in columns.items()}


def _drawn(chances: FloatArray) -> BoolArray:
    """Draw every place with its chance, without pattern and without a random generator."""
    for load in (chances.min(), chances.max()):
        check_between("load", float(load), 0.0, 1.0)
    numbers = mixed(np.arange(1, len(chances) + 1, dtype=np.uint64) * GOLDEN)
    return np.asarray((numbers >> np.uint64(11)).astype(np.float64) < chances * 2.0**53)


def _codes(ids: np.ndarray) -> IntArray:
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def server_view(rows: dict[str, np.ndarray], keep: BoolArray, fastest: float) -> FloatArray:
    """Return where the server believes each row's object is, given the reports that were kept."""
    slots = _codes(rows["object_id"])
    out = np.empty((len(keep), 2))
    times, xs, ys = (np.ascontiguousarray(rows[n], dtype=np.float64) for n in ("time", "x", "y"))
    believed(slots, times, xs, ys, keep, fastest, int(slots.max(initial=0)) + 1, out)
    return out
