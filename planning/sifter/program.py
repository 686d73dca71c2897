"""The family's problem as a linear program over z (Equation 10, and guarantees), for OR-Tools.

maximise    quality: B + sum_i A_i (1 - d_i), and what QoS lines lie above their chords
budget      sum_i f_i d_i = 1 - z
fairness    t <= d_i <= t + Delta for regions i with queries
bounds      0 <= d_i <= 1 - m, where every region keeps at least m (``min_keep``)
promise     mean completeness >= asked * (1 - e_p), for every guarantee of priority p
gap         u <= mean loss of a tenant <= u + tenant_gap + e
bend        y >= at - completeness and y >= 0, for every corner of a QoS line

The completeness of query q is 1 - sum_i s_qi d_i with the shares s of the statistics. The
shortfalls e_p are minimised first, the most important priority first, and the e of the gap last.
Regions without queries cost nothing, so they are one variable and are dropped at one rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import block_array, csr_array, eye_array

from planning.arrays import BoolArray, FloatArray, IntArray, single_precision
from planning.certifying import TOLERANCE, Check
from planning.families import Definition
from planning.parametric import Program, Solver
from planning.sifter import queries
from planning.sifter.parameters import Parameters
from planning.sifter.plan import Plan
from planning.sifter.queries import terms
from planning.sifter.queries.lines import Bends
from planning.sifter.queries.terms import MIN_COMPLETENESS, Mean, Terms
from planning.sifter.statistics import Statistics

TINY = 1e-9
NEAR = 1e-4  # of the load, beside a place where the setting turns
TURNS = 6  # such places that are checked on both sides
MOST = 32  # loads


@dataclass(frozen=True, eq=False)
class Problem:
    """What a plan is to do for queries; built from statistics and a definition alone.

    Examples
    --------
    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> problem = Problem.of(demo_statistics("sifter"), demo_definition("sifter"))
    >>> problem.special, problem.quality(np.zeros(16)).round(6).tolist()
    (True, [1.0])
    >>> point = Solver(problem.program).optimum(0.5, np.zeros(0))
    >>> best = float(problem.quality(problem.thresholds(point.setting))[0])
    >>> abs(best - demo_plan("sifter").predicted_quality(0.5)) < 1e-6  # what the path finds
    True
    """

    frequency: FloatArray
    region_qos: FloatArray
    queried: BoolArray
    base_qos: float
    fairness_threshold: float
    ceiling: float
    bends: Bends
    bend_weight: FloatArray  # w_q * drop
    bend_loss: Any  # (bends, regions) CSR: what each corner's query loses with a region
    terms: Terms
    losses: Any  # (promises, regions) CSR: what each mean loses with a region
    tenant_losses: Any  # (tenants, regions) CSR

    @classmethod
    def of(cls, statistics: Statistics, definition: Definition[Parameters]) -> Problem:
        """Return the problem of a definition."""
        asked, promised = queries.of(definition), terms.of(definition)
        bends, shape = asked.bends, (asked.count, statistics.partition.regions)
        shares = csr_array(shape)
        if promised.guarantees or bends.at.size:
            known = statistics.known_shares
            shares = csr_array((known.part, known.region, known.start), shape=shape)
        return cls(
            statistics.frequency, statistics.region_qos, statistics.queried, statistics.base_qos,
            definition.parameters.fairness_threshold, 1.0 - definition.parameters.min_keep,
            bends, asked.weight[bends.owner] * bends.drop, shares[bends.owner], promised,
            _means(promised.promises, asked.count) @ shares,
            _means(promised.tenants, asked.count) @ shares,
        )  # fmt: skip

    @property
    def special(self) -> bool:
        """Whether the problem is Equation 10, for which the path is the optimum."""
        return not self.terms.guarantees and not self.bends.at.size

    @property
    def lowest(self) -> float:
        """The z below which no thresholds meet budget and bounds: even dropping is left."""
        return min(1.0, max(0.0, 1.0 - self.ceiling * float(self.frequency.sum())))

    def even(self, load: float) -> FloatArray:
        """Return the thresholds at a load up to the lowest."""
        total = float(self.frequency.sum())
        rate = min(1.0, max(self.ceiling, (1.0 - load) / total)) if total > 0.0 < load else 1.0
        return np.full(self.frequency.size, rate)

    def passed(self, drop_thresholds: FloatArray) -> FloatArray:
        """Return the fraction of the stream that passes, for every row of thresholds."""
        return np.asarray(1.0 - np.atleast_2d(drop_thresholds) @ self.frequency)

    def quality(self, drop_thresholds: FloatArray) -> FloatArray:
        """Return V*(Q), for every row of thresholds."""
        d = np.atleast_2d(drop_thresholds)
        lost = (self.bend_loss @ d.T).T
        lift = self.bends.at * lost - np.maximum(0.0, self.bends.at - 1.0 + lost)
        return np.asarray(self.base_qos + (1.0 - d) @ self.region_qos + lift @ self.bend_weight)

    def kept(self, drop_thresholds: FloatArray) -> FloatArray:
        """Return what every guarantee keeps, in its unit, for every row of thresholds."""
        d = np.atleast_2d(drop_thresholds)
        kept, of_tenants = (self.losses @ d.T).T, (self.tenant_losses @ d.T).T
        least = [one.guarantee.limit == MIN_COMPLETENESS for one in self.terms.promises]
        kept[:, least] = 1.0 - kept[:, least]
        return np.hstack([kept, np.ptp(of_tenants, axis=1)[:, None]]) if self.terms.gap else kept

    def short(self, kept: FloatArray) -> FloatArray:
        """Return by how much guarantees fall short, as a part of the completeness asked for.

        For the gap it is the difference. Negative: they keep more than that.
        """
        given = self.terms.guarantees
        asked = np.array([one.asked for one in self.terms.promises] + [1.0] * bool(self.terms.gap))
        least = np.array([one.limit == MIN_COMPLETENESS for one in given], dtype=np.bool_)
        over = kept - np.array([one.value for one in given])
        return np.asarray(np.where(least, -over, over) / asked)

    def excesses(self, drop_thresholds: FloatArray) -> FloatArray:
        """Return the largest shortfall of every level of guarantees."""
        found = np.zeros(self.terms.levels)
        np.maximum.at(found, self.terms.level, self.short(self.kept(drop_thresholds))[0])
        return found

    @property
    def _variable(self) -> IntArray:
        """The variable of every region; those without queries share the last."""
        return np.where(self.queried, np.cumsum(self.queried) - 1, self.queried.sum())

    def thresholds(self, settings: FloatArray) -> FloatArray:
        """Return the regions' thresholds in settings of the program."""
        return np.asarray(settings[..., self._variable])

    @cached_property
    def program(self) -> Program:
        """The linear program: thresholds, t, u and shortfalls; last the corners' y."""
        place, regions = self._variable, self.frequency.size
        n = int(place.max()) + 1
        merge = csr_array((np.ones(regions), (np.arange(regions), place)), shape=(regions, n))
        at, weight, loss = self._merged(self.bend_loss @ merge)
        members = int(self.queried.sum()) if self.fairness_threshold < 1.0 else 0
        asked = np.array([one.asked for one in self.terms.promises])
        own, excess = np.eye(2 + self.terms.levels), tuple(range(n + 2, n + 2 + self.terms.levels))
        tenants = self.tenant_losses @ merge
        parts: list[tuple[Any, ...]] = [  # rows in d; in t, u and shortfalls; low; high
            (csr_array(merge.T @ self.frequency[:, None]).T, np.zeros((1, len(own))), 1.0, 1.0),
            (eye_array(members, n), np.tile(-own[0], (members, 1)), 0.0, self.fairness_threshold),
            (self.losses @ merge, -asked[:, None] * own[2 + self.terms.level[: asked.size]],
             -np.inf, 1.0 - asked),
        ]  # fmt: skip
        if self.terms.gap:
            window = np.tile(-own[1], (tenants.shape[0], 1))
            parts.append((tenants, window, 0.0, np.inf))
            parts.append((tenants, window - own[-1], -np.inf, self.terms.gap.value))
        core = sum(rows.shape[0] for rows, *_ in parts)
        parts.append((-loss, np.zeros((at.size, len(own))), at - 1.0, np.inf))
        sides = [
            np.concatenate([np.broadcast_to(part[k], part[0].shape[0]) for part in parts])
            for k in (2, 3)
        ]
        y = csr_array((np.ones(at.size), (core + np.arange(at.size), np.arange(at.size))),
                      shape=(core + at.size, at.size))  # fmt: skip
        left = block_array([[rows, csr_array(more)] for rows, more, _, _ in parts], format="csr")
        linear = -(merge.T @ self.region_qos) + (weight * at) @ loss
        return Program(
            gain=np.concatenate([linear, np.zeros(len(own)), -weight]),
            lower=np.zeros(n + len(own) + at.size),
            upper=np.concatenate([np.full(n + 1, self.ceiling), np.ones(len(own) - 1), at]),
            rows=block_array([[left, y]], format="csr"),
            row_low=sides[0],
            row_high=sides[1],
            move=-np.eye(1, core + at.size)[0],
            excess=excess,
            core=(core, n + len(own)),
        )

    def _merged(self, loss: Any) -> tuple[FloatArray, FloatArray, Any]:
        """Return corners: place, weight and loss; those of queries with the same data are one."""
        first: dict[tuple[float, bytes, bytes], int] = {}
        weight: list[float] = []
        rows: list[int] = []
        for k, at in enumerate(self.bends.at.tolist()):
            here = slice(loss.indptr[k], loss.indptr[k + 1])
            data = (at, loss.indices[here].tobytes(), loss.data[here].tobytes())
            if here.start == here.stop:
                continue  # a query without data is complete
            if data not in first:
                first[data] = len(rows)
                rows.append(k)
                weight.append(0.0)
            weight[first[data]] += self.bend_weight[k]
        return self.bends.at[rows], np.array(weight), loss[rows]


def _means(means: Sequence[Mean], count: int) -> Any:
    """Return means over queries as a matrix."""
    sizes = [mean.query.size for mean in means]
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(mean.query for mean in means)])
    weights = np.concatenate([np.zeros(0), *(mean.weight for mean in means)])
    return csr_array((weights, columns, np.cumsum([0, *sizes])), shape=(len(means), count))


class Certifier:
    """Compares a plan with the program of its statistics.

    Examples
    --------
    >>> from planning.certifying import certify
    >>> from planning.examples import demo_definition, demo_plan, demo_statistics
    >>> one = certifier(demo_plan("sifter"), demo_statistics("sifter"), demo_definition("sifter"))
    >>> one.scope, certify(one, "exact", 10.0).status
    ('optimal for these 16 regions', 'optimal')
    """

    def __init__(
        self, plan: Plan, statistics: Statistics, definition: Definition[Parameters]
    ) -> None:
        self.plan, self.problem = plan, Problem.of(statistics, definition)
        self.scope = f"optimal for these {plan.regions} regions"
        self.loads = _cover(plan, definition)
        self._solver = Solver(self.problem.program)
        self._error = 0.0 if plan.traced is None else plan.traced.error
        self._whole = self._of_plan(statistics, definition)
        # Single precision, where the worth of regions is large.
        self._tolerance = TOLERANCE * max(1.0, float(statistics.region_qos.sum()))

    def _of_plan(
        self, statistics: Statistics, definition: Definition[Parameters]
    ) -> dict[str, float]:
        """Return by how much the plan as a whole differs from statistics and definition."""
        plan, problem, parameters = self.plan, self.problem, definition.parameters
        pins, given = queries.pins_of(definition), problem.terms.guarantees
        terms = [[(one.name, one.limit, one.value, one.priority) for one in some]
                 for some in (given, plan.guarantees)]  # fmt: skip
        same = {
            "the regions of the statistics": plan.partition.same(statistics.partition),
            "the frequencies of the statistics": np.array_equal(
                plan.frequency, single_precision(statistics.frequency)
            ),
            "the pins of the definition": np.array_equal(plan.pins.low, pins.low)
            and np.array_equal(plan.pins.high, pins.high),
            "fairness_threshold or min_keep of the definition": (
                plan.fairness_threshold, plan.min_keep
            ) == (parameters.fairness_threshold, parameters.min_keep),
            "the guarantees of the definition": terms[0] == terms[1],
            "the form of the definition": problem.special == (plan.traced is None),
        }  # fmt: skip
        broken = {name: float(not alike) for name, alike in same.items()}
        if plan.traced is None or any(broken.values()):
            return broken
        # Settings are mixed between the loads: what holds at all of them holds everywhere.
        at = plan.traced
        for k, load in enumerate(at.loads.tolist()):
            for name, part in self._broken(load, at.drop_thresholds[k], at.kept[k]).items():
                broken[name] = max(broken.get(name, 0.0), part)
        off = np.abs(problem.quality(at.drop_thresholds) - at.quality)
        return broken | {"the quality that is claimed": float(off.max())}

    def _broken(self, load: float, d: FloatArray, said: FloatArray) -> dict[str, float]:
        """Return by how much a setting breaks each constraint."""
        problem = self.problem
        inside = load >= problem.lowest
        passes = load if inside else float(problem.passed(problem.even(load))[0])
        window = d[problem.queried]
        kept = problem.kept(d)[0]
        off = kept - said
        if problem.terms.gap:
            off[-1] = max(off[-1], 0.0)  # between the loads, what is claimed is the most
        broken = {
            "the budget": abs(float(problem.passed(d)[0]) - passes),
            "fairness": float(np.ptp(window)) - problem.fairness_threshold if window.size else 0.0,
            "the bounds": max(-float(d.min()), float(d.max()) - (problem.ceiling if inside else 1)),
            "what is claimed for guarantees": float(np.abs(off).max(initial=0.0)),
        }
        for one, short in zip(self.plan.guarantees, problem.short(kept), strict=True):
            if load >= one.holds_from:
                broken[str(one)] = float(short)
        return broken

    def check(self, load: float, limit_s: float) -> Check:
        """Compare the plan's setting at a load with the solver's, within a time limit."""
        claimed = self.plan.predicted_quality(load)
        broken = dict(self._whole)
        best = bound = objective = claimed
        if not any(part >= 1.0 for part in broken.values()):
            d = self.plan.at(load).drop_thresholds
            objective = float(self.problem.quality(d)[0])
            broken |= self._broken(load, d, np.array(self.plan.kept(load)))
            best, bound, short = self._best(load, d, objective, limit_s)
            broken["shortfalls"] = short
        traced = self.plan.traced
        if traced is not None and load not in traced.loads:
            claimed = max(claimed, objective)  # between the loads, it is claimed to be at least so
        worst = max(broken, key=lambda name: broken[name])
        return Check(
            load, objective, claimed, best, bound, max(broken[worst], 0.0),
            worst if broken[worst] > 0.0 else "", self._solver.judge, self._tolerance, self._error,
        )  # fmt: skip

    def _best(
        self, load: float, d: FloatArray, objective: float, limit_s: float
    ) -> tuple[float, float, float]:
        """Return the best quality, a bound, and by how much shortfalls exceed the smallest.

        Near 0, a hair of the budget may be worth a lot, so what rounding leaves of it is tried as
        well. The bound is for settings that fall short as much as this one.
        """
        problem = self.problem
        if load <= problem.lowest + TINY:
            only = float(problem.quality(problem.even(load))[0])
            return only, only, 0.0
        own, nothing = problem.excesses(d), problem.base_qos + float(problem.region_qos.sum())
        passed = min(max(float(problem.passed(d)[0]), problem.lowest), 1.0)
        loads = [passed, load] if abs(passed - load) <= TOLERANCE else [load]
        best, bound, over = np.inf, -np.inf, np.inf
        for z in loads:
            least = self._solver.least(z, limit_s)
            point = None if least is None else self._solver.judged(z, least, limit_s)
            if least is None or point is None:
                return objective, np.inf, 0.0
            loose = point
            if (own > least).any():
                loose = self._solver.judged(z, np.maximum(own, least), limit_s) or point
            best, bound = min(best, nothing + point.value), max(bound, nothing + loose.bound)
            over = min(over, float((own - least).max(initial=0.0)))
            if max(best - objective, over) <= self._error + TINY and objective <= bound + TINY:
                break
        return max(best, objective), bound, over - self._error


def _cover(plan: Plan, definition: Definition[Parameters]) -> list[float]:
    """Return loads: those in use, the ends, floors, and beside places where the setting turns."""
    turns = plan.turns
    inside = turns[(turns > NEAR) & (turns < 1.0 - NEAR)]
    some = inside[np.linspace(0, max(inside.size - 1, 0), TURNS).astype(int)[: inside.size]]
    loads = [definition.parameters.throttle_fraction, *definition.gate.loads, 0.0, 1.0]
    loads += [one.holds_from for one in plan.guarantees if 0.0 < one.holds_from < 1.0]
    loads += [float(turn + step) for turn in some for step in (0.0, -NEAR, NEAR)]
    return list(dict.fromkeys(loads))[:MOST]


def certifier(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> Certifier:
    """Return what compares a plan with the program of its statistics."""
    return Certifier(plan, statistics, definition)
