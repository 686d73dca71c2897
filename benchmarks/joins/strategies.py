"""Ways to shed, for the cost model: random dropping, the paper's adaptations, and the plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.joins import algorithms
from benchmarks.joins.algorithms import Correlation
from benchmarks.joins.ordered import Ordered
from planning.arrays import BoolArray, FloatArray, IntArray
from planning.joins import path
from planning.joins.control import Controller, View
from planning.joins.engine import Selection
from planning.joins.model import Windows

EPSILON_S = 1e-6


@dataclass(eq=False)
class RandomDropping:
    """Drop tuples at random from full input buffers and join the others completely."""

    windows: Windows
    types: int = 1

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection, float]:
        """Return the complete join."""
        return Selection.everything(self.windows, self.types), 0.0


@dataclass(eq=False)
class Adaptive:
    """The paper's operator: rate adaptation, and optionally the three others (Sections 4 and 5).

    ``time``, ``direction`` and ``utility`` switch on Algorithms 2-3, 4 and 5.
    """

    windows: Windows
    values: FloatArray = field(default_factory=lambda: np.ones((1, 1)))
    time: bool = False
    direction: bool = False
    utility: bool = False
    rate_period_s: float = 5.0  # T_r
    time_period_s: float = 5.0  # T_c
    boost: float = 1.2  # delta_r
    gamma: float = 0.1
    floor: float = 1e-3
    fixed_fraction: float | None = None  # leave Algorithm 1 out
    fraction: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        types, n = self.values.shape[0], self.windows.most
        self._arrived = self._fetched = 0.0
        self._hits = np.zeros((2, n, types, types))
        self._made = np.zeros((2, n, types))
        self._counts = np.zeros((2, types))
        self._next_rate, self._next_time = self.rate_period_s, self.time_period_s
        self._correlation: list[Correlation | None] = [None, None]
        self._worth = np.ones((2, types))
        self._selection: Selection | Ordered = Selection.everything(self.windows, types)
        if self.fixed_fraction is not None:
            self.fraction = self.fixed_fraction
            self._select()

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection | Ordered, float]:
        """Adapt when a period has ended."""
        self._arrived += float(view.arrived.sum())
        self._fetched += float(fetched.sum())
        self._counts += view.arrived
        self._hits += view.hits.sum(axis=0)
        self._made += view.comparisons.sum(axis=0)
        changed = False
        if self.time and view.now >= self._next_time - EPSILON_S:
            self._next_time += self.time_period_s
            self._learn()
            changed = True
        if view.now >= self._next_rate - EPSILON_S:
            self._next_rate += self.rate_period_s
            if self.fixed_fraction is None:
                self.fraction = algorithms.rate_adapt(
                    self.fraction, self._fetched, self._arrived, boost=self.boost
                )
            self._arrived = self._fetched = 0.0
            changed = True
        if changed:
            self._select()
        full = 0.0
        if self.time and self.fraction < 1.0:
            full = algorithms.sampling_probability(self.fraction, self.gamma, self.floor)
        return self._selection, full

    def _learn(self) -> None:
        """Algorithm 2, and u_{i,z} for Algorithm 5."""
        for i, n in enumerate(self.windows.counts):
            self._correlation[i] = algorithms.time_correlation_adapt(
                self._hits[i, :n].sum(axis=(1, 2)),
                self._made[i, :n].sum(axis=1),
                self._correlation[i],
            )
            worth = np.einsum("jab,ab->a", self._hits[i, :n], self.values)
            hits = self._hits[i, :n].sum(axis=(0, 2))
            self._worth[i] = np.where(hits > 0, worth / np.maximum(hits, 1.0), self._worth[i])
        self._hits[:] = 0
        self._made[:] = 0

    def _select(self) -> None:
        types, n = self.values.shape[0], self.windows.most
        order = np.tile(np.arange(n), (2, types, 1))
        for i, known in enumerate(self._correlation):
            if known is not None:
                order[i, :, : known.order.size] = known.order
        if self.utility and all(c is not None for c in self._correlation):
            self._selection = self._by_utility()
            return
        shares = (self.fraction, self.fraction)
        if self.direction:
            means = [0.0 if c is None else float(c.expected.mean()) for c in self._correlation]
            shares = algorithms.direction_adapt(self.fraction, self.windows, (means[0], means[1]))
        fractions = np.repeat(np.array(shares)[:, None], types, axis=1)
        self._selection = Ordered.of(order, fractions)

    def _by_utility(self) -> Selection:
        types, n = self.values.shape[0], self.windows.most
        density = np.zeros((2, types, n))
        for i, known in enumerate(self._correlation):
            assert known is not None
            density[i, :, : known.expected.size] = self._worth[i][:, None] * known.expected
        omega = self._counts / np.maximum(self._counts.sum(axis=1, keepdims=True), 1.0)
        volumes = omega[::-1, :, None] * self.windows.extents_s[:, None, :]
        take = algorithms.value_join_adapt(self.fraction, density, volumes)
        return Selection.of_fractions(take)


@dataclass(eq=False)
class FeedForward:
    """The controller of the published plan, or of the online estimate alone."""

    controller: Controller
    stale_since: float | None = field(default=None, init=False)

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection, float]:
        """Return what the controller decides."""
        decision = self.controller.decide(view)
        if self.controller.stale and self.stale_since is None:
            self.stale_since = view.now
        return Selection.of_fractions(decision.take, decision.oldest), decision.full_fraction


@dataclass(eq=False)
class Untyped:
    """Feed-forward control by a plan that knows no types: every type is compared alike."""

    controller: Controller
    types: int

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection, float]:
        """Decide on all types together."""
        decision = self.controller.decide(
            replace(
                view,
                arrived=view.arrived.sum(axis=1, keepdims=True),
                waiting=view.waiting.sum(axis=1, keepdims=True),
                hits=view.hits.sum(axis=(3, 4), keepdims=True),
                comparisons=view.comparisons.sum(axis=3, keepdims=True),
            )
        )
        take = np.repeat(decision.take, self.types, axis=1)
        oldest = np.repeat(decision.oldest, self.types, axis=1)
        return Selection.of_fractions(take, oldest), decision.full_fraction


@dataclass(eq=False)
class Fixed:
    """One selection throughout."""

    selection: Selection | Ordered
    full_fraction: float = 0.0

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection | Ordered, float]:
        """Return it."""
        return self.selection, self.full_fraction


@dataclass(eq=False)
class PlannedRate:
    """The plan's order with Algorithm 1's fraction instead of feed-forward control."""

    windows: Windows
    order: IntArray
    volumes: FloatArray
    oldest: BoolArray
    rate_period_s: float = 5.0
    boost: float = 1.2
    fraction: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        self._arrived = self._fetched = 0.0
        self._next = self.rate_period_s

    def decide(self, view: View, fetched: FloatArray) -> tuple[Selection, float]:
        """Cut the plan at Algorithm 1's fraction."""
        self._arrived += float(view.arrived.sum())
        self._fetched += float(fetched.sum())
        if view.now >= self._next - EPSILON_S:
            self._next += self.rate_period_s
            self.fraction = algorithms.rate_adapt(
                self.fraction, self._fetched, self._arrived, boost=self.boost
            )
            self._arrived = self._fetched = 0.0
        take = path.fill(self.order, self.volumes, self.fraction)
        return Selection.of_fractions(take, self.oldest), 0.0
