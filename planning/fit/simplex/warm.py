"""The run-time solver: a warm tableau that follows the rates.

A solution takes less than a microsecond, and a compiled function pays about a tenth of that for
every array that Python hands it. So program and state share one block of memory, and the compiled
side lays its arrays over it. Such arrays own nothing, which also saves counting references.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from planning.arrays import FloatArray, IntArray
from planning.errors import PlanningError
from planning.fit.kernels.drops import all_fit, fractions, inner
from planning.fit.simplex.dual import OPTIMAL, Basis, Problem, solve
from planning.fit.simplex.shedding import Arrivals, SheddingProgram

WORD = 8
"""Bytes of a float or integer."""


class WarmSimplex:
    """Solves one program for one rate vector after another, each from the last basis.

    The result for a rate vector does not depend on what was solved before: the optimal basis is
    unique (see :mod:`planning.fit.simplex.shedding`), up to rounding.

    >>> from planning.fit.demo import figure_1
    >>> from planning.fit.simplex.shedding import shedding_program
    >>> program = shedding_program(figure_1())
    >>> program.names
    ('i1->a1', 'i2->a2')
    >>> WarmSimplex(program).fractions(np.array([[0.1, 0.1], [1.0, 1.0]])).round(12)
    array([[0. , 0. ],
           [0.8, 0.6]])
    """

    def __init__(self, program: SheddingProgram) -> None:
        self.program = program
        self._count = program.location_count
        self._start = _packed(program)
        self._memory = self._start.copy()

    def fractions(self, rates: FloatArray, *, warm: bool = True) -> FloatArray:
        """Return the drop fraction per location, for rows of rates in units of ``max_rate``.

        Unless ``warm``, each batch starts where nothing is dropped. Rates for which no optimum can
        be certified shed all inputs alike, so that nothing is overloaded.
        """
        out = np.empty((len(rates), self._count))
        _follow(self._memory if warm else self._start.copy(), rates, out, True)
        return out

    def dropped(self, rates: FloatArray) -> FloatArray:
        """Return the dropped rate per location, in units of the program's ``scale``."""
        return self.variables(rates)[:, : self._count]

    def variables(self, rates: FloatArray) -> FloatArray:
        """Return the dropped rate per location, and the shortfalls that the program counts."""
        out = np.empty((len(rates), self.program.cost.shape[1]))
        if failed := _follow(self._memory, rates, out, False):
            raise PlanningError(
                f"the optimum of network {self.program.network.name!r} must be certified at all "
                f"rates, {failed} of {len(rates)} rate vectors have none: its costs, weights and "
                "max_rate span too many decades for floating-point numbers"
            )
        return out


def _packed(program: SheddingProgram) -> FloatArray:
    """Return the memory that ``_follow`` works on: sizes, program, then the state.

    The state starts at the basis where nothing is dropped.
    """
    rows, columns = len(program.tableau), program.cost.shape[1]
    sizes = (
        rows,
        columns,
        len(program.max_rates),
        program.location_count,
        len(program.cost),
        len(program.raw_use),
        0,  # pivots since the tableau was rebuilt
    )
    integers = (
        sizes,
        program.bounded,
        program.arrivals.port,
        np.arange(columns, columns + rows),
        np.arange(columns),
        np.zeros(rows + columns),
    )
    floats = (
        program.tableau,
        program.cost,
        program.upper,
        program.raw_use,
        program.arrivals.per_rate,
        program.arrivals.per_drop,
        program.tableau,
        program.cost,
        np.zeros(columns),
        program.network.window_overhead.max(keepdims=True),
    )
    head = np.concatenate(integers).astype(np.int64).view(np.float64)
    return np.concatenate([head, *(part.ravel() for part in floats)])


def _as_pointer(context: Any, address: Any) -> Any:
    """Compile an address into the pointer that ``carray`` needs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


_pointer: Any = intrinsic(_as_pointer)


@inner
def _integers(at: int, count: int) -> tuple[IntArray, int]:
    """Lay a vector of integers over the memory at ``at``; return it and where it ends."""
    return carray(_pointer(at), (count,), np.int64), at + WORD * count


@inner
def _matrix(at: int, rows: int, columns: int) -> tuple[FloatArray, int]:
    """Lay a matrix over the memory at ``at``; return it and where it ends."""
    return carray(_pointer(at), (rows, columns), np.float64), at + WORD * rows * columns


@inner
def busiest(use: FloatArray, rates: FloatArray) -> float:
    """Return the highest share of a capacity that is asked for, nothing dropped."""
    most = 0.0
    for n in range(use.shape[0]):
        total = 0.0
        for k in range(rates.shape[0]):
            total += use[n, k] * rates[k]
        most = max(most, total)
    return most


@njit(cache=True)
def _follow(memory: FloatArray, rates: FloatArray, out: FloatArray, as_fractions: bool) -> int:
    """Solve rows of rates one after the other, warm; return how many were not optimal."""
    sizes, at = _integers(memory.ctypes.data, np.int64(7))
    rows, columns, inputs = sizes[0], sizes[1], sizes[2]
    count, levels, uses = sizes[3], sizes[4], sizes[5]
    age, variables_and_slacks = sizes[6:], rows + columns
    bounded, at = _integers(at, variables_and_slacks)
    port, at = _integers(at, count)
    basic, at = _integers(at, rows)
    nonbasic, at = _integers(at, columns)
    flipped, at = _integers(at, variables_and_slacks)
    base, at = _matrix(at, rows, columns + 1 + inputs)
    base_cost, at = _matrix(at, levels, columns)
    upper, at = _matrix(at, variables_and_slacks, 1 + inputs)
    raw_use, at = _matrix(at, uses, inputs)
    per_rate, at = _matrix(at, count, inputs)
    per_drop, at = _matrix(at, count, count)
    tableau, at = _matrix(at, rows, columns + 1 + inputs)
    cost, at = _matrix(at, levels, columns)
    vectors, at = _matrix(at, np.int64(1), columns)
    variables, overhead = vectors[0], _matrix(at, np.int64(1), np.int64(1))[0]
    problem = Problem(base, base_cost, upper, bounded)
    state = Basis(tableau, cost, basic, nonbasic, flipped)
    arrivals = Arrivals(per_rate, per_drop, port)
    failed = 0
    for row in range(rates.shape[0]):
        vector, result = rates[row], out[row]
        if all_fit(raw_use, vector):
            for a in range(result.shape[0]):
                result[a] = 0.0
            continue
        status = solve(problem, state, age, vector, variables)
        failed += status != OPTIMAL
        if as_fractions and status != OPTIMAL:
            share = 1.0 / (overhead[0, 0] * busiest(raw_use, vector))
            for a in range(count):
                result[a] = 1.0 - share if bounded[a] else 0.0
        elif as_fractions:
            fractions(arrivals, vector, variables, result)
        else:
            for a in range(result.shape[0]):
                result[a] = variables[a]
    return failed
