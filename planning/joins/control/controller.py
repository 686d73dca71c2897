"""Feed-forward control: from measured rates and costs to the selection, many times a second.

Algorithm 1 moves r step by step after the fact; here the comparisons that the next tick would
need are computed from arrival rates, waiting tuples and the windows' populations, and the plan is
cut where the budget ends. The same object watches for drift: when the plan's order is beaten by
what the operator itself sees, it falls back to its own estimate and asks for a new plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import InvalidInput, check_between
from planning.joins import path
from planning.joins.control.drift import DriftWatch
from planning.joins.control.estimate import OnlineEstimate
from planning.joins.model import Windows, combine_utilities
from planning.joins.plan import Plan

MEMORY = 0.75  # windows that the online estimate remembers
FORGET = 0.92  # weight that measured costs keep per batch
TINY = 1e-12


@dataclass(slots=True)
class Limits:
    """What a join may spend, and how it keeps to it.

    Parameters
    ----------
    budget_per_s
        Comparisons per second of stream time.
    cpu_share
        Share of one core, measured; seconds of work per second of stream time.
    tick_s
        Time between two decisions, in stream time; by default a quarter of a basic window.
    adapt
        Whether to watch the time correlation and abandon a plan that has gone stale.
    clock
        Seconds of processor time.
    """

    budget_per_s: float | None = None
    cpu_share: float | None = None
    tick_s: float | None = None
    adapt: bool = True
    seed: int = 1
    clock: Callable[[], float] = time.process_time

    def __post_init__(self) -> None:
        if self.budget_per_s is not None and self.cpu_share is not None:
            raise InvalidInput("budget_per_s and cpu_share exclude each other, got both; give one")
        if self.budget_per_s is not None:
            check_between("budget_per_s", self.budget_per_s, 0.0, float("inf"))
        if self.cpu_share is not None:
            check_between("cpu_share", self.cpu_share, 0.0, 1.0)
        if self.tick_s is not None:
            check_between("tick_s", self.tick_s, 0.0, float("inf"), open_low=True)

    @property
    def budgeted(self) -> bool:
        """Whether a budget decides on the load."""
        return self.budget_per_s is not None or self.cpu_share is not None


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What the controller sees at a tick."""

    now: float
    elapsed_s: float  # since the last tick
    arrived: FloatArray  # [2, Z] tuples that arrived since
    waiting: FloatArray  # [2, Z] tuples in the input buffers
    populations: IntArray | FloatArray  # [2, n]
    hits: IntArray  # [2, 2, n, Z, Z] found since
    comparisons: IntArray  # [2, 2, n, Z] made since
    available: float  # comparisons affordable until the next tick


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What the operator does until the next tick."""

    take: FloatArray  # [2, Z, n]
    oldest: BoolArray
    full_fraction: float  # share of tuples compared with the whole window
    load: float  # r, as a share of all comparisons


@dataclass(eq=False)
class Controller:
    """Cuts a plan, or the online estimate, to what is affordable.

    Parameters
    ----------
    windows, values
        The operator's windows, and the utility of a match per pair of types.
    plan
        The published plan; None runs purely online.
    tick_s, standing_s
        Time between decisions, and seconds' worth of tuples kept waiting so that the processor
        never idles; 0 where nothing waits.
    monitor_fraction, explore_fraction
        Share of the budget for comparisons with whole windows, with and without a trusted plan.
    watch
        Whether to abandon a plan that has gone stale (:class:`DriftWatch`).
    """

    windows: Windows
    values: FloatArray
    plan: Plan | None = None
    tick_s: float = 0.25
    standing_s: float = 0.1
    monitor_fraction: float = 0.015
    explore_fraction: float = 0.04
    watch: bool = True
    estimate: OnlineEstimate = field(init=False)
    drift: DriftWatch = field(init=False)
    stale: bool = field(default=False, init=False)
    replan_wanted: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.memory_s = MEMORY * max(self.windows.window_s)
        self.estimate = OnlineEstimate(self.values, self.windows.most, self.memory_s)
        self.drift = DriftWatch(self.values, self.windows)
        self._rates = np.zeros((2, self.values.shape[0]))
        self._usual = np.zeros((2, self.values.shape[0]))

    @classmethod
    def of(cls, plan: Plan, **settings: Any) -> Controller:
        """Return the controller for a published plan."""
        values = combine_utilities(plan.utilities, plan.combine)
        settings = {"monitor_fraction": plan.monitor_fraction, **settings}
        return cls(plan.windows, values, plan, **settings)

    def adopt(self, old: Controller) -> None:
        """Go on with what the controller of an older plan has measured.

        A new plan is trusted until it is proved stale. What comparisons are worth is measured anew
        if utilities changed.
        """
        self._rates, self._usual = old._rates, old._usual
        if np.array_equal(self.values, old.values):
            self.estimate = old.estimate

    @property
    def trusted(self) -> Plan | None:
        """The plan, as long as it decides rather than the online estimate."""
        return None if self.stale else self.plan

    def decide(self, view: View, share: float | None = None) -> Decision:
        """Return the selection for the next tick: within a budget, or a share of all comparisons.

        With ``share``, ``view.available`` is ignored.
        """
        plan = self.trusted
        self.estimate.update(view.hits, view.comparisons, view.elapsed_s)
        if self.watch and plan is not None:
            self.drift.update(view.hits, view.comparisons, view.elapsed_s)
        volumes = self._demand(view) if share is None else self.mixture(view)
        total = float(volumes.sum())
        affordable = view.available if share is None else share * total
        if share == 1.0 or (share is None and total <= affordable):
            everything = np.ones(volumes.shape)
            return Decision(everything, np.zeros(volumes.shape, dtype=np.bool_), 0.0, 1.0)
        if self.watch and plan is not None:
            if self.drift.proved(plan, view.now, volumes, affordable):
                # Continue with what was learned since the drift, and ask for a new plan.
                plan, self.stale, self.replan_wanted = None, True, True
                self.estimate = self.drift.recent
                self.estimate.memory_s = self.memory_s
        if plan is not None:
            watched = min(0.5, self.monitor_fraction * self.drift.closeness)
            density = plan.density
        else:
            watched = self._exploration()
            present = self.windows.extents_s[:, None, :] > 0
            density = np.where(present, self.estimate.density(), -1.0)
        available = max(affordable, 0.0)
        full = min(watched, watched * available / total) if total > 0 else 0.0
        left = max(available - full * total, 0.0) / (1.0 - full)
        if plan is not None:
            take = plan.fill(volumes, left)
        elif self.plan is not None and self.plan.guarantees:
            # Every type keeps its share of the comparisons; which ones they are is learned.
            take = path.within(density, volumes, self.plan.fill(volumes, left))
        else:
            take = path.fill(path.rank(density), volumes, left)
        load = available / total if total > 0 else 1.0
        return Decision(take, path.denser_side(density), full, load)

    def _exploration(self) -> float:
        """Explore a lot while little is known: the share falls as hits come in."""
        known = self.estimate.evidence / self.estimate.hits[0].size
        share = self.explore_fraction * 25.0 / max(known, 1e-9)
        return float(np.clip(share, self.explore_fraction, 0.5))

    def _follow(self, view: View) -> None:
        """Follow the arrival rates."""
        seen = view.arrived / max(view.elapsed_s, 1e-9)
        self._rates = seen if not self._rates.any() else 0.5 * self._rates + 0.5 * seen
        slow = min(1.0, view.elapsed_s / max(self.windows.window_s))
        self._usual = seen if not self._usual.any() else (1 - slow) * self._usual + slow * seen

    def mixture(self, view: View) -> FloatArray:
        """Comparisons with every basic window at the usual mixture of tuples, whatever the rate."""
        self._follow(view)
        usual = self._usual if self._usual.any() else np.ones(self._usual.shape)
        return usual[::-1, :, None] * view.populations[:, None, :].astype(np.float64)

    def _demand(self, view: View) -> FloatArray:
        """Comparisons that the tuples of the next tick would make with every basic window."""
        self._follow(view)
        coming = view.waiting + self._rates * (self.tick_s - self.standing_s)
        stored = view.populations.astype(np.float64)
        # During the tick the first basic window fills and the last one empties.
        growth = self._rates.sum(axis=1) * self.tick_s / 2
        stored[:, 0] += growth
        for i, n in enumerate(self.windows.counts):
            stored[i, n - 1] = max(stored[i, n - 1] - growth[i], 0.0)
        return np.maximum(coming, 0.0)[::-1, :, None] * stored[:, None, :]


class MeasuredCost:
    """Least squares of seconds on tuples and comparisons, older batches weighing less.

    A tuple costs something even if it is compared with nothing, so the cost per comparison alone
    would promise too much at small r.

    Examples
    --------
    >>> cost = MeasuredCost(None)
    >>> for tuples, comparisons in ((10, 1000), (10, 3000), (20, 1000)):
    ...     cost.observe(tuples, comparisons, 2e-6 * tuples + 1e-9 * comparisons)
    >>> round(cost.affordable(1e-3, 100) / 1e5)
    8
    """

    def __init__(self, per_comparison_s: float | None) -> None:
        self.per_tuple_s = 0.0
        self.per_comparison_s = per_comparison_s
        self._moments = np.zeros((2, 2))
        self._products = np.zeros(2)

    def observe(self, tuples: int, comparisons: int, seconds: float) -> None:
        """Learn from one batch; one without comparisons tells what tuples cost by themselves."""
        if tuples <= 0 or not seconds > 0 or (comparisons <= 0 and not self.per_comparison_s):
            return
        row = np.array([float(tuples), float(comparisons)])
        self._moments = FORGET * self._moments + np.outer(row, row)
        self._products = FORGET * self._products + row * seconds
        (aa, ab), (_, bb) = self._moments
        scale = aa * bb - ab * ab
        if scale > 1e-6 * aa * bb:
            per_tuple = (self._products[0] * bb - self._products[1] * ab) / scale
            per_comparison = (self._products[1] * aa - self._products[0] * ab) / scale
            if per_tuple >= 0 and per_comparison > 0:
                self.per_tuple_s, self.per_comparison_s = per_tuple, per_comparison
                return
        if bb > 0:  # both move together: all cost is charged to comparisons
            self.per_tuple_s, self.per_comparison_s = 0.0, max(self._products[1] / bb, TINY)
        else:
            self.per_tuple_s = self._products[0] / aa

    def affordable(self, seconds: float, tuples: float) -> float:
        """Comparisons that fit into ``seconds`` of work on that many tuples; inf if unknown."""
        if not self.per_comparison_s:
            return float("inf")
        return max(seconds - self.per_tuple_s * tuples, 0.0) / self.per_comparison_s
