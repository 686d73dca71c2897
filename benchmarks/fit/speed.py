"""Bars on plan counts and time: critical regions, the warm solve, selection."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.fit import examples
from benchmarks.fit.experiments import library_scorer
from benchmarks.fit.networks import networks, relative_errors
from benchmarks.rows import Row, best_of, row
from planning.fit.path.regions import enumerate_regions
from planning.fit.planner import plan_network
from planning.fit.printed.quadtree import build as build_tree
from planning.fit.program import NetworkProgram
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex

TURN = 20


def median_of(arguments: Any, work: Callable[[Any], Any]) -> float:
    """Return the median time of single calls: other processes disturb only some of them."""
    times = []
    for argument in arguments:
        start = time.perf_counter()
        work(argument)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def regions_against_quadtree(quick: bool) -> list[Row]:
    program = shedding_program(examples.wide(4))
    seconds = best_of(5, lambda: enumerate_regions(program)).wall
    regions = enumerate_regions(program)
    start = time.perf_counter()
    tree = build_tree(program, 0.1, scorer=library_scorer(program))
    quadtree_s = time.perf_counter() - start
    plans, speed = tree.plan_count / regions.plan_count, quadtree_s / seconds
    many = shedding_program(examples.many_servers(8, 10))
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


def alternately(
    first: Callable[[Any], Any], second: Callable[[Any], Any], arguments: list[tuple[Any, Any]]
) -> tuple[float, float]:
    """Return both functions' median seconds per call, called in turns of ``TURN`` arguments.

    Other work on the machine then slows both alike, and only some of the turns.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for begin in range(0, len(arguments), TURN):
        turn = arguments[begin : begin + TURN]
        for k, work in enumerate((first, second)):
            mine = [pair[k] for pair in turn]
            start = time.perf_counter()
            for argument in mine:
                work(argument)
            seconds[k].append((time.perf_counter() - start) / len(turn))
    return float(np.median(seconds[0])), float(np.median(seconds[1]))


def warm_against_glop(quick: bool) -> Row:
    rng = np.random.default_rng(6)
    singly, in_batch, single_us, batch_us = [], [], [], []
    for network in networks(8 if quick else 24, 13):
        walk = 0.6 + np.cumsum(rng.normal(scale=0.02, size=(600, len(network.inputs))), axis=0)
        rates = np.clip(np.abs(walk), 0.02, 1.0)
        model, warm = NetworkProgram(network), WarmSimplex(shedding_program(network))
        pairs = [(v * network.max_rates, v[None, :]) for v in rates]
        warm.fractions(rates)
        glop_s, single_s = alternately(model.resolve, warm.fractions, pairs)
        batch_s = best_of(5, lambda r=rates, w=warm: w.fractions(r)).wall / len(rates)
        singly.append(glop_s / single_s)
        in_batch.append(glop_s / batch_s)
        single_us.append(single_s * 1e6)
        batch_us.append(batch_s * 1e6)
    ratio = geometric_mean(singly)
    return row(
        "run-time warm solve against GLOP's warm re-solve, drifting rates",
        ">= 20x, >= 20 networks",
        f"{ratio:.0f}x geometric mean over {len(singly)} networks when called for one vector from "
        f"Python ({np.median(single_us):.2f} us); {geometric_mean(in_batch):.0f}x in a batch "
        f"({np.median(batch_us):.2f} us per vector)",
        ratio >= 20 and (quick or len(singly) >= 20),
    )


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(float(np.mean(np.log(ratios))))


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
