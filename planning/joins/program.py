"""The family's problem as a linear program, solved by OR-Tools GLOP: the reference for the path.

With x the fraction of an item that is compared, maximise sum of density * volume * x over
0 <= x <= 1 subject to

``processing``
    sum of volume * x <= budget (Section 5.3);
``order[better,worse]``
    x[better] >= x[worse]: in a window and type, no basic window is taken more than a denser one.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray, sorted_sum
from planning.errors import InfeasiblePlan
from planning.families import Definition
from planning.joins.parameters import Parameters
from planning.joins.statistics import Statistics


def best_quality(
    statistics: Statistics, definition: Definition[Parameters], load: float
) -> float:
    """Return the largest share of the utility that the fraction ``load`` of comparisons can yield.

    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> best = best_quality(demo_statistics("joins"), demo_definition("joins"), 0.1)
    >>> abs(best - demo_plan("joins").predicted_quality(0.1)) < 1e-6
    True
    """
    density = statistics.densities(definition)
    made = np.moveaxis(statistics.comparisons, 1, 2).astype(np.float64)
    volumes = made / made.sum()
    return optimum(density, volumes, load) / sorted_sum(density * volumes)


def optimum(density: FloatArray, volumes: FloatArray, budget: float) -> float:
    """Return the best value of items [window, type, basic window] within a budget.

    >>> d = np.array([[[3.0, 1.0]], [[2.0, 0.0]]])
    >>> optimum(d, np.ones((2, 1, 2)), 1.5)
    4.0
    """
    from ortools.linear_solver import pywraplp

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
