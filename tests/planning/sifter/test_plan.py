"""The plan: a function of load, and light."""

import subprocess
import sys

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
