"""The paper's linear program (Equation 10) by OR-Tools GLOP: the reference for the exact path.

maximise    B' - sum_i A_i d_i
budget      sum_i f_i d_i = 1 - z
fairness    |d_i - d_j| <= Delta for regions i, j with queries
bounds      0 <= d_i <= 1 - m, where every region keeps at least m (``min_keep``)

``pairwise`` writes the fairness rows as the paper does, two per pair; ``window`` writes the
equivalent t <= d_i <= t + Delta with one more variable. When the frequencies sum to less than
1 - z no thresholds meet the budget, and :class:`InfeasiblePlan` says how far they get.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from ortools.linear_solver import pywraplp

from planning.arrays import BoolArray, FloatArray
from planning.errors import InfeasiblePlan, InvalidInput

Form = Literal["window", "pairwise"]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Drop thresholds and the QoS they lose, sum_i A_i d_i."""

    drop_thresholds: FloatArray
    lost_qos: float
    status: str


def solve(
    frequency: FloatArray,
    region_qos: FloatArray,
    queried: BoolArray,
    throttle_fraction: float,
    fairness_threshold: float,
    form: Form = "window",
    min_keep: float = 0.0,
) -> Solution:
    """Solve Equation 10 at one z.

    >>> solve(np.array([0.5, 0.5]), np.array([0.2, 0.8]), np.array([True, True]), 0.5, 1.0).lost_qos
    0.2
    """
    if form not in ("window", "pairwise"):
        raise InvalidInput(f"form must be window or pairwise, got {form!r}")
    solver = pywraplp.Solver.CreateSolver("GLOP")
    d = [solver.NumVar(0.0, 1.0 - min_keep, f"d[{i}]") for i in range(len(frequency))]
    budget = solver.Constraint(1.0 - throttle_fraction, 1.0 - throttle_fraction, "budget")
    for variable, f in zip(d, frequency.tolist(), strict=True):
        budget.SetCoefficient(variable, f)
    members = np.flatnonzero(queried).tolist()
    delta = fairness_threshold
    if form == "window":
        t = solver.NumVar(0.0, 1.0, "t")
        rows = [(solver.Constraint(0.0, delta, f"fairness[{i}]"), d[i], t) for i in members]
    else:
        rows = [
            (solver.Constraint(-delta, delta, f"fairness[{i},{j}]"), d[i], d[j])
            for i, j in combinations(members, 2)
        ]
    for fairness, one, other in rows:
        fairness.SetCoefficient(one, 1.0)
        fairness.SetCoefficient(other, -1.0)
    objective = solver.Objective()
    for variable, qos in zip(d, region_qos.tolist(), strict=True):
        objective.SetCoefficient(variable, qos)
    objective.SetMinimization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InfeasiblePlan(
            f"budget must drop {1 - throttle_fraction:g} of the stream, but the regions hold only "
            f"{(1 - min_keep) * float(frequency.sum()):g} of it; normalise the frequencies, or "
            "lower min_keep"
        )
    thresholds = np.array([variable.solution_value() for variable in d])
    return Solution(thresholds, float(objective.Value()), "optimal")
