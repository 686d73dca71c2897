"""Plan selection: from rate vectors to drop fractions, by whichever table the plan carries."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.fit.kernels import lookup
from planning.fit.path import MATCH, CriticalRegions, FitPlans, Quadtree, Stored
from planning.fit.simplex.dual import Problem
from planning.fit.simplex.shedding import SheddingProgram
from planning.fit.simplex.warm import WarmSimplex


class Selector(Protocol):
    """Finds the drops for rows of rates in units of ``max_rate``."""

    arcs: tuple[str, ...]

    def drops(self, rates: FloatArray, *, warm: bool = True) -> FloatArray:
        """Return one row of drop fractions on ``arcs`` per row of rates.

        ``warm`` starts from the last answer; else the bits depend on the rates alone.
        """
        ...


def input_of(network_inputs: tuple[str, ...], arcs: tuple[str, ...]) -> IntArray:
    """Return the input that each arc carries, -1 for arcs between operators.

    >>> input_of(("a", "b"), ("b->f", "f->g", ""))
    array([ 1, -1, -1])
    """
    streams = [arc.split("->")[0] for arc in arcs]
    return np.array([network_inputs.index(s) if s in network_inputs else -1 for s in streams])


class BySimplex:
    """Solves every rate vector, warm from the last one."""

    def __init__(self, program: SheddingProgram) -> None:
        self.arcs = program.names
        self._warm = WarmSimplex(program)

    def drops(self, rates: FloatArray, *, warm: bool = True) -> FloatArray:
        """Return the optimal drop fractions."""
        return self._warm.fractions(rates, warm=warm)


class ByRegions:
    """Looks up the critical region; rates outside the planned space are solved."""

    def __init__(self, program: SheddingProgram, table: CriticalRegions) -> None:
        self.arcs = program.names
        self._fixed = (table, program.raw_use, program.arrivals, _without_shortfalls(program))
        self._last = np.zeros(1, dtype=np.int64)
        self._warm = WarmSimplex(program)

    def drops(self, rates: FloatArray, *, warm: bool = True) -> FloatArray:
        """Return the optimal drop fractions."""
        out = np.empty((len(rates), len(self.arcs)))
        outside = np.empty(len(rates), dtype=np.bool_)
        last = self._last if warm else np.zeros(1, dtype=np.int64)
        if lookup.select_region(*self._fixed, last, rates, out, outside):
            others = np.ascontiguousarray(rates[outside])
            out[outside] = self._warm.fractions(others, warm=warm)
        return out

    def optimum(self, rates: FloatArray) -> FloatArray:
        """Return the optimal drop fractions from the solver instead of the regions."""
        return self._warm.fractions(rates, warm=False)


def _without_shortfalls(program: SheddingProgram) -> Problem:
    """Return the rows that a region's rule must respect: those of the dropped rates alone."""
    count, columns = program.location_count, program.cost.shape[1]
    plain = ~(program.tableau[:, count:columns] != 0.0).any(axis=1)
    return Problem(
        np.ascontiguousarray(np.delete(program.tableau[plain], np.s_[count:columns], axis=1)),
        np.ascontiguousarray(program.cost[:, :count]),
        program.upper[:count],
        program.bounded[:count],
    )


class ByQuadtree:
    """Finds the cell of the region quadtree and scales down to its corner."""

    def __init__(self, program: SheddingProgram, table: Quadtree) -> None:
        self.arcs = program.names
        self._fixed = (table, program.raw_use, input_of(program.network.input_ids, self.arcs))

    def drops(self, rates: FloatArray, *, warm: bool = True) -> FloatArray:
        """Return the drop fractions of each cell's plan."""
        out = np.empty((len(rates), len(self.arcs)))
        lookup.select_cell(*self._fixed, rates, out)
        return out


class ByTable:
    """Finds the best row of the input server's table and scales down to it."""

    def __init__(self, program: SheddingProgram, table: FitPlans) -> None:
        self.arcs = table.arcs
        self._drops = table.drops
        self._max_rates = program.max_rates
        self._input = input_of(program.network.input_ids, table.arcs)
        self._fixed = (table.index, table.valued, program.use_per_tuple, MATCH)

    def drops(self, rates: FloatArray, *, warm: bool = True) -> FloatArray:
        """Return the drop fractions of the best rows."""
        scale = np.empty_like(rates)
        row = np.empty(len(rates), dtype=np.int64)
        lookup.select_row(*self._fixed, rates * self._max_rates, scale, row)
        out = np.zeros((len(rates), len(self.arcs)))
        out[row >= 0] = self._drops[row[row >= 0]]
        for arc, position in enumerate(self._input):
            if position >= 0:
                out[:, arc] = 1.0 - (1.0 - out[:, arc]) * scale[:, position]
        return out


def selector(program: SheddingProgram, table: Stored | None) -> Selector:
    """Return the selector for a table; without one, the simplex."""
    if isinstance(table, CriticalRegions):
        return ByRegions(program, table)
    if isinstance(table, Quadtree):
        return ByQuadtree(program, table)
    if isinstance(table, FitPlans):
        return ByTable(program, table)
    return BySimplex(program)
