"""From statistics to a plan: one sort (see :mod:`planning.sifter.path`).

With guarantees, QoS lines or a gap between tenants it is a linear program over z instead, solved
for every z at once (see :mod:`planning.sifter.program` and :mod:`planning.parametric`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planning.arrays import FloatArray, frozen, frozen_ints, single_precision
from planning.errors import InfeasiblePlan, StatisticsError
from planning.families import Definition
from planning.guarantees import NOWHERE, Guarantee
from planning.parametric import trace
from planning.sifter import queries
from planning.sifter.model import Space
from planning.sifter.parameters import Parameters
from planning.sifter.plan import Plan, Traced
from planning.sifter.program import TINY, Problem
from planning.sifter.queries import terms
from planning.sifter.queries.terms import TENANT_GAP
from planning.sifter.statistics import Statistics

FEW_REGIONS = 0.5  # of those asked for
FEW_PER_REGION = 10  # sampled tuples
ROUNDING = 1e-6  # of what is asked for
SHARE = 0.9  # of the error is for interpolating, the rest for how exactly shortfalls are known
LEVEL = 2e-7  # thresholds that rise with the load by less do not rise


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Return the plan whose setting at every z is optimal for the statistics."""
    if not statistics.frequency.sum() + statistics.pinned_fraction > 0:
        raise StatisticsError("frequency must hold some data, got 0 in every region")
    parameters = definition.parameters
    traced = None
    if not terms.absent(definition):
        problem = Problem.of(statistics, definition)
        if not problem.special:  # lines may be straight
            traced = solve(problem, parameters.quality_error, parameters.solve_limit_s)
    made = Plan(
        space=Space.of(definition),
        partition=replace(statistics.partition, seen=frozen_ints([])),
        frequency=single_precision(statistics.frequency),
        region_qos=single_precision(statistics.region_qos),
        queried=statistics.queried,
        base_qos=statistics.base_qos,
        fairness_threshold=parameters.fairness_threshold,
        throttle_fraction=parameters.throttle_fraction,
        pins=queries.pins_of(definition),
        pinned_fraction=statistics.pinned_fraction,
        min_keep=parameters.min_keep,
        budget_tolerance=parameters.budget_tolerance,
        traced=traced,
    )
    missed = _missed(made, definition)
    most = max(*definition.gate.loads, parameters.throttle_fraction)
    for one, load in missed:
        if load == most and one.limit != TENANT_GAP:
            raise InfeasiblePlan(
                "guarantees must hold at a load that the plan is tried at, got none for "
                f"{_too_much(made, one, load)}"
            )
    return made


def solve(problem: Problem, error: float, limit_s: float) -> Traced:
    """Return the optimum for every z: thresholds at the loads between which they may be mixed."""
    low, total = problem.lowest, float(problem.frequency.sum())
    loads, rows, worst = [1.0], [np.zeros(problem.frequency.size)], 0.0
    if low < 1.0 - TINY:
        found = trace(problem.program, low, 1.0, error=SHARE * error, limit_s=limit_s)
        loads = [*found.loads[1:-1].tolist(), *loads]
        rows = [*problem.thresholds(found.settings[1:-1]), *rows]
        worst = max(found.error, found.excess_error)
    # Up to the lowest load there is but one setting; it turns where all that may be is dropped.
    ends = [z for z in sorted({0.0, 1.0 - total, low}) if 0.0 <= z < loads[0] - TINY]
    ends = [z for z, after in zip(ends, [*ends[1:], np.inf], strict=True) if after > z + TINY]
    at = np.array([0.0, *ends[1:], *loads] if ends[0] <= TINY else [0.0, *ends, *loads])
    d = np.array([problem.even(z) for z in at[: len(at) - len(loads)]] + rows)
    d = _rounded(np.clip(d, 0.0, 1.0), at, problem)
    kept = problem.kept(d)
    short = problem.short(kept)
    return Traced(
        loads=frozen(at),
        drop_thresholds=d,
        quality=frozen(problem.quality(d)),
        kept=frozen(kept),
        guarantees=tuple(
            replace(one, holds_from=_floor(at, short[:, k]))
            for k, one in enumerate(problem.terms.guarantees)
        ),
        error=max(worst, ROUNDING),
    )


def _rounded(d: FloatArray, loads: FloatArray, problem: Problem) -> FloatArray:
    """Return thresholds in single precision that drop no less than the budget wants.

    What rises with the load by a hair is made level, by dropping more at the lower load.
    """
    short = (1.0 - loads) - d @ problem.frequency
    left = np.maximum((1.0 - d) @ problem.frequency, TINY)
    d = d + (1.0 - d) * np.clip(short / left, 0.0, LEVEL)[:, None]
    for k in range(len(d) - 2, -1, -1):
        d[k] = np.where((d[k + 1] > d[k]) & (d[k + 1] <= d[k] + LEVEL), d[k + 1], d[k])
    near = d.astype(np.float32)
    up = np.where(near < d, np.nextafter(near, np.float32(np.inf)), near)
    return single_precision(np.minimum(up, np.float32(1.0)))


def _floor(loads: FloatArray, short: FloatArray) -> float:
    """Return the load from which on nothing is short; shortfalls are mixed between the loads.

    >>> _floor(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.5, -0.5]))
    0.75
    """
    missing = np.flatnonzero(short > ROUNDING)
    if not missing.size:
        return 0.0
    last = int(missing[-1])
    if last == len(loads) - 1:
        return NOWHERE
    a, b = short[last : last + 2]
    return float(loads[last] + min(a / (a - b), 1.0) * (loads[last + 1] - loads[last]))


def _missed(plan: Plan, definition: Definition[Parameters]) -> list[tuple[Guarantee, float]]:
    """Return guarantees with the largest of the loads that the plan is tried at and they miss."""
    tried = sorted({*definition.gate.loads, definition.parameters.throttle_fraction})
    return [
        (one, max(load for load in tried if load < one.holds_from))
        for one in plan.guarantees
        if tried[0] < one.holds_from
    ]


def _too_much(plan: Plan, one: Guarantee, load: float) -> str:
    """Say by how much a guarantee is missed, and what to relax."""
    found = plan.kept(load)[plan.guarantees.index(one)]
    held = f"holds from load {one.holds_from:.3g} on" if one.holds_from <= 1.0 else "holds nowhere"
    eased = "lower" if one.limit.startswith("min") else "raise"
    fairer = ", raise fairness_threshold" if plan.fairness_threshold < 1.0 else ""
    return (
        f"{one.name}: {one.limit} {one.value:g} {held}, at load {load:g} it is {found:.3g}: "
        f"{eased} {one.limit}{fairer}, ask less for others or give it a higher priority, or ask "
        f"for more than {plan.regions} regions"
    )


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Return ``exact``: the path is the optimum of Equation 10 for the plan's regions at every z.

    With guarantees, QoS lines or a gap it is within an error that the solver has proved. How the
    space is divided into regions is not part of either program.
    """
    return "exact" if plan.traced is None else f"within {plan.traced.error:.3g}"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Return what makes the plan worse than it could be, each with the remedy."""
    found = [_too_much(plan, one, load) for one, load in _missed(plan, definition)]
    wanted, limit_s = definition.parameters.quality_error, definition.parameters.solve_limit_s
    if plan.traced is not None and plan.traced.error > 1.05 * wanted:
        found.append(
            f"solving ended after {limit_s:g} s at an error of {plan.traced.error:.2g}, above "
            f"quality_error {wanted:g}: raise solve_limit_s or quality_error, or ask for fewer "
            "regions"
        )
    asked, size = definition.parameters.regions, statistics.sample_size
    if plan.regions >= FEW_REGIONS * asked and size >= FEW_PER_REGION * plan.regions:
        return found
    few = f"{plan.regions} of {asked} regions were made from {size} sampled tuples"
    if size < statistics.samples:
        remedy = f"raise sample_size, {statistics.samples} tuples are there"
    elif size < FEW_PER_REGION * asked:
        remedy = "collect more samples, or ask for fewer regions"
    else:
        remedy = "ask for fewer regions, because no other cut gains anything"
    return [*found, f"{few}, so the plan sheds less precisely than it could; {remedy}"]
