"""The run-time solver: a warm tableau that follows the rates."""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray
from planning.errors import PlanningError
from planning.fit import simplex
from planning.fit.program import Program


class WarmSimplex:
    """Solves one program for one rate vector after another, each from the last basis.

    The result for a rate vector does not depend on what was solved before: the optimal basis is
    unique (see :mod:`planning.fit.program`), up to rounding.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        rows, columns = len(program.tableau), program.cost.shape[1]
        self._fixed = (program.tableau, program.cost, program.upper, program.bounded)
        self._state = (
            program.tableau.copy(),
            program.cost.copy(),
            np.arange(columns, columns + rows, dtype=np.int64),
            np.arange(columns, dtype=np.int64),
            np.zeros(rows + columns, dtype=np.bool_),
            np.zeros(1, dtype=np.int64),
        )
        self._tail = (
            program.raw_use,
            program.arrive_rates,
            program.arrive_drops,
            program.port,
        )

    def fractions(self, rates: FloatArray) -> FloatArray:
        """Drop fraction per location for rows of rates in units of ``max_rate``."""
        return self.solve(rates)[1]

    def solve(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return dropped rates (in units of the location's highest rate) and drop fractions."""
        shape = (len(rates), self.program.location_count)
        dropped, out = np.empty(shape), np.empty(shape)
        failed = simplex.solve_many(*self._fixed, *self._state, rates, *self._tail, dropped, out)
        if failed:
            raise PlanningError(
                f"the simplex found no optimum for {failed} of {len(rates)} rate vectors of "
                f"network {self.program.network.name!r}; report the network and the rates"
            )
        return dropped, out

    def basis(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the basic and the flipped variables of the last solution, sorted."""
        basis = tuple(sorted(int(v) for v in self._state[2]))
        return basis, tuple(int(v) for v in np.flatnonzero(self._state[4]))
