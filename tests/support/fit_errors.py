"""How far a FIT plan stays below the optimum."""

from __future__ import annotations

import numpy as np

from benchmarks.fit.networks import relative_errors
from planning.fit import Plan


def errors(plan: Plan, points: np.ndarray) -> np.ndarray:
    """Relative errors at the overloaded points; asserts that every server is feasible."""
    relative, overload = relative_errors(plan, points)
    assert overload <= 1e-9
    return relative
