"""The paper's linear program (Equation 10) by OR-Tools GLOP: the reference for the exact path.

maximise    B' - sum_i A_i d_i
budget      sum_i f_i d_i = 1 - z
fairness    |d_i - d_j| <= Delta for regions i, j with queries

``pairwise`` writes the fairness rows as the paper does, two per pair; ``window`` writes the
equivalent t <= d_i <= t + Delta with one more variable. When the frequencies sum to less than
1 - z no thresholds meet the budget, and :class:`InfeasiblePlan` says how far they get.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

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
) -> Solution:
    """Solve Equation 10 at one z.

    >>> solve(np.array([0.5, 0.5]), np.array([0.2, 0.8]), np.array([True, True]), 0.5, 1.0).lost_qos
    0.2
    """
    if form not in ("window", "pairwise"):
        raise InvalidInput(f"form must be window or pairwise, got {form!r}")
    solver = pywraplp.Solver.CreateSolver("GLOP")
    d = [solver.NumVar(0.0, 1.0, f"d[{i}]") for i in range(len(frequency))]
    _define_budget(solver, d, frequency, throttle_fraction)
    members = np.flatnonzero(queried).tolist()
    if form == "window":
        _define_window(solver, d, members, fairness_threshold)
    else:
        _define_pairs(solver, d, members, fairness_threshold)
    objective = solver.Objective()
    for variable, qos in zip(d, region_qos.tolist(), strict=True):
        objective.SetCoefficient(variable, qos)
    objective.SetMinimization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InfeasiblePlan(
            f"budget must drop {1 - throttle_fraction:g} of the stream, but the regions hold only "
            f"{float(frequency.sum()):g} of it; normalise the frequencies"
        )
    thresholds = np.array([variable.solution_value() for variable in d])
    return Solution(thresholds, float(objective.Value()), "optimal")


def _define_budget(solver: Any, d: list[Any], frequency: FloatArray, z: float) -> None:
    budget = solver.Constraint(1.0 - z, 1.0 - z, "budget")
    for variable, f in zip(d, frequency.tolist(), strict=True):
        budget.SetCoefficient(variable, f)


def _define_window(solver: Any, d: list[Any], members: list[int], delta: float) -> None:
    t = solver.NumVar(0.0, 1.0, "t")
    for i in members:
        row = solver.Constraint(0.0, delta, f"fairness[{i}]")
        row.SetCoefficient(d[i], 1.0)
        row.SetCoefficient(t, -1.0)


def _define_pairs(solver: Any, d: list[Any], members: list[int], delta: float) -> None:
    for i, j in combinations(members, 2):
        row = solver.Constraint(-delta, delta, f"fairness[{i},{j}]")
        row.SetCoefficient(d[i], 1.0)
        row.SetCoefficient(d[j], -1.0)
