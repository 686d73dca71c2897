"""Bars on results: the optimum against two libraries, exact plans, and the stated error bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.fit import decades, examples, reference
from benchmarks.fit.networks import MEAN, networks, random_network, relative_errors
from benchmarks.rows import Row, row
from planning.fit import QueryNetwork, optimum
from planning.fit.model import MethodLimit
from planning.fit.network.graph import fragments
from planning.fit.plan import Plan
from planning.fit.planner import plan_network
from planning.fit.printed.distributions import Exponential
from planning.fit.program import NetworkProgram


def optimum_equals_libraries(quick: bool) -> Row:
    rng = np.random.default_rng(1)
    worst, count, overload = 0.0, 0, 0.0
    for network in networks(60 if quick else 500, 11):
        model = NetworkProgram(network)
        for _ in range(2):
            rates = network.max_rates * rng.random(len(network.inputs)) ** 0.5
            mine = optimum(network, rates)
            passed = NetworkProgram(network, "highs").solve(rates)
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


def minimums(quick: bool) -> Row:
    """Hold plans of networks with minimums at several priorities to HiGHS, level by level."""
    missed = lost = use = 0.0
    count, lacking = 0, 0
    for seed in range(40 if quick else 500):
        rng = np.random.default_rng(seed)
        sizes = {"inputs": 5, "nodes": 4, "operators": 12}
        drawn = {name: int(rng.integers(1, most)) for name, most in sizes.items()}
        network = reference.asking(rng, **drawn, tree=bool(seed % 2), links=seed % 3 == 0)
        plan = plan_network(network)
        rates = network.max_rates * rng.random((5, len(network.inputs))) ** 0.5
        done = network.evaluate_many(rates, plan.at_many(rates))
        use = max(use, float(done.use(network).max()))
        for vector, outputs in zip(rates, done.outputs, strict=True):
            reached = dict(zip((o.id for o in network.outputs), outputs.tolist(), strict=True))
            for part, least, most in reference.best_by_parts(network, vector):
                own = vector[[network.input_ids.index(i) for i in part.input_ids]]
                short, throughput = reference.levels(part, own, reached)
                scale = max(sum(most.values()), 1e-6)
                missed = max(missed, *(abs(short[p] - least[p]) for p in least), 0.0)
                lost = max(lost, *(abs(throughput[p] - most[p]) / scale for p in most), 0.0)
                count, lacking = count + 1, lacking + (max(least.values(), default=0.0) > 1e-6)
    return row(
        "plans with minimums and priorities = HiGHS, level by level",
        "1e-6, use <= 1 + 3e-8",
        f"shortfalls {missed:.1e}, throughputs {lost:.1e} on {count:,} ({lacking:,} short), "
        f"use {use:.9f}",
        max(missed, lost) <= 1e-6 and use <= 1.0 + 3e-8,
    )


def costs_over_decades(quick: bool) -> list[Row]:
    """Hold exact plans to the capacities where costs, weights and ``max_rate`` are extreme."""
    count, vectors = (40, 2_000) if quick else (200, 10_000)
    return [extremes(method, count, vectors) for method in ("exact", "simplex")]


def extremes(method: str, count: int, vectors: int) -> Row:
    found = [decades.tried(seed, vectors, method, 10) for seed in range(count)]
    refused = [reason for reason, _, _ in found if reason]
    used = max(share for _, share, _ in found)
    error = max(missed for _, _, missed in found)
    return row(
        f"{method} plans, costs over ten decades: {count} networks x {vectors:,} rate vectors",
        "use <= 1 + 1e-6, = HiGHS, <= 2 % refused",
        f"use {used:.9f}, error {error:.1e} at {10 * count:,} vectors, {len(refused)} refused",
        used <= 1 + 1e-6 and error <= 1e-6 and len(refused) <= 0.02 * count,
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
    drawings: list[np.ndarray] = []
    overload, drawn = 0.0, 0
    while sum(map(len, drawings)) < points and drawn < 40 * points:
        errors, over = relative_errors(plan, draw(points))
        drawings.append(errors)
        overload, drawn = max(overload, over), drawn + points
    return np.concatenate(drawings), overload, drawn


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
    bar = f"{method} at epsilon = {error:g}: largest error at overloaded points"
    counted = f"{worst:.4f}, {violations} above of {checked:,} points, {refused} networks refused"
    return bound_row(bar, f"<= {error:g}, none above", counted, violations, overload)


def bound_row(bar: str, required: str, counted: str, violations: int, overload: float) -> Row:
    """Return the row of a bound that is kept without violations and without overload."""
    good = violations == 0 and overload <= 1e-9
    return row(bar, required, f"{counted}, overload {overload:.0e}", good)


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
    bar = f"solver_w at epsilon = {error:g}: expected error under its workload"
    counted = (
        f"at most {worst:.4f}, {violations} of {len(chosen)} networks above, {checked:,} "
        "overloaded points"
    )
    return bound_row(bar, f"<= {error:g} on every network", counted, violations, overload)
