"""The exact path against HiGHS, and the properties it promises."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import InvalidInput
from planning.lira import linear_program as lp
from planning.lira.greedy import greedy_increment
from planning.lira.reduction import ReductionCurve
from planning.lira.throttlers import ThrottlerPath


def check_against_lp(rng) -> None:
    m, w, d, f, fairness, z = lp.random_instance(rng)
    curve = ReductionCurve.of(d, f)
    setting = ThrottlerPath.of(m, w, curve, fairness).at(z)
    found = setting.throttlers
    active = (m > 0) | (w > 0)
    assert found.min() >= d[0] - 1e-12
    assert found.max() <= d[-1] + 1e-12
    if active.any():
        assert np.ptp(found[active]) <= fairness + 1e-9
    spent = w @ curve.convex(found) / w.sum()
    assert spent == pytest.approx(setting.expenditure, abs=1e-9)
    best = lp.optimum(m, w, d, curve.hull, fairness, z)
    if best.status == 2:  # no throttlers meet the budget
        assert not setting.reached
        assert setting.expenditure == pytest.approx(curve.hull[-1], abs=1e-9)
        return
    assert best.status == 0
    assert setting.reached
    optimum = best.fun + m.sum() * d[0]
    assert abs(setting.inaccuracy - optimum) <= 1e-9 * max(optimum, 1.0)


def test_path_is_the_linear_programs_optimum():
    rng = np.random.default_rng(2024)
    for _ in range(2000):
        check_against_lp(rng)


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
        np.testing.assert_allclose(path.at(z).throttlers, curve.inverse(z), atol=1e-9)


def test_without_queries_throttlers_are_even(curve):
    setting = ThrottlerPath.of(np.zeros(5), np.arange(1.0, 6.0), curve, 50.0).at(0.5)
    np.testing.assert_allclose(setting.throttlers, curve.inverse(0.5), atol=1e-9)


def test_empty_regions_do_not_hold_the_window_down(curve):
    with_empty = ThrottlerPath.of([1.0, 2.0, 0.0], [1.0, 1.0, 0.0], curve, 5.0).at(0.3)
    without = ThrottlerPath.of([1.0, 2.0], [1.0, 1.0], curve, 5.0).at(0.3)
    np.testing.assert_allclose(with_empty.throttlers[:2], without.throttlers)


def test_unreachable_budget_says_how_far_it_gets(curve):
    setting = ThrottlerPath.of([1.0, 2.0], [1.0, 1.0], curve, 50.0).at(0.05)
    assert not setting.reached
    assert setting.expenditure == pytest.approx(curve.hull[-1])
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


def test_greedy_is_optimal_without_fairness_and_not_with_it(curve):
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(200):
        m = rng.exponential(1, 20) * (rng.random(20) < 0.7)
        w = rng.exponential(1, 20)
        z = float(rng.uniform(curve.floor, 1))
        free = ThrottlerPath.of(m, w, curve, 200.0).at(z)
        assert m @ greedy_increment(m, w, curve, 200.0, z) == pytest.approx(free.inaccuracy)
        fair = ThrottlerPath.of(m, w, curve, 50.0).at(z)
        printed = m @ greedy_increment(m, w, curve, 50.0, z)
        assert printed >= fair.inaccuracy * (1 - 1e-9)
        missed += printed > fair.inaccuracy * (1 + 1e-6)
    assert missed > 20


def test_printed_fairness_of_zero_means_uniform(curve):
    greedy = greedy_increment([1.0, 0.0, 3.0], [1.0, 2.0, 0.0], curve, 0.0, 0.5)
    np.testing.assert_allclose(greedy, curve.inverse(0.5), atol=1e-6)


def test_a_new_z_is_quick(curve):
    rng = np.random.default_rng(0)
    path = ThrottlerPath.of(rng.exponential(1, 250), rng.exponential(1, 250), curve, 50.0)
    path.at(0.5)
    best = min(_seconds(path, z) for z in np.linspace(0.25, 0.95, 50) for _ in range(3))
    assert best < 1e-4


def _seconds(path, z):
    start = time.perf_counter()
    path.at(z)
    return time.perf_counter() - start
