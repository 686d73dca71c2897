"""The program solved by an OR-Tools library, objective after objective, and bounds from duals."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput, PlanningError
from planning.fit.network import QueryNetwork, Rates
from planning.fit.planner import Optimum
from planning.fit.planner import optimum as by_simplex
from planning.fit.program.model import INFINITY, NetworkModel

Library = Literal["glop", "highs"]
LIBRARIES = {"glop": "GLOP", "highs": "HIGHS_LP"}
PRECISE = 1e-9


class Solution(NamedTuple):
    """What a library found for one objective: the variables, and prices of rows and levels."""

    variables: FloatArray
    prices: FloatArray


class NetworkProgram(NetworkModel):
    """The model of one network; it is solved again as the rates move, from its last basis.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> program = NetworkProgram(figure_1())
    >>> round(program.resolve(np.array([1.0, 1.0])), 9), program.status
    (0.6, 'OPTIMAL')
    """

    def __init__(self, network: QueryNetwork, library: Library = "glop") -> None:
        from ortools.linear_solver import pywraplp

        super().__init__(network)
        self.status = "NOT_SOLVED"
        self._solver = pywraplp.Solver.CreateSolver(LIBRARIES[library])
        if library == "highs":  # which prints a line per solution otherwise
            self._solver.SetSolverSpecificParametersAsString("output_flag=false")
        self._options = pywraplp.MPSolverParameters()
        for tolerance in (self._options.PRIMAL_TOLERANCE, self._options.DUAL_TOLERANCE):
            self._options.SetDoubleParam(tolerance, PRECISE)
        self._optimal = pywraplp.Solver.OPTIMAL
        self._columns = [self._solver.NumVar(0.0, INFINITY, f"x{k}") for k in range(self.size)]
        self._first = [
            (self._columns[k], float(self.fills[k]), network.input_ids.index(arc.stream), unit)
            for k, (arc, unit) in enumerate(zip(network.arcs, self.unit.tolist(), strict=True))
            if network.node_of[arc.stream] is None
        ]
        self._constraints = []
        for coefficients in (*self.matrix, *-self.levels):
            row = self._solver.RowConstraint(-INFINITY, INFINITY, "")
            for column in np.flatnonzero(coefficients).tolist():
                row.SetCoefficient(self._columns[column], float(coefficients[column]))
            self._constraints.append(row)
        for row, right in enumerate(self.constant.tolist()):
            self._constraints[row].SetBounds(right if row in self.equal else -INFINITY, right)
        self._moving = np.flatnonzero(self.per_rate.any(axis=1)).tolist()
        self._aim(0)

    def _aim(self, level: int) -> None:
        """Maximise one level; what those before it must keep is set when it is solved."""
        self._aimed, objective = level, self._solver.Objective()
        objective.Clear()
        for column in np.flatnonzero(self.levels[level]).tolist():
            objective.SetCoefficient(self._columns[column], float(self.levels[level, column]))
        objective.SetMaximization()
        for constraint in self._constraints[len(self.names) + level :]:
            constraint.SetUb(INFINITY)

    def maximised(
        self, level: int, rates: FloatArray, kept: FloatArray, limit_s: float = 60.0
    ) -> Solution | None:
        """Maximise a level while those before it keep their values; None if that does not succeed.

        ``kept`` are these values, one for each level before.
        """
        if level != self._aimed:
            self._aim(level)
        for variable, fills, place, unit in self._first:
            variable.SetUb(min(float(rates[place]) / unit, fills))
        right = self.limits(rates) if self._moving else self.constant
        for row in self._moving:
            high = float(right[row])
            self._constraints[row].SetBounds(high if row in self.equal else -INFINITY, high)
        for row, value in enumerate(kept.tolist(), len(self.names)):
            self._constraints[row].SetUb(-value)
        self._solver.SetTimeLimit(max(int(1000 * limit_s), 1))
        optimal = self._solver.Solve(self._options) == self._optimal
        self.status = "OPTIMAL" if optimal else "NOT_SOLVED"
        if not optimal:
            return None
        rows = self._constraints[: len(self.names) + level]
        return Solution(
            np.array([column.solution_value() for column in self._columns]),
            np.array([row.dual_value() for row in rows]),
        )

    def bounds(
        self, level: int, prices: FloatArray, rates: FloatArray, kept: FloatArray
    ) -> FloatArray:
        """Return what a level cannot exceed at rows of rates, by weak duality from any prices.

        The library's tolerances do not matter: prices of the wrong sign count as none, and what is
        left of the objective counts at the highest values of the variables.
        """
        signed = np.array([k in self.equal for k in range(len(prices))])
        prices = np.where(signed, prices, np.maximum(prices, 0.0))
        matrix = np.concatenate([self.matrix, -self.levels[:level]])
        left = np.maximum(self.levels[level] - prices @ matrix, 0.0)
        return np.asarray(np.hstack([self.limits(rates), -kept]) @ prices + self.most(rates) @ left)

    def resolve(self, rates: FloatArray) -> float:
        """Move to ``rates`` and return the first objective's optimum, a throughput in its unit."""
        solution = self._best(0, rates, np.zeros(0))
        return float(self.levels[0] @ solution.variables) * (float(self.worth[0]) or 1.0)

    def solve(self, rates: FloatArray) -> FloatArray:
        """Return the rate that passes each arc, all objectives optimised in their order."""
        return np.asarray(self._lexicographic(rates)[: len(self.unit)] * self.unit)

    def _lexicographic(self, rates: FloatArray) -> FloatArray:
        kept, variables = np.zeros(0), np.zeros(self.size)
        for level in range(len(self.levels)):
            variables = self._best(level, rates, kept).variables
            kept = np.append(kept, self.levels[level] @ variables)
        return variables

    def _best(self, level: int, rates: FloatArray, kept: FloatArray) -> Solution:
        solution = self.maximised(level, rates, kept)
        if solution is None:
            raise PlanningError(f"the library found no optimum for network {self.network.name!r}")
        return solution

    def optimum(self, rates: FloatArray) -> Optimum:
        """Return the optimum as drop fractions: none where nothing needs to be shed."""
        if (self.use @ rates <= 1.0).all():
            return Optimum.of(self.network, rates, {})
        found = self.drops(rates[None, :], self._lexicographic(rates)[None, :])[0].tolist()
        named = zip(self.network.arcs, found, strict=True)
        return Optimum.of(self.network, rates, {arc.name: drop for arc, drop in named if drop > 0})


def optimum(network: QueryNetwork, rates: Rates, solver: str = "simplex") -> Optimum:
    """Return the highest weighted throughput by the product's simplex, or by a library."""
    if solver == "simplex":
        return by_simplex(network, rates)
    if solver not in LIBRARIES:
        raise InvalidInput(f"solver must be one of simplex, glop, highs, got {solver!r}")
    return NetworkProgram(network, solver).optimum(network.rate_vector(rates))  # type: ignore[arg-type]
