"""What stations broadcast, how nodes look it up, and a whole simulated fleet."""

from __future__ import annotations

import numpy as np

from benchmarks.lira.bench import plan_map
from benchmarks.lira.fleet import Fleet
from benchmarks.lira.placement import place_by_density, touched
from benchmarks.lira.scene import Scene
from benchmarks.lira.setting import DISTRIBUTIONS, LOADS, QUERIES, SEEDS, scene_of, timed
from benchmarks.rows import Row, best_of, row
from planning.arrays import FloatArray
from planning.lira.codec import messages
from planning.lira.plan import Plan
from planning.lira.stations import NodeMap, Stations, broadcasts


def compactness(quick: bool) -> list[Row]:
    """Measure bytes per region: whole map, station's broadcast, and a change of z."""
    scene = scene_of(SEEDS[0])
    at_one_z, any_z, broadcast, known, changes = [], [], [], [], []
    for distribution in DISTRIBUTIONS:
        queries = scene.queries(distribution, QUERIES)
        stations = _stations(scene, queries)
        for z in LOADS:
            plan = scene.plan(queries, z)
            at_one_z.append(len(messages.encode_map(plan, z)) / plan.regions)
            any_z.append(len(messages.encode_map(plan)) / plan.regions)
            changes.append(len(messages.encode_change(plan, z)))
            counts = [
                len(touched(plan.partition, plan.frame, x, y, r))
                for x, y, r in zip(stations.x, stations.y, stations.radius, strict=True)
            ]
            known.append(float(np.mean(counts)))
            for load in (z, None):
                sent = broadcasts(plan, stations, load)
                broadcast.append(sum(map(len, sent)) / sum(counts))
    return [
        row("whole map at one z, l = 250, worst of nine cells", "<= 1.3 bytes per region",
            f"{max(at_one_z):.2f}", max(at_one_z) <= 1.3),
        row("whole map with levels (any z), worst of nine cells", "<= 1.3 bytes per region",
            f"{max(any_z):.2f}", max(any_z) <= 1.3),
        row("a station's broadcast, throttlers or levels, worst mean", "<= 2 bytes per region",
            f"{max(broadcast):.2f} (mean of {np.mean(known):.0f} regions a station)",
            max(broadcast) <= 2),
        row("a new z for nodes that hold levels", "a few bytes",
            f"{min(changes)}–{max(changes)} bytes", max(changes) <= 40),
    ]  # fmt: skip


def _stations(scene: Scene, queries: FloatArray) -> Stations:
    grid = scene.statistics(queries, 128).grid
    return place_by_density(
        grid.nodes.astype(np.float64), grid.bounds,
        nodes_per_station=0.15 * float(grid.nodes.sum()),
    )  # fmt: skip


def runtime_speed(quick: bool) -> list[Row]:
    """Measure node-side lookups and a whole simulated fleet."""
    scene = scene_of(SEEDS[0])
    queries = scene.queries("proportional", QUERIES)
    plan = scene.plan(queries, 0.5)
    trace = scene.trace
    thresholds = plan_map(plan, 0.5)
    Fleet(trace.part(0, 3)).run(thresholds, 3)
    fleet = best_of(1, lambda: Fleet(trace).run(thresholds, trace.ticks), warm=False)
    return [
        *_lookups(plan, _stations(scene, queries)),
        timed(f"dead-reckoning fleet, {trace.nodes} nodes × {trace.ticks} ticks", 30.0, fleet),
    ]


def _lookups(plan: Plan, stations: Stations) -> list[Row]:
    whole = NodeMap.from_map(messages.encode_map(plan, 0.5))
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
    return [
        row("lookup over the whole plan, batches, one core", ">= 100 million/s",
            f"{batch:.0f} million/s", batch >= 100),
        row("lookup on a station's part, batches, one core", ">= 25 million/s",
            f"{local:.0f} million/s", local >= 25),
        row("lookup, single calls", ">= 500,000/s", f"{single:,.0f}/s", single >= 500_000),
    ]  # fmt: skip
