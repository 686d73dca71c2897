"""Plan selection: from rate vectors to drop fractions, by whichever table the plan carries."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.fit import point_quadtree, quadtree, regions
from planning.fit.program import Program
from planning.fit.stored import CriticalRegions, FitPlans, Quadtree, Stored
from planning.fit.warm import WarmSimplex

MATCH = 1e-9
"""A measured rate may be this share below a table row's and still match it."""


class Selector(Protocol):
    """Finds the drops for rows of rates in units of ``max_rate``."""

    arcs: tuple[str, ...]

    def drops(self, rates: FloatArray) -> FloatArray:
        """Return one row of drop fractions on ``arcs`` per row of rates."""
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

    def __init__(self, program: Program) -> None:
        self.arcs = program.names
        self._warm = WarmSimplex(program)

    def drops(self, rates: FloatArray) -> FloatArray:
        """Return the optimal drop fractions."""
        return self._warm.fractions(rates)


class ByRegions:
    """Looks the critical region up; rates outside the planned space are solved."""

    def __init__(self, program: Program, table: CriticalRegions) -> None:
        self.arcs = program.names
        self._fixed = (
            table.value, table.rule, table.facets, table.starts, program.raw_use,
            program.arrive_rates, program.arrive_drops, program.port, np.zeros(1, dtype=np.int64),
        )  # fmt: skip
        self._warm = WarmSimplex(program)

    def drops(self, rates: FloatArray) -> FloatArray:
        """Return the optimal drop fractions."""
        out = np.empty((len(rates), len(self.arcs)))
        dropped = np.empty_like(out)
        chosen = np.empty(len(rates), dtype=np.int64)
        if regions.select(*self._fixed, rates, dropped, out, chosen):
            missing = chosen == regions.OUTSIDE
            out[missing] = self._warm.fractions(np.ascontiguousarray(rates[missing]))
        return out


class ByQuadtree:
    """Finds the cell of the region quadtree and scales down to its corner."""

    def __init__(self, program: Program, table: Quadtree) -> None:
        self.arcs = program.names
        self._fixed = (
            table.plan, table.child, table.fractions, table.valued, program.raw_use,
            input_of(program.network.input_ids, self.arcs),
        )  # fmt: skip

    def drops(self, rates: FloatArray) -> FloatArray:
        """Return the drop fractions of each cell's plan."""
        out = np.empty((len(rates), len(self.arcs)))
        quadtree.select(*self._fixed, rates, out, np.empty(len(rates), dtype=np.int64))
        return out


class ByTable:
    """Finds the best row of the input server's table and scales down to it."""

    def __init__(self, program: Program, table: FitPlans) -> None:
        self.arcs = table.arcs
        self._table = table
        self._max_rates = program.max_rates
        self._raw_use = program.raw_use / program.max_rates
        self._input = input_of(program.network.input_ids, table.arcs)

    def rows(self, rates: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the chosen row and the scaling of the inputs, per rate vector."""
        scale = np.empty_like(rates)
        chosen = np.empty(len(rates), dtype=np.int64)
        tree = self._table.index
        point_quadtree.select(
            tree.points,
            tree.first,
            tree.following,
            tree.orthant,
            self._table.valued,
            self._raw_use,
            MATCH,
            rates * self._max_rates,
            scale,
            chosen,
        )
        return chosen, scale

    def drops(self, rates: FloatArray) -> FloatArray:
        """Return the drop fractions of the best rows."""
        chosen, scale = self.rows(rates)
        out = np.zeros((len(rates), len(self.arcs)))
        found = chosen >= 0
        out[found] = self._table.drops[chosen[found]]
        for arc, position in enumerate(self._input):
            if position >= 0:
                out[:, arc] = 1.0 - (1.0 - out[:, arc]) * scale[:, position]
        return out


def selector(program: Program, table: Stored | None) -> Selector:
    """Return the selector for a table; without one, the simplex."""
    if isinstance(table, CriticalRegions):
        return ByRegions(program, table)
    if isinstance(table, Quadtree):
        return ByQuadtree(program, table)
    if isinstance(table, FitPlans):
        return ByTable(program, table)
    return BySimplex(program)
