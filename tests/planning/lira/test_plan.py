"""A plan's settings: budgets, fairness, and what a load that cannot be met gets."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    assert plan.predicted_quality(0.01) < 0.5 < plan.predicted_quality(plan.floor)
    assert plan.beyond(plan.floor) == 1.0 < plan.beyond(0.5 * plan.floor) < plan.beyond(0.01)


def test_throtloop_stops_at_what_the_plan_can_reach(plan):
    loop = ThrotLoop(max_queue=10, floor=plan.floor)
    for _ in range(50):
        loop.step(1000.0, 1.0)
    assert loop.load == plan.floor
    assert plan.at(loop.load).expenditure == pytest.approx(plan.floor, rel=0.02)
    with pytest.raises(InvalidInput, match="at least 2"):
        ThrotLoop(max_queue=1)


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    segments=st.integers(1, 12),
    levels=st.integers(2, 9),
    fairness=st.sampled_from([0.0, 20.0, 60.0, 100.0]),
    departure=st.sampled_from([0.0, 3.0, 40.0]),
    falls=st.booleans(),
)
def test_the_measured_budget_is_met_exactly(seed, segments, levels, fairness, departure, falls):
    """Whatever f is, what can be met is met, and exactly where f falls; no throttler rises."""
    rng = np.random.default_rng(seed)
    f = np.concatenate([[1.0], rng.uniform(0.02, 1.0, segments)])
    f = np.sort(f)[::-1] if falls else f
    if not f.min() < 1.0:
        return
    weight = rng.exponential(1.0, levels) * (rng.random(levels) < 0.8)
    weight[0] += 0.1
    plan = Plan.from_document(
        {
            "format": 1, "bounds": [0, 0, 100, 100], "side": 1, "tree": "L", "level": [0],
            "lowest_threshold": 5, "highest_threshold": 105, "segments": segments,
            "ratio": np.sort(rng.exponential(1.0, levels)).tolist(), "weight": weight.tolist(),
            "inside": weight.tolist(), "reduction": f.tolist(),
            "errors": np.linspace(0, 30, segments + 1).tolist(), "departure": departure,
            "fairness_threshold": fairness, "throttle_fraction": 0.5, "reports_per_position": 0.2,
        }
    )  # fmt: skip
    loads = np.sort(rng.uniform(0.0, 1.0, 12))
    settings_ = [plan.at(z) for z in loads]
    least = plan.at(0.0).expenditure
    for z, setting in zip(loads, settings_, strict=True):
        spent = plan.weight @ np.interp(
            setting.by_level, plan.frame.thresholds, plan.curve.raw
        ) / plan.weight.sum()
        assert setting.expenditure == pytest.approx(spent, abs=1e-12)
        assert spent <= max(z, least) + 1e-11
        if falls and z > least:
            assert spent >= z - 1e-9
    throttlers = np.array([s.by_level for s in settings_])
    assert (np.diff(throttlers, axis=0) <= 1e-6).all()
    assert plan.not_nested == ()
