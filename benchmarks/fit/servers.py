"""Bars on the paper's methods at work: D-FIT's deltas and failures, Solver-W, real rates."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.fit import examples
from benchmarks.fit.cluster import Cluster
from benchmarks.fit.networks import MEAN
from benchmarks.fit.quadtrees import expected_error
from benchmarks.fit.recorded import web_rates
from benchmarks.rows import Row, row
from planning.fit.dfit.chains import chain_bound
from planning.fit.dfit.controller import DFitServer
from planning.fit.dfit.sampling import plan_sampling
from planning.fit.dfit.servers import servers_of
from planning.fit.printed.comparison import compare
from planning.fit.printed.distributions import Exponential
from planning.fit.printed.quadtree import build as build_tree
from planning.fit.simplex.shedding import shedding_program


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
    moves = {
        (letter, query, units): moved_share(letter, query, units)
        for letter in ("b" if quick else "abcd")
        for query in (1, 2)
        for units in (8, 16, 24)
        if 1000 * examples.figure_9(letter).operator[f"a{query}"].cost >= units
    }
    worst = max(moves.values())
    back = moved_share("b", 1, -8)
    return row(
        "operator move from parent to child, 8 to 24 ms (Figure 15c): D-FIT rows resent",
        "<= 15 %",
        f"at most {worst[0]:.1%} ({worst[1]} of {worst[3]}) over {len(moves)} moves, "
        f"{worst[2]} named as gone; back from child to parent, 8 ms: {back[0]:.1%} "
        f"({back[1]} of {back[3]})",
        worst[0] <= 0.15,
    )


def solver_w_plans(quick: bool) -> Row:
    ratios = {}
    for letter in "bcde":
        program = shedding_program(examples.figure_9(letter))
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
    rates = web_rates(network, period_s=60)[: 200 if quick else None]
    compared = compare(network, rates)
    shares = ", ".join(
        f"{name} {compared.share_of_optimum(name):.3f}" for name in compared.throughput
    )
    safe = all(compared.highest_load[name] <= 1 + 1e-9 for name in compared.plans)
    best = all(
        compared.share_of_optimum(name) <= 1 + 1e-9 for name in compared.throughput
    ) and not compared.refused
    return [
        row(
            f"NASA rates, 6 inputs on {len(network.nodes)} servers, {len(rates)} minutes: "
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
