"""Critical regions: all optimal bases of the program, each with its affine rule.

The rates enter only the right-hand side, so each dual feasible basis is optimal on a polytope of
the rate space and the dropped rates are affine there (multi-parametric linear programming). The
regions are found by stepping over facets: from the middle of a facet a tiny step outwards, and a
few dual pivots give the neighbour's basis.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from planning.arrays import FloatArray
from planning.errors import PlanningError
from planning.fit.kernels.lookup import any_holds
from planning.fit.path import CriticalRegions
from planning.fit.simplex.dual import OPTIMAL, REFRESH, Basis, Problem, solve, start
from planning.fit.simplex.polytope import deepest, unit_forms
from planning.fit.simplex.shedding import SheddingProgram

STEP = 1e-7
THIN = 1e-9
PROBES = 2000
WORK = 8e5
"""Steps that the search may take per region of its limit: about ten seconds for 5,000."""


class RegionLimit(PlanningError):
    """There are more critical regions than limit, memory or a reasonable time allow."""


def _nothing_dropped(problem: Problem) -> Basis:
    rows, columns = len(problem.tableau), problem.cost.shape[1]
    basis = Basis(
        np.empty_like(problem.tableau),
        np.empty_like(problem.cost),
        np.empty(rows, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty(rows + columns, dtype=np.int64),
    )
    start(problem, basis)
    return basis


def _sides(program: SheddingProgram, basis: Basis) -> FloatArray:
    """Return the sides of the basis's region: basic variables within their bounds."""
    lower = basis.tableau[:, program.cost.shape[1] :]
    bounded = program.bounded[basis.basic] > 0
    above = program.upper[basis.basic[bounded]] - lower[bounded]
    return unit_forms(np.concatenate([lower, above]))


def _rule(program: SheddingProgram, basis: Basis) -> FloatArray:
    """Return the affine rule of the dropped rates."""
    columns = program.cost.shape[1]
    rule = np.where(basis.flipped[:columns, None] > 0, program.upper[:columns], 0.0)
    for row, variable in enumerate(basis.basic):
        if variable < columns:
            form = basis.tableau[row, columns:]
            rule[variable] = rule[variable] - form if basis.flipped[variable] else form
    return _refined(program, basis, rule)


def _refined(program: SheddingProgram, basis: Basis, rule: FloatArray) -> FloatArray:
    """Correct the rule by the residuals of the original rows where they are tight."""
    columns = program.cost.shape[1]
    inner = basis.basic < columns
    sign = np.where(basis.flipped[basis.basic[inner]] > 0, -1.0, 1.0)[:, None]
    for column, variable in enumerate(basis.nonbasic):
        if variable >= columns:
            row = program.tableau[variable - columns]
            rest = row[columns:] - row[:columns] @ rule
            rule[basis.basic[inner]] += sign * basis.tableau[inner, column, None] * rest
    return rule


def _tight(program: SheddingProgram, basis: Basis, rule: FloatArray) -> bool:
    """Whether the rule uses up every row that the basis says is used up, all over the region."""
    columns = program.cost.shape[1]
    rows = program.tableau[basis.nonbasic[basis.nonbasic >= columns] - columns]
    return bool((np.abs(rows[:, columns:] - rows[:, :columns] @ rule) < THIN).all())


class _Search:
    """Breadth-first walk over facets."""

    def __init__(self, program: SheddingProgram, limit: int, memory_bytes: float) -> None:
        self.program = program
        self.limit = limit
        self.memory_bytes = memory_bytes
        self.work = 0
        self.problem = Problem(program.tableau, program.cost, program.upper, program.bounded)
        self.origin = _nothing_dropped(self.problem)
        self.rules: list[FloatArray] = []
        self.facets: list[FloatArray] = []
        self.queue: deque[tuple[Basis, FloatArray, FloatArray]] = deque()
        self.seen: set[tuple[bytes, bytes]] = set()
        self.table = np.empty((64, len(program.max_rates) + 1))
        self.starts = np.zeros(64, dtype=np.int64)

    def add(self, basis: Basis) -> None:
        """Record a basis's region unless it is known or has no interior."""
        key = (np.sort(basis.basic).tobytes(), basis.flipped.tobytes())
        if key in self.seen:
            return
        self.seen.add(key)
        forms = _sides(self.program, basis)
        if deepest(forms, -1)[-1] <= THIN:
            return
        self._check_limits(forms)
        middles = np.array([deepest(forms, k) for k in range(len(forms))])
        middles = middles.reshape(len(forms), len(self.program.max_rates) + 1)
        real = middles[:, -1] > THIN
        rule = _rule(self.program, basis)
        if not _tight(self.program, basis, rule):
            return  # too close to another basis: the simplex answers there
        self.rules.append(rule)
        self._store(forms[real])
        self.queue.append((basis, forms[real], middles[real, :-1]))

    def _check_limits(self, forms: FloatArray) -> None:
        """Give up as soon as it is clear that the search is in vain, not when it has failed."""
        sides, width = forms.shape
        self.work += sides * (sides + 2 * width) * width**2
        values = len(self.rules) * (self.program.location_count + 1) + self.starts[len(self.rules)]
        allowed = ""
        if len(self.rules) >= self.limit:
            allowed = f"number at most {self.limit}"
        elif 8 * width * int(values) > self.memory_bytes:
            allowed = f"fit in {self.memory_bytes:,.0f} bytes"
        elif self.work > WORK * self.limit:
            allowed = f"be found in the time for {self.limit} small ones"
        if allowed:
            raise RegionLimit(
                f"critical regions must {allowed}, network {self.program.network.name!r} with "
                f"{width - 1} inputs has more after {len(self.rules)}; raise max_regions and "
                "memory_bytes, or plan with simplex"
            )

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
        return bool(any_holds(self.table, self.starts, len(self.facets), rates))

    def moved(self, basis: Basis, rates: FloatArray) -> Basis:
        """Return the optimal basis at ``rates``, from a neighbour's, with a new tableau."""
        out = np.empty(self.program.cost.shape[1])
        for known in (basis, self.origin):
            copy = Basis._make(part.copy() for part in known)
            if solve(self.problem, copy, np.array([REFRESH + 1]), rates, out) == OPTIMAL:
                return copy
        raise PlanningError(
            f"the simplex found no optimum in network {self.program.network.name!r} "
            f"at {rates.tolist()} of the highest rates"
        )

    def walk(self) -> None:
        """Step over every facet of every queued region."""
        while self.queue:
            basis, forms, middles = self.queue.popleft()
            for form, middle in zip(forms, middles, strict=True):
                outside = middle - STEP * form[1:]
                if ((outside >= 0) & (outside <= 1)).all() and not self.covered(outside):
                    self.add(self.moved(basis, outside))


def enumerate_regions(
    program: SheddingProgram, limit: int = 20_000, memory_bytes: float = np.inf
) -> CriticalRegions:
    """Return every critical region of the rate space [0, max_rate].

    A net of probes guards the walk: a point in no region restarts it.
    """
    search = _Search(program, limit, memory_bytes)
    inputs = len(program.max_rates)
    search.add(search.origin)
    search.add(search.moved(search.origin, np.full(inputs, 1.0 - 1e-3)))
    search.walk()
    for probe in np.random.default_rng(0).uniform(size=(PROBES, inputs)):
        if not search.covered(probe):
            search.add(search.moved(search.origin, probe))
            search.walk()
    if not search.rules:
        raise RegionLimit(
            f"critical regions of network {program.network.name!r} must be wider than rounding, "
            "all are narrower; lower max_rate or plan with simplex"
        )
    return _tables(program, search)


def _tables(program: SheddingProgram, search: _Search) -> CriticalRegions:
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
