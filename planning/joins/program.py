"""The family's problem as a linear program in OR-Tools, built from the statistics alone.

With x the fraction of an item that is compared, maximise sum of utility * x over 0 <= x <= 1, as a
share of all utility, subject to

``processing``
    sum of volume * x <= load (Section 5.3);
``share[g]``
    what is found of a guarantee's matches >= min_share * (1 - e_p), where the shortfall e_p of its
    priority p has been minimised before, the most important one first.

A basic window is compared in part, so nothing is whole, and the order inside a window needs no row:
more of a denser basic window is never worse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp

from planning.arrays import FloatArray, sorted_sum
from planning.certifying import TOLERANCE, Check
from planning.families import Definition
from planning.joins import path
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.statistics import Statistics

LARGE = 200_000  # numbers in the rows: beyond, PDLP
PDLP_TOLERANCE = 1e-5
NEAR = 1e-4  # of the load, beside a place where the setting turns
TURNS = 4  # such places that are checked on both sides
MOST = 32  # loads
TINY = 1e-9


class Model:
    """The program, solved again for every load."""

    def __init__(
        self, gain: FloatArray, volumes: FloatArray, shares: FloatArray, asked: FloatArray,
        levels: FloatArray,
    ) -> None:  # fmt: skip
        self.gain, self.asked, self.levels = gain, asked, levels
        self.rows = np.vstack((volumes, shares))
        self.name = "GLOP" if np.count_nonzero(self.rows) <= LARGE else "PDLP"
        solver = self.solver = pywraplp.Solver.CreateSolver(self.name)
        self._x = [solver.NumVar(0.0, 1.0, "") for _ in gain]
        self._short = [solver.NumVar(0.0, 1.0, "") for _ in levels.T]
        infinity = solver.infinity()
        self._bounds = [solver.Constraint(-infinity, 0.0, "processing")]
        self._bounds += [solver.Constraint(low, infinity, "share") for low in asked.tolist()]
        for bound, row in zip(self._bounds, self.rows, strict=True):
            for k in np.flatnonzero(row).tolist():
                bound.SetCoefficient(self._x[k], float(row[k]))
        for g, p in np.argwhere(levels).tolist():
            self._bounds[1 + g].SetCoefficient(self._short[p], float(asked[g]))

    def least(self, load: float, limit_s: float) -> FloatArray | None:
        """Return the smallest shortfalls at a load, one after another; None if the time is over."""
        self._bounds[0].SetUb(load)
        found = np.ones(len(self._short))
        for p, short in enumerate(self._short):
            self._cap(np.minimum(found + TINY, 1.0))
            if not self._solved([short], [-1.0], limit_s):
                return None
            found[p] = short.solution_value()
        return found

    def best(
        self, load: float, caps: FloatArray, limit_s: float
    ) -> tuple[float, float] | None:
        """Return the best quality within shortfalls, and a bound by weak duality.

        With duals y, no x is worth more than y · (sides of the rows) + the positive part of
        (gain - y · rows): true of any y of the right signs, however exact the solver was.
        """
        self._bounds[0].SetUb(load)
        self._cap(caps)
        if not self._solved(self._x, self.gain, limit_s):
            return None
        duals = np.array([bound.dual_value() for bound in self._bounds])
        y = np.concatenate((np.maximum(duals[:1], 0.0), np.minimum(duals[1:], 0.0)))
        bound = float(y @ np.concatenate(([load], self.asked)))
        bound += sorted_sum(np.maximum(self.gain - y @ self.rows, 0.0))
        bound -= float((y[1:] * self.asked) @ self.levels @ caps)
        return sorted_sum(self.gain * [x.solution_value() for x in self._x]), bound

    def _cap(self, caps: FloatArray) -> None:
        for short, cap in zip(self._short, caps.tolist(), strict=True):
            short.SetUb(cap)

    def _solved(self, variables: list[Any], gains: Any, limit_s: float) -> bool:
        goal = self.solver.Objective()
        goal.Clear()
        for variable, worth in zip(variables, gains, strict=True):
            goal.SetCoefficient(variable, float(worth))
        goal.SetMaximization()
        self.solver.SetTimeLimit(max(int(1000.0 * limit_s), 1))
        return bool(self.solver.Solve() == pywraplp.Solver.OPTIMAL)


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
        self._volumes = (made / made.sum()).ravel()
        value = (density * made).ravel()
        self._worth = sorted_sum(value)
        protected = statistics.protected(definition)
        self._asked = np.array([one.value for one, _ in protected])
        self._shares = np.reshape([table for _, table in protected], (-1, value.size))
        terms = [(one.name, one.limit, one.value, one.priority) for one, _ in protected]
        given = [(one.name, one.limit, one.value, one.priority) for one in plan.guarantees]
        self._counts = self._shares.any(axis=1)  # the share of nothing is kept
        priorities = sorted({one.priority for one, _ in protected}, reverse=True)
        levels = np.array([[float(one.priority == p) for p in priorities] for one, _ in protected])
        self._levels = levels.reshape(len(protected), -1)[self._counts]
        self._model = Model(
            value / (self._worth or 1.0), self._volumes, self._shares[self._counts],
            self._asked[self._counts], self._levels,
        )  # fmt: skip
        self._lasting = statistics.lasting(definition)[0]
        same = plan.windows == statistics.windows and plan.types == statistics.types
        same = same and np.array_equal(plan.hits, hits) and np.array_equal(plan.comparisons, made)
        off = np.abs(plan.density - density).max() if same else np.inf
        self._alike = {
            "the items of the statistics": same and off <= TOLERANCE * density.max(),
            "the guarantees of the definition": terms == given,
        }
        self.scope = f"optimal for the estimated densities of these {value.size} items"
        in_turn = np.cumsum(self._volumes[path.rank(density)])
        turns = plan.guaranteed.loads if plan.guaranteed else in_turn
        self.loads = self._cover(turns, definition)

    def _cover(self, turns: FloatArray, definition: Definition[Parameters]) -> list[float]:
        """Return loads: those in use, the ends, and beside places where the setting turns."""
        inside = turns[(turns > NEAR) & (turns < 1.0 - NEAR)]
        some = inside[np.linspace(0, max(inside.size - 1, 0), TURNS).astype(int)[: inside.size]]
        floors = [one.holds_from for one in self.plan.guarantees if 0.0 < one.holds_from < 1.0]
        loads = [definition.parameters.load, *definition.gate.loads, 0.0, 1.0, *floors]
        loads += [float(turn + step) for turn in some for step in (0.0, -NEAR, NEAR)]
        return list(dict.fromkeys(loads))[:MOST]

    def check(self, load: float, limit_s: float) -> Check:
        """Compare the plan's setting at a load with the solver's, within a time limit."""
        claimed = self.plan.predicted_quality(load)
        for what, alike in self._alike.items():
            if not alike:
                return Check(load, claimed, claimed, claimed, claimed, 1.0, what)
        take, model = self.plan.at(load).take.ravel(), self._model
        found = sorted_sum(model.gain * take)
        kept = self._shares @ take
        error = self.plan.guaranteed.error if self.plan.guaranteed else 0.0
        short = np.maximum(1.0 - kept / self._asked, 0.0)[self._counts, None] * self._levels
        own = short.max(axis=0, initial=0.0)
        limit_s /= 2 + self._levels.shape[1]
        least = model.least(load, limit_s)
        strict = None if least is None else model.best(load, least + TINY, limit_s)
        loose = strict
        if least is not None and np.any(own > least + TINY):
            loose = model.best(load, np.maximum(own, least) + TINY, limit_s)
        best, bound = strict[0] if strict else found, loose[1] if loose else max(found, 1.0)
        # Differences count in full, whatever of the promise has lasted.
        objective = self._predicted(load, found)
        broken = {
            "the bounds of an item": max(-float(take.min()), float(take.max()) - 1.0),
            "processing": (sorted_sum(self._volumes * take) - load) / max(load, TOLERANCE),
            "shortfalls": 0.0 if least is None else float((own - least - error).max(initial=0.0)),
        }
        for one, share, said, counts in zip(
            self.plan.guarantees, kept, self.plan.kept(load), self._counts, strict=True
        ):
            broken[f"what is claimed for {one.name}"] = abs(said - share) if counts else 0.0
            if counts and load >= one.holds_from:
                broken[str(one)] = (one.value - share) / one.value - TOLERANCE
        worst = max(broken, key=lambda name: broken[name])
        return Check(
            load, objective, claimed, objective + best - found, objective + bound - found,
            max(broken[worst], 0.0), worst if broken[worst] > 0.0 else "", model.name,
            TOLERANCE if model.name == "GLOP" else PDLP_TOLERANCE, error,
        )  # fmt: skip

    def _predicted(self, load: float, found: float) -> float:
        """Return the quality to expect where so much is promised."""
        if self._worth <= 0.0:
            return load
        lasts = float(np.interp(load, path.LOADS, self._lasting)) if self._lasting else 1.0
        return min(max(load + lasts * (found - load), 0.0), 1.0)


def certifier(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Certifier:
    """Return what compares a plan with the program of its statistics."""
    return Certifier(plan, statistics, definition)
