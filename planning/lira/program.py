"""The throttler problem (Section 3.1.3) as a linear program over the load, for OR-Tools.

On the error axis the convex f is a chain of segments j of slope −r_j. With x_ij, how far level i
goes along segment j, t, the lower end of the window that holds all throttlers, and e_p, by how much
guarantees of priority p are exceeded, as a share:

minimise      Σ m_i·a_i,  a_i = Δmin + Σ_j x_ij
budget        Σ_i w_i·(1 − Σ_j r_j·x_ij) ≤ z·Σ_i w_i
fairness[i]   0 ≤ Σ_j x_ij − t ≤ F for every level with nodes, or with a guarantee
most[i,p]     Δ(a_i) ≤ most_ip·(1 + e_p), where queries of priority p with a ``max_delta`` look

Because f is convex, the segments fill in order by themselves. Δ(a) is convex as well, the larger of
two lines: so a mixture of two settings keeps what both keep. Below the measured f, which need not
be convex, a plan goes down its path to where the measured budget is met.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from planning.arrays import BoolArray, FloatArray, frozen
from planning.certifying import TOLERANCE, Check, Contradiction
from planning.guarantees import NOWHERE
from planning.lira.model import ErrorAxis
from planning.lira.path import GuaranteedPath
from planning.lira.plan import Plan, Setting
from planning.lira.planner import Ground
from planning.lira.queries import promises_of, queries_of
from planning.parametric import Program, Solver, trace

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters
    from planning.lira.statistics import Statistics

ROUNDING = 1e-9  # of loads
NOTHING = 1e-6  # an excess that is the solver's tolerance
LOWEST = 1e-7  # a load so far above what Δmax leaves is solved; at Δmax nothing can be chosen
LAST_DIGITS = 2e-7  # what that tolerance makes of a limit
TINY = 1e-12
SPREAD = 16  # loads that are checked besides the ends and the gate's, without breakpoints
NEAR = 1e-4  # how far from breakpoints their neighbours are checked
TABLES = ("ratio", "weight", "inside", "reduction", "errors")
NUMBERS = ("departure", "fairness_threshold", "throttle_fraction", "reports_per_position")


def program_of(
    importance: FloatArray, weight: FloatArray, axis: ErrorAxis, fairness: float, most: FloatArray
) -> Program:
    """Return the program of levels; ``most[i, p]`` is ∞ where nobody asks.

    Lengths are shares of the axis. The gain is minus the share of the inaccuracy that Δmax
    everywhere would cause; Σ_j x_ij of all levels come first, then t, then e.

    >>> from planning.lira.model import ReductionCurve
    >>> axis = ErrorAxis.of(ReductionCurve.of([5, 10, 15], [1.0, 0.5, 0.3]), departure=0.0)
    >>> most = np.array([[np.inf], [12.0]])
    >>> made = program_of(np.array([3.0, 1.0]), np.ones(2), axis, 10.0, most)
    >>> along = Solver(made).optimum(0.5, np.zeros(1)).setting[:4].reshape(2, 2).sum(axis=1)
    >>> (5.0 + 10.0 * along).round(5).tolist()
    [9.2, 12.0]
    """
    n, priorities = most.shape
    d, f = axis.curve.thresholds, axis.curve.hull
    wide = d[-1] - d[0]
    rates = -np.diff(f) / np.diff(d)
    bends = np.flatnonzero(np.diff(rates) < -1e-12 * rates[0]) + 1
    bends = np.concatenate([[0], bends, [d.size - 1]])
    steps, falls = np.diff(d[bends]) / wide, -np.diff(f[bends])
    along = sparse.csr_array(sparse.kron(sparse.eye_array(n), np.ones((1, steps.size))))
    spent = sparse.csr_array(np.kron(weight / weight.sum(), falls / steps)[None])
    blocks = [
        [spent, None, sparse.csr_array((1, priorities))],
        [along, sparse.csr_array(-np.ones((n, 1))), None],
    ]
    low, high = [np.ones(1), np.zeros(n)], [np.full(1, np.inf), np.full(n, fairness / wide)]
    level, priority = np.nonzero(most < axis.levels[-1])
    limit = most[level, priority] / wide
    eased = sparse.csr_array(
        (-limit, (np.arange(limit.size), priority)), shape=(limit.size, priorities)
    )
    first = axis.levels[1] - axis.levels[0]
    departure = d[1] - axis.levels[1]
    for slope, shift in ((1.0, departure), (first / (first + departure), 0.0)):
        blocks.append([slope * along[level], None, eased])
        low.append(np.full(limit.size, -np.inf))
        high.append(limit + (shift - d[0]) / wide)
    rows = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    gain = np.zeros(rows.shape[1])
    gain[: n * steps.size] = np.repeat(-importance / (importance.sum() or 1.0), steps.size)
    ease = np.maximum(axis.levels[-1] / most.min(axis=0, initial=np.inf) - 1.0, 0.0)
    move = np.zeros(rows.shape[0])
    move[0] = -1.0
    return Program(
        gain, np.zeros(gain.size), np.concatenate([np.tile(steps, n), [1.0], ease]), rows,
        np.concatenate(low), np.concatenate(high), move,
        tuple(range(gain.size - priorities, gain.size)),
    )  # fmt: skip


class Levels:
    """The program of a plan's levels, with the guarantees of the definition."""

    def __init__(self, made: Plan, ground: Ground) -> None:
        self.made, self.most = made, ground.most(made)
        self.bound: BoolArray = (made.weight > 0) | np.isfinite(self.most).any(axis=1)
        self.importance = made.weight * made.ratio
        self.program = program_of(
            self.importance[self.bound], made.weight[self.bound], made.axis,
            made.fairness_threshold, self.most[self.bound],
        )  # fmt: skip

    def places(self, settings: FloatArray) -> FloatArray:
        """Return the places of all levels: one that is not bound follows the one below it."""
        axis, inner = self.made.axis.curve, self.program.gain.size - 1 - self.most.shape[1]
        bound = np.flatnonzero(self.bound)
        along = settings[:, :inner].reshape(len(settings), bound.size, -1).sum(axis=2)
        before = np.searchsorted(bound, np.arange(self.bound.size), side="right") - 1
        return np.asarray(axis.low + (axis.high - axis.low) * along[:, np.maximum(before, 0)])

    def inaccuracy(self, places: FloatArray) -> FloatArray:
        """Return the inaccuracy of places as a share of what Δmax everywhere would cause."""
        axis = self.made.axis.curve
        share = (places - axis.low) / (axis.high - axis.low)
        return np.asarray(share @ self.importance / (self.importance.sum() or 1.0))


def guaranteed(made: Plan, ground: Ground) -> Plan:
    """Return the plan with throttlers that keep the guarantees, at loads to interpolate between."""
    problem, axis = Levels(made, ground), made.axis.curve
    floor = float(axis.hull[-1])
    found = trace(problem.program, floor + LOWEST, 1.0)
    places = problem.places(found.settings)
    for p, column in enumerate(problem.program.excess):
        kept = np.ix_(found.settings[:, column] <= NOTHING, np.isfinite(problem.most[:, p]))
        places[kept] = np.minimum(places[kept], _below(made, problem.most[kept[1][0], p]))
    places = np.minimum(places, places.min(axis=1, keepdims=True) + made.fairness_threshold)
    # Where nothing can be chosen, all levels with nodes are where f has fallen to its least.
    top = float(axis.thresholds[np.argmax(axis.hull <= floor)])
    empty = np.maximum(places[0], top - made.fairness_threshold)
    places = np.vstack([np.where(made.weight > 0, top, empty), places])
    # No throttler rises with the load: where the solver chose among equals, the higher one counts.
    places = np.maximum.accumulate(places[::-1])[::-1]
    # What that costs, of the gain and of what guarantees are exceeded by, adds to the error.
    rows = np.append(0, np.arange(found.loads.size))
    by_level = made.axis.thresholds(places)
    excess = (by_level[:, :, None] / problem.most).max(axis=1) - 1.0
    excess -= found.settings[rows][:, list(problem.program.excess)]
    lost = max((problem.inaccuracy(places) + found.values[rows]).max(), excess.max(initial=0.0))
    error = max(found.error, found.excess_error) + max(0.0, float(lost))
    path = GuaranteedPath(
        frozen(np.append(floor, found.loads)), frozen(places), ground.promises.guarantees,
        ground.looks(made), error,
    )  # fmt: skip
    kept_plan = replace(made, guaranteed=path)
    held = tuple(
        replace(g, holds_from=_held_from(kept_plan, path, g.value, some))
        for g, some in zip(path.guarantees, path.looks, strict=True)
    )
    return replace(made, guaranteed=replace(path, guarantees=held))


def _below(made: Plan, values: FloatArray) -> FloatArray:
    """Return the places of throttlers, by a last digit too low: no rounding may exceed them."""
    places = np.interp(values, made.axis.levels, made.axis.curve.thresholds)
    return np.asarray(places * (1.0 - TINY))


def _held_from(plan: Plan, path: GuaranteedPath, value: float, some: BoolArray) -> float:
    """Return the least load from which on throttlers of some levels stay below a value."""
    limit = np.inf if value >= plan.frame.high else float(_below(plan, np.array([value]))[0])
    here = path.places[:, some]
    broken = np.flatnonzero((here > limit).any(axis=1))
    if not broken.size:
        return 0.0
    left = int(broken[-1])
    if left == path.loads.size - 1:
        return NOWHERE
    below, above = here[left : left + 2]
    over = below > limit
    part = float(((below[over] - limit) / (below[over] - above[over])).max())
    load = float(path.loads[left] + part * (path.loads[left + 1] - path.loads[left]))
    load = max(load, plan.measured(plan.near(load).by_level))
    return min(load + ROUNDING, 1.0) if load <= 1.0 else NOWHERE


def certifier(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Certifier:
    """Return what compares the plan with the linear program of the statistics."""
    ground = Ground.of(
        statistics, *queries_of(definition), definition.parameters, promises_of(definition)
    )
    return Certifier(plan, ground, definition.gate.loads)


class Certifier:
    """The program of a plan's regions, with numbers from the statistics.

    The quality of a setting is 1 − E_P/Δmax. What is optimal, and bounded, is the inaccuracy: what
    the solver saves of it, as a share of what Δmax everywhere would cause, counts as quality. Where
    the measured f lies above the convex one, a setting must be the best of those that spend as much
    by the convex f, and the bound is that of the convex f with the whole budget.
    """

    def __init__(self, plan: Plan, ground: Ground, gate_loads: tuple[float, ...]) -> None:
        self.plan, self._ground = plan, ground
        self._made = made = _agreed(plan, ground)
        self.scope = f"optimal for these {made.regions} regions in {made.ratio.size} levels"
        self._problem = Levels(made, ground)
        self._solver = Solver(self._problem.program)
        self._looks = ground.looks(made)
        hull = made.axis.curve.hull
        least = self._floor = float(hull[-1])
        lowest = made.axis.levels[np.argmax(hull <= least)]
        self._least = made.measured(np.full(made.weight.size, lowest))
        wanted = [*gate_loads, made.throttle_fraction]
        self._exact: dict[float, float] = {}
        if plan.guaranteed is None:
            golden = np.arange(1, SPREAD + 1) * 0.6180339887498949 % 1.0
            wanted += [1.0, self._least, 0.0, *(least + (1.0 - least) * golden)]
        else:
            self._exact = _at_breakpoints(made, plan.guaranteed.loads)
            every = list(self._exact)
            solved = [z for k in range(4) for z in every[k::4]]  # all over: time may be short
            wanted += sorted({g.holds_from for g in plan.guarantees})
            wanted += [*solved, 1.0, self._least, 0.0]
            wanted += [z + step for z in solved for step in (-NEAR, NEAR)]
        self.loads = tuple(dict.fromkeys(min(max(float(z), 0.0), 1.0) for z in wanted))

    def check(self, load: float, limit_s: float) -> Check:
        """Compare the throttlers at a load with those of GLOP."""
        claimed = self.plan.predicted_quality(load)
        made, problem, setting = self._made, self._problem, self.plan.at(load)
        by_level, axis = setting.by_level, made.axis
        loss = float(made.inside @ np.interp(by_level, made.frame.thresholds, made.errors))
        quality = float(np.clip(1.0 - loss * made.beyond(load) / made.frame.high, 0.0, 1.0))
        places = np.interp(by_level, axis.levels, axis.curve.thresholds)
        violation, broken = max(self._violations(load, setting, places))
        if not (violation <= TOLERANCE and math.isfinite(quality)):
            return Check(load, quality, claimed, quality, math.inf, violation, broken)
        excess = np.maximum((by_level[:, None] / problem.most).max(axis=0) - 1.0, 0.0)
        exact = load in self._exact and bool((excess <= NOTHING).all())
        admitted = 0.0 if exact or self.plan.guaranteed is None else self.plan.guaranteed.error
        inaccuracy = float(problem.inaccuracy(places))
        # Where the budget is used up, the setting answers for what it spends by the convex f.
        own = asked = max(load, self._floor)
        if exact:
            own = self._exact[load]
        elif made.measured(by_level) >= load * (1.0 - TOLERANCE):
            own = float(made.weight @ axis.curve.convex(places)) / made.weight.sum()
        best = bound = quality  # if Δmax is all that can be chosen
        if own > self._floor + LOWEST:
            least = self._solver.least(own + ROUNDING, limit_s)
            point = None if least is None else self._solver.optimum(own + ROUNDING, least, limit_s)
            if least is not None and point is not None:
                better = inaccuracy + point.value
                better = abs(better) if exact else better  # solved for this budget, not another
                better -= LAST_DIGITS * float(point.prices.sum())
                words = [f"guarantees of priority {p}" for p in self._ground.priorities]
                violation, broken = max(
                    (violation, broken), (better - admitted, "optimality for what it spends"),
                    *zip((excess - least - admitted).tolist(), words, strict=True),
                )  # fmt: skip
        if asked > self._floor + LOWEST:
            honest = self._solver.optimum(asked + ROUNDING, excess + LAST_DIGITS, limit_s)
            best, bound = quality, math.inf
            if honest is not None:
                best = quality + max(0.0, inaccuracy + honest.value)
                bound = quality + inaccuracy + honest.bound - honest.slope * ROUNDING
        return Check(load, quality, claimed, best, bound, violation, broken, admitted=admitted)

    def _violations(
        self, load: float, setting: Setting, places: FloatArray
    ) -> list[tuple[float, str]]:
        """Return by how much a setting breaks each constraint, as a part of it."""
        made, by_level = self._made, setting.by_level
        low, wide = made.frame.low, made.frame.high - made.frame.low
        budget = max(load, self._least)
        stated = setting.expenditure - float(made.weight @ made.curve(by_level)) / made.weight.sum()
        found = [
            (made.measured(by_level) / budget - 1.0, "its budget"),
            ((np.ptp(places) - made.fairness_threshold) / wide, "fairness"),
            (np.abs((by_level - low) / wide - 0.5).max() - 0.5, "Δmin and Δmax"),
            (np.abs(setting.throttlers - by_level[made.level]).max() / wide, "levels"),
            (abs(stated), "the expenditure that it states"),
        ]
        found += [
            (by_level[some].max(initial=0.0) / g.value - 1.0, str(g))
            for g, some in zip(self.plan.guarantees, self._looks, strict=True)
            if load >= g.holds_from
        ]
        return [(float(part), name) for part, name in found]


def _at_breakpoints(made: Plan, loads: FloatArray) -> dict[float, float]:
    """Return, by load, the loads on the path whose settings were solved and not mixed."""
    found = {}
    for z in loads.tolist():
        here = made.near(z).by_level
        load = min(max(z, made.measured(here)), 1.0)
        if np.abs(made.at(load).by_level - here).max() <= ROUNDING * made.frame.high:
            found[load] = z
    return found


def _agreed(plan: Plan, ground: Ground) -> Plan:
    """Return what the statistics make of a plan's regions, with its path; raise if it differs."""
    if plan.frame != ground.frame or ground.cut(plan.partition).regions != plan.regions:
        raise _contradiction("its grid, or where its regions end,")
    made = ground.levelled(plan.partition)
    if not np.array_equal(plan.level, made.level):
        raise _contradiction("the levels of its regions")
    for name in (*TABLES, *NUMBERS):
        ours, theirs = (np.atleast_1d(np.asarray(getattr(p, name))) for p in (plan, made))
        scale = np.maximum(np.abs(theirs), TINY * np.abs(theirs).max())
        if ours.shape != theirs.shape or not (np.abs(ours - theirs) <= TOLERANCE * scale).all():
            raise _contradiction(name)
    asked = [replace(g, holds_from=NOWHERE) for g in plan.guarantees]
    if asked != list(ground.promises.guarantees):
        raise _contradiction("what it guarantees")
    path = plan.guaranteed
    if path is not None and not np.array_equal(path.looks, ground.looks(made)):
        raise _contradiction("where its guarantees apply")
    return replace(made, guaranteed=path)


def _contradiction(what: str) -> Contradiction:
    return Contradiction(
        f"the certificate contradicts the plan: {what} must be what the statistics make of its "
        "regions, got something else; report this with its statistics"
    )
