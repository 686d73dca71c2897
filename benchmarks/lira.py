"""The bars of the lira family: exactness, true errors, budgets, compactness, speed, real tracks.

``python -m benchmarks.lira`` prints the table; ``--quick`` uses fewer seeds and instances.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from planning.lira import compact, linear_program, printed
from planning.lira.axis import ErrorAxis
from planning.lira.dead_reckoning import Fleet, ThresholdMap
from planning.lira.experiment import Experiment
from planning.lira.greedy import greedy_increment
from planning.lira.gridreduce import grid_reduce, grid_reduce_sums
from planning.lira.halving import Halvings, best_partition
from planning.lira.nodemap import NodeMap
from planning.lira.parameters import Parameters
from planning.lira.partition import Partition
from planning.lira.planner import importance_of, update_weight
from planning.lira.quadtree import QuadTree
from planning.lira.reduction import ReductionCurve
from planning.lira.simulate import Result
from planning.lira.stations import broadcasts, place_by_density, touched
from planning.lira.throttlers import ThrottlerPath
from planning.lira.tracks import load_tracks

Row = dict[str, Any]
DISTRIBUTIONS = ("proportional", "inverse", "random")
LOADS = (0.3, 0.5, 0.75)
QUERIES, REGIONS = 100, 250
SEEDS = (11, 12, 13, 14, 15)  # the objective was chosen on seeds 1 to 5: none of these was seen
DATA = Path(os.environ.get("HEADGATE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def row(bar: str, required: str, measured: str, met: bool | None) -> Row:
    return {"bar": bar, "required": required, "measured": measured, "met": met}


class Timing(NamedTuple):
    """The shortest of several runs in seconds: by the clock, and of this process's CPU.

    Bars are judged by the clock, ratios have the clock on both sides; CPU time is shown beside it,
    because other work on the machine lengthens the one and not the other.
    """

    wall: float
    cpu: float


def best_of(repeats: int, work: Callable[[], Any], *, warm: bool = True) -> Timing:
    """Time ``work``, after one run to warm up."""
    if warm:
        work()
    times = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Timing(min(t[0] for t in times), min(t[1] for t in times))


def slowest(timings: list[Timing]) -> Timing:
    return Timing(max(t.wall for t in timings), max(t.cpu for t in timings))


def timed(bar: str, limit_s: float, timing: Timing) -> Row:
    """Return the row of a time bar, in the unit of its limit."""
    unit, scale = ("s", 1.0) if limit_s >= 1 else ("ms", 1e3)
    text = f"{timing.wall * scale:.3g} {unit} (CPU {timing.cpu * scale:.3g})"
    return row(bar, f"<= {limit_s * scale:g} {unit}", text, timing.wall <= limit_s)


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    experiments = [Experiment(seed) for seed in SEEDS[: 2 if quick else None]]
    return [
        *exactness(100 if quick else 2500),
        *quality(experiments),
        *compactness(experiments[0]),
        *adaptation(experiments[0], quick),
        *runtime_speed(experiments[0]),
        *real_tracks(),
    ]


def exactness(instances: int) -> list[Row]:
    """Compare the path with HiGHS on random instances and race it at l = 250."""
    rng = np.random.default_rng(7)
    worst = 0.0
    infeasible = 0
    for _ in range(instances):
        m, w, d, f, fairness, z = linear_program.random_instance(rng)
        curve = ReductionCurve.of(d, f)
        setting = ThrottlerPath.of(m, w, curve, fairness).at(z)
        best = linear_program.optimum(m, w, d, curve.hull, fairness, z)
        if best.status == 2:
            infeasible += 1
            worst = max(worst, abs(setting.expenditure - curve.hull[-1]))
            continue
        optimum = best.fun + m.sum() * d[0]
        worst = max(worst, abs(setting.inaccuracy - optimum) / max(optimum, 1e-9))
    d = 5.0 + np.arange(96)
    curve = ReductionCurve.of(d, (5.0 / d) ** 0.55)
    m = rng.exponential(1, REGIONS) * (rng.random(REGIONS) < 0.7)
    w = rng.exponential(1, REGIONS)
    highs = best_of(3, lambda: linear_program.optimum(m, w, d, curve.hull, 50.0, 0.5), warm=False)
    ours = best_of(50, lambda: ThrottlerPath.of(m, w, curve, 50.0).at(0.5))
    ratio = highs.wall / ours.wall
    path = ThrottlerPath.of(m, w, curve, 50.0)
    loads = np.linspace(0.25, 0.99, 100)
    many = best_of(5, lambda: [path.at(z) for z in loads])
    again = Timing(many.wall / loads.size, many.cpu / loads.size)
    monotone = np.array([path.at(z).throttlers for z in loads])
    return [
        row("throttlers = LP optimum (HiGHS), fairness, degenerate cases", "<= 1e-9 on >= 2000",
            f"{worst:.1e} on {instances} ({infeasible} unreachable)", worst <= 1e-9),
        row("throttlers monotone in z", "every region",
            f"largest rise {np.diff(monotone, axis=0).max():.1e} m",
            bool((np.diff(monotone, axis=0) <= 1e-9).all())),
        row("throttlers against HiGHS, l = 250", ">= 500x", f"{ratio:.0f}x", ratio >= 500),
        timed("a new z from a held path, l = 250", 1e-4, again),
    ]  # fmt: skip


def quality(experiments: list[Experiment]) -> list[Row]:
    """Measure true errors in all nine cells, and what else the same fleets show."""
    found: dict[tuple[str, float, str], list[Result]] = {}
    predicted: list[float] = []
    for experiment in experiments:
        for distribution in DISTRIBUTIONS:
            queries = experiment.queries(distribution, QUERIES)
            for z in LOADS:
                results = _cell(experiment, queries, z)
                for name, result in results.items():
                    found.setdefault((distribution, z, name), []).append(result)
                if z == 0.3:
                    predicted.append(_greedy_gap(experiment, queries, z))
    rows = []
    for z, drop, uniform in ((0.75, 25, 5), (0.5, 15, 1.8)):
        for name, least in (("Random Drop", drop), ("Uniform Δ", uniform)):
            ratio = _ratio(found, "proportional", z, name, "position")
            rows.append(
                row(f"E_P of {name} over ours, Proportional, z = {z}", f">= {least}x",
                    f"{ratio:.1f}x", ratio >= least)
            )  # fmt: skip
    for measure, symbol in (("position", "E_P"), ("containment", "E_C")):
        gains = []
        for distribution in DISTRIBUTIONS:
            for z in LOADS:
                grid = _ratio(found, distribution, z, "Lira-Grid", measure)
                gains.append(1 / _ratio(found, distribution, z, "GRIDREDUCE + greedy", measure))
                rows.append(
                    row(f"{symbol} of Lira-Grid (256) over ours, {distribution}, z = {z}",
                        ">= 1x", f"{grid:.2f}x", grid >= 1)
                )  # fmt: skip
        lower = 1 - float(np.mean(gains))
        rows.append(
            row(f"{symbol} below GRIDREDUCE + greedy, mean of nine cells", ">= 20 %",
                f"{lower:.0%}", lower >= 0.2)
        )  # fmt: skip
    rows += _budgets(found)
    rows.append(
        row("predicted inaccuracy of the printed greedy over the optimum, F = 50, z = 0.3",
            "reported", f"{min(predicted):.2f}–{max(predicted):.2f}x", None)
    )  # fmt: skip
    rows += _reported(experiments[0])
    return rows


def _cell(experiment: Experiment, queries: np.ndarray, z: float) -> dict[str, Result]:
    bench = experiment.bench
    ours = experiment.plan(queries, z)
    return {
        "Random Drop": bench.random_drop(queries, z),
        "Uniform Δ": bench.uniform(queries, z, experiment.curve),
        "Lira-Grid": experiment.measure(
            queries, experiment.printed(queries, z, partitioner="grid"), z
        ),
        "GRIDREDUCE + greedy": experiment.measure(queries, experiment.printed(queries, z), z),
        "ours": bench.plan(queries, z, ours),
        "ours, uncorrected": bench.plan(queries, z, ours, correct=False),
    }


def _ratio(found: dict[Any, list[Result]], distribution: str, z: float, name: str, measure: str
           ) -> float:  # fmt: skip
    """Return the geometric mean over seeds of another method's error over ours."""
    logs = [
        np.log(getattr(other.errors, measure) / getattr(ours.errors, measure))
        for other, ours in zip(
            found[distribution, z, name], found[distribution, z, "ours"], strict=True
        )
    ]
    return float(np.exp(np.mean(logs)))


def _budgets(found: dict[Any, list[Result]]) -> list[Row]:
    rows = []
    for name, binding in (("ours", True), ("ours, uncorrected", False)):
        off = [r.updates / z - 1 for (_, z, n), rs in found.items() if n == name for r in rs]
        text = f"{min(off):+.1%} … {max(off):+.1%} over {len(off)} runs"
        correction = "with" if binding else "without"
        rows.append(
            row(f"updates relative to z on the fresh part, {correction} run-time correction",
                "within 2 %" if binding else "reported", text,
                max(map(abs, off)) <= 0.02 if binding else None)
        )  # fmt: skip
    return rows


def _greedy_gap(experiment: Experiment, queries: np.ndarray, z: float) -> float:
    grid = experiment.statistics(queries, 128).grid
    nodes = grid.nodes.astype(np.float64)
    partition = grid_reduce(nodes, grid.queries, experiment.curve, REGIONS, z)
    m, w = partition.sums(grid.queries), partition.sums(nodes)
    best = ThrottlerPath.of(m, w, experiment.curve, 50.0).at(z).inaccuracy
    return float(m @ greedy_increment(m, w, experiment.curve, 50.0, z)) / best


def _reported(experiment: Experiment) -> list[Row]:
    """Measure what the issue wants said: speed factor, and many queries."""
    queries = experiment.queries("proportional", QUERIES)
    plain = experiment.bench.plan(queries, 0.5, experiment.plan(queries, 0.5)).errors.position
    speed = experiment.bench.plan(
        queries, 0.5, experiment.plan(queries, 0.5, speed_factor=True)
    ).errors.position
    many = experiment.queries("proportional", 10 * QUERIES)
    uniform = experiment.bench.uniform(many, 0.5, experiment.curve).errors
    ours = experiment.bench.plan(many, 0.5, experiment.plan(many, 0.5)).errors
    return [
        row("E_P with the speed factor over without, Proportional, z = 0.5", "reported",
            f"{speed / plain:.2f}x", None),
        row("Uniform Δ over ours at m/n = 0.1, z = 0.5 (little to gain)", "reported",
            f"E_P {uniform.position / ours.position:.2f}x, "
            f"E_C {uniform.containment / ours.containment:.2f}x", None),
    ]  # fmt: skip


def compactness(experiment: Experiment) -> list[Row]:
    """Measure bytes per region: whole map, station's broadcast, and a change of z."""
    worst, stations_mean, levels_map, changes = 0.0, [], 0.0, []
    known: list[float] = []
    for distribution in DISTRIBUTIONS:
        queries = experiment.queries(distribution, QUERIES)
        for z in LOADS:
            plan = experiment.plan(queries, z)
            worst = max(worst, len(compact.encode_map(plan, z)) / plan.regions)
            levels_map = max(levels_map, len(compact.encode_map(plan)) / plan.regions)
            changes.append(len(compact.encode_change(plan, z)))
            grid = experiment.statistics(queries, 128).grid
            stations = place_by_density(
                grid.nodes.astype(np.float64), grid.bounds,
                nodes_per_station=0.15 * float(grid.nodes.sum()),
            )  # fmt: skip
            for load in (z, None):
                messages = broadcasts(plan, stations, load)
                counts = [
                    len(touched(plan.partition, plan.frame, x, y, r))
                    for x, y, r in zip(stations.x, stations.y, stations.radius, strict=True)
                ]
                stations_mean.append(sum(map(len, messages)) / sum(counts))
                known.append(float(np.mean(counts)))
    return [
        row("whole map at one z, l = 250, worst of nine cells", "<= 1.3 bytes per region",
            f"{worst:.2f}", worst <= 1.3),
        row("whole map with levels (any z), worst of nine cells", "<= 1.3 bytes per region",
            f"{levels_map:.2f}", levels_map <= 1.3),
        row("a station's broadcast, throttlers or levels, worst mean", "<= 2 bytes per region",
            f"{max(stations_mean):.2f} (mean of {np.mean(known):.0f} regions a station)",
            max(stations_mean) <= 2),
        row("a new z for nodes that hold levels", "a few bytes",
            f"{min(changes)}–{max(changes)} bytes", max(changes) <= 40),
    ]  # fmt: skip


def adaptation(experiment: Experiment, quick: bool) -> list[Row]:
    """Time the adaptation step: partition and throttlers from a statistics grid."""
    rows = _adaptation_case(experiment, 128, 250, 100, 1000.0, (0.001, 0.005))
    rows += _adaptation_case(experiment, 512, 4000, 1600, 250.0, (0.010, 0.060))
    rows.append(_against_python(experiment))
    return rows if quick else rows + _largest(experiment)


def _adaptation_case(
    experiment: Experiment, side: int, regions: int, count: int, query_side: float,
    limits: tuple[float, float],
) -> list[Row]:  # fmt: skip
    queries = experiment.queries("proportional", count, query_side)
    grid = experiment.statistics(queries, side).grid
    nodes, asked = grid.nodes.astype(np.float64), grid.queries
    weight = update_weight(grid, False)
    chosen = Parameters(reach_m=0.1 * query_side)
    importance = importance_of(grid, queries, np.ones(count), chosen, 90.0).total
    axis = ErrorAxis.of(experiment.curve, 6.0).curve
    trees = Halvings(importance, weight)

    def paper(z: float) -> None:
        _paper_step(nodes, asked, experiment.curve, regions, z)

    def better(z: float, start: Partition | None) -> Partition:
        trees.refill(importance, weight)
        if start is None:
            trees.charge = 0.0
        return best_partition(trees, importance, weight, axis, regions, z, 50.0, start=start)[0]

    by_paper = [best_of(9, partial(paper, z)) for z in LOADS]
    warm = [best_of(7, partial(better, z, better(z, None))) for z in LOADS]
    cold = [best_of(7, partial(better, z, None)) for z in LOADS]
    name = f"α = {side}, l = {regions}, slowest z"
    return [
        timed(f"adaptation, GRIDREDUCE + exact throttlers, {name}", limits[0], slowest(by_paper)),
        timed(f"adaptation, best halvings, from the last regions, {name}", limits[1],
              slowest(warm)),
        timed(f"adaptation, best halvings, from nothing, {name}", limits[1], slowest(cold)),
    ]  # fmt: skip


def _paper_step(
    nodes: np.ndarray, asked: np.ndarray, curve: ReductionCurve, regions: int, z: float
) -> Any:
    _, n, m = grid_reduce_sums(nodes, asked, curve, regions, z)
    return ThrottlerPath.of(m, n, curve, 50.0).at(z)


def _against_python(experiment: Experiment) -> Row:
    grid = experiment.statistics(experiment.queries("proportional", QUERIES), 128).grid
    nodes, asked = grid.nodes.astype(np.float64), grid.queries
    curve, regions = experiment.curve, REGIONS
    n, m = nodes.tolist(), asked.tolist()
    d, f = curve.thresholds.tolist(), curve.hull.tolist()

    def heap() -> None:
        leaves = printed.grid_reduce(printed.build_tree(n, m), curve, regions, 0.5)
        printed.greedy_increment([t.m for t in leaves], [t.n for t in leaves], d, f, 50.0, 0.5)

    plain = best_of(5, heap)
    ours = best_of(20, lambda: _paper_step(nodes, asked, curve, regions, 0.5))
    ratio = plain.wall / ours.wall
    return row("adaptation against a plain Python heap implementation, α = 128, l = 250",
               ">= 100x", f"{ratio:.0f}x (CPU {plain.cpu / ours.cpu:.0f}x)",
               ratio >= 100)  # fmt: skip


def _largest(experiment: Experiment) -> list[Row]:
    rng = np.random.default_rng(1)
    side, regions = 4096, 100_000
    nodes = rng.gamma(0.1, 1.0, (side, side))
    asked = rng.random((side, side)) * (rng.random((side, side)) < 0.2)
    importance = asked + 1e-3 * nodes

    def better() -> None:
        trees = QuadTree(importance, nodes)
        best_partition(trees, importance, nodes, experiment.curve, regions, 0.5, 50.0)

    paper = best_of(
        1, lambda: _paper_step(nodes, asked, experiment.curve, regions, 0.5), warm=False
    )
    name = f"α = {side}, l = {regions}"
    return [
        timed(f"adaptation, GRIDREDUCE + exact throttlers, {name}", 5.0, paper),
        timed(f"adaptation, best quad-tree, {name}", 5.0, best_of(1, better, warm=False)),
    ]


def runtime_speed(experiment: Experiment) -> list[Row]:
    """Measure node-side lookups and a whole simulated fleet."""
    queries = experiment.queries("proportional", QUERIES)
    plan = experiment.plan(queries, 0.5)
    whole = NodeMap.from_map(compact.encode_map(plan, 0.5))
    grid = experiment.statistics(queries, 128).grid
    stations = place_by_density(
        grid.nodes.astype(np.float64), grid.bounds,
        nodes_per_station=0.15 * float(grid.nodes.sum()),
    )  # fmt: skip
    part = NodeMap.from_part(broadcasts(plan, stations, 0.5)[0], plan.frame)
    rng = np.random.default_rng(0)
    count = 4_000_000
    x, y = rng.uniform(0, plan.frame.bounds[2], (2, count))
    near_x = stations.x[0] + (rng.random(count) - 0.5) * stations.radius[0]
    near_y = stations.y[0] + (rng.random(count) - 0.5) * stations.radius[0]
    batch = count / best_of(5, lambda: whole.thresholds(x, y)).wall / 1e6
    local = count / best_of(5, lambda: part.thresholds(near_x, near_y)).wall / 1e6
    xs, ys = near_x[:100_000].tolist(), near_y[:100_000].tolist()

    def singles() -> None:
        threshold = part.threshold
        for a, b in zip(xs, ys, strict=True):
            threshold(a, b)

    single = 100_000 / best_of(3, singles).wall
    trace = experiment.trace
    map_ = ThresholdMap(plan.frame.bounds, plan.at(0.5).by_level[plan.raster])
    Fleet(trace.part(0, 3)).run(map_, 3)
    fleet = best_of(1, lambda: Fleet(trace).run(map_, trace.ticks), warm=False)
    return [
        row("lookup over the whole plan, batches, one core", ">= 100 million/s",
            f"{batch:.0f} million/s", batch >= 100),
        row("lookup on a station's part, batches, one core", ">= 25 million/s",
            f"{local:.0f} million/s", local >= 25),
        row("lookup, single calls", ">= 500,000/s", f"{single:,.0f}/s", single >= 500_000),
        timed(f"dead-reckoning fleet, {trace.nodes} nodes × {trace.ticks} ticks", 30.0, fleet),
    ]  # fmt: skip


def real_tracks() -> list[Row]:
    """Errors on recorded tracks, beside Random Drop and Uniform Δ."""
    rows = []
    for tracks in load_tracks(DATA):
        experiment = tracks.experiment()
        queries = tracks.queries(experiment)
        for z in LOADS:
            plan = experiment.plan(queries, z)
            ours = experiment.bench.plan(queries, z, plan)
            drop = experiment.bench.random_drop(queries, z)
            uniform = experiment.bench.uniform(queries, z, experiment.curve)
            text = ", ".join(
                f"{name} {r.errors.position:.3g} m / {r.errors.containment:.3g}"
                for name, r in (("ours", ours), ("Random Drop", drop), ("Uniform Δ", uniform))
            )
            least = min(drop.errors.position, uniform.errors.position)
            rows.append(
                row(f"{tracks.name}, z = {z}: E_P / E_C", "below both baselines", text,
                    ours.errors.position <= least)
            )  # fmt: skip
    if not rows:
        rows.append(row("real tracks", "below both baselines", f"no data in {DATA}", None))
    return rows


def main() -> int:
    from planning.commands.options import print_table

    parser = argparse.ArgumentParser(prog="python -m benchmarks.lira", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds and instances")
    rows = run(parser.parse_args().quick)
    met = {True: "yes", False: "NO", None: "reported"}
    print_table(
        ["bar", "required", "measured", "met"],
        [[r["bar"], r["required"], r["measured"], met[r["met"]]] for r in rows],
    )
    return int(any(r["met"] is False for r in rows))


if __name__ == "__main__":
    sys.exit(main())
