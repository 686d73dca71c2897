"""The bars of the fit family: exactness, error bounds, plan counts, speed, D-FIT, real rates.

``python -m benchmarks.fit`` prints the table; ``--quick`` uses fewer networks and points.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from planning.fit import QueryNetwork, examples, optimum
from planning.fit.cfit import chain_bound
from planning.fit.cluster import Cluster
from planning.fit.comparison import compare, web_rates
from planning.fit.dfit import DFitServer
from planning.fit.graph import fragments
from planning.fit.library import Glop, glop_scorer, highs
from planning.fit.limits import MethodLimit
from planning.fit.plan import Plan
from planning.fit.planner import plan_network
from planning.fit.program import build
from planning.fit.quadtree import build as build_tree
from planning.fit.quadtree import expected_error
from planning.fit.random_networks import random_network
from planning.fit.regions import enumerate_regions
from planning.fit.sampling import plan_sampling
from planning.fit.servers import servers_of
from planning.fit.warm import WarmSimplex
from planning.fit.workload import Exponential

Row = dict[str, Any]
MEAN = 0.15  # of the exponential workload: lambda = 5 of the paper (docs/families/fit.md)


def row(bar: str, required: str, measured: str, met: bool | None) -> Row:
    return {"bar": bar, "required": required, "measured": measured, "met": met}


def networks(count: int, seed: int, **more: Any) -> list[QueryNetwork]:
    """Return random networks: splits, merges, joins, several levels and outputs."""
    rng = np.random.default_rng(seed)
    return [
        random_network(
            rng,
            inputs=int(rng.integers(1, 7)),
            nodes=int(rng.integers(1, 6)),
            operators=int(rng.integers(2, 18)),
            tree=bool(k % 2),
            links=k % 3 == 0,
            **more,
        )
        for k in range(count)
    ]


def best_of(repeats: int, work: Callable[[], Any]) -> float:
    """Return the shortest of several runs in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def median_of(arguments: Any, work: Callable[[Any], Any]) -> float:
    """Return the median time of single calls: other processes disturb only some of them."""
    times = []
    for argument in arguments:
        start = time.perf_counter()
        work(argument)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


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


def relative_errors(plan: Plan, points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return errors against the optimum at overloaded points, and the largest overload."""
    network, program = plan.network, build(plan.network)
    over = (points @ program.raw_use.T > 1).any(axis=1)
    rates = points[over] * network.max_rates
    done = network.evaluate_many(rates, plan.at_many(rates))
    dropped, _ = WarmSimplex(program).solve(np.ascontiguousarray(points[over]))
    best = points[over] @ program.full_throughput - dropped @ program.lost_throughput
    overload = float((done.loads / network.capacities).max(initial=0.0) - 1)
    return np.asarray(1.0 - done.throughput / np.maximum(best, 1e-12)), overload


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
    rows = []
    for method, error in (("solver", 0.05), ("solver", 0.1), ("c_fit", 0.05), ("c_fit", 0.1),
                          ("solver_w", 0.02)):  # fmt: skip
        rng = np.random.default_rng(4)
        violations = refused = checked = 0
        worst = overload = 0.0
        for network in bounded_networks(quick):
            workload = Exponential(MEAN, len(network.inputs))
            try:
                plan = plan_network(network, method=method, error=error, workload=workload)
            except MethodLimit:
                refused += 1
                continue
            found: list[np.ndarray] = []
            drawn = 0
            while sum(map(len, found)) < points and drawn < 40 * points:
                if method == "solver_w":
                    sample = workload.draw(rng, points)
                else:
                    sample = rng.random((points, len(network.inputs))) ** rng.choice([1, 2, 6])
                drawn += points
                errors, over = relative_errors(plan, sample)
                overload = max(overload, over)
                found.append(errors)
            errors = np.concatenate(found)[: points if method != "solver_w" else None]
            checked += len(errors)
            if method == "solver_w":
                mean = float(errors.sum() / drawn)
                worst, violations = max(worst, mean), violations + int(mean > error)
            elif len(errors):
                worst = max(worst, float(errors.max()))
                violations += int((errors > error + 1e-9).sum())
        kind = "expected" if method == "solver_w" else "largest"
        rows.append(
            row(
                f"{method} at epsilon = {error:g}: {kind} error at overloaded points",
                f"<= {error:g}, none above",
                f"{worst:.4f}, {violations} above of {checked:,} points, {refused} networks "
                f"refused, overload {overload:.0e}",
                violations == 0 and overload <= 1e-9,
            )
        )
    return rows


def regions_against_quadtree(quick: bool) -> list[Row]:
    program = build(examples.wide(4))
    enumerate_regions(program)
    seconds = best_of(5, lambda: enumerate_regions(program))
    regions = enumerate_regions(program)
    start = time.perf_counter()
    tree = build_tree(program, 0.1, scorer=glop_scorer(program))
    quadtree_s = time.perf_counter() - start
    plans, speed = tree.plan_count / regions.plan_count, quadtree_s / seconds
    many = build(examples.many_servers(8, 10))
    start = time.perf_counter()
    complete = enumerate_regions(many)
    many_s = time.perf_counter() - start
    plan = plan_network(examples.many_servers(8, 10), method="regions")
    errors, overload = relative_errors(plan, np.random.default_rng(5).random((20_000, 8)))
    worst = float(np.abs(errors).max())
    return [
        row(
            "4 inputs, epsilon = 10 %: quadtree plans per critical region",
            ">= 5,000x",
            f"{plans:,.0f}x ({tree.plan_count:,} against {regions.plan_count})",
            plans >= 5000,
        ),
        row(
            "4 inputs: time to build, quadtree on GLOP over regions",
            ">= 100x",
            f"{speed:,.0f}x ({quadtree_s:.1f} s against {seconds * 1e3:.1f} ms)",
            speed >= 100,
        ),
        row(
            "8 inputs on 10 servers: complete critical regions",
            "complete",
            f"{complete.plan_count} regions in {many_s:.2f} s, error {worst:.0e} at 20,000 points",
            worst <= 1e-9 and overload <= 1e-9,
        ),
    ]


def warm_against_glop(quick: bool) -> Row:
    rng = np.random.default_rng(6)
    ratios, batch = [], []
    steps = 200
    for network in networks(8 if quick else 24, 13):
        inputs = len(network.inputs)
        walk = 0.6 + np.cumsum(rng.normal(scale=0.02, size=(steps, inputs)), axis=0)
        rates = np.clip(np.abs(walk), 0.02, 1.0)
        model, warm = Glop(network), WarmSimplex(build(network))
        full = rates * network.max_rates
        singles = [vector[None, :] for vector in rates]
        warm.solve(rates)
        glop_s = best_of(3, lambda f=full, m=model: [m.resolve(vector) for vector in f])
        mine_s = best_of(5, lambda s=singles, w=warm: [w.solve(vector) for vector in s])
        batch_s = best_of(5, lambda r=rates, w=warm: w.solve(r))
        ratios.append(glop_s / mine_s)
        batch.append(batch_s / steps * 1e6)
    ratio = math.exp(float(np.mean(np.log(ratios))))
    return row(
        "run-time warm solve against GLOP's warm re-solve, drifting rates",
        ">= 20x, >= 20 networks",
        f"{ratio:.0f}x geometric mean over {len(ratios)} (called from Python; "
        f"{np.median(batch):.2f} us per vector in a batch)",
        ratio >= 20 and (quick or len(ratios) >= 20),
    )


def selection_speed(quick: bool) -> list[Row]:
    rng = np.random.default_rng(7)
    worst_batch = worst_single = 0.0
    for network in (examples.wide(4), examples.wide(8), examples.many_servers(8, 10)):
        plan = plan_network(network, method="regions")
        rates = rng.random((20_000, len(network.inputs))) * network.max_rates
        plan.at_many(rates[:10])
        batch = median_of(rates.reshape(20, 1000, -1), plan.at_many) / 1000
        single = median_of(rates[:2000], plan.at)
        worst_batch, worst_single = max(worst_batch, batch), max(worst_single, single)
    return [
        row("selection from regions, batch", "<= 5 us per vector",
            f"{worst_batch * 1e6:.2f} us", worst_batch <= 5e-6),
        row("selection from regions, one vector from Python", "<= 30 us",
            f"{worst_single * 1e6:.1f} us", worst_single <= 30e-6),
    ]  # fmt: skip


def moved_share(
    letter: str, query: int, units: int, error: float = 0.1
) -> tuple[float, int, int, int]:
    """Move ``units`` ms of one query from parent to child, or back with negative units.

    Returns the share of the child's new rows that are sent, their number, the rows named as gone,
    and the rows of the new table (Figure 15c).
    """
    before = examples.figure_9(letter, max_rate=40.0)
    parent_ms = 1000 * before.operator[f"a{query}"].cost
    child_ms = 1000 * before.operator[f"b{query}"].cost
    sampling = plan_sampling(before, error)
    servers = servers_of(before)
    parent = DFitServer(servers["A"], sampling)
    child = DFitServer(servers["B"], sampling, chain_bound(before, servers["B"], triangle=True))
    child.rebuild()
    child.delta()
    parent.change({f"a{query}": {"cost": (parent_ms - units) / 1000}})
    child.change({f"b{query}": {"cost": (child_ms + units) / 1000}})
    child.learn(parent.use_above("B"))
    table = child.rebuild()
    delta = child.delta()
    return len(delta.added) / table.count, len(delta.added), len(delta.removed), table.count


def operator_move(quick: bool) -> Row:
    found = {
        (letter, query, units): moved_share(letter, query, units)
        for letter in ("b" if quick else "abcd")
        for query in (1, 2)
        for units in (8, 16, 24)
        if 1000 * examples.figure_9(letter).operator[f"a{query}"].cost >= units
    }
    worst = max(found.values())
    back = moved_share("b", 1, -8)
    return row(
        "operator move from parent to child, 8 to 24 ms (Figure 15c): D-FIT rows resent",
        "<= 15 %",
        f"at most {worst[0]:.1%} ({worst[1]} of {worst[3]}) over {len(found)} moves, "
        f"{worst[2]} named as gone; back from child to parent, 8 ms: {back[0]:.1%} "
        f"({back[1]} of {back[3]})",
        worst[0] <= 0.15,
    )


def solver_w_plans(quick: bool) -> Row:
    ratios = {}
    for letter in "bcde":
        program = build(examples.figure_9(letter))
        workload = Exponential(MEAN, 2)
        solver = build_tree(program, 0.05)
        target = expected_error(solver, workload)
        weighted = build_tree(program, target, workload=workload)
        ratios[letter] = solver.plan_count / weighted.plan_count
    mean = math.exp(float(np.mean(np.log(list(ratios.values())))))
    text = ", ".join(f"9({letter}) {ratio:.2f}x" for letter, ratio in ratios.items())
    return row(
        "Solver over Solver-W plans at equal expected error, unbalanced networks",
        ">= 1.8x",
        f"{mean:.2f}x geometric mean ({text})",
        mean >= 1.8,
    )


def end_to_end(quick: bool) -> list[Row]:
    network = examples.web()
    rates = web_rates(network, period_s=60)
    found = compare(network, rates[:200] if quick else rates)
    shares = ", ".join(
        f"{name} {found.share_of_optimum(name):.3f}" for name in found.throughput
    )
    safe = all(found.highest_load[name] <= 1 + 1e-9 for name in found.plans)
    best = all(
        found.share_of_optimum(name) <= 1 + 1e-9 for name in found.throughput
    ) and not found.refused
    return [
        row(
            f"NASA rates, 6 inputs on {len(network.nodes)} servers, {len(found.offered)} minutes: "
            "throughput when overloaded, share of the optimum",
            "all methods, exact best",
            shares,
            safe and best,
        )
    ]


def dfit_failures(quick: bool) -> Row:
    """Kill a D-FIT process, delay another's tables; count periods above capacity in a row."""
    network = examples.chains("three", [0.05, 0.02], [0.01, 0.06], max_rates=[40, 40])
    rng = np.random.default_rng(8)
    longest, periods = 0, 0
    for scenario in ("kill child", "delay tables"):
        delays = {"B": 1.0} if scenario == "delay tables" else {}
        with Cluster(network, 0.1, deadline_s=90, delays_s=delays) as cluster:
            cluster.wait_planned()
            streak = {n.id: 0 for n in network.nodes}
            rates = {"i1": 5.0, "i2": 5.0}
            for step in range(30):
                if step % 6 == 0:  # rates change, then hold for several control periods
                    rates = {i: float(rng.uniform(0, 40)) for i in network.input_ids}
                if step == 10 and scenario == "kill child":
                    cluster.kill("B")
                if step == 10 and scenario == "delay tables":
                    cluster.change("B", {"b2": {"cost": 0.09}})
                loads = cluster.period(rates)["loads"]
                periods += 1
                for name, load in loads.items():
                    streak[name] = streak[name] + 1 if load > 1 + 1e-9 else 0
                    longest = max(longest, streak[name])
    return row(
        "D-FIT, one process killed or its tables delayed: control periods above capacity in a row",
        "<= 1",
        f"{longest} in {periods} periods of two scenarios",
        longest <= 1,
    )


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    return [
        optimum_equals_libraries(quick),
        exact_plans(quick),
        *error_bounds(quick),
        *regions_against_quadtree(quick),
        warm_against_glop(quick),
        *selection_speed(quick),
        operator_move(quick),
        solver_w_plans(quick),
        *end_to_end(quick),
        dfit_failures(quick),
    ]


def main() -> int:
    """Print the table; exit 1 if a bar is not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer networks and points")
    rows = run(parser.parse_args().quick)
    for entry in rows:
        met = {True: "yes", False: "NO", None: "reported"}[entry["met"]]
        print(f"[{met}] {entry['bar']}: {entry['required']} | {entry['measured']}")
    return int(any(entry["met"] is False for entry in rows))


if __name__ == "__main__":
    sys.exit(main())
