"""The exact path against the linear program, solved by GLOP."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira import linear
from benchmarks.lira.workload import random_instance
from planning.errors import InfeasiblePlan
from planning.lira.model import ErrorAxis, ReductionCurve
from planning.lira.path import ThrottlerPath
from planning.lira.program import program_of
from planning.parametric import Solver


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


def test_the_program_over_the_load_is_the_path_where_nothing_is_guaranteed():
    rng = np.random.default_rng(17)
    for _ in range(300):
        m, w, d, f, fairness, _ = random_instance(rng)
        if not (w > 0).any():
            continue
        curve = ReductionCurve.of(d, f)
        axis, used = ErrorAxis.of(curve, float(rng.choice([0.0, 3.0]))), w > 0
        path = ThrottlerPath.of(m[used], w[used], axis.curve, fairness)
        nobody = np.empty((int(used.sum()), 0))
        solver = Solver(program_of(m[used], w[used], axis, fairness, nobody))
        wide = axis.curve.high - axis.curve.low
        for z in rng.uniform(axis.curve.hull[-1] + 1e-3, 1.0, 5).tolist():
            ours = (path.at(z).inaccuracy / (m[used].sum() or 1.0) - axis.curve.low) / wide
            ours = ours if m[used].sum() > 0 else 0.0
            assert ours == pytest.approx(-solver.optimum(z, np.zeros(0)).value, abs=1e-7)


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
