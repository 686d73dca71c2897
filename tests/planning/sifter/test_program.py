"""The linear program of Equation 10; ``test_path`` compares it with the path."""

import numpy as np
import pytest

from planning.errors import InfeasiblePlan, InvalidInput
from planning.sifter import program


def test_frequencies_that_do_not_cover_the_budget_are_infeasible():
    with pytest.raises(InfeasiblePlan, match="hold only 0.3"):
        program.solve(np.array([0.3]), np.array([1.0]), np.array([True]), 0.1, 0.5)


def test_forms_are_named():
    with pytest.raises(InvalidInput, match="form must be window or pairwise, got 'pairs'"):
        program.solve(np.array([1.0]), np.array([1.0]), np.array([True]), 0.1, 0.5, "pairs")


@pytest.mark.parametrize("form", ["window", "pairwise"])
def test_fairness_holds_for_regions_with_queries_alone(form):
    frequency, qos = np.array([0.25, 0.25, 0.5]), np.array([0.1, 0.9, 0.0])
    solved = program.solve(frequency, qos, np.array([True, True, False]), 0.4, 0.2, form)
    assert solved.status == "optimal"
    assert solved.drop_thresholds.tolist() == pytest.approx([0.3, 0.1, 1.0])
    assert solved.lost_qos == pytest.approx(0.12)
