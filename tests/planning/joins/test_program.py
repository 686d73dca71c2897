"""The linear program built from the statistics promises what the plan promises."""

from __future__ import annotations

import numpy as np
import pytest

from planning.examples import demo_definition, demo_plan, demo_statistics
from planning.joins import planner, program


@pytest.mark.parametrize("load", [0.0, 0.02, 0.1, 0.35, 0.8, 1.0])
def test_the_best_quality_is_the_plan_s(load: float) -> None:
    definition = demo_definition("joins")
    best = program.best_quality(demo_statistics("joins"), definition, load)
    # A plan keeps its densities in single precision.
    assert demo_plan("joins").predicted_quality(load) == pytest.approx(best, abs=1e-6)
    assert planner.solver_status(demo_plan("joins"), definition) == "exact"


def test_the_order_inside_a_window_binds_nothing_that_the_budget_would_take() -> None:
    density = np.array([[[1.0, 2.0]], [[4.0, 3.0]]])
    volumes = np.array([[[1.0, 1.0]], [[1.0, 2.0]]])
    assert program.optimum(density, volumes, 3.0) == pytest.approx(4.0 + 2 * 3.0)
    assert program.optimum(density, volumes, 2.0) == pytest.approx(4.0 + 3.0)
