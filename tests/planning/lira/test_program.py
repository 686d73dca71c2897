"""The exact path against the linear program, solved by GLOP."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.workload import random_instance
from planning.errors import InfeasiblePlan
from benchmarks.lira import linear
from planning.lira.model import ReductionCurve
from planning.lira.path import ThrottlerPath


def check_against_program(rng) -> None:
    m, w, d, f, fairness, z = random_instance(rng)
    curve = ReductionCurve.of(d, f)
    setting = ThrottlerPath.of(m, w, curve, fairness).at(z)
    throttlers = setting.throttlers
    active = (m > 0) | (w > 0)
    assert throttlers.min() >= d[0] - 1e-12
    assert throttlers.max() <= d[-1] + 1e-12
    if active.any():
        assert np.ptp(throttlers[active]) <= fairness + 1e-9
    spent = w @ curve.convex(throttlers) / w.sum()
    assert spent == pytest.approx(setting.expenditure, abs=1e-9)
    try:
        best = linear.solve(m, w, curve, fairness, z)
    except InfeasiblePlan:
        assert setting.expenditure > z
        assert setting.expenditure == pytest.approx(curve.hull[-1], abs=1e-9)
        return
    assert setting.expenditure <= z * (1 + 1e-9) + 1e-12
    assert abs(setting.inaccuracy - best.inaccuracy) <= 1e-9 * max(best.inaccuracy, 1.0)


def test_path_is_the_programs_optimum():
    rng = np.random.default_rng(2024)
    for _ in range(2000):
        check_against_program(rng)


def test_the_programs_throttlers_keep_budget_and_fairness(curve):
    rng = np.random.default_rng(3)
    m, w = rng.exponential(1, (2, 12))
    best = linear.solve(m, w, curve, 20.0, 0.5)
    assert best.status == "optimal"
    assert w @ curve.convex(best.throttlers) / w.sum() == pytest.approx(0.5)
    assert np.ptp(best.throttlers) <= 20.0 + 1e-9


def test_an_unreachable_budget_says_how_far_throttlers_get(curve):
    with pytest.raises(InfeasiblePlan, match="leave 0.05 of the updates, but Δmax leaves 0.19"):
        linear.solve(np.ones(2), np.ones(2), curve, 50.0, 0.05)
