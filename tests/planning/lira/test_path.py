"""The exact path: what it promises at every z."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lira.greedy import uniform_threshold
from planning.errors import InvalidInput
from planning.lira.model import ReductionCurve
from planning.lira.path import ThrottlerPath

amounts = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]) | st.floats(0, 10), min_size=1, max_size=8)


@given(amounts, amounts, st.sampled_from([0.0, 3.0, 10.0, 50.0, 95.0]))
@settings(max_examples=150, deadline=None)
def test_everything_is_monotone_in_z(m, w, fairness):
    size = min(len(m), len(w))
    d = 5.0 + np.arange(20) * 5
    path = ThrottlerPath.of(m[:size], w[:size], ReductionCurve.of(d, (5 / d) ** 0.6), fairness)
    settings_ = [path.at(z) for z in np.linspace(0, 1, 41)]
    throttlers = np.array([s.throttlers for s in settings_])
    assert (np.diff(throttlers, axis=0) <= 1e-9).all()
    assert (np.diff([s.window for s in settings_]) <= 1e-9).all()
    assert (np.diff([s.inaccuracy for s in settings_]) <= 1e-9).all()


def test_no_fairness_left_is_uniform(curve):
    rng = np.random.default_rng(0)
    path = ThrottlerPath.of(rng.random(30), rng.random(30), curve, 0.0)
    for z in (0.3, 0.5, 0.9):
        uniform = uniform_threshold(curve.thresholds, curve.raw, z)
        np.testing.assert_allclose(path.at(z).throttlers, uniform, atol=1e-9)


def test_without_queries_throttlers_are_even(curve):
    setting = ThrottlerPath.of(np.zeros(5), np.arange(1.0, 6.0), curve, 50.0).at(0.5)
    uniform = uniform_threshold(curve.thresholds, curve.raw, 0.5)
    np.testing.assert_allclose(setting.throttlers, uniform, atol=1e-9)


def test_empty_regions_do_not_hold_the_window_down(curve):
    with_empty = ThrottlerPath.of([1.0, 2.0, 0.0], [1.0, 1.0, 0.0], curve, 5.0).at(0.3)
    without = ThrottlerPath.of([1.0, 2.0], [1.0, 1.0], curve, 5.0).at(0.3)
    np.testing.assert_allclose(with_empty.throttlers[:2], without.throttlers)


def test_unreachable_budget_says_how_far_it_gets(curve):
    setting = ThrottlerPath.of([1.0, 2.0], [1.0, 1.0], curve, 50.0).at(0.05)
    assert setting.expenditure == pytest.approx(curve.hull[-1])
    assert setting.expenditure > 0.05
    np.testing.assert_allclose(setting.throttlers, 100.0)


def test_no_nodes_at_all(curve):
    setting = ThrottlerPath.of([1.0, 2.0], [0.0, 0.0], curve, 50.0).at(0.3)
    np.testing.assert_allclose(setting.throttlers, 5.0)


@pytest.mark.parametrize(
    ("m", "w", "fairness", "z", "message"),
    [
        ([1.0], [1.0], -1.0, 0.5, "fairness_threshold"),
        ([1.0], [1.0], 1.0, 1.5, "throttle_fraction"),
        ([1.0, 2.0], [1.0], 1.0, 0.5, "same regions"),
        ([-1.0], [1.0], 1.0, 0.5, "importance"),
        ([1.0], [np.inf], 1.0, 0.5, "weight"),
    ],
)
def test_bad_input_is_named(curve, m, w, fairness, z, message):
    with pytest.raises(InvalidInput, match=message):
        ThrottlerPath.of(m, w, curve, fairness).at(z)
