"""Settings of Section 6 in the deterministic cost model, shared by benchmark and reproduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.joins import costmodel
from benchmarks.joins.costmodel import Strategy, Trace
from benchmarks.joins.definitions import MOST_ITEMS, pair_definition
from benchmarks.joins.strategies import Adaptive, FeedForward, RandomDropping
from benchmarks.joins.workload import Rates, Workload
from planning.arrays import FloatArray, IntArray, sorted_sum
from planning.families import Definition
from planning.joins import path, planner
from planning.joins.control import Controller
from planning.joins.layout import Layout
from planning.joins.model import Combine, Condition, Tuples, Windows, combine_utilities
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.statistics import Statistics, from_tuples, histogram

BUDGET = 750_000.0  # comparisons per second


@dataclass(frozen=True)
class Scene:
    """One setting: workload, join, processor, and the span over which output is counted."""

    workload: Workload = field(default_factory=Workload)
    windows: Windows = field(default_factory=lambda: Windows((20.0, 20.0), 1.0))
    condition: Condition = field(default_factory=lambda: Condition("overlap", 3))
    rates: float | Rates = 500.0
    budget: float = BUDGET
    seconds: float = 100.0  # measured
    warm_up_s: float = 40.0  # before: windows fill, adaptations settle
    method: str = "scan"
    utilities: tuple[float, ...] = (1.0,)
    combine: Combine = "max"
    seed: int = 5
    sizes: tuple[int, ...] = ()  # cut types by the size of the set

    def but(self, **changes: Any) -> Scene:
        """Return the scene with some fields changed."""
        return replace(self, **changes)

    @property
    def values(self) -> FloatArray:
        """Utility of a match per pair of types."""
        return combine_utilities(self.class_utilities, self.combine)

    @property
    def class_utilities(self) -> FloatArray:
        """Utility of every class: a type, or a type cut by the size of the set."""
        return np.repeat(np.asarray(self.utilities), len(self.sizes) + 1)

    def _pair(self, seconds: float, rates: float | Rates, seed: list[int]) -> tuple[Tuples, Tuples]:
        layout = Layout.of(self.definition())
        left, right = (
            layout.refine(part)
            for part in self.workload.pair(seconds, rates, np.random.default_rng(seed))
        )
        return left, right

    @cached_property
    def streams(self) -> tuple[Tuples, Tuples]:
        """Both streams of the evaluation."""
        return self._pair(self.warm_up_s + self.seconds, self.rates, [self.seed])

    @cached_property
    def full(self) -> tuple[IntArray, IntArray]:
        """Hits and comparisons of the complete join over the measured span."""
        left, right = self.streams
        return histogram(
            left, right, self.windows, self.condition, self.class_utilities.size,
            count_from=self.warm_up_s,
        )  # fmt: skip

    def plan(self, seconds: float = 120.0, rate: float = 500.0, seed: int = 99) -> Plan:
        """Return the plan made from an earlier stretch of the streams, with other random tuples."""
        return planner.plan(self.statistics(seconds, rate, seed), self.definition())

    def definition(self, **changes: Any) -> Definition[Parameters]:
        """Return the definition of the pair, with some of its arguments changed."""
        settings: dict[str, Any] = {
            "vocabulary": self.workload.vocabulary,
            "items": 1 if self.workload.mean_items == 1.0 else MOST_ITEMS,
            "utilities": self.utilities,
            "combine": self.combine,
            "sizes": self.sizes,
        }
        return pair_definition(self.windows, self.condition, **(settings | changes))

    def statistics(self, seconds: float = 120.0, rate: float = 500.0, seed: int = 99) -> Statistics:
        """Return the match histogram of an earlier stretch."""
        return from_tuples(*self._pair(seconds, rate, [77, seed]), self.definition())

    def run(self, strategy: Strategy) -> Trace:
        """Run a strategy over the streams."""
        left, right = self.streams
        return costmodel.run(
            left, right, self.windows, self.condition, strategy, budget=self.budget,
            values=self.values, vocabulary=self.workload.vocabulary, method=self.method,
            measure_from=self.warm_up_s,
        )  # fmt: skip

    def output(self, strategy: Strategy) -> float:
        """Return utility per second over the measured span (matches, with equal utilities)."""
        return self.run(strategy).total("utility", self.warm_up_s) / self.seconds

    def bound(self) -> float:
        """Return the linear program's optimum per second, knowing the streams in advance."""
        hits, made = self.full
        return best_value(hits, made, self.values, self.budget * self.seconds) / self.seconds

    def random(self) -> Strategy:
        """Return random dropping."""
        return RandomDropping(self.windows, self.class_utilities.size)

    def adaptive(self, **switches: bool) -> Strategy:
        """Return the paper's operator with some of its adaptations."""
        return Adaptive(self.windows, self.values, **switches)

    def planned(self, plan: Plan | None = None, *, watch: bool = True) -> FeedForward:
        """Return the published plan under feed-forward control."""
        return FeedForward(Controller.of(plan or self.plan(), watch=watch))

    def online(self) -> FeedForward:
        """Return feed-forward control with nothing but what the operator itself learns."""
        return FeedForward(Controller(self.windows, self.values))


def best_value(hits: IntArray, made: IntArray, values: FloatArray, budget: float) -> float:
    """Value of the best selection of items within a number of comparisons: the LP's optimum.

    >>> hits, made = np.array([[[[4]], [[1]]]] * 2), np.array([[[8], [8]]] * 2)
    >>> best_value(hits, made, np.ones((1, 1)), 20.0)
    8.5
    """
    volumes = np.moveaxis(made, 1, 2).astype(np.float64)
    value = np.einsum("ijab,ab->iaj", hits.astype(np.float64), values)
    density = np.where(volumes > 0, value / np.maximum(volumes, 1.0), 0.0)
    take = path.fill(path.rank(density), volumes, budget)
    return sorted_sum(take * value)


def outputs(scene: Scene, names: Mapping[str, Callable[[Scene], Strategy]]) -> dict[str, float]:
    """Return the output of several strategies in one scene."""
    return {name: scene.output(make(scene)) for name, make in names.items()}


ALL: dict[str, Callable[[Scene], Strategy]] = {
    "random dropping": Scene.random,
    "rate": Scene.adaptive,
    "rate + time": lambda scene: scene.adaptive(time=True),
    "rate + time + direction": lambda scene: scene.adaptive(time=True, direction=True),
    "plan, feed-forward": Scene.planned,
    "online, feed-forward": Scene.online,
}


def averaged(
    scene: Scene, names: Mapping[str, Callable[[Scene], Strategy]], seeds: int
) -> dict[str, float]:
    """Return outputs and the LP bound, averaged over seeds of the evaluation streams."""
    total: dict[str, float] = dict.fromkeys((*names, "bound"), 0.0)
    for seed in range(seeds):
        here = scene.but(seed=scene.seed + seed)
        for name, value in (outputs(here, names) | {"bound": here.bound()}).items():
            total[name] += value / seeds
    return total
