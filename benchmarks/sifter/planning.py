"""Sifter: the path against two solvers, and the time to configure and to construct."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from ortools.linear_solver import pywraplp
from scipy.optimize import linprog

from benchmarks.rows import Row, best_of, row
from benchmarks.sifter.scene import definition_for, unit_space
from planning.families import Definition
from planning.sifter import queries, statistics
from planning.sifter.demo import Settings, Workload
from planning.sifter.parameters import Parameters
from planning.sifter.partitioners import divide
from planning.sifter.path import Path


def random_instance(seed: int) -> tuple[Any, ...]:
    """Random and degenerate: f = 0, A = 0, no queries, ties, Delta and z at both ends."""
    rng = np.random.default_rng(seed)
    regions = int(rng.integers(1, 16))
    frequency, qos = rng.dirichlet(np.full(regions, 0.5)), rng.random(regions)
    queried = rng.random(regions) < rng.choice([0.0, 0.5, 1.0])
    if seed % 3 == 0:
        frequency[1:][rng.random(regions - 1) < 0.3] = 0.0
        frequency /= frequency.sum()
        qos[rng.random(regions) < 0.3] = 0.0
    if seed % 5 == 0:
        frequency, qos = np.full(regions, 1 / regions), np.full(regions, 0.25)
    qos = np.where(queried & (frequency > 0), qos, 0.0)
    delta, z = (float(rng.choice([0.0, 1.0, 0.5, rng.random()])) for _ in range(2))
    return frequency, qos, queried, z, delta


def highs_loss(f: Any, a: Any, queried: Any, z: float, delta: float) -> float:
    """Return the least loss by SciPy's HiGHS; the last variable is the window's lower end t."""
    members = np.flatnonzero(queried)
    rows = np.zeros((2 * len(members), len(f) + 1))
    for r, i in enumerate(members):
        rows[2 * r, [i, -1]], rows[2 * r + 1, [i, -1]] = (1.0, -1.0), (-1.0, 1.0)
    bounded = {"A_ub": rows, "b_ub": np.tile([delta, 0.0], len(members))} if len(members) else {}
    solved = linprog(
        np.append(a, 0.0), A_eq=np.append(f, 0.0)[None], b_eq=[(1 - z) * f.sum()],
        bounds=[(0, 1)] * (len(f) + 1), method="highs", **bounded,
    )  # fmt: skip
    return float(solved.fun)


def solve(
    frequency: Any, region_qos: Any, queried: Any, z: float, delta: float, form: str,
    min_keep: float = 0.0,
) -> float:  # fmt: skip
    """Return the least loss of Equation 10 at one z, by OR-Tools GLOP.

    ``pairwise`` writes the fairness rows as the paper does, two per pair; ``window`` writes the
    equivalent t <= d_i <= t + Delta with one more variable.
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    d = [solver.NumVar(0.0, 1.0 - min_keep, f"d[{i}]") for i in range(len(frequency))]
    budget = solver.Constraint(1.0 - z, 1.0 - z, "budget")
    for variable, f in zip(d, frequency.tolist(), strict=True):
        budget.SetCoefficient(variable, f)
    members = np.flatnonzero(queried).tolist()
    if form == "window":
        t = solver.NumVar(0.0, 1.0, "t")
        rows = [(solver.Constraint(0.0, delta, f"fairness[{i}]"), d[i], t) for i in members]
    else:
        rows = [
            (solver.Constraint(-delta, delta, f"fairness[{i},{j}]"), d[i], d[j])
            for i, j in combinations(members, 2)
        ]
    for fairness, one, other in rows:
        fairness.SetCoefficient(one, 1.0)
        fairness.SetCoefficient(other, -1.0)
    objective = solver.Objective()
    for variable, qos in zip(d, region_qos.tolist(), strict=True):
        objective.SetCoefficient(variable, qos)
    objective.SetMinimization()
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(objective.Value())


def exactness(quick: bool) -> list[Row]:
    """Compare objectives on random and degenerate instances; check budget and fairness."""
    count, worst_glop, worst_highs, worst_rule = 300 if quick else 2000, 0.0, 0.0, 0.0
    for seed in range(count):
        f, a, queried, z, delta = random_instance(seed)
        d = Path.of(f, a, queried).thresholds(z, delta)
        lost = float(np.dot(a, d))
        glop = solve(f, a, queried, z, delta, "window")
        worst_glop = max(worst_glop, abs(lost - glop))
        worst_highs = max(worst_highs, abs(lost - highs_loss(f, a, queried, z, delta)))
        spread = np.ptp(d[queried]) - delta if queried.any() else 0.0
        worst_rule = max(worst_rule, abs(float(np.dot(f, d)) - (1 - z)), spread)
        worst_rule = max(worst_rule, float(-d.min()), float(d.max() - 1.0))
    return [
        row(f"path = GLOP, {count} instances", "within 1e-9", f"{worst_glop:.1e}",
            worst_glop <= 1e-9),
        row(f"path = HiGHS, {count} instances", "within 1e-9", f"{worst_highs:.1e}",
            worst_highs <= 1e-9),
        row("budget, fairness, [0, 1]", "met (rounding)", f"{worst_rule:.1e}", worst_rule < 1e-12),
    ]  # fmt: skip


def configuring(quick: bool) -> list[Row]:
    """Time the whole path against one solve of the linear program."""
    rows = []
    for regions, form, required in ((100, "window", 100), (1000, "window", 300),
                                    (100, "pairwise", 1000)):  # fmt: skip
        rng = np.random.default_rng(0)
        f, a = rng.dirichlet(np.ones(regions)), rng.random(regions)
        queried = np.arange(regions) >= regions // 10
        a = np.where(queried, a, 0.0)
        path = best_of(300, lambda f=f, a=a, q=queried: Path.of(f, a, q)).cpu
        solved = best_of(
            3 if quick else 8,
            lambda f=f, a=a, q=queried, form=form: solve(f, a, q, 0.5, 0.5, form),
        ).cpu
        rows.append(
            row(f"whole path against one GLOP solve, {form}, l = {regions}", f">= {required}x",
                f"{solved / path:.0f}x ({path * 1e6:.0f} us, {solved * 1e3:.1f} ms)",
                solved / path >= required)
        )  # fmt: skip
    return rows


def stream_of(points: Any, regions: int, calibrate: bool) -> Definition[Parameters]:
    """Return a definition for points of the unit square."""
    return definition_for(unit_space(2), "cost_tree", regions, len(points), calibrate=calibrate)


def construct(points: Any, asked: Any, definition: Definition[Parameters]) -> None:
    """Everything from samples to thresholds for all z."""
    partition = divide(points, definition, asked)
    counts = statistics.RegionCounts.of(points, partition, queries.pins_of(definition))
    made = statistics.assemble(partition, counts, definition, points, asked)
    Path.of(made.frequency, made.region_qos, made.queried)


def construction(quick: bool) -> list[Row]:
    """Time everything from samples to the path, and how it grows."""
    rows = []
    workload = Workload(Settings(data="SKEW", query="UNIF"), 1)
    points = workload.tuples(1000)
    for regions in (16, 100):
        for calibrate, limit in ((False, 10), (True, 100)):
            stream = stream_of(points, regions, calibrate)
            taken = 1e3 * best_of(30, partial(construct, points, workload.queries, stream)).cpu
            name = "with" if calibrate else "without"
            rows.append(
                row(f"construction, 1,000 x 1,000, l = {regions}, {name} calibration",
                    f"<= {limit} ms", f"{taken:.1f} ms", taken <= limit)
            )  # fmt: skip
    large = Workload(Settings(data="SKEW", query="UNIF", queries=10_000), 1)
    many = large.tuples(100_000)
    repeats = 1 if quick else 3
    stream = stream_of(many, 1000, False)
    taken = best_of(repeats, partial(construct, many, large.queries, stream)).cpu
    rows.append(
        row("construction, 100,000 x 10,000, l = 1,000", "<= 2 s", f"{taken:.2f} s", taken <= 2)
    )
    times = []
    for count in (1000, 10_000, 100_000):
        part, stream = many[:count], stream_of(many[:count], 100, False)
        work = partial(construct, part, workload.queries, stream)
        times.append(f"{count:,}: {1e3 * best_of(3, work).cpu:.0f} ms")
    growth = ", ".join(times)
    rows.append(row("growth with samples, 1,000 queries, l = 100", "reported", growth, None))
    return rows
