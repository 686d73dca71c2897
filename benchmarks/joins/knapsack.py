"""Which items to compare within a budget as a linear program: the reference for the sorted list.

With x the fraction of an item that is compared, maximise sum of density * volume * x over
0 <= x <= 1 subject to

``processing``
    sum of volume * x <= budget (Section 5.3);
``order[better,worse]``
    x[better] >= x[worse]: in a window and type, no basic window is taken more than a denser one.
"""

from __future__ import annotations

import numpy as np
from ortools.linear_solver import pywraplp

from planning.arrays import FloatArray
from planning.errors import InfeasiblePlan


def optimum(density: FloatArray, volumes: FloatArray, budget: float) -> float:
    """Return the best value of items [window, type, basic window] within a budget.

    >>> d = np.array([[[3.0, 1.0]], [[2.0, 0.0]]])
    >>> optimum(d, np.ones((2, 1, 2)), 1.5)
    4.0
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    value = (density * volumes).ravel()
    unit = float(value.max()) or 1.0  # GLOP gives up on badly scaled objectives
    x = [solver.NumVar(0.0, 1.0, f"x[{k}]") for k in range(value.size)]
    processing = solver.Constraint(-solver.infinity(), float(budget), "processing")
    for variable, volume in zip(x, volumes.ravel(), strict=True):
        processing.SetCoefficient(variable, float(volume))
    n = density.shape[2]
    for block, densities in enumerate(density.reshape(-1, n)):
        ranks = np.argsort(-densities, kind="stable") + block * n
        for better, worse in zip(ranks[:-1], ranks[1:], strict=True):
            order = solver.Constraint(0.0, solver.infinity(), f"order[{better},{worse}]")
            order.SetCoefficient(x[better], 1.0)
            order.SetCoefficient(x[worse], -1.0)
    goal = solver.Objective()
    for variable, worth in zip(x, value, strict=True):
        goal.SetCoefficient(variable, float(worth) / unit)
    goal.SetMaximization()
    status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL:
        raise InfeasiblePlan(f"the linear program must be solved, got GLOP's status {status}")
    return float(goal.Value()) * unit
