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
        inputs, count = len(program.max_rates), program.location_count
        sizes = [rows, columns, inputs, count, len(program.cost), len(program.raw_use), 0]
        fixed = (
            program.tableau,
            program.cost,
            program.upper,
            program.raw_use,
            program.arrive_rates,
            program.arrive_drops,
        )
        state = (program.tableau, program.cost, np.zeros(columns))
        self._floats = np.concatenate([part.ravel() for part in (*fixed, *state)])
        self._ints = np.concatenate(
            [
                sizes,
                program.bounded.astype(np.int64),
                program.port,
                np.arange(columns, columns + rows),
                np.arange(columns),
                np.zeros(rows + columns, dtype=np.int64),
            ]
        ).astype(np.int64)
        self._shape = count

    def fractions(self, rates: FloatArray) -> FloatArray:
        """Drop fraction per location for rows of rates in units of ``max_rate``."""
        return self.solve(rates)[1]

    def solve(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return dropped rates (in units of the location's highest rate) and drop fractions."""
        dropped = np.empty((len(rates), self._shape))
        out = np.empty((len(rates), self._shape))
        failed = simplex.solve_many(self._floats, self._ints, rates, dropped, out)
        if failed:
            raise PlanningError(
                f"the simplex found no optimum for {failed} of {len(rates)} rate vectors of "
                f"network {self.program.network.name!r}; report the network and the rates"
            )
        return dropped, out
