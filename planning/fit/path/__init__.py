"""The answer for every load: what a plan stores per fragment, and how drops are found in it.

The tables are plain arrays, so that reading one needs no solver; the first rate vector loads the
compiled look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.network import QueryNetwork
from planning.fit.network.graph import Flows
from planning.fit.simplex.shedding import SheddingProgram, shedding_program

if TYPE_CHECKING:
    from planning.fit.path.selection import Selector

Answer = Callable[[FloatArray], FloatArray]
FEASIBLE = -1
INNER = -2
MATCH = 1e-9
"""A measured rate may be this share below a table row's and still match it."""


class CriticalRegions(NamedTuple):
    """All critical regions with their rules; rates are in units of ``max_rate``."""

    value: FloatArray  # (1 + inputs, regions): the loss; the region that applies has the largest
    rule: FloatArray  # (regions, locations, 1 + inputs): dropped rates
    facets: FloatArray  # (all facets, 1 + inputs): >= 0 inside
    starts: IntArray  # facets of region k are starts[k] … starts[k + 1]

    @property
    def plan_count(self) -> int:
        """How many regions there are."""
        return int(self.value.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory of all tables."""
        return sum(table.nbytes for table in self)


class Quadtree(NamedTuple):
    """Cell k is a leaf with plan ``plan[k]``, feasible, or divided (inner) from ``child[k]``."""

    valued: BoolArray  # inputs that contribute to an output; the tree divides these only
    plan: IntArray
    child: IntArray
    fractions: FloatArray  # one row per plan: drop fraction per location at the lowest corner
    bound: FloatArray  # error bound per plan

    @property
    def plan_count(self) -> int:
        """How many load shedding plans are stored."""
        return len(self.fractions)

    @property
    def nbytes(self) -> int:
        """Memory of index and plans."""
        return int(sum(a.nbytes for a in (self.plan, self.child, self.fractions, self.bound)))


class PointQuadtree(NamedTuple):
    """Rows of ``points`` in descending order of score; children are linked lists by orthant."""

    points: FloatArray
    first: IntArray  # first child of each row
    following: IntArray  # next sibling
    orthant: IntArray  # bit k: coordinate k is at least the parent's

    @property
    def nbytes(self) -> int:
        """Memory of the index."""
        return sum(array.nbytes for array in self)


@dataclass(frozen=True, slots=True, eq=False)
class FitPlans:
    """The input server's table, compiled into drop fractions for every arc of the network."""

    index: PointQuadtree
    arcs: tuple[str, ...]
    drops: FloatArray  # (rows, arcs), before the inputs are scaled down
    valued: BoolArray

    @property
    def plan_count(self) -> int:
        """How many load shedding plans are stored."""
        return len(self.drops)

    @property
    def nbytes(self) -> int:
        """Memory of index and plans."""
        return self.index.nbytes + int(self.drops.nbytes)


Stored = CriticalRegions | Quadtree | FitPlans


@dataclass(frozen=True, eq=False)
class Part:
    """One fragment of the network with its table; without a table the simplex answers."""

    network: QueryNetwork
    table: Stored | None

    @cached_property
    def program(self) -> SheddingProgram:
        """The fragment's linear program."""
        return shedding_program(self.network)

    @cached_property
    def selector(self) -> Selector:
        """What finds drops in the table; loads the compiled kernels on first use."""
        from planning.fit.path.selection import selector

        return selector(self.program, self.table)

    def flows(self, rates: FloatArray, answer: Answer | None = None) -> Flows:
        """Return what the fragment does at rows of rates in units of ``max_rate``.

        ``answer`` gives the drop fractions of the selector's arcs, the selector itself by default.
        """
        drops = np.zeros((len(rates), len(self.network.arcs)))
        found = (answer or self.selector.drops)(rates)
        for arc, column in zip(self.selector.arcs, found.T, strict=True):
            if arc:
                drops[:, self.network.arc_index[arc]] = column
        return self.network.evaluate_many(rates * self.program.max_rates, drops)
