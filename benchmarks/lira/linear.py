"""The throttler problem (Section 3.1.3) as a linear program, solved by OR-Tools GLOP.

The convex f is a chain of segments k of slope −r_k. With x_ik, how far region i goes along segment
k, and t, the lower end of the window that holds all throttlers:

minimise      Σ m_i·Δ_i,  Δ_i = Δmin + Σ_k x_ik
budget        Σ_i w_i·(1 − Σ_k r_k·x_ik) ≤ z·Σ_i w_i
fairness[i]   0 ≤ Σ_k x_ik − t ≤ F for every region with nodes or queries

Because f is convex, the segments fill in order by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from planning.arrays import FloatArray, frozen
from planning.errors import InfeasiblePlan
from planning.lira.model import ReductionCurve


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Throttlers Δ_i and what they lose, Σ m_i·Δ_i."""

    throttlers: FloatArray
    inaccuracy: float
    status: str


def solve(
    importance: FloatArray,
    weight: FloatArray,
    curve: ReductionCurve,
    fairness_threshold: float,
    throttle_fraction: float,
) -> Solution:
    """Solve the program at one z; a budget that no throttlers meet is an ``InfeasiblePlan``.

    >>> curve = ReductionCurve.of([5, 10, 15], [1.0, 0.5, 0.3])
    >>> made = solve(np.array([2.0, 0.0]), np.array([1.0, 1.0]), curve, 10, 0.5)
    >>> made.throttlers.tolist(), made.inaccuracy, made.status
    ([8.0, 15.0], 16.0, 'optimal')
    """
    m, w = (np.asarray(a, dtype=np.float64) for a in (importance, weight))
    steps = np.diff(curve.thresholds)
    rates = (curve.hull[:-1] - curve.hull[1:]) / steps
    solver = pywraplp.Solver.CreateSolver("GLOP")
    x = [
        [solver.NumVar(0.0, step, f"x[{i},{k}]") for k, step in enumerate(steps.tolist())]
        for i in range(m.size)
    ]
    t = solver.NumVar(0.0, curve.high - curve.low, "t")
    shed = (1.0 - throttle_fraction) * float(w.sum())
    budget = solver.Constraint(shed, solver.infinity(), "budget")
    objective = solver.Objective()
    for i, along in enumerate(x):
        for variable, rate in zip(along, rates.tolist(), strict=True):
            budget.SetCoefficient(variable, w[i] * rate)
            objective.SetCoefficient(variable, float(m[i]))
    for i in np.flatnonzero((m > 0) | (w > 0)).tolist():
        fairness = solver.Constraint(0.0, float(fairness_threshold), f"fairness[{i}]")
        fairness.SetCoefficient(t, -1.0)
        for variable in x[i]:
            fairness.SetCoefficient(variable, 1.0)
    objective.SetMinimization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InfeasiblePlan(
            f"throttlers must leave {throttle_fraction:g} of the updates, but Δmax leaves "
            f"{curve.hull[-1]:g}; raise Δmax or the throttle fraction"
        )
    throttlers = curve.low + np.array([sum(v.solution_value() for v in along) for along in x])
    return Solution(frozen(throttlers), float(m @ throttlers), "optimal")
