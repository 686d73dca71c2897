"""Reproduce Figures 1 and 4 to 14 and Table 3 of the paper: tables (CSV, Markdown) and plots.

``python -m planning.lira.reproduce FOLDER [--quick]``. LIRA here is this family's plan unless a
column says "printed", which is GRIDREDUCE and GREEDYINCREMENT as the paper has them. Recorded
tracks (``HEADGATE_DATA``, else ``../shared/data`` beside the repository) are added where found.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planning.lira.experiment import Experiment
from planning.lira.figures import draw_world
from planning.lira.gridreduce import grid_reduce_sums
from planning.lira.partition import grid_side
from planning.lira.queries import Distribution
from planning.lira.simulate import Result
from planning.lira.stations import place_by_density, place_evenly, touched
from planning.lira.throttlers import ThrottlerPath
from planning.lira.tracks import Tracks, load_tracks

Progress = Callable[[str], None]
DISTRIBUTIONS: tuple[Distribution, ...] = ("proportional", "inverse", "random")
DATA = Path(os.environ.get("HEADGATE_DATA", Path(__file__).parents[3] / "shared" / "data"))
PAPERS_TABLE_3 = {1.0: 3.1, 2.0: 12.5, 3.0: 28.2, 4.0: 50.2, 5.0: 78.5}


@dataclass(frozen=True, slots=True)
class Table:
    """One figure or table: rows to write, and which columns to plot over the first."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[float]]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is simulated."""

    cars: int
    seconds: int
    loads: tuple[float, ...]
    regions: tuple[int, ...]
    fairness: tuple[float, ...]
    queries: int  # the paper's m/n = 0.01; more where so few would all be free of error


FULL = Scale(
    10_000, 3600, (0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.97), (25, 64, 100, 250, 500, 1000),
    (5.0, 10.0, 25.0, 50.0, 75.0, 95.0), 100,
)  # fmt: skip
QUICK = Scale(1500, 1200, (0.3, 0.5, 0.75), (25, 100, 250), (10.0, 50.0, 95.0), 60)


def reproduce(folder: Path, quick: bool, progress: Progress = print) -> list[Path]:
    """Write every table and plot to ``folder``; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    scale = QUICK if quick else FULL
    progress(f"driving {scale.cars} cars for {scale.seconds} s")
    experiment = Experiment(11, cars=scale.cars, seconds=scale.seconds,
                            warm_up=120 if quick else 300)  # fmt: skip
    makers: tuple[Callable[[Experiment, Scale], list[Table]], ...] = (
        figure_1, figures_4_to_7, figures_8_and_9, figure_10, figure_11, figure_12, figure_13,
        figure_14, table_3,
    )  # fmt: skip
    written: list[Path] = []
    tables: list[Table] = []
    for maker in makers:
        progress(maker.__name__.replace("_", " "))
        for table in maker(experiment, scale):
            tables.append(table)
            written += write(folder, table)
    maps: list[Path] = []
    for tracks in load_tracks(DATA):
        progress(f"recorded tracks: {tracks.name}")
        table, picture = recorded(tracks, folder)
        tables.append(table)
        written += write(folder, table)
        maps.append(picture)
    page = folder / "lira.md"
    page.write_text(_page(tables, scale, maps), encoding="utf-8")
    return [*written, *maps, page]


def recorded(tracks: Tracks, folder: Path) -> tuple[Table, Path]:
    """Measure recorded tracks beside Random Drop and Uniform Δ, and draw their map."""
    from matplotlib import pyplot

    experiment = tracks.experiment()
    queries = tracks.queries(experiment)
    rows = []
    for z in (0.3, 0.4, 0.5, 0.6, 0.75):
        plan = experiment.plan(queries, z)
        results = (
            experiment.bench.random_drop(queries, z),
            experiment.bench.uniform(queries, z, experiment.curve),
            experiment.bench.plan(queries, z, plan),
        )
        rows.append(
            (z, *(r.errors.position for r in results), *(r.errors.containment for r in results),
             results[-1].updates)
        )  # fmt: skip
    names = ("Random Drop", "Uniform Δ", "LIRA")
    columns = ("z", *(f"E_P {n}, m" for n in names), *(f"E_C {n}" for n in names), "updates LIRA")
    middle = tracks.trace.positions[:, tracks.trace.ticks // 2].astype(np.float64)
    figure, axes = pyplot.subplots(figsize=(7, 6))
    draw_world(experiment.plan(queries, 0.5), axes, middle, queries, 0.5)
    figure.tight_layout()
    picture = folder / f"lira-{tracks.name}-map.svg"
    figure.savefig(picture, metadata={"Date": None})
    pyplot.close(figure)
    title = f"Recorded tracks {tracks.name}: errors over z"
    return Table(f"lira-{tracks.name}", title, columns, rows, log=True), picture


def figure_1(experiment: Experiment, scale: Scale) -> list[Table]:
    """f(Δ): updates relative to Δmin, measured, and its convex hull."""
    curve = experiment.curve
    rows = [
        (d, r, h) for d, r, h in zip(curve.thresholds, curve.raw, curve.hull, strict=True)
    ][::5]
    return [Table("lira-figure-01", "Updates relative to Δmin over the inaccuracy threshold",
                  ("Δ, m", "f measured", "f convex"), rows)]  # fmt: skip


def _all(experiment: Experiment, queries: Any, z: float) -> dict[str, Result]:
    bench = experiment.bench
    return {
        "Random Drop": bench.random_drop(queries, z),
        "Uniform Δ": bench.uniform(queries, z, experiment.curve),
        "Lira-Grid": experiment.measure(
            queries, experiment.printed(queries, z, partitioner="grid"), z
        ),
        "LIRA printed": experiment.measure(queries, experiment.printed(queries, z), z),
        "LIRA": bench.plan(queries, z, experiment.plan(queries, z)),
    }


def figures_4_to_7(experiment: Experiment, scale: Scale) -> list[Table]:
    """E_P and E_C of all methods over z, for each query distribution."""
    tables = []
    for figure, distribution in ((5, "proportional"), (6, "inverse"), (7, "random")):
        queries = experiment.queries(distribution, scale.queries)  # type: ignore[arg-type]
        found = [(z, _all(experiment, queries, z)) for z in scale.loads]
        names = tuple(found[0][1])
        if figure == 5:
            rows = [(z, *(r[n].errors.position for n in names)) for z, r in found]
            title = "E_P (m) over z, Proportional"
            tables.append(Table("lira-figure-04", title, ("z", *names), rows, log=True))
        rows = [(z, *(r[n].errors.containment for n in names)) for z, r in found]
        tables.append(Table(f"lira-figure-{figure:02d}", f"E_C over z, {distribution.capitalize()}",
                            ("z", *names), rows, log=True))  # fmt: skip
    return tables


def figures_8_and_9(experiment: Experiment, scale: Scale) -> list[Table]:
    """Lira-Grid relative to LIRA, and LIRA's E_C, over the number of regions."""
    relative, absolute = [], []
    for regions in scale.regions:
        ratios: list[float] = []
        for distribution in DISTRIBUTIONS:
            queries = experiment.queries(distribution, scale.queries)
            grid = experiment.measure(
                queries, experiment.printed(queries, 0.5, regions, partitioner="grid"), 0.5
            )
            ours = experiment.bench.plan(
                queries, 0.5, experiment.plan(queries, 0.5, regions=regions)
            )
            ratios.append(_over(grid.errors.containment, ours.errors.containment))
        relative.append((regions, *ratios))
        queries = experiment.queries("proportional", scale.queries)
        absolute.append(
            (regions, *(
                experiment.bench.plan(
                    queries, z, experiment.plan(queries, z, regions=regions)
                ).errors.containment
                for z in (0.3, 0.5, 0.75)
            ))
        )  # fmt: skip
    return [
        Table("lira-figure-08", "E_C of Lira-Grid relative to LIRA over l, z = 0.5",
              ("l", *DISTRIBUTIONS), relative),
        Table("lira-figure-09", "E_C of LIRA over l", ("l", "z = 0.3", "z = 0.5", "z = 0.75"),
              absolute),
    ]  # fmt: skip


def _over(other: float, ours: float) -> float:
    """Return a ratio of errors; none where ours is 0, because no number would be true."""
    return other / ours if ours > 0 else float("nan")


def figure_10(experiment: Experiment, scale: Scale) -> list[Table]:
    """Fairness among queries: D_ev and C_ov of containment over the fairness threshold."""
    queries = experiment.queries("proportional", scale.queries)
    uniform = experiment.bench.uniform(queries, 0.75, experiment.curve).errors
    rows = []
    for fairness in scale.fairness:
        plan = experiment.plan(queries, 0.75, fairness_threshold=fairness)
        ours = experiment.bench.plan(queries, 0.75, plan).errors
        rows.append(
            (fairness, ours.containment_deviation, uniform.containment_deviation,
             ours.containment_variation, uniform.containment_variation)
        )  # fmt: skip
    title = "D_ev and C_ov of containment over the fairness threshold, z = 0.75"
    return [Table("lira-figure-10", title,
                  ("Δ⇔, m", "D_ev LIRA", "D_ev Uniform Δ", "C_ov LIRA", "C_ov Uniform Δ"), rows,
                  log=True)]  # fmt: skip


def figure_11(experiment: Experiment, scale: Scale) -> list[Table]:
    """E_P over the fairness threshold for several z."""
    queries = experiment.queries("proportional", scale.queries)
    loads = (0.3, 0.5, 0.75, 0.9)
    rows = [
        (fairness, *(
            experiment.bench.plan(
                queries, z, experiment.plan(queries, z, fairness_threshold=fairness)
            ).errors.position
            for z in loads
        ))
        for fairness in scale.fairness
    ]  # fmt: skip
    return [Table("lira-figure-11", "E_P (m) of LIRA over the fairness threshold",
                  ("Δ⇔, m", *(f"z = {z}" for z in loads)), rows, log=True)]  # fmt: skip


def figure_12(experiment: Experiment, scale: Scale) -> list[Table]:
    """E_C of Uniform Δ relative to LIRA over l, for two ratios of queries to nodes."""
    rows = []
    for regions in scale.regions:
        ratios = []
        for count in (scale.queries, 10 * scale.queries):
            queries = experiment.queries("proportional", count)
            uniform = experiment.bench.uniform(queries, 0.5, experiment.curve)
            ours = experiment.bench.plan(
                queries, 0.5, experiment.plan(queries, 0.5, regions=regions)
            )
            ratios.append(_over(uniform.errors.containment, ours.errors.containment))
        rows.append((regions, *ratios))
    return [Table("lira-figure-12", "E_C of Uniform Δ relative to LIRA over l, z = 0.5",
                  ("l", f"m = {scale.queries}", f"m = {10 * scale.queries}"), rows)]  # fmt: skip


def figure_13(experiment: Experiment, scale: Scale) -> list[Table]:
    """E_P and E_C of LIRA over the query side length."""
    rows = []
    for side in (250.0, 500.0, 1000.0, 1500.0, 2000.0):
        queries = experiment.queries("proportional", scale.queries, side)
        ours = experiment.bench.plan(queries, 0.5, experiment.plan(queries, 0.5)).errors
        rows.append((side, ours.position, ours.containment))
    return [Table("lira-figure-13", "E_P (m) and E_C of LIRA over the query side length, z = 0.5",
                  ("w, m", "E_P, m", "E_C"), rows, log=True)]  # fmt: skip


def figure_14(experiment: Experiment, scale: Scale) -> list[Table]:
    """Time of the adaptation step over l for several grids (GRIDREDUCE, exact throttlers)."""
    sides = (64, 128, 256, 512)
    queries = experiment.queries("proportional", scale.queries)
    rows = []
    for regions in (64, 250, 1000, 4000):
        times = []
        for side in sides:
            grid = experiment.statistics(queries, side).grid
            nodes = grid.nodes.astype(np.float64)
            times.append(min(_step_ms(nodes, grid.queries, experiment, regions) for _ in range(4)))
        rows.append((regions, *times))
    title = "Adaptation step (ms) over l; the paper: 40 ms at α = 128, l = 250"
    return [Table("lira-figure-14", title,
                  ("l", *(f"α = {side}" for side in sides)), rows, log=True)]  # fmt: skip


def _step_ms(nodes: Any, queries: Any, experiment: Experiment, regions: int) -> float:
    start = time.perf_counter()
    _, n, m = grid_reduce_sums(nodes, queries, experiment.curve, regions, 0.5)
    ThrottlerPath.of(m, n, experiment.curve, 50.0).at(0.5)
    return (time.perf_counter() - start) * 1e3


def table_3(experiment: Experiment, scale: Scale) -> list[Table]:
    """Regions per station: the paper's numbers, πR²·l/A, and what a disc really touches."""
    queries = experiment.queries("proportional", scale.queries)
    plan = experiment.plan(queries, 0.5)
    x_low, y_low, x_high, y_high = plan.frame.bounds
    area = (x_high - x_low) * (y_high - y_low)
    rows = []
    for km, paper in PAPERS_TABLE_3.items():
        stations = place_evenly(plan.frame.bounds, 1000 * km)
        counts = [
            len(touched(plan.partition, plan.frame, x, y, r))
            for x, y, r in zip(stations.x, stations.y, stations.radius, strict=True)
        ]
        rows.append(
            (km, paper, np.pi * km * km, np.pi * (1000 * km) ** 2 * plan.regions / area,
             float(np.mean(counts)))
        )  # fmt: skip
    grid = experiment.statistics(queries, grid_side(250)).grid
    placed = place_by_density(
        grid.nodes.astype(np.float64), grid.bounds,
        nodes_per_station=0.15 * float(grid.nodes.sum()),
    )  # fmt: skip
    counts = [
        len(touched(plan.partition, plan.frame, x, y, r))
        for x, y, r in zip(placed.x, placed.y, placed.radius, strict=True)
    ]
    radius = float(placed.radius.mean()) / 1000
    by_area = np.pi * (1000 * radius) ** 2 * plan.regions / area
    rows.append((radius, 41.0, np.pi * radius * radius, by_area, float(np.mean(counts))))
    return [
        Table("lira-table-03", "Regions per station; the last row is placement by density",
              ("R, km", "paper", "πR²", "πR²·l/A", "regions touched"), rows)
    ]  # fmt: skip


def write(folder: Path, table: Table) -> list[Path]:
    """Write one table as CSV and as a plot."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "headgate"  # else ids in the file differ every time
    from matplotlib import pyplot

    path = folder / f"{table.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.columns)
        writer.writerows([f"{value:.6g}" for value in row] for row in table.rows)
    figure, axes = pyplot.subplots(figsize=(5.5, 3.6))
    data = np.array(table.rows, dtype=np.float64)
    for k, name in enumerate(table.columns[1:], start=1):
        axes.plot(data[:, 0], data[:, k], "o-", markersize=3, label=name)
    axes.set_xlabel(table.columns[0])
    axes.set_title(table.title, fontsize=9)
    if table.log:
        axes.set_yscale("log")
    axes.legend(fontsize=7)
    figure.tight_layout()
    picture = folder / f"{table.name}.svg"
    figure.savefig(picture, metadata={"Date": None})
    pyplot.close(figure)
    return [path, picture]


def _page(tables: Sequence[Table], scale: Scale, maps: Sequence[Path] = ()) -> str:
    lines = [
        "# LIRA: the paper's figures on a generated trace",
        "",
        f"{scale.cars} cars, {scale.seconds} s, {scale.queries} queries unless a column says "
        "otherwise; seed 11; written by `python -m planning.lira.reproduce`.",
    ]
    for table in tables:
        heading = table.name.removeprefix("lira-").replace("-", " ").capitalize()
        lines += ["", f"## {heading}: {table.title}", ""]
        lines += ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
        lines += ["| " + " | ".join(map(_shown, row)) + " |" for row in table.rows]
        lines += ["", f"![{table.title}]({table.name}.svg)"]
    for picture in maps:
        lines += ["", f"![Regions, objects and queries at z = 0.5]({picture.name})"]
    return "\n".join(lines) + "\n"


def _shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m planning.lira.reproduce", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--quick", action="store_true", help="a small trace")
    arguments = parser.parse_args(argv)
    written = reproduce(arguments.folder, arguments.quick)
    print(f"{len(written)} files in {arguments.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
