"""The plan: a function of load, and light."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from planning.errors import InvalidInput


@pytest.fixture(scope="module")
def plan(scene):
    return scene.plan()


def test_a_load_outside_its_range_is_refused(plan):
    for load in (-0.1, 1.4, float("nan")):
        with pytest.raises(InvalidInput, match="load must lie in"):
            plan.at(load)
    with pytest.raises(InvalidInput, match="fairness_threshold must lie in"):
        plan.at(0.5, fairness_threshold=2)


def test_a_wider_window_never_predicts_less(plan):
    for z in (0.2, 0.5, 0.8):
        qualities = [plan.predicted_quality(z, delta) for delta in np.linspace(0, 1, 11)]
        assert (np.diff(qualities) >= -1e-12).all()


def test_quality_rises_with_z_and_ends_at_one(plan):
    qualities = [plan.predicted_quality(z) for z in np.linspace(0, 1, 21)]
    assert (np.diff(qualities) >= -1e-12).all()
    assert qualities[-1] == pytest.approx(1.0, abs=1e-6)


def test_passed_fraction_is_z(plan):
    for z in np.linspace(0, 1, 11):
        assert plan.passed_fraction(z) == pytest.approx(z, abs=1e-6)


def test_what_runs_on_a_source_node_is_light():
    code = (
        "import sys, numba; numba.njit(lambda: 0); before = set(sys.modules); "
        "import planning.sifter.plan, planning.sifter.shedder; "
        "heavy = {'scipy', 'pandas', 'pydantic', 'ortools', 'matplotlib', 'sqlglot', 'pyarrow'}; "
        "rooms = ('planner', 'program', 'figures', 'demo', 'parameters', 'queries', 'statistics'); "
        "heavy |= {f'planning.sifter.{room}' for room in rooms} | {'benchmarks'}; "
        "sys.exit(', '.join(sorted(heavy & (set(sys.modules) - before))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_regions_without_estimate_are_those_that_keep_nothing(plan):
    for load in (0.0, 0.1, 0.5, 1.0):
        expected = np.flatnonzero(plan.at(load).drop_thresholds > 1 - 1e-9).tolist()
        assert list(plan.regions_without_estimate(load)) == expected
    assert len(plan.regions_without_estimate(0.0)) == plan.regions
    assert plan.regions_without_estimate(1.0) == ()
    summary = replace(plan, throttle_fraction=0.3).summary()
    assert summary["regions_without_estimate"] == len(plan.regions_without_estimate(0.3)) > 0
    assert summary["not_nested"] == []


def test_a_least_fraction_leaves_no_region_without_estimate(scene):
    plan = scene.plan(min_keep=0.1)
    assert plan.min_keep == plan.summary()["min_keep"] == 0.1
    for load in (0.1, 0.3, 0.9):
        assert plan.at(load).drop_thresholds.max() <= 0.9 + 1e-7
        assert plan.regions_without_estimate(load) == ()
        assert plan.passed_fraction(load) == pytest.approx(load, abs=1e-6)
        assert plan.predicted_quality(load) <= scene.plan().predicted_quality(load) + 1e-12
    assert plan.at(0.04).drop_thresholds == pytest.approx(0.96)
