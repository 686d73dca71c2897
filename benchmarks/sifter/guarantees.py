"""Sifter: plans with guarantees against HiGHS, and what they take."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, lil_array

from benchmarks.rows import Row, row
from planning import streams
from planning.arrays import FloatArray, frozen, frozen_ints
from planning.parametric import trace
from planning.sifter import planner, queries
from planning.sifter.model import Nested, Partition
from planning.sifter.path import Path
from planning.sifter.plan import Traced
from planning.sifter.program import Problem
from planning.sifter.queries.shares import Shares
from planning.sifter.statistics import Statistics
from planning.streams import StreamDefinition

SIZED = (2, 1, 4)  # seeds of the large instances; fairness thresholds of 1, 0.55 and 0.78
FLAT = 1e-9
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""What HiGHS, and single precision, may be off."""


def tree(regions: int) -> Nested:
    """Return a partition of [0, 1) into equal stretches."""

    def part(low: int, high: int) -> Nested:
        if high - low == 1:
            return None
        middle = (low + high) // 2
        return (0, middle / regions, part(low, middle), part(middle, high))

    return part(0, regions)


def line(rng: np.random.Generator) -> list[list[float]]:
    """Return a random concave QoS line."""
    corners = np.sort(rng.random(rng.integers(1, 4)).round(3))
    x = np.unique([0.0, *corners, 1.0])
    rises = np.sort(rng.random(x.size - 1))[::-1] * np.diff(x)
    first = float(rng.choice([0.0, 0.2]))
    y = first + np.append(0.0, np.cumsum(rises)) / rises.sum() * (1.0 - first)
    y[-1] = 1.0
    return np.column_stack([x, np.minimum(y, 1.0)]).tolist()


def instance(
    seed: int, regions: int = 0, count: int = 0, guarantees: int = -1, terms: bool = True
) -> tuple[StreamDefinition, Statistics]:
    """Return random and degenerate statistics, and a definition with every kind of term."""
    rng = np.random.default_rng(seed)
    regions = regions or int(rng.integers(1, 13))
    count = count or int(rng.integers(1, 25))
    asked: list[dict[str, Any]] = []
    for q in range(count):
        one: dict[str, Any] = {"name": f"q{q}", "ranges": {"x": [0, 1]}}
        one["weight"] = float(rng.choice([0.0, 1.0, 3.0])) if q else 1.0
        if terms and rng.random() < 0.4:
            one["qos"] = line(rng)
        elif rng.random() < 0.3:
            one["qos_slope"] = float(rng.choice([0.0, 0.5, 1.5]))
        if terms and (rng.random() < 0.2 if guarantees < 0 else q < guarantees):
            one["min_completeness"] = float(rng.choice([0.3, 0.8, 0.95, 1.0]))
            one["priority"] = int(rng.integers(0, 3))
        if terms and rng.random() < 0.5:
            one["tenant"] = str(rng.choice(["a", "b", "c"]))
        asked.append(one)
    named = sorted({one["tenant"] for one in asked if "tenant" in one})
    section: dict[str, Any] = {"inline": asked, "tenants": {}}
    for name in named:
        given = {"max_loss": float(rng.choice([0.0, 0.1, 0.4])), "priority": int(rng.integers(3))}
        some = any(one["weight"] for one in asked if one.get("tenant") == name)
        whole = {"weight": 2.0} if some else {}
        section["tenants"][name] = {**(given if rng.random() < 0.4 else {}),
                                    **(whole if rng.random() < 0.3 else {})}  # fmt: skip
    if len(named) > 1 and rng.random() < 0.5:
        section["tenant_gap"] = float(rng.choice([0.0, 0.05, 0.2]))
    definition = streams.parse(
        {
            "stream": "t", "family": "sifter", "attributes": [{"name": "x", "domain": [0, 1]}],
            "queries": section, "gate": {"loads": [1.0]},
            "parameters": {
                "fairness_threshold": float(rng.choice([0.0, 0.3, 0.5, 1.0, rng.random()])),
                "min_keep": float(rng.choice([0.0, 0.0, 0.1])),
            },
        },
        "t.yaml",
    )  # fmt: skip
    return definition, statistics_of(definition, regions, rng)


def statistics_of(
    definition: StreamDefinition, regions: int, rng: np.random.Generator
) -> Statistics:
    """Return random statistics: some regions without data or queries, some queries without data."""
    asked = queries.of(definition)
    frequency = rng.dirichlet(np.full(regions, 0.7))
    frequency[rng.random(regions) < 0.1] = 0.0
    frequency = frequency / frequency.sum() if frequency.any() else np.full(regions, 1 / regions)
    density = rng.choice([0.05, 0.3, 1.0]) if regions <= 16 else 10.0 / regions
    inside = rng.random((asked.count, regions)) * (rng.random((asked.count, regions)) < density)
    inside[:, rng.random(regions) < 0.2] = 0.0  # regions without queries
    if asked.count > 3:
        inside[1] = inside[2]  # the same data twice
    expected = inside * frequency
    total = expected.sum(axis=1, keepdims=True)
    share = np.divide(expected, total, out=np.zeros_like(expected), where=total > 0)
    pinned = np.where(rng.random(regions) < 0.2, rng.random(regions), 0.0) * (rng.random() < 0.3)
    query, region = np.nonzero(share)
    worth = asked.coefficient @ share
    without = asked.coefficient[total[:, 0] <= 0.0].sum()
    return Statistics(
        partition=Partition.from_nested(tree(regions)),
        counts=frozen_ints(np.rint(1e6 * frequency)),
        frequency=frozen(frequency * (1.0 - pinned)),
        region_qos=frozen(worth * (1.0 - pinned)),
        queried=(inside > 0).any(axis=0),
        base_qos=float(asked.base_qos + without + (worth * pinned).sum()),
        samples=1_000_000, sample_size=20_000, query_count=asked.count,
        pinned_fraction=float((frequency * pinned).sum()),
        shares=Shares.of(query, region, (share * (1.0 - pinned))[query, region], share.shape),
    )  # fmt: skip


class Reference:
    """The problem as HiGHS gets it: written from the definition, one row per statement.

    Variables: d of every region, c and QoS of every query, t, the tenants' u, and shortfalls.
    """

    def __init__(self, definition: StreamDefinition, statistics: Statistics) -> None:
        section, parameters = definition.queries, definition.parameters
        regions, count = len(statistics.frequency), len(section.inline)
        self.frequency, shares = statistics.frequency, statistics.shares
        assert shares is not None
        self.shares = csr_array((shares.part, shares.region, shares.start), (count, regions))
        weight = np.array([query.weight for query in section.inline])
        names = sorted({query.tenant for query in section.inline if query.tenant})
        mine = {n: np.array([query.tenant == n for query in section.inline]) for n in names}
        inner = {n: np.where(mine[n], weight, 0.0) for n in names}
        inner = {n: w if w.any() else mine[n] * 1.0 for n, w in inner.items()}
        for name in names:
            whole = section.tenants[name].weight if name in section.tenants else None
            if whole is not None:
                weight[mine[name]] *= whole / weight[mine[name]].sum()
        self.weight = weight / weight.sum()
        self.lines = [
            [tuple(corner) for corner in query.qos] or [(0.0, 1.0 - query.qos_slope), (1.0, 1.0)]
            for query in section.inline
        ]
        self.asked = [
            (query.priority, np.eye(count)[q], query.min_completeness)
            for q, query in enumerate(section.inline) if query.min_completeness > 0.0
        ] + [
            (tenant.priority, inner[n] / inner[n].sum(), 1.0 - tenant.max_loss)
            for n, tenant in section.tenants.items() if tenant.max_loss not in (None, 1.0)
        ]  # fmt: skip
        self.tenants = [inner[n] / inner[n].sum() for n in names]
        self.gap = section.tenant_gap if len(names) > 1 else None
        self.priorities = sorted({priority for priority, _, _ in self.asked}, reverse=True)
        self.delta, self.ceiling = parameters.fairness_threshold, 1.0 - parameters.min_keep
        self.queried = statistics.queried
        self.lowest = max(0.0, 1.0 - self.ceiling * float(self.frequency.sum()))

    @property
    def levels(self) -> int:
        """Return how many shortfalls there are."""
        return len(self.priorities) + (self.gap is not None)

    def quality(self, d: FloatArray) -> float:
        """Return the weighted QoS, by interpolating every line."""
        values = [np.interp(c, *zip(*line, strict=True))
                  for c, line in zip(self.completeness(d), self.lines, strict=True)]  # fmt: skip
        return float(self.weight @ values)

    def completeness(self, d: FloatArray) -> FloatArray:
        """Return the completeness of every query."""
        return np.asarray(1.0 - self.shares @ d)

    def shortfalls(self, d: FloatArray) -> FloatArray:
        """Return the largest shortfall of every priority, and last that of the gap."""
        c = self.completeness(d)
        found = [
            max(1.0 - float(mean @ c) / least for p, mean, least in self.asked if p == priority)
            for priority in self.priorities
        ]
        if self.gap is not None:
            losses = [float(mean @ (1.0 - c)) for mean in self.tenants]
            found.append(max(losses) - min(losses) - self.gap)
        return np.maximum(found, 0.0)

    def solve(self, z: float, own: FloatArray | None = None) -> tuple[FloatArray, float]:
        """Return the smallest shortfalls, each in its turn, and the best quality with them.

        With ``own``, the best quality with these.
        """
        size, limits, goal = self._rows(z)
        reached: list[float] = [] if own is None else own.tolist()
        for level in range(len(reached), self.levels):
            first = np.eye(1, size, size - self.levels + level)[0]
            reached.append(max(0.0, self._highs(first, limits, reached, size)))
        return np.array(reached), -self._highs(-goal, limits, reached, size)

    def _highs(
        self, cost: FloatArray, limits: dict[str, Any], reached: list[float], size: int
    ) -> float:
        for slack in (FLAT, 10 * FLAT, 100 * FLAT):
            bounds = [*limits["bounds"]]
            for level, most in enumerate(reached):
                bounds[size - self.levels + level] = (0.0, most + slack)
            solved = linprog(cost, **limits | {"bounds": bounds}, options=EXACT)
            if solved.status == 0:
                return float(solved.fun)
        raise AssertionError(solved.message)

    def _rows(self, z: float) -> tuple[int, dict[str, Any], FloatArray]:
        regions, count = len(self.frequency), len(self.weight)
        size = regions + 2 * count + 2 + self.levels
        at_c, at_v, at_t, at_u, at_e = (regions, regions + count, regions + 2 * count,
                                        regions + 2 * count + 1, size - self.levels)  # fmt: skip
        rows: list[FloatArray] = []
        sides: list[float] = []

        def less(values: dict[int, float], side: float) -> None:
            full = np.zeros(size)
            full[list(values)] = list(values.values())
            rows.append(full)
            sides.append(side)

        for i in np.flatnonzero(self.queried).tolist():
            less({i: 1.0, at_t: -1.0}, self.delta)
            less({i: -1.0, at_t: 1.0}, 0.0)
        for q, corners in enumerate(self.lines):
            for (x, u), (y, v) in zip(corners, corners[1:], strict=False):
                slope = (v - u) / (y - x)
                less({at_v + q: 1.0, at_c + q: -slope}, u - slope * x)
        for priority, mean, least in self.asked:
            short = {at_e + self.priorities.index(priority): -least}
            less({at_c + q: -mean[q] for q in np.flatnonzero(mean)} | short, -least)
        for mean in self.tenants if self.gap is not None else ():
            loss = {at_c + q: -mean[q] for q in np.flatnonzero(mean)}
            less(loss | {at_u: -1.0, size - 1: -1.0}, self.gap - 1.0)  # 1 - c <= u + gap + e
            less({q: -c for q, c in loss.items()} | {at_u: 1.0}, 1.0)
        equal = lil_array((count + 1, size))
        equal[0, :regions] = self.frequency
        for q in range(count):
            equal[1 + q, at_c + q] = 1.0
        equal[1:, :regions] = self.shares
        bounds = [(0.0, self.ceiling)] * regions + [(None, 1.0)] * (2 * count)
        bounds += [(0.0, 1.0)] * 2 + [(0.0, None)] * self.levels
        goal = np.zeros(size)
        goal[at_v : at_v + count] = self.weight
        return size, {
            "A_ub": csr_array(np.array(rows)) if rows else None, "b_ub": sides or None,
            "A_eq": csr_array(equal), "b_eq": [1.0 - z, *[1.0] * count], "bounds": bounds,
        }, goal  # fmt: skip


class Difference(NamedTuple):
    """How far plans are from HiGHS, at worst."""

    quality: float
    """HiGHS above the plan, less the plan's stated bound."""
    shortfall: float
    """Shortfalls above the smallest, less the plan's stated bound."""
    above: float
    """The plan above HiGHS, with the plan's own shortfalls."""
    broken: float
    """Guarantees above their stated floors, budget and fairness."""


def difference(seed: int, loads: int = 20) -> Difference:
    """Compare one plan with HiGHS at random loads."""
    definition, statistics = instance(seed)
    problem = Problem.of(statistics, definition)
    traced = planner.solve(problem, 1e-3, 60.0)
    reference = Reference(definition, statistics)
    rng = np.random.default_rng(seed)
    found = []
    for z in rng.random(loads).tolist():
        d = traced.at(z)
        if z <= reference.lowest:
            # Everything below min_keep, or below what is pinned, is even.
            found.append(Difference(0.0, 0.0, 0.0, float(np.ptp(d))))
            continue
        quality, short = reference.quality(d), reference.shortfalls(d)
        least, best = reference.solve(z)
        _, with_own = reference.solve(z, np.maximum(short, least))
        over = float((short - least).max(initial=0.0))
        kept = problem.short(problem.kept(d))[0]
        window = d[statistics.queried] if statistics.queried.any() else np.zeros(1)
        broken = [
            float(statistics.frequency @ -d) + 1.0 - z,
            float(d.max()) - problem.ceiling,
            float(np.ptp(window)) - problem.fairness_threshold,
            *(s for s, one in zip(kept, traced.guarantees, strict=True) if z >= one.holds_from),
        ]
        found.append(Difference(best - quality - traced.error, over - traced.error,
                                quality - with_own, max(broken)))  # fmt: skip
    return Difference(*np.max(found, axis=0))


def without_terms(seed: int, loads: int = 50) -> float:
    """Return how far the general planner's quality is from the special path's, without terms."""
    definition, statistics = instance(seed, terms=False)
    problem = Problem.of(statistics, definition)
    assert problem.special
    general = trace(problem.program, problem.lowest, 1.0, error=1e-9)
    parameters = definition.parameters
    path = Path.of(statistics.frequency, statistics.region_qos, statistics.queried,
                   parameters.min_keep)  # fmt: skip
    rng = np.random.default_rng(seed)
    worst = 0.0
    for z in rng.uniform(problem.lowest, 1.0, loads).tolist():
        special = path.thresholds(z, parameters.fairness_threshold)
        values = problem.quality(np.array([problem.thresholds(general.at(z)), special]))
        worst = max(worst, abs(float(values[0] - values[1])))
    return worst


def guarantees(quick: bool) -> list[Row]:
    """Compare with HiGHS, and measure size and time."""
    count = 60 if quick else 500
    found = Difference(*np.max([difference(seed) for seed in range(count)], axis=0))
    plain = max(without_terms(seed) for seed in range(count))
    off = max(found.quality, found.shortfall, found.above)
    rows = [
        row(f"with guarantees, lines, tenants = HiGHS, {count} x 20 loads, beyond the stated bound",
            "<= 1e-6", f"{off:.1e}", off <= 1e-6),
        row("guarantees above their floors, budget, fairness", "within 1e-6", f"{found.broken:.1e}",
            found.broken <= 1e-6),
        row(f"without terms, general = special, {count} x 50 loads", "within 1e-7", f"{plain:.1e}",
            plain <= 1e-7),
    ]  # fmt: skip
    rows += [*_sizes(100, 1000, 5.0, 64), *([] if quick else _sizes(400, 2000, 30.0, None))]
    return rows if quick else [*rows, *_in_time(1000, 10_000)]


def _sizes(regions: int, asked: int, limit_s: float, most: int | None) -> list[Row]:
    """Time plans with 50 guarantees for an error of 0.1 %."""
    found = []
    for seed in SIZED:
        traced, taken = _solved(instance(seed, regions, asked, 50), 120.0)
        found.append((taken, len(traced.loads), traced.error))
    taken, loads, error = (max(column) for column in zip(*found, strict=True))
    return [
        row(f"{regions} regions, {asked} queries, 50 guarantees, 0.1 %, worst of {len(SIZED)}",
            f"<= {limit_s:g} s" + (f", <= {most} loads" if most else ""),
            f"{taken:.1f} s, {loads} loads, error {error:.1e}",
            taken <= limit_s and error <= 1e-3 and (most is None or loads <= most))
    ]  # fmt: skip


def _in_time(regions: int, asked: int) -> list[Row]:
    """Solve a large plan in limited times: the error that was proven falls, and is true."""
    given = instance(SIZED[0], regions, asked, 50)
    rows, before = [], np.inf
    for limit_s in (5.0, 20.0, 60.0):
        traced, taken = _solved(given, limit_s)
        rows.append(
            row(f"{regions} regions, {asked} queries, 50 guarantees, in {limit_s:g} s",
                "a smaller error than in less time",
                f"{taken:.1f} s, {len(traced.loads)} loads, error {traced.error:.1e}",
                traced.error <= before)
        )  # fmt: skip
        before = traced.error
    return rows


def _solved(given: tuple[StreamDefinition, Statistics], limit_s: float) -> tuple[Traced, float]:
    definition, statistics = given
    problem = Problem.of(statistics, definition)
    begun = time.monotonic()
    traced = planner.solve(problem, 1e-3, limit_s)
    return traced, time.monotonic() - begun
