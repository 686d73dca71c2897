"""Feed-forward control: from measured rates and costs to the selection, many times a second.

Algorithm 1 moves r step by step after the fact; here the comparisons that the next moment would
need are computed from arrival rates, waiting tuples and the windows' populations, and the plan is
cut where the budget ends. The same object watches for drift: when the plan's order is beaten by
what the operator itself sees, it falls back to its own estimate and asks for a new plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.joins import selection
from planning.joins.estimate import OnlineEstimate
from planning.joins.model import Windows, combine_utilities
from planning.joins.plan import Plan

DOUBT = 0.85  # of the share of output that the plan promises: below, look closer
CLOSER = 5.0  # times the monitoring
PATIENCE = 4.0  # times the memory


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What the controller sees at a tick."""

    now: float
    elapsed_s: float  # since the last tick
    arrived: FloatArray  # [2, Z] tuples that arrived since
    waiting: FloatArray  # [2, Z] tuples in the input buffers
    populations: IntArray  # [2, n]
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
    """Cuts a plan, or the online estimate, by what is affordable.

    Parameters
    ----------
    windows, utilities values
        The operator's windows, and the utility of a match per pair of types.
    plan
        The published plan; None runs purely online.
    tick_s, standing_s
        Time between decisions, and time's worth of tuples kept waiting so that the processor never
        idles; 0 where nothing waits.
    monitor_fraction, explore_fraction
        Share of the budget for comparisons with whole windows, with and without a trusted plan.
    memory_s, drift_memory_s
        How long the online estimate, and the evidence of drift, remember.
    drift_gain, drift_sigmas
        The plan is stale when the online order would gain this share more output, by so many
        standard errors...
    drift_checks, drift_period_s
        ...at so many checks in a row, so far apart.
    """

    windows: Windows
    values: FloatArray
    plan: Plan | None = None
    tick_s: float = 0.25
    standing_s: float = 0.1
    monitor_fraction: float = 0.015
    explore_fraction: float = 0.04
    memory_s: float = 15.0
    drift_memory_s: float = 10.0
    drift_gain: float = 0.05
    drift_sigmas: float = 3.0
    drift_checks: int = 3
    drift_period_s: float = 1.0
    watch: bool = True
    estimate: OnlineEstimate = field(init=False)
    recent: OnlineEstimate = field(init=False)
    stale: bool = field(default=False, init=False)
    replan_wanted: bool = field(default=False, init=False)
    gain: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        self.estimate = OnlineEstimate(self.values, self.windows.most, self.memory_s)
        self.recent = OnlineEstimate(self.values, self.windows.most, self.drift_memory_s)
        self._rates = np.zeros((2, self.values.shape[0]))
        self._usual = np.zeros((2, self.values.shape[0]))
        self._suspicious = 0
        self._doubtful = False
        self._checked = -np.inf
        self._present = self.windows.extents_s > 0

    @classmethod
    def of(cls, plan: Plan, **settings: object) -> Controller:
        """Return the controller for a published plan."""
        values = combine_utilities(plan.utilities, plan.combine)
        share = {"monitor_fraction": plan.monitor_fraction} | settings
        return cls(plan.windows, values, plan, **share)  # type: ignore[arg-type]

    def swap(self, plan: Plan | None) -> None:
        """Use another plan; trust it until shown otherwise."""
        self.plan = plan
        self.stale = self.replan_wanted = self._doubtful = False
        self._suspicious = 0

    @property
    def trusted(self) -> bool:
        """Whether the plan, not the online estimate, decides."""
        return self.plan is not None and not self.stale

    def decide(self, view: View, share: float | None = None) -> Decision:
        """Return the selection for the next tick: within a budget, or a share of all comparisons.

        With ``share``, ``view.available`` does not count.
        """
        self.estimate.update(view.hits, view.comparisons, view.elapsed_s)
        if self.watch and self.trusted:
            self.recent.update(view.hits, view.comparisons, view.elapsed_s)
        self._follow(view)
        volumes = self._demand(view) if share is None else self._mixture(view)
        total = float(volumes.sum())
        affordable = view.available if share is None else share * total
        if share == 1.0 or (share is None and total <= affordable):
            everything = np.ones(volumes.shape)
            return Decision(everything, np.zeros(volumes.shape, dtype=np.bool_), 0.0, 1.0)
        if self.watch and self.plan is not None and not self.stale:
            self._check(view, volumes, affordable)
        watched = self._monitoring() if self.trusted else self._exploration()
        available = max(affordable, 0.0)
        full = min(watched, watched * available / total) if total > 0 else 0.0
        density = self._density()
        order = self.plan.order if self.trusted and self.plan else selection.rank(density)
        left = max(available - full * total, 0.0) / (1.0 - full)
        take = selection.fill(order, volumes, left)
        load = available / total if total > 0 else 1.0
        return Decision(take, selection.denser_side(density), full, load)

    def _density(self) -> FloatArray:
        if self.trusted and self.plan is not None:
            return self.plan.density
        return np.where(self._present[:, None, :], self.estimate.density(), -1.0)

    def _monitoring(self) -> float:
        """Look closer while the plan seems to catch less of the output than it should."""
        return self.monitor_fraction * (CLOSER if self._doubtful else 1.0)

    def _exploration(self) -> float:
        """Explore much while little is known: the share falls as hits come in."""
        known = self.estimate.evidence / self.estimate.hits[0].size
        return float(np.clip(self.explore_fraction * 25.0 / max(known, 1e-9),
                             self.explore_fraction, 0.5))  # fmt: skip

    def _follow(self, view: View) -> None:
        """Follow the arrival rates."""
        seen = view.arrived / max(view.elapsed_s, 1e-9)
        self._rates = seen if not self._rates.any() else 0.5 * self._rates + 0.5 * seen
        slow = min(1.0, view.elapsed_s / max(self.windows.window_s))
        self._usual = seen if not self._usual.any() else (1 - slow) * self._usual + slow * seen

    def _mixture(self, view: View) -> FloatArray:
        """Comparisons with every basic window at the usual mixture of tuples, whatever the rate."""
        usual = self._usual if self._usual.any() else np.ones(self._usual.shape)
        return usual[::-1, :, None] * view.populations[:, None, :].astype(np.float64)

    def _demand(self, view: View) -> FloatArray:
        """Comparisons that the tuples of the next tick would make with every basic window."""
        coming = view.waiting + self._rates * (self.tick_s - self.standing_s)
        stored = view.populations.astype(np.float64)
        # During the tick the first basic window fills and the last one empties.
        growth = self._rates.sum(axis=1) * self.tick_s / 2
        stored[:, 0] += growth
        for i, n in enumerate(self.windows.counts):
            stored[i, n - 1] = max(stored[i, n - 1] - growth[i], 0.0)
        return np.maximum(coming, 0.0)[::-1, :, None] * stored[:, None, :]

    def _check(self, view: View, volumes: FloatArray, affordable: float) -> None:
        """Compare the plan's order with the online one, each half judging the other's choice."""
        assert self.plan is not None
        if view.now - self._checked < self.drift_period_s or self.recent.evidence < 200:
            return
        self._checked = view.now
        planned = selection.fill(self.plan.order, volumes, affordable)
        ours = theirs = variance = 0.0
        for half in range(2):
            own = selection.fill(selection.rank(self.recent.density(half)), volumes, affordable)
            worth, doubt = self.recent.measured(1 - half)
            ours += float((own * volumes * worth).sum())
            theirs += float((planned * volumes * worth).sum())
            variance += float((((own - planned) * volumes) ** 2 * doubt).sum())
        self._doubtful = self._caught(planned, volumes) < DOUBT
        # In doubt, evidence is gathered until it suffices.
        self.recent.memory_s = self.drift_memory_s * (PATIENCE if self._doubtful else 1.0)
        self.gain = ours / theirs if theirs > 0 else (np.inf if ours > 0 else 1.0)
        sure = ours - theirs > self.drift_sigmas * np.sqrt(variance)
        drifted = sure and self.gain > 1.0 + self.drift_gain
        self._suspicious = self._suspicious + 1 if drifted else 0
        if self._suspicious >= self.drift_checks:
            self.stale = self.replan_wanted = True
            self.recent.memory_s = self.memory_s
            self.estimate = self.recent  # without what was learned before the drift

    def _caught(self, take: FloatArray, volumes: FloatArray) -> float:
        """Share of all output that the selection catches now, over what the plan promises.

        Half a standard error in the plan's favour: what lies outside the selection is little known.
        """
        assert self.plan is not None
        promised = volumes * self.plan.density
        worth, variance = self.recent.measured()
        value = volumes * worth
        outside = float(((1.0 - take) * value).sum())
        outside -= 0.5 * float(np.sqrt(((volumes * (1.0 - take)) ** 2 * variance).sum()))
        inside = float((take * value).sum())
        share = inside / max(inside + max(outside, 0.0), 1e-300)
        hoped = float((take * promised).sum()) / max(float(promised.sum()), 1e-300)
        return share / hoped if hoped > 0 else 1.0
