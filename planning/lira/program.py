"""The throttler problem (Section 3.1.3) as a linear program over the load, for OR-Tools.

On the error axis the convex f is a chain of segments j of slope −r_j. With x_ij, how far level i
goes along segment j, t, the lower end of the window that holds all throttlers, and e_p, by how much
guarantees of priority p are exceeded, as a share:

minimise      Σ m_i·a_i,  a_i = Δmin + Σ_j x_ij
budget        Σ_i w_i·(1 − Σ_j r_j·x_ij) ≤ z·Σ_i w_i
fairness[i]   0 ≤ Σ_j x_ij − t ≤ F for every level with nodes
most[i,p]     Δ(a_i) ≤ most_ip·(1 + e_p), where queries of priority p with a ``max_delta`` look

Because f is convex, the segments fill in order by themselves. Δ(a) is convex as well, the larger of
two lines: so a mixture of two settings keeps what both keep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from planning.arrays import FloatArray
from planning.certifying import TOLERANCE, Check
from planning.errors import InfeasiblePlan
from planning.guarantees import Guarantee
from planning.lira.model import ErrorAxis
from planning.lira.path import GuaranteedPath
from planning.lira.plan import Plan, Setting
from planning.lira.planner import Ground
from planning.lira.queries import queries_of
from planning.parametric import Line, Program, trace
from planning.parametric import _Solver as Solver

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters
    from planning.lira.statistics import Statistics

ROUNDING = 1e-9
SPREAD = 16  # loads that are checked besides the ends, the gate's and the breakpoints
BREAKPOINTS = 4
TABLES = ("ratio", "weight", "inside", "reduction", "errors")
NUMBERS = ("departure", "fairness_threshold", "throttle_fraction", "reports_per_position")


def program_of(
    importance: FloatArray, weight: FloatArray, axis: ErrorAxis, fairness: float, most: FloatArray
) -> Program:
    """Return the program of levels that all have weight; ``most[i, p]`` is ∞ where nobody asks.

    The gain is minus the share of the inaccuracy that Δmax everywhere would cause.
    """
    n, priorities = most.shape
    d, f = axis.curve.thresholds, axis.curve.hull
    rates = -np.diff(f) / np.diff(d)
    bends = np.flatnonzero(np.diff(rates) < -1e-12 * rates[0]) + 1
    bends = np.concatenate([[0], bends, [d.size - 1]])
    steps = np.diff(d[bends])
    rates = -np.diff(f[bends]) / steps
    none = sparse.csr_array((n, priorities))
    along = sparse.csr_array(sparse.kron(sparse.eye_array(n), np.ones((1, steps.size))))
    spent = sparse.csr_array(np.kron(weight / weight.sum(), rates)[None])
    blocks = [
        [spent, None, sparse.csr_array((1, priorities))],
        [along, sparse.csr_array(-np.ones((n, 1))), none],
    ]
    low, high = [np.ones(1), np.zeros(n)], [np.full(1, np.inf), np.full(n, fairness)]
    level, priority = np.nonzero(most < axis.levels[-1])
    limit = most[level, priority]
    eased = sparse.csr_array(
        (-limit, (np.arange(limit.size), priority)), shape=(limit.size, priorities)
    )
    first = axis.levels[1] - axis.levels[0]
    departure = d[1] - axis.levels[1]
    for slope, shift in ((1.0, departure), (first / (first + departure), 0.0)):
        blocks.append([slope * along[level], None, eased])
        low.append(np.full(limit.size, -np.inf))
        high.append(limit + shift - d[0])
    rows = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    scale = float(importance.sum()) * (d[-1] - d[0])
    gain = np.zeros(rows.shape[1])
    gain[: n * steps.size] = np.repeat(-importance / max(scale, 1e-300), steps.size)
    ease = np.maximum(axis.levels[-1] / most.min(axis=0, initial=np.inf) - 1.0, 0.0)
    move = np.zeros(rows.shape[0])
    move[0] = -1.0
    return Program(
        gain, np.zeros(gain.size),
        np.concatenate([np.tile(steps, n), [d[-1] - d[0]], ease]),
        rows, np.concatenate(low), np.concatenate(high), move,
        tuple(range(gain.size - priorities, gain.size)),
    )  # fmt: skip


def guaranteed(made: Plan, ground: Ground) -> Plan:
    """Return the plan with throttlers that keep the guarantees, at loads to interpolate between."""
    most, axis, used = ground.most(), made.axis, made.weight > 0
    program = _program(made, most)
    least = float(axis.curve.hull[-1]) + ROUNDING
    found = trace(program, least, 1.0)
    n = int(np.count_nonzero(used))
    along = found.settings[:, : program.gain.size - 1 - most.shape[1]]
    places = np.empty((found.loads.size, used.size))
    places[:, used] = axis.curve.low + along.reshape(found.loads.size, n, -1).sum(axis=2)
    # A level without weight follows the one below it in its class, or the highest throttler.
    ceiling = np.interp(most.min(axis=1), axis.levels, axis.curve.thresholds)
    for level in np.flatnonzero(~used):
        first = level - level % ground.per_class
        below = np.flatnonzero(used[first:level])
        others = places[:, first + below[-1]] if below.size else places[:, used].max(axis=1)
        places[:, level] = np.minimum(others, ceiling[level])
    # Rounded down, or a throttler would exceed what it must not.
    single = places.astype(np.float32)
    single = np.where(single > places, np.nextafter(single, np.float32(0.0)), single)
    path = GuaranteedPath(
        found.loads.astype(np.float32).astype(np.float64), single.astype(np.float64),
        tuple(Guarantee(p.name, "max_delta", p.value, p.priority, 0.0) for p in ground.promises),
        ground.looks(made), found.error,
    )  # fmt: skip
    kept = replace(made, guaranteed=path)
    held = tuple(
        replace(g, holds_from=_floor(kept, g.value, where))
        for g, where in zip(path.guarantees, path.looks, strict=True)
    )
    return replace(made, guaranteed=replace(path, guarantees=held))


def _floor(plan: Plan, value: float, where: FloatArray) -> float:
    """Return the least load from which on throttlers stay below a value somewhere."""

    def holds(load: float) -> bool:
        return bool(plan.near(load).by_level[where].max(initial=0.0) <= value * (1 + TOLERANCE))

    assert plan.guaranteed is not None
    loads = plan.guaranteed.loads
    broken = [z for z in loads.tolist() if not holds(z)]
    if not broken:
        return 0.0
    low, high = broken[-1], float(loads[np.searchsorted(loads, broken[-1], "right")])
    while high - low > ROUNDING:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return max(high, plan.measured(plan.near(high).by_level))


def _program(made: Plan, most: FloatArray) -> Program:
    used = made.weight > 0
    importance = made.weight * made.ratio
    return program_of(
        importance[used], made.weight[used], made.axis, made.fairness_threshold, most[used]
    )


def certifier(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Certifier:
    """Return what compares the plan with the linear program of the statistics."""
    return Certifier(plan, Ground.of(statistics, *queries_of(definition)), definition)


class Certifier:
    """The program of a plan's regions, with numbers from the statistics.

    A setting is worth 1 − E_P/Δmax. What OR-Tools finds better or bounds is inaccuracy: it counts as
    the quality that so much of it costs on average.
    """

    def __init__(self, plan: Plan, ground: Ground, definition: Definition[Parameters]) -> None:
        self.plan, self._chosen = plan, definition.parameters
        self._made, self._broken = plan, (1.0, "the frame")
        if plan.frame == ground.frame:
            self._made = ground.levelled(plan.partition)
            self._broken = _difference(plan, self._made, ground)
        made = self._made
        self._most = ground.most()
        self.scope = f"optimal for these {made.regions} regions in {made.ratio.size} levels"
        self._used = made.weight > 0
        self._importance = made.weight * made.ratio
        self._solver = Solver(_program(made, self._most), np.inf)
        top = int(np.argmax(made.axis.curve.hull <= made.axis.curve.hull[-1]))
        self._least = float(made.falling[top])
        self._exact: tuple[float, ...] = ()
        wanted = [*definition.gate.loads, made.throttle_fraction, 1.0, self._least, 0.0]
        if plan.guaranteed is not None:
            loads = plan.guaranteed.loads
            some = loads[np.unique(np.linspace(1, loads.size - 2, BREAKPOINTS).astype(int))]
            shed = [max(z, made.measured(plan.near(z).by_level)) for z in some.tolist()]
            self._exact = tuple(shed)
            wanted += [z + step for z in shed for step in (0.0, -1e-4, 1e-4)]
        between = np.arange(1, SPREAD + 1) * 0.6180339887498949 % 1.0
        wanted += (self._least + (1.0 - self._least) * between).tolist()
        self.loads = tuple(dict.fromkeys(min(max(float(z), 0.0), 1.0) for z in wanted))

    def check(self, load: float, limit_s: float) -> Check:
        """Compare the throttlers at a load with those of GLOP."""
        claimed = self.plan.predicted_quality(load)
        if self._broken[0] > TOLERANCE:
            return Check(load, claimed, claimed, claimed, 1.0, *self._broken)
        made, setting = self._made, self.plan.at(load)
        by_level = setting.by_level
        axis, errors = made.axis.curve, made.errors
        places = np.interp(by_level, made.axis.levels, axis.thresholds)[self._used]
        loss = float(made.inside @ np.interp(by_level, made.frame.thresholds, errors))
        beyond = made.beyond(load)
        quality = float(np.clip(1.0 - loss * beyond / made.frame.high, 0.0, 1.0))
        worst = float(made.inside.sum() * errors[-1]) * beyond / made.frame.high
        wide = axis.high - axis.low
        importance = self._importance[self._used]
        inaccuracy = float(importance @ (places - axis.low)) / max(importance.sum() * wide, 1e-300)
        spent = made.measured(by_level)
        own = float(made.weight[self._used] @ np.interp(places, axis.thresholds, axis.hull))
        own /= float(made.weight.sum())
        excess = [
            max(0.0, float((by_level / most).max()) - 1.0) for most in self._most.T
        ]
        asked = max(load, float(axis.hull[-1]))
        # Where the measured f lies above the convex one, what it leaves of the budget is less.
        fair = own if spent >= load - TOLERANCE * load else asked
        error = self.plan.guaranteed.error if self.plan.guaranteed is not None else 0.0
        error = 0.0 if load in self._exact else error
        found = self._violations(setting, load, spent, places)
        caps: list[Line] = []
        for p, beyond_most in enumerate(excess):
            self._solver.aim(p)
            best = self._solver._solved(fair + ROUNDING, caps, limit_s)
            if best is not None:
                short = beyond_most + best.value - error
                found.append((short, f"what is left of the guarantees of rank {p + 1}"))
            caps.append(Line(beyond_most, 0.0))
        self._solver.aim(None)
        solved = self._solver._solved(fair + ROUNDING, caps, limit_s)
        honest = self._solver._solved(asked + ROUNDING, caps, limit_s)
        if solved is None or honest is None:
            return Check(load, quality, claimed, quality, 1.0, *max(found))
        found.append((inaccuracy + solved.value - error, "the best that its budget allows"))
        best_quality = quality + worst * (honest.value + inaccuracy)
        bound = quality + worst * (honest.tangent.at(honest.load) + inaccuracy)
        return Check(load, quality, claimed, best_quality, bound, *max(found))

    def _violations(
        self, setting: Setting, load: float, spent: float, places: FloatArray
    ) -> list[tuple[float, str]]:
        """Return by how much the setting breaks each constraint, as a part of it."""
        made, by_level = self._made, setting.by_level
        frame, wide = made.frame, made.frame.high - made.frame.low
        stated = abs(setting.expenditure - made.expenditure(by_level))
        outside = max(frame.low - float(by_level.min()), float(by_level.max()) - frame.high)
        uneven = np.abs(setting.throttlers - by_level[made.level]).max()
        return [
            ((spent - max(load, self._least)) / max(load, self._least), "its budget"),
            ((float(np.ptp(places)) - made.fairness_threshold) / wide, "fairness"),
            (outside / wide, "Δmin and Δmax"),
            (float(uneven) / frame.high, "one throttler per level"),
            (stated, "the expenditure that it states"),
        ]


def _difference(plan: Plan, made: Plan, ground: Ground) -> tuple[float, str]:
    """Return how a plan differs most from what the statistics make of its regions."""
    if ground.cut(plan.partition).regions != plan.regions:
        return 1.0, "regions that end where guaranteed queries do"
    if plan.ratio.size != made.ratio.size or not np.array_equal(plan.level, made.level):
        return 1.0, "the levels of its regions"
    found = [(0.0, "")]
    for name in (*TABLES, *NUMBERS):
        ours, theirs = (np.atleast_1d(np.asarray(getattr(p, name))) for p in (plan, made))
        scale = np.maximum(np.abs(theirs), 1e-12 * np.abs(theirs).max())
        apart = np.abs(ours - theirs) / np.where(scale > 0, scale, 1.0)
        found.append((float(apart.max()), name))
    kept = plan.guaranteed
    asked = [(p.name, p.value, p.priority) for p in ground.promises]
    if [(g.name, g.value, g.priority) for g in plan.guarantees] != asked or (
        kept is not None and not np.array_equal(kept.looks, ground.looks(made))
    ):
        found.append((1.0, "the guarantees of the definition"))
    return max(found)
