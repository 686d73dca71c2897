"""The family's problem as a linear program in OR-Tools, built from the statistics alone.

With x the fraction of an item that is compared, maximise sum of utility * x over 0 <= x <= 1, as a
share of all utility, subject to

``processing``
    sum of volume * x = load (Section 5.3);
``share[g]``
    what is found of a guarantee's matches >= min_share * (1 - e_p), where the shortfall e_p of its
    priority p has been minimised before, the most important one first.

A basic window is compared in part, so nothing is whole, and the order inside a window needs no row:
more of a denser basic window is never worse.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array

from planning.arrays import FloatArray, sorted_sum
from planning.certifying import TOLERANCE, Check
from planning.families import Definition
from planning.joins import path
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.statistics import Statistics
from planning.parametric import Program, Solver

NEAR = 1e-4  # of the load, beside a place where the setting turns
MOST = 256  # places where the setting turns


def programmed(statistics: Statistics, definition: Definition[Parameters]) -> Program:
    """Return the program: items first, then the shortfalls of the priorities.

    >>> from planning.examples import demo_definition, demo_statistics
    >>> one = programmed(demo_statistics("joins"), demo_definition("joins"))
    >>> one.rows.shape, round(float(one.gain.sum()), 9)
    ((1, 126), 1.0)
    """
    density, _, made = statistics.settled(definition)
    value = (density * made).ravel()
    protected = [(g, t) for g, t in statistics.protected(definition) if t.any()]
    levels = sorted({one.priority for one, _ in protected}, reverse=True)
    asked = np.array([one.value for one, _ in protected])
    short = [[one.value * (one.priority == level) for level in levels] for one, _ in protected]
    n, more, rows = value.size, len(levels), 1 + len(protected)
    table = np.zeros((rows, n + more))
    table[0, :n] = (made / made.sum()).ravel()
    table[1:, :n] = np.reshape([shares for _, shares in protected], (rows - 1, n))
    table[1:, n:] = np.reshape(short, (rows - 1, more))
    return Program(
        gain=np.concatenate((value / (sorted_sum(value) or 1.0), np.zeros(more))),
        lower=np.zeros(n + more),
        upper=np.ones(n + more),
        rows=csr_array(table),
        row_low=np.concatenate(([0.0], asked)),
        row_high=np.concatenate(([0.0], np.full(rows - 1, np.inf))),
        move=np.eye(1, rows)[0],
        excess=tuple(range(n, n + more)),
    )


class Certifier:
    """Compares a plan with the program of its statistics.

    Examples
    --------
    >>> from planning.certifying import certify
    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> one = certifier(demo_plan("joins"), demo_statistics("joins"), demo_definition("joins"))
    >>> one.scope
    'optimal for the estimated densities of these 126 items'
    >>> certify(one, "exact", 10.0).status
    'optimal'
    """

    def __init__(
        self, plan: Plan, statistics: Statistics, definition: Definition[Parameters]
    ) -> None:
        self.plan = plan
        density, hits, made = statistics.settled(definition)
        self._program = programmed(statistics, definition)
        self._solver, self._volumes = Solver(self._program), (made / made.sum()).ravel()
        # A plan for nodes of release 0.1 claims what the samples promise.
        self._lasting = statistics.lasting(definition)[0] if plan.lasting else ()
        protected = statistics.protected(definition)
        self._shares = [(shares.ravel(), bool(shares.any())) for _, shares in protected]
        terms = [(one.name, one.limit, one.value, one.priority) for one, _ in protected]
        given = [(one.name, one.limit, one.value, one.priority) for one in plan.guarantees]
        same = plan.windows == statistics.windows and plan.types == statistics.types
        same = same and np.array_equal(plan.hits, hits) and np.array_equal(plan.comparisons, made)
        off = np.abs(plan.density - density).max() if same else np.inf
        self._alike = {
            "the items of the statistics": same and off <= TOLERANCE * density.max(),
            "the guarantees of the definition": terms == given,
        }
        self.scope = f"optimal for the estimated densities of these {density.size} items"
        turns = np.cumsum(self._volumes[path.rank(density)])
        self.loads = self._cover(plan.guaranteed.loads if plan.guaranteed else turns, definition)

    def _cover(self, turns: FloatArray, definition: Definition[Parameters]) -> list[float]:
        """Return loads: those in use, the ends, floors, where the setting turns and beside it."""
        floors = [one.holds_from for one in self.plan.guarantees if one.holds_from <= 1.0]
        loads = [definition.parameters.load, *definition.gate.loads, 0.0, 1.0, *floors]
        inside = turns[(turns > NEAR) & (turns < 1.0 - NEAR)]
        loads += inside[:: 1 + inside.size // MOST].tolist()
        loads += [float(turn - NEAR) for turn in inside[:: 1 + inside.size // 4]]
        return list(dict.fromkeys(loads))

    def check(self, load: float, limit_s: float) -> Check:
        """Compare the plan's setting at a load with the solver's, within a time limit."""
        claimed = self.plan.predicted_quality(load)
        for what, alike in self._alike.items():
            if not alike:
                return Check(load, claimed, claimed, claimed, claimed, 1.0, what)
        take = self.plan.at(load).take.ravel()
        found = sorted_sum(self._program.gain[: take.size] * take)
        kept = [sorted_sum(shares * take) for shares, _ in self._shares]
        error = self.plan.guaranteed.error if self.plan.guaranteed else 0.0
        broken = {
            "the bounds of an item": max(-float(take.min()), float(take.max()) - 1.0),
            "processing": abs(sorted_sum(self._volumes * take) - load) / max(load, TOLERANCE),
        }
        worst: dict[int, float] = {}
        for one, share, said, (_, some) in zip(
            self.plan.guarantees, kept, self.plan.kept(load), self._shares, strict=True
        ):
            if some:
                lacks = max(1.0 - share / one.value, 0.0)
                worst[one.priority] = max(worst.get(one.priority, 0.0), lacks)
                broken[f"what is claimed for {one.name}"] = abs(said - share)
                broken[str(one)] = lacks - TOLERANCE if load >= one.holds_from else 0.0
        own = np.array([worst[priority] for priority in sorted(worst, reverse=True)])
        best, bound = found, math.inf
        least = self._solver.least(load, limit_s / 2)
        if least is not None:
            broken["shortfalls"] = float((own - least).max(initial=0.0)) - error
            strict = self._solver.judged(load, least, limit_s / 4)
            loose = strict
            if np.any(own > least):
                loose = self._solver.judged(load, np.maximum(own, least), limit_s / 4)
            best = max(strict.value, found) if strict else found
            bound = loose.bound if loose else math.inf
        # Differences count in full, whatever of the promise has lasted.
        objective = self._predicted(load, found)
        name = max(broken, key=lambda name: broken[name])
        return Check(
            load, objective, claimed, objective + best - found, objective + bound - found,
            max(broken[name], 0.0), name if broken[name] > 0.0 else "", self._solver.judge,
            admitted=error,
        )  # fmt: skip

    def _predicted(self, load: float, found: float) -> float:
        """Return the quality to expect where so much is promised."""
        if not self._program.gain.any():
            return load
        lasts = float(np.interp(load, path.LOADS, self._lasting)) if self._lasting else 1.0
        return min(max(load + lasts * (found - load), 0.0), 1.0)


def certifier(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Certifier:
    """Return what compares a plan with the program of its statistics."""
    return Certifier(plan, statistics, definition)
