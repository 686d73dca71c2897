"""Bars on results: the optimum against two libraries, exact plans, and the stated error bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.fit.networks import MEAN, networks, relative_errors
from benchmarks.rows import Row, row
from planning.fit import QueryNetwork, examples, optimum
from planning.fit.graph import fragments
from planning.fit.library import Glop, highs
from planning.fit.limits import MethodLimit
from planning.fit.plan import Plan
from planning.fit.planner import plan_network
from planning.fit.random_networks import random_network
from planning.fit.workload import Exponential


def optimum_equals_libraries(quick: bool) -> Row:
    rng = np.random.default_rng(1)
    worst, count, overload = 0.0, 0, 0.0
    for network in networks(60 if quick else 500, 11):
        model = Glop(network)
        for _ in range(2):
            rates = network.max_rates * rng.random(len(network.inputs)) ** 0.5
            mine = optimum(network, rates)
            passed = highs(network, rates)
            theirs = sum(
                o.weight * passed[network.arc_index[f"{o.stream}->{o.id}"]]
                for o in network.outputs
            )
            scale = max(mine.throughput, 1e-6)
            for other in (model.resolve(rates), theirs):
                worst = max(worst, abs(mine.throughput - other) / scale)
            used = [mine.loads[n.id] / n.capacity for n in network.nodes]
            overload = max(overload, max(used) - 1)
            count += 1
    return row(
        "optimum = GLOP = HiGHS on random networks x rates",
        "1e-9, >= 500",
        f"{worst:.1e} on {count}, overload {overload:.0e}",
        worst <= 1e-9 and overload <= 1e-9 and (quick or count >= 500),
    )


def exact_plans(quick: bool) -> Row:
    rng = np.random.default_rng(2)
    worst, overload, regions, count = 0.0, 0.0, 0, 0
    for network in networks(4 if quick else 40, 12):
        plan = plan_network(network, method="exact")
        points = rng.random((20_000, len(network.inputs))) ** rng.choice([0.5, 1.0, 3.0])
        errors, over = relative_errors(plan, points)
        worst, overload = max(worst, float(np.abs(errors).max(initial=0))), max(overload, over)
        regions, count = max(regions, plan.plan_count), count + 1
    return row(
        "exact plans = optimum at 20,000 points per network",
        "1e-9, feasible",
        f"{worst:.1e} on {count} networks (up to {regions} regions), overload {overload:.0e}",
        worst <= 1e-9 and overload <= 1e-9,
    )


def bounded_networks(quick: bool) -> list[QueryNetwork]:
    """Return networks on which the paper's methods are held to their bounds."""
    chosen = [examples.figure_7(), *fragments(examples.web())]
    chosen += [examples.figure_9(letter) for letter in ("be" if quick else "abcde")]
    rng = np.random.default_rng(3)
    for _ in range(4 if quick else 20):
        drawn = random_network(rng, inputs=2, nodes=3, operators=6, tree=True)
        chosen += [part for part in fragments(drawn) if part.outputs]
    return chosen


def error_bounds(quick: bool) -> list[Row]:
    points = 20_000 if quick else 100_000
    chosen = bounded_networks(quick)
    methods = [(method, error) for method in ("solver", "c_fit") for error in (0.05, 0.1)]
    return [
        *(largest_error(chosen, method, error, points) for method, error in methods),
        expected_error(chosen, 0.02, points),
    ]


def errors_at(
    plan: Plan, points: int, draw: Callable[[int], np.ndarray]
) -> tuple[np.ndarray, float, int]:
    """Return errors at (at least) ``points`` overloaded points, the overload, and how many it took.

    A network that is hardly ever overloaded yields fewer.
    """
    found: list[np.ndarray] = []
    overload, drawn = 0.0, 0
    while sum(map(len, found)) < points and drawn < 40 * points:
        errors, over = relative_errors(plan, draw(points))
        found.append(errors)
        overload, drawn = max(overload, over), drawn + points
    return np.concatenate(found), overload, drawn


def largest_error(chosen: list[QueryNetwork], method: str, error: float, points: int) -> Row:
    """Hold a method to its bound at ``points`` overloaded points of every network it accepts."""
    rng = np.random.default_rng(4)
    violations = refused = checked = 0
    worst = overload = 0.0
    for network in chosen:
        try:
            plan = plan_network(network, method=method, error=error)
        except MethodLimit:
            refused += 1
            continue
        inputs = len(network.inputs)
        errors, over, _ = errors_at(
            plan, points, lambda n, d=inputs: rng.random((n, d)) ** rng.choice([1, 2, 6])
        )
        checked, overload = checked + len(errors), max(overload, over)
        worst = max(worst, float(errors.max(initial=0.0)))
        violations += int((errors > error + 1e-9).sum())
    return row(
        f"{method} at epsilon = {error:g}: largest error at overloaded points",
        f"<= {error:g}, none above",
        f"{worst:.4f}, {violations} above of {checked:,} points, {refused} networks refused, "
        f"overload {overload:.0e}",
        violations == 0 and overload <= 1e-9,
    )


def expected_error(chosen: list[QueryNetwork], error: float, points: int) -> Row:
    """Hold Solver-W to its expected error over points drawn from its workload."""
    rng = np.random.default_rng(4)
    violations = checked = 0
    worst = overload = 0.0
    for network in chosen:
        workload = Exponential(MEAN, len(network.inputs))
        plan = plan_network(network, method="solver_w", error=error, workload=workload)
        errors, over, drawn = errors_at(plan, points, partial(workload.draw, rng))
        mean = float(errors.sum() / drawn)
        worst, overload = max(worst, mean), max(overload, over)
        violations, checked = violations + int(mean > error), checked + len(errors)
    return row(
        f"solver_w at epsilon = {error:g}: expected error under its workload",
        f"<= {error:g} on every network",
        f"at most {worst:.4f}, {violations} of {len(chosen)} networks above, {checked:,} "
        f"overloaded points, overload {overload:.0e}",
        violations == 0 and overload <= 1e-9,
    )
