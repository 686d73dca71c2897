"""Critical regions: all optimal bases of the program, each with its affine rule.

The rates enter only the right-hand side, so each dual feasible basis is optimal on a polytope of
the rate space and the dropped rates are affine there (multi-parametric linear programming). The
regions are found by stepping over facets: from the middle of a facet a tiny step outwards, and a
few dual pivots give the neighbour's basis.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import PlanningError
from planning.fit.drops import ROUNDING, all_fit, fractions
from planning.fit.polytope import deepest, unit_forms
from planning.fit.program import Program
from planning.fit.simplex import OPTIMAL, affine, reoptimise, start
from planning.fit.stored import CriticalRegions

STEP = 1e-7
THIN = 1e-9
INSIDE = 1e-10
EXACTLY = 1e-13
PROBES = 2000
FEASIBLE = -1
OUTSIDE = -2


class RegionLimit(PlanningError):
    """There are more critical regions than the limit allows."""


@dataclass(slots=True, eq=False)
class _Basis:
    """A tableau with its bookkeeping; reached from a neighbour by dual pivots."""

    tableau: FloatArray
    cost: FloatArray
    basis: IntArray
    nonbasis: IntArray
    flipped: BoolArray

    @classmethod
    def nothing_dropped(cls, program: Program) -> _Basis:
        rows, columns = len(program.tableau), program.cost.shape[1]
        made = cls(
            np.empty_like(program.tableau),
            np.empty_like(program.cost),
            np.empty(rows, dtype=np.int64),
            np.empty(columns, dtype=np.int64),
            np.empty(rows + columns, dtype=np.bool_),
        )
        start(program.tableau, program.cost, *made.parts)
        return made

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, IntArray, IntArray, BoolArray]:
        return self.tableau, self.cost, self.basis, self.nonbasis, self.flipped

    def moved(self, program: Program, rates: FloatArray) -> _Basis:
        """Return the optimal basis at ``rates``, warm from this one."""
        made = _Basis(
            self.tableau.copy(),
            self.cost.copy(),
            self.basis.copy(),
            self.nonbasis.copy(),
            self.flipped.copy(),
        )
        limit = 50 * sum(program.cost.shape) + 50 * len(program.tableau)
        status, _ = reoptimise(*made.parts, program.upper, program.bounded, rates, limit)
        if status != OPTIMAL:
            made = _Basis.nothing_dropped(program)
            status, _ = reoptimise(*made.parts, program.upper, program.bounded, rates, limit)
        if status != OPTIMAL:
            raise PlanningError(
                f"the simplex found no optimum in network {program.network.name!r} "
                f"at {rates.tolist()} of the highest rates"
            )
        return made

    def forms(self, program: Program) -> FloatArray:
        """Return the sides of the basis's region: basic variables within their bounds."""
        columns = program.cost.shape[1]
        lower = self.tableau[:, columns:]
        bounded = program.bounded[self.basis]
        above = program.upper[self.basis[bounded]] - lower[bounded]
        return unit_forms(np.concatenate([lower, above]))

    def rule(self, program: Program) -> FloatArray:
        """Return the affine rule of the dropped rates."""
        columns = program.cost.shape[1]
        rule = np.where(self.flipped[:columns, None], program.upper[:columns], 0.0)
        for row, variable in enumerate(self.basis):
            if variable < columns:
                form = self.tableau[row, columns:]
                rule[variable] = rule[variable] - form if self.flipped[variable] else form
        return self._refined(program, rule)

    def _refined(self, program: Program, rule: FloatArray) -> FloatArray:
        """Correct the rule by what the original rows leave over at tight rows."""
        columns = program.cost.shape[1]
        inner = self.basis < columns
        sign = np.where(self.flipped[self.basis[inner]], -1.0, 1.0)[:, None]
        for column, variable in enumerate(self.nonbasis):
            if variable >= columns:
                row = program.tableau[variable - columns]
                rest = row[columns:] - row[:columns] @ rule
                rule[self.basis[inner]] += sign * self.tableau[inner, column, None] * rest
        return rule


class _Search:
    """Breadth-first walk over facets."""

    def __init__(self, program: Program, limit: int) -> None:
        self.program = program
        self.limit = limit
        self.rules: list[FloatArray] = []
        self.facets: list[FloatArray] = []
        self.queue: deque[tuple[_Basis, FloatArray, FloatArray]] = deque()
        self.seen: set[tuple[bytes, bytes]] = set()
        self.table = np.empty((64, len(program.max_rates) + 1))
        self.starts = np.zeros(64, dtype=np.int64)

    def add(self, basis: _Basis) -> None:
        """Record a basis's region unless it is known or has no inside."""
        key = (np.sort(basis.basis).tobytes(), basis.flipped.tobytes())
        if key in self.seen:
            return
        self.seen.add(key)
        forms = basis.forms(self.program)
        if deepest(forms, -1)[-1] <= THIN:
            return
        if len(self.rules) >= self.limit:
            raise RegionLimit(
                f"critical regions must number at most {self.limit}, network "
                f"{self.program.network.name!r} has more; raise max_regions or plan with simplex"
            )
        middles = np.array([deepest(forms, k) for k in range(len(forms))])
        middles = middles.reshape(len(forms), len(self.program.max_rates) + 1)
        real = middles[:, -1] > THIN
        self.rules.append(basis.rule(self.program))
        self._store(forms[real])
        self.queue.append((basis, forms[real], middles[real, :-1]))

    def _store(self, facets: FloatArray) -> None:
        """Append facets to the growing table that ``covered`` reads."""
        self.facets.append(facets)
        known = len(self.facets)
        first, last = self.starts[known - 1], self.starts[known - 1] + len(facets)
        while last > len(self.table):
            self.table = np.concatenate([self.table, np.empty_like(self.table)])
        if known + 1 > len(self.starts):
            self.starts = np.concatenate([self.starts, np.zeros_like(self.starts)])
        self.table[first:last] = facets
        self.starts[known] = last

    def covered(self, rates: FloatArray) -> bool:
        """Whether a known region holds ``rates``."""
        return bool(_any_holds(self.table, self.starts, len(self.facets), rates))

    def walk(self) -> None:
        """Step over every facet of every queued region."""
        while self.queue:
            basis, forms, middles = self.queue.popleft()
            for form, middle in zip(forms, middles, strict=True):
                outside = middle - STEP * form[1:]
                if ((outside >= 0) & (outside <= 1)).all() and not self.covered(outside):
                    self.add(basis.moved(self.program, outside))


def enumerate_regions(program: Program, limit: int = 20_000) -> CriticalRegions:
    """Return every critical region of the rate space [0, max_rate].

    A net of probes guards the walk: a point that no region holds starts it again.
    """
    search = _Search(program, limit)
    inputs = len(program.max_rates)
    first = _Basis.nothing_dropped(program)
    search.add(first)
    search.add(first.moved(program, np.full(inputs, 1.0 - 1e-3)))
    search.walk()
    for probe in np.random.default_rng(0).uniform(size=(PROBES, inputs)):
        if not search.covered(probe):
            search.add(first.moved(program, probe))
            search.walk()
    return _tables(program, search)


def _tables(program: Program, search: _Search) -> CriticalRegions:
    inputs, count = len(program.max_rates), program.location_count
    rules = np.array(search.rules).reshape(len(search.rules), -1, 1 + inputs)
    # The loss of each level outweighs the next: its maximum over regions finds the right one, and
    # its facets confirm it.
    level = 10.0 ** (-5 * np.arange(len(program.cost)))
    value = np.einsum("l,lj,kjp->pk", level, program.cost, rules)
    return CriticalRegions(
        np.ascontiguousarray(value),
        np.ascontiguousarray(rules[:, :count]),
        np.concatenate(search.facets),
        search.starts[: len(rules) + 1].copy(),
    )


@njit(cache=True)
def _holds(
    facets: FloatArray, first: int, last: int, rates: FloatArray, tolerance: float
) -> bool:
    for f in range(first, last):
        if affine(facets, f, rates) < -tolerance:
            return False
    return True


@njit(cache=True)
def _any_holds(facets: FloatArray, starts: IntArray, regions: int, rates: FloatArray) -> bool:
    for k in range(regions):
        if _holds(facets, starts[k], starts[k + 1], rates, INSIDE):
            return True
    return False


@njit(cache=True)
def _region_of(
    value: FloatArray,
    facets: FloatArray,
    starts: IntArray,
    last: int,
    point: FloatArray,
    loss: FloatArray,
) -> int:
    """Return the region that holds ``point``, or -1; ``loss`` is scratch.

    Rates move slowly, so the last region is tried first. Then the region of the largest loss, which
    is right but for ties and rounding; last, all of them.
    """
    if _holds(facets, starts[last], starts[last + 1], point, EXACTLY):
        return last
    regions = value.shape[1]
    for k in range(regions):
        loss[k] = value[0, k]
    for i in range(point.shape[0]):
        rate = point[i]
        for k in range(regions):
            loss[k] += value[i + 1, k] * rate
    largest = 0
    for k in range(1, regions):
        if loss[k] > loss[largest]:
            largest = k
    if _holds(facets, starts[largest], starts[largest + 1], point, EXACTLY):
        return largest
    for k in range(regions):
        if _holds(facets, starts[k], starts[k + 1], point, EXACTLY):
            return k
    return -1


@njit(cache=True)
def _planned(point: FloatArray) -> bool:
    """Whether rates lie in the planned space."""
    for k in range(point.shape[0]):
        if point[k] > 1.0 + ROUNDING:
            return False
    return True


@njit(cache=True)
def select(
    value: FloatArray,
    rule: FloatArray,
    facets: FloatArray,
    starts: IntArray,
    raw_use: FloatArray,
    arrive_rates: FloatArray,
    arrive_drops: FloatArray,
    port: IntArray,
    last: IntArray,
    rates: FloatArray,
    dropped: FloatArray,
    out: FloatArray,
    chosen: IntArray,
) -> int:
    """Find the region of each row of rates and apply its rule; return how many were not found."""
    missing = 0
    loss = np.empty(value.shape[1])
    for row in range(rates.shape[0]):
        point = rates[row]
        if all_fit(raw_use, point):
            dropped[row, :] = 0.0
            out[row, :] = 0.0
            chosen[row] = FEASIBLE
            continue
        region = -1
        if _planned(point):
            region = _region_of(value, facets, starts, last[0], point, loss)
        if region < 0:
            chosen[row] = OUTSIDE
            missing += 1
            continue
        last[0] = region
        chosen[row] = region
        rules = rule[region]
        for a in range(rules.shape[0]):
            dropped[row, a] = max(affine(rules, a, point), 0.0)
        fractions(arrive_rates, arrive_drops, port, point, dropped[row], out[row])
    return missing
