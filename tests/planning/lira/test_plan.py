"""A plan's settings: budgets, fairness, and what a load that cannot be met gets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from planning.errors import InvalidInput
from planning.lira.plan import Plan
from planning.lira.planner import plan as make_plan
from planning.lira.statistics import Statistics
from planning.runtime import ThrotLoop


def test_same_statistics_same_bytes(statistics, plan, define):
    again = make_plan(
        Statistics.from_document(json.loads(json.dumps(statistics.to_document()))), define()
    )
    assert again.to_bytes() == plan.to_bytes()
    assert Plan.from_document(json.loads(json.dumps(plan.to_document()))).to_bytes() == (
        plan.to_bytes()
    )


@pytest.mark.parametrize("z", [0.25, 0.4, 0.6, 0.9, 1.0])
def test_a_setting_keeps_budget_fairness_and_range(plan, z):
    setting = plan.at(z)
    spent = plan.weight @ plan.curve(setting.by_level) / plan.weight.sum()
    assert spent <= max(z, plan.floor) + 1e-6
    assert setting.expenditure == pytest.approx(spent)
    assert np.ptp(setting.throttlers) <= plan.fairness_threshold + 1e-9
    assert setting.throttlers.min() >= 5.0
    assert setting.throttlers.max() <= 100.0


def test_quality_and_throttlers_are_monotone_in_z(plan):
    loads = np.linspace(0, 1, 60)
    quality = [plan.predicted_quality(z) for z in loads]
    assert (np.diff(quality) >= -1e-9).all()
    assert quality[-1] == 1.0
    throttlers = np.array([plan.at(z).throttlers for z in loads])
    assert (np.diff(throttlers, axis=0) <= 1e-6).all()


def test_throttlers_fall_with_the_level(plan):
    for z in (0.3, 0.5, 0.8):
        assert (np.diff(plan.at(z).by_level) <= 1e-9).all()


def test_unreachable_load_says_how_far_it_gets(plan):
    setting = plan.at(0.01)
    assert not setting.reached
    assert setting.expenditure == pytest.approx(plan.floor, rel=0.02)
    assert plan.predicted_quality(0.01) == 0.0 < plan.predicted_quality(plan.floor)


def test_throtloop_stops_at_what_the_plan_can_reach(plan):
    loop = ThrotLoop(max_queue=10, floor=plan.floor)
    for _ in range(50):
        loop.step(1000.0, 1.0)
    assert loop.load == plan.floor
    assert plan.at(loop.load).expenditure == pytest.approx(plan.floor, rel=0.02)
    with pytest.raises(InvalidInput, match="at least 2"):
        ThrotLoop(max_queue=1)


def test_the_regions_whose_throttler_may_rise_with_the_load_are_named(plan):
    """On a convex f none does; a measured one with bumps makes the plan step back, here by metres.

    What is not named never rises.
    """
    document = plan.to_document()
    d = plan.frame.thresholds
    flat = [0] * plan.regions
    bumpy = [f + 0.05 * (k % 9 == 4) for k, f in enumerate(plan.reduction.tolist())]
    found = []
    for departure, change in [
        (0.0, {"reduction": ((d[0] / d) ** 0.5).tolist()}),
        (5.0, {"reduction": ((d[0] / d) ** 0.5).tolist()}),
        (0.0, {}),
        (5.0, {"reduction": bumpy}),
        (5.0, {"reduction": bumpy, "fairness_threshold": 0.0}),
        (5.0, {"reduction": bumpy, "level": flat}),
    ]:
        other = Plan.from_document({**document, "departure": departure, **change})
        steps = np.array([other.at(z).throttlers for z in np.linspace(0, 1, 1001)])
        rising = np.flatnonzero(np.diff(steps, axis=0).max(axis=0) > 1e-6)
        assert set(rising) <= set(other.not_nested)
        assert other.summary()["not_nested"] == len(other.not_nested)
        found.append((len(other.not_nested), rising.size))
    assert found[0] == (0, 0)
    assert max(rising for _, rising in found) > 0
