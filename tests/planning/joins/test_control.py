"""Feed-forward control spends what it has, learns without bias, and notices a stale plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.joins import experiments
from benchmarks.joins.scene import Scene
from benchmarks.joins.workload import Workload
from planning.joins.control import Controller, MeasuredCost, View
from planning.joins.control.drift import CLOSEST, HEDGED, DriftWatch
from planning.joins.control.estimate import OnlineEstimate
from planning.joins.model import Windows
from planning.joins.plan import Plan

WINDOWS = Windows((4.0, 4.0), 1.0)


def view(available: float, arrived: float = 25.0, populations: float = 100.0) -> View:
    stored = np.full((2, 5), populations)
    stored[:, [0, 4]] /= 2
    return View(
        now=10.0,
        elapsed_s=0.25,
        arrived=np.full((2, 1), arrived),
        waiting=np.zeros((2, 1)),
        populations=stored.astype(np.int64),
        hits=np.zeros((2, 2, 5, 1, 1), dtype=np.int64),
        comparisons=np.zeros((2, 2, 5, 1), dtype=np.int64),
        available=available,
    )


def test_plenty_means_everything_and_nothing_means_nothing() -> None:
    controller = Controller(WINDOWS, np.ones((1, 1)))
    assert controller.decide(view(1e12)).take.min() == 1.0
    starved = controller.decide(view(0.0))
    assert starved.take.max() == 0.0
    assert starved.full_fraction == 0.0
    assert controller.decide(view(-5.0)).take.max() == 0.0


def test_silence_is_no_reason_to_shed() -> None:
    controller = Controller(WINDOWS, np.ones((1, 1)))
    decision = controller.decide(view(10.0, arrived=0.0))
    assert decision.take.min() == 1.0


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_a_share_of_all_comparisons_is_met_at_any_rate(share: float) -> None:
    for arrived in (0.0, 1.0, 1e6):
        controller = Controller(WINDOWS, np.ones((1, 1)), explore_fraction=0.0)
        decision = controller.decide(view(np.nan, arrived), share=share)
        stored = view(0.0).populations[:, None, :]
        spent = float((decision.take * stored).sum()) * (1 - decision.full_fraction)
        spent += decision.full_fraction * float(stored.sum())
        assert spent / stored.sum() == pytest.approx(share, abs=1e-9)


def test_the_estimate_is_not_biased_by_selection() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([0.01, 0.05, 0.02, 0.002, 0.03])
    estimate = OnlineEstimate(np.ones((1, 1)), 5, memory_s=1e9)
    made = np.zeros((2, 2, 5, 1), dtype=np.int64)
    made[:, :, 1] = 1_000_000  # selected
    made[:, :, [0, 2, 3, 4]] = 20_000  # only watched
    for _ in range(20):
        hits = rng.poisson(made * truth[None, None, :, None])[..., None]
        estimate.update(hits, made, 0.25)
    assert estimate.density()[0, 0] == pytest.approx(truth, rel=0.1)
    worth, variance = estimate.measured()
    assert worth[0, 0] == pytest.approx(truth, rel=0.1)
    assert variance[0, 0, 1] < variance[0, 0, 0]


def test_forgetting_follows_a_change() -> None:
    estimate = OnlineEstimate(np.ones((1, 1)), 2, memory_s=5.0)
    made = np.full((2, 2, 2, 1), 10_000, dtype=np.int64)
    for chances in ((100, 0), (0, 100)):
        hits = np.zeros((2, 2, 2, 1, 1), dtype=np.int64)
        hits[:, :, 0], hits[:, :, 1] = chances
        for _ in range(200):
            estimate.update(hits, made, 0.25)
    density = estimate.density()
    assert np.all(density[:, 0, 1] > 5 * density[:, 0, 0])


@pytest.mark.slow
def test_a_stale_plan_is_noticed_left_and_reported() -> None:
    moved = experiments.stale(2.0, skew=0.8)
    assert moved.noticed_s is not None
    assert 0 < moved.noticed_s < 30  # the change takes 13 s to reach the selected part
    assert moved.watched > 1.3 * moved.kept
    assert moved.watched > 0.9 * moved.fresh


def test_a_good_plan_is_not_left() -> None:
    for skew in (0.0, 0.8):
        scene = Scene(Workload(skew=skew), seconds=60.0)
        way = scene.planned()
        scene.run(way)
        assert not way.controller.stale, skew
        assert not way.controller.replan_wanted


def test_a_new_plan_is_trusted_and_what_was_measured_goes_on() -> None:
    scene = Scene(Workload(skew=0.8))
    old = Controller.of(scene.plan(60.0))
    found = np.ones((2, 2, 21, 1, 1), dtype=np.int64), np.ones((2, 2, 21, 1), dtype=np.int64)
    old.drift.update(*found, 0.25)
    old.estimate.update(*found, 0.25)
    old.stale = old.replan_wanted = True
    assert not old.trusted
    fresh = scene.plan(60.0, seed=3)
    controller = Controller.of(fresh)
    controller.adopt(old)
    assert controller.trusted is fresh
    assert not controller.replan_wanted
    assert controller.drift.recent.evidence == 0
    assert controller.estimate.evidence == found[0].sum()
    dearer = Controller.of(replace(fresh, utilities=fresh.utilities * 2))
    dearer.adopt(old)
    assert dearer.estimate.evidence == 0


def test_cost_per_tuple_and_cost_per_comparison_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    cost = MeasuredCost(None)
    assert cost.affordable(1.0, 100) == np.inf
    for _ in range(60):
        tuples, made = int(rng.integers(100, 200)), int(rng.integers(1e4, 1e6))
        cost.observe(tuples, made, (3e-6 * tuples + 2e-9 * made) * rng.uniform(0.99, 1.01))
    assert cost.per_tuple_s == pytest.approx(3e-6, rel=0.3)
    assert cost.per_comparison_s == pytest.approx(2e-9, rel=0.05)
    assert cost.affordable(1e-9, 1000) == 0.0
    cost.observe(0, 5, 1.0)  # nothing to learn from
    cost.observe(5, 5, 0.0)
    assert cost.per_comparison_s == pytest.approx(2e-9, rel=0.05)


def test_batches_without_comparisons_show_what_a_tuple_costs() -> None:
    cost = MeasuredCost(2e-9)
    for _ in range(10_000):  # so long that nothing is left of any comparison
        cost.observe(100, 0, 3e-4)
    assert (cost.per_tuple_s, cost.per_comparison_s) == (pytest.approx(3e-6), 2e-9)
    cost = MeasuredCost(None)
    cost.observe(100, 0, 3e-4)
    assert cost.affordable(1.0, 100) == np.inf  # a comparison's cost is still unknown


class TestDriftWatch:
    """A pattern that does not fit makes the watch look closer; a level that changes does not."""

    @staticmethod
    def fed(pattern: np.ndarray, seconds: int, rng: np.random.Generator) -> tuple[DriftWatch, Plan]:
        plan = Scene(Workload(skew=0.8)).plan(30.0)
        watch = DriftWatch(np.ones((1, 1)), plan.windows)
        chance = plan.hits[:, 0] / np.maximum(plan.comparisons[:, 0], 1)
        made = np.zeros((2, 2, 21, 1), dtype=np.int64)
        made[:, 1, 13:18, 0] = 30_000
        for second in range(seconds):
            hits = rng.poisson(made[..., 0] * (chance * pattern)[None])[..., None, None]
            watch.update(hits, made, 1.0)
            watch.proved(plan, float(second), plan.volumes, 0.1)
        return watch, plan

    def test_the_plan_s_pattern_fits_at_any_level(self) -> None:
        for level in (0.5, 1.0, 1.5):
            watch, _ = self.fed(np.full((2, 21), level), 30, np.random.default_rng(1))
            assert watch.closeness == 1.0, level

    def test_another_pattern_is_suspected_within_seconds_and_not_for_ever(self) -> None:
        moved = np.ones((2, 21))
        moved[1, 13:18] = (2.0, 1.5, 0.5, 0.5, 0.5)
        watch, _ = self.fed(moved, 4, np.random.default_rng(2))
        assert watch.closeness == CLOSEST
        watch, _ = self.fed(moved, 30, np.random.default_rng(2))
        assert watch.closeness < CLOSEST  # nothing better was found elsewhere

    def test_few_hits_prove_nothing(self) -> None:
        watch, plan = self.fed(np.zeros((2, 21)), 5, np.random.default_rng(3))
        assert not watch.proved(plan, 6.0, plan.volumes, 0.1)
        assert watch.closeness == 1.0
        # Nothing found where much was promised, a window long: look as closely as may be.
        assert not watch.proved(plan, 99.0, plan.volumes, 0.1)
        watch.update(np.zeros((2, 2, 21, 1, 1), int), np.full((2, 2, 21, 1), 30_000), 1.0)
        assert not watch.proved(plan, 101.0, plan.volumes, 0.1)
        assert watch.closeness == HEDGED
