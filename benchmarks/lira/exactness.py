"""Throttlers against the linear program: equal, monotone, and how much faster."""

from __future__ import annotations

import numpy as np

from benchmarks.lira import linear
from benchmarks.lira.reference import Reference, looked_at, random_stream
from benchmarks.lira.setting import REGIONS, timed
from benchmarks.lira.workload import random_instance
from benchmarks.rows import Row, Timing, best_of, row
from planning.errors import InfeasiblePlan
from planning.lira.model import ReductionCurve
from planning.lira.path import ThrottlerPath
from planning.lira.planner import plan as make_plan


def exactness(quick: bool) -> list[Row]:
    """Compare the path with GLOP on random instances, then race it at l = 250."""
    rng = np.random.default_rng(7)
    return [_equal(rng, 100 if quick else 2500), _guaranteed(20 if quick else 500), *_faster(rng)]


def _equal(rng: np.random.Generator, instances: int) -> Row:
    worst = 0.0
    unreachable = 0
    for _ in range(instances):
        m, w, d, f, fairness, z = random_instance(rng)
        curve = ReductionCurve.of(d, f)
        setting = ThrottlerPath.of(m, w, curve, fairness).at(z)
        try:
            optimum = linear.solve(m, w, curve, fairness, z).inaccuracy
        except InfeasiblePlan:
            unreachable += 1
            worst = max(worst, abs(setting.expenditure - curve.hull[-1]))
            continue
        worst = max(worst, abs(setting.inaccuracy - optimum) / max(optimum, 1e-9))
    return row("throttlers = LP optimum (GLOP), fairness, degenerate cases", "<= 1e-9 on >= 2000",
               f"{worst:.1e} on {instances} ({unreachable} unreachable)",
               worst <= 1e-9)  # fmt: skip


def _guaranteed(instances: int) -> Row:
    """Compare plans with guarantees with HiGHS: excesses by priority, then the objective."""
    worst, stated = -1.0, 0.0
    for seed in range(instances):
        rng = np.random.default_rng(seed)
        statistics, definition = random_stream(rng)
        plan = make_plan(statistics, definition)
        assert plan.guaranteed is not None
        asked = [a for a in looked_at(plan, definition) if a[1] < plan.frame.high]
        reference, error = Reference(plan, asked), plan.guaranteed.error
        for z in rng.uniform(reference.floor + 1e-6, 1.0, 20).tolist():
            places, by_level = plan.guaranteed.throttlers(z), plan.near(z).by_level
            least = reference.least(z)
            for priority, possible in zip(reference.priorities, least, strict=True):
                own = max(by_level[i] / most for i, most, p in asked if p == priority) - 1.0
                worst = max(worst, own - possible - error)
            lost = float(reference.importance @ places[reference.levels])
            lost -= reference.inaccuracy(z, least)
            worst = max(worst, lost / (reference.scale or 1.0) - error)
        stated = max(stated, error)
    return row("guarantees = HiGHS, by priority, at 20 loads", "within the stated error, >= 500",
               f"{worst:+.1e} beyond it on {instances}, which is at most {stated:.1e}",
               bool(worst <= 1e-6))  # fmt: skip


def _faster(rng: np.random.Generator) -> list[Row]:
    d = 5.0 + np.arange(96)
    curve = ReductionCurve.of(d, (5.0 / d) ** 0.55)
    m = rng.exponential(1, REGIONS) * (rng.random(REGIONS) < 0.7)
    w = rng.exponential(1, REGIONS)
    glop = best_of(3, lambda: linear.solve(m, w, curve, 50.0, 0.5), warm=False)
    ours = best_of(50, lambda: ThrottlerPath.of(m, w, curve, 50.0).at(0.5))
    ratio = glop.wall / ours.wall
    path = ThrottlerPath.of(m, w, curve, 50.0)
    loads = np.linspace(0.25, 0.99, 100)
    many = best_of(5, lambda: [path.at(z) for z in loads])
    again = Timing(many.wall / loads.size, many.cpu / loads.size)
    rise = np.diff([path.at(z).throttlers for z in loads], axis=0)
    return [
        row("throttlers monotone in z", "every region", f"largest rise {rise.max():.1e} m",
            bool((rise <= 1e-9).all())),
        row("throttlers against GLOP, l = 250", ">= 500x", f"{ratio:.0f}x", ratio >= 500),
        timed("a new z from a held path, l = 250", 1e-4, again),
    ]  # fmt: skip
