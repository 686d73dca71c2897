"""The figures and tables of Section 4 as numbers: who is measured, over what.

LIRA here is this family's plan unless a column says "printed", which is GRIDREDUCE and
GREEDYINCREMENT as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.figures import PRINTED, Figure, Panel
from benchmarks.lira.bench import QueryErrors, Result
from benchmarks.lira.placement import place_by_density, place_evenly, touched
from benchmarks.lira.recorded import Tracks
from benchmarks.lira.scene import Scene
from benchmarks.lira.workload import Distribution
from planning.arrays import FloatArray
from planning.lira.partition.regions import grid_side
from planning.lira.path import ThrottlerPath
from planning.lira.printed.gridreduce import grid_reduce_sums
from planning.lira.stations import Stations

DISTRIBUTIONS: tuple[Distribution, ...] = ("proportional", "inverse", "random")
PAPERS_TABLE_3 = {1.0: 3.1, 2.0: 12.5, 3.0: 28.2, 4.0: 50.2, 5.0: 78.5}
PAPERS_REGIONS_BY_DENSITY = 41.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is simulated."""

    cars: int
    seconds: int
    warm_up: int
    loads: tuple[float, ...]
    regions: tuple[int, ...]
    fairness: tuple[float, ...]
    queries: int  # the paper's m/n = 0.01; more where so few would all be free of error


FULL = Scale(
    10_000, 3600, 300, (0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.97), (25, 64, 100, 250, 500, 1000),
    (5.0, 10.0, 25.0, 50.0, 75.0, 95.0), 100,
)  # fmt: skip
QUICK = Scale(1500, 1200, 120, (0.3, 0.5, 0.75), (25, 100, 250), (10.0, 50.0, 95.0), 60)
TRACK_LOADS = (0.3, 0.4, 0.5, 0.6, 0.75)


def figure_1(scene: Scene, scale: Scale) -> list[Figure]:
    """f(Δ): updates relative to Δmin, measured, and its convex hull."""
    curve = scene.curve
    rows = list(zip(curve.thresholds, curve.raw, curve.hull, strict=True))[::5]
    names = ("f measured", "f convex")
    return [
        Figure("figure-01", "Figure 1: updates over the inaccuracy threshold",
              "inaccuracy threshold Δ, m", ("Δ, m", *names), rows,
              [Panel("updates relative to Δmin", names)], dashed=names[1:])
    ]  # fmt: skip


def all_methods(scene: Scene, queries: FloatArray, z: float) -> dict[str, Result]:
    """Run every method of Figures 4 to 7 at one operating point."""
    bench = scene.bench
    return {
        "Random Drop": bench.random_drop(queries, z),
        "Uniform Δ": bench.uniform(queries, z, scene.curve),
        "Lira-Grid": scene.measure(
            queries, scene.printed(queries, z, even=True), z
        ),
        "LIRA printed": scene.measure(queries, scene.printed(queries, z), z),
        "LIRA": bench.plan(queries, z, scene.plan(queries, z)),
    }


def figures_4_to_7(scene: Scene, scale: Scale) -> list[Figure]:
    """E_P and E_C of all methods over z, for each query distribution."""
    tables = []
    for figure, distribution in zip((5, 6, 7), DISTRIBUTIONS, strict=True):
        queries = scene.queries(distribution, scale.queries)
        results = [(z, all_methods(scene, queries, z)) for z in scale.loads]
        names = tuple(results[0][1])
        if figure == 5:
            rows = [(z, *(r[n].errors.position for n in names)) for z, r in results]
            tables.append(_over_z(4, "position error", distribution, names, rows))
        rows = [(z, *(r[n].errors.containment for n in names)) for z, r in results]
        tables.append(_over_z(figure, "containment error", distribution, names, rows))
    return tables


def _over_z(
    figure: int, error: str, distribution: Distribution, names: Sequence[str],
    rows: Sequence[Sequence[float]],
) -> Figure:  # fmt: skip
    unit = "mean position error E_P, m" if figure == 4 else "mean containment error E_C"
    return Figure(
        f"figure-{figure:02d}", f"Figure {figure}: {error} over z, {distribution.capitalize()}",
        "throttle fraction z", ("z", *names), rows, [Panel(unit, names, log=True)],
    )  # fmt: skip


def _plan_errors(
    scene: Scene, queries: FloatArray, z: float, **changes: Any
) -> QueryErrors:
    """Return the errors of our plan for one operating point."""
    plan = scene.plan(queries, z, **changes)
    return scene.bench.plan(queries, z, plan).errors


def _printed_errors(
    scene: Scene, queries: FloatArray, z: float, regions: int
) -> QueryErrors:
    """Return the errors of the paper's LIRA for one operating point."""
    return scene.measure(queries, scene.printed(queries, z, regions), z).errors


def _with_printed(names: Sequence[str]) -> tuple[str, ...]:
    """Return a column for our plan and one for the printed LIRA under each name.

    >>> _with_printed(["inverse"])
    ('inverse', 'inverse, printed')
    """
    return tuple(column for name in names for column in (name, name + PRINTED))


def figures_8_and_9(scene: Scene, scale: Scale) -> list[Figure]:
    """Lira-Grid relative to LIRA, and LIRA's E_C, over the number of regions."""
    loads = (0.3, 0.5, 0.75)
    asked = {name: scene.queries(name, scale.queries) for name in DISTRIBUTIONS}
    relative, absolute = [], []
    for regions in scale.regions:
        ratios = []
        for queries in asked.values():
            grid_map = scene.printed(queries, 0.5, regions, even=True)
            grid = scene.measure(queries, grid_map, 0.5).errors.containment
            ours = _plan_errors(scene, queries, 0.5, regions=regions)
            printed = _printed_errors(scene, queries, 0.5, regions)
            ratios += [error_ratio(grid, ours.containment), error_ratio(grid, printed.containment)]
        relative.append((regions, *ratios))
        errors = [
            _plan_errors(scene, asked["proportional"], z, regions=regions) for z in loads
        ]
        absolute.append((regions, *(e.containment for e in errors)))
    names = tuple(f"z = {z}" for z in loads)
    pairs = _with_printed(DISTRIBUTIONS)
    return [
        Figure("figure-08", "Figure 8: E_C of Lira-Grid relative to LIRA over l, z = 0.5",
              "shedding regions l", ("l", *pairs), relative,
              [Panel("E_C of Lira-Grid / E_C of LIRA", pairs)], log_x=True),
        Figure("figure-09", "Figure 9: E_C of LIRA over l", "shedding regions l", ("l", *names),
              absolute, [Panel("mean containment error E_C", names, log=True)], log_x=True),
    ]  # fmt: skip


def error_ratio(other: float, ours: float) -> float:
    """Return a ratio of errors; none where ours is 0, because no number would be true.

    >>> error_ratio(3.0, 1.5), error_ratio(3.0, 0.0)
    (2.0, nan)
    """
    return other / ours if ours > 0 else float("nan")


def figure_10(scene: Scene, scale: Scale) -> list[Figure]:
    """Fairness among queries: D_ev and C_ov of containment over the fairness threshold."""
    queries = scene.queries("proportional", scale.queries)
    uniform = scene.bench.uniform(queries, 0.75, scene.curve).errors
    rows = []
    for fairness in scale.fairness:
        ours = _plan_errors(scene, queries, 0.75, fairness_threshold=fairness)
        rows.append(
            (fairness, ours.containment_deviation, uniform.containment_deviation,
             ours.containment_variation, uniform.containment_variation)
        )  # fmt: skip
    deviation, variation = (
        tuple(f"{symbol} {name}" for name in ("LIRA", "Uniform Δ")) for symbol in ("D_ev", "C_ov")
    )
    return [
        Figure("figure-10", "Figure 10: fairness among queries over Δ⇔, z = 0.75",
              "fairness threshold Δ⇔, m", ("Δ⇔, m", *deviation, *variation), rows,
              [Panel("standard deviation D_ev", deviation, log=True),
               Panel("coefficient of variance C_ov", variation)])
    ]  # fmt: skip


def figure_11(scene: Scene, scale: Scale) -> list[Figure]:
    """E_P over the fairness threshold for several z."""
    queries = scene.queries("proportional", scale.queries)
    loads = (0.3, 0.5, 0.75, 0.9)
    rows = [
        (fairness, *(
            _plan_errors(scene, queries, z, fairness_threshold=fairness).position
            for z in loads
        ))
        for fairness in scale.fairness
    ]  # fmt: skip
    names = tuple(f"z = {z}" for z in loads)
    return [
        Figure("figure-11", "Figure 11: E_P of LIRA over the fairness threshold",
              "fairness threshold Δ⇔, m", ("Δ⇔, m", *names), rows,
              [Panel("mean position error E_P, m", names, log=True)])
    ]  # fmt: skip


def figure_12(scene: Scene, scale: Scale) -> list[Figure]:
    """E_C of Uniform Δ relative to LIRA over l, for two ratios of queries to nodes."""
    counts = (scale.queries, 10 * scale.queries)
    asked = [scene.queries("proportional", count) for count in counts]
    uniform = [scene.bench.uniform(q, 0.5, scene.curve).errors for q in asked]
    rows = []
    for regions in scale.regions:
        ratios = []
        for queries, other in zip(asked, uniform, strict=True):
            ours = _plan_errors(scene, queries, 0.5, regions=regions)
            printed = _printed_errors(scene, queries, 0.5, regions)
            ratios += [error_ratio(other.containment, e.containment) for e in (ours, printed)]
        rows.append((regions, *ratios))
    names = _with_printed([f"m = {count}" for count in counts])
    return [
        Figure("figure-12", "Figure 12: E_C of Uniform Δ relative to LIRA over l, z = 0.5",
              "shedding regions l", ("l", *names), rows,
              [Panel("E_C of Uniform Δ / E_C of LIRA", names)], log_x=True)
    ]  # fmt: skip


def figure_13(scene: Scene, scale: Scale) -> list[Figure]:
    """E_P and E_C of LIRA over the query side length."""
    rows = []
    for side in (250.0, 500.0, 1000.0, 1500.0, 2000.0):
        queries = scene.queries("proportional", scale.queries, side)
        ours = _plan_errors(scene, queries, 0.5)
        rows.append((side, ours.position, ours.containment))
    return [
        Figure("figure-13", "Figure 13: errors of LIRA over the query side length, z = 0.5",
              "query side length w, m", ("w, m", "E_P, m", "E_C"), rows,
              [Panel("mean position error E_P, m", ["E_P, m"]),
               Panel("mean containment error E_C", ["E_C"])])
    ]  # fmt: skip


def figure_14(scene: Scene, scale: Scale) -> list[Figure]:
    """Time of the adaptation step over l for several grids (GRIDREDUCE, exact throttlers)."""
    sides = (64, 128, 256, 512)
    queries = scene.queries("proportional", scale.queries)
    rows = []
    for regions in (64, 250, 1000, 4000):
        times = []
        for side in sides:
            grid = scene.statistics(queries, side).grid
            nodes = grid.nodes.astype(np.float64)
            times.append(min(_step_ms(nodes, grid.queries, scene, regions) for _ in range(20)))
        rows.append((regions, *times))
    names = tuple(f"α = {side}" for side in sides)
    return [
        Figure("figure-14", "Figure 14: time of the adaptation step over l", "shedding regions l",
              ("l", *names), rows, [Panel("adaptation step, ms", names, log=True)], log_x=True)
    ]  # fmt: skip


def _step_ms(nodes: FloatArray, queries: FloatArray, scene: Scene, regions: int) -> float:
    start = time.process_time()
    _, n, m = grid_reduce_sums(nodes, queries, scene.curve, regions, 0.5)
    ThrottlerPath.of(m, n, scene.curve, 50.0).at(0.5)
    return (time.process_time() - start) * 1e3


def table_3(scene: Scene, scale: Scale) -> list[Figure]:
    """Regions per station: the paper's numbers, πR²·l/A, and what a disc actually touches.

    The last row is placement by density, under the mean radius.
    """
    queries = scene.queries("proportional", scale.queries)
    plan = scene.plan(queries, 0.5)
    x_low, y_low, x_high, y_high = plan.frame.bounds
    per_km2 = 1e6 * plan.regions / ((x_high - x_low) * (y_high - y_low))

    def row(stations: Stations, paper: float) -> tuple[float, ...]:
        known = [
            len(touched(plan.partition, plan.frame, x, y, r))
            for x, y, r in zip(stations.x, stations.y, stations.radius, strict=True)
        ]
        km = float(stations.radius.mean()) / 1000
        return km, paper, np.pi * km * km, np.pi * km * km * per_km2, float(np.mean(known))

    grid = scene.statistics(queries, grid_side(250)).grid
    by_density = place_by_density(
        grid.nodes.astype(np.float64), grid.bounds,
        nodes_per_station=0.15 * float(grid.nodes.sum()),
    )  # fmt: skip
    rows = [
        row(place_evenly(plan.frame.bounds, 1000 * km), paper)
        for km, paper in PAPERS_TABLE_3.items()
    ]
    rows.append(row(by_density, PAPERS_REGIONS_BY_DENSITY))
    names = ("paper", "πR²", "πR²·l/A", "regions touched")
    return [
        Figure("table-03", "Table 3: regions per station; the last row is placement by density",
              "station radius R, km", ("R, km", *names), rows,
              [Panel("regions per station", names)], dashed=names[1:2], apart=1)
    ]  # fmt: skip


def recorded(tracks: Tracks, scene: Scene, queries: FloatArray) -> Figure:
    """Measure recorded tracks against Random Drop and Uniform Δ."""
    rows = []
    for z in TRACK_LOADS:
        results = (
            scene.bench.random_drop(queries, z),
            scene.bench.uniform(queries, z, scene.curve),
            scene.bench.plan(queries, z, scene.plan(queries, z)),
        )
        rows.append(
            (z, *(r.errors.position for r in results), *(r.errors.containment for r in results),
             results[-1].updates)
        )  # fmt: skip
    names = ("Random Drop", "Uniform Δ", "LIRA")
    position, containment = tuple(f"E_P {n}, m" for n in names), tuple(f"E_C {n}" for n in names)
    return Figure(
        tracks.name, f"Recorded tracks: {tracks.name}", "throttle fraction z",
        ("z", *position, *containment, "updates LIRA"), rows,
        [Panel("mean position error E_P, m", position, log=True),
         Panel("mean containment error E_C", containment, log=True)],
    )  # fmt: skip


EXPERIMENTS: tuple[Callable[[Scene, Scale], list[Figure]], ...] = (
    figure_1, figures_4_to_7, figures_8_and_9, figure_10, figure_11, figure_12, figure_13,
    figure_14, table_3,
)  # fmt: skip
