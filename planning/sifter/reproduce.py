"""The paper's figures 4 to 10, and the flights, as tables and plots.

``python -m planning.sifter.reproduce <folder>`` writes, for each figure, a CSV table and a PNG, and
one Markdown page with all of them. Quality is measured on fresh tuples that are really shed. Gain
is 1 - loss / loss of random dropping: the paper's relative improvement in QoS is not defined where
the QoS of random dropping is negative, which alpha in [1, 2] makes it under heavy load.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from planning.errors import InvalidInput
from planning.sifter import flights
from planning.sifter.comparison import LABELS, PAPER, WORKLOADS, Scene, drawn, flown
from planning.sifter.shedder import Shedder
from planning.sifter.workload import Settings

LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
OURS = (*PAPER, "cost_tree")
REGIONS = (4, 9, 16, 36, 64, 100)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """A table whose first column is the horizontal axis; each other column is a line."""

    name: str
    title: str
    x_label: str
    y_label: str
    columns: tuple[str, ...]
    rows: tuple[tuple[float | str, ...], ...]


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    seeds: int
    fresh: int
    points: int  # along skew axes


def reproduce(folder: str | Path, quick: bool, progress: Progress = print) -> Path:
    """Measure every figure, write tables, plots and the page; return the page's path."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    effort = Effort(1, 10_000, 2) if quick else Effort(5, 50_000, 5)
    figures: list[Figure] = []
    for part in (figure_4, figure_5, figure_6_and_7, figure_8, figure_9, figure_10, real_data):
        progress(part.__name__.replace("_", " "))
        figures += part(effort)
    for figure in figures:
        write_csv(figure, target / f"sifter-{figure.name}.csv")
        if not isinstance(figure.rows[0][0], str):
            write_plot(figure, target / f"sifter-{figure.name}.png")
    write_plan_picture(target / "sifter-plan.png")
    page = target / "sifter.md"
    page.write_text(markdown(figures, effort), encoding="utf-8")
    return page


def figure_4(effort: Effort) -> list[Figure]:
    """Overall QoS by partitioner under global and local skew."""
    figures = []
    for skew, symbol in (("global_skew", "G"), ("local_skew", "L")):
        for data, query in WORKLOADS:
            rows = []
            for value in np.linspace(2, 10, effort.points).tolist():
                settings = Settings(data=data, query=query, **{skew: value})
                rows.append((value, *_mean(effort, settings, partial(_quality, OURS, 16, 0.5))))
            figures.append(
                Figure(f"figure-4-{symbol}-{data}-{query}",
                       f"Figure 4, {skew.replace('_', ' ')}: data {data}, queries {query}, "
                       "l = 16, z = 0.5",
                       f"{skew.replace('_', ' ')} {symbol}", "overall QoS",
                       (symbol, "random", *(LABELS[n] for n in OURS)), tuple(rows))
            )  # fmt: skip
    return figures


def figure_5(effort: Effort) -> list[Figure]:
    """Gain by number of regions, for the paper's best on this workload and for the cost tree."""
    figures = []
    for name in ("data_equi_depth", "cost_tree"):
        rows = []
        for regions in REGIONS:
            rows.append((regions, *_mean(effort, Settings(), partial(_gain, name, regions))))
        figures.append(
            Figure(f"figure-5-{name}", f"Figure 5: SKEW/UNIF, {LABELS[name]}",
                   "number of regions l", "gain over random dropping",
                   ("l", *(f"z = {z}" for z in LOADS)), tuple(rows))
        )  # fmt: skip
    return figures


def figure_6_and_7(effort: Effort) -> list[Figure]:
    """Time construction and decisions by number of regions."""
    scene = drawn(Settings(), 1, fresh=200_000)
    build, decide = [], []
    for regions in REGIONS:
        times, rates = [], []
        for name in OURS:
            plan = scene.plan(name, regions)
            times.append(1e3 * _best(partial(scene.plan, name, regions)))
            taken = _best(partial(Shedder(plan, 0.5).offer, scene.fresh))
            rates.append(len(scene.fresh) / taken / 1e6)
        build.append((regions, *times))
        decide.append((regions, *rates))
    columns = ("l", *(LABELS[n] for n in OURS))
    return [
        Figure("figure-6", "Figure 6: construction from 1,000 samples and 1,000 queries",
               "number of regions l", "milliseconds", columns, tuple(build)),
        Figure("figure-7", "Figure 7: decisions in batches", "number of regions l",
               "million tuples per second", columns, tuple(decide)),
    ]  # fmt: skip


def figure_8(effort: Effort) -> list[Figure]:
    """Overall QoS by throttle fraction."""
    columns: list[Any] = []
    for data, query in WORKLOADS:
        settings = Settings(data=data, query=query)
        columns.append(
            [_mean(effort, settings, partial(_quality, ("cost_tree",), 16, z))[1] for z in LOADS]
        )
    rows = tuple((z, *values) for z, values in zip(LOADS, zip(*columns, strict=True), strict=True))
    names = tuple(f"{data}/{query}" for data, query in WORKLOADS)
    title = "Figure 8: cost tree, l = 16"
    return [Figure("figure-8", title, "throttle fraction z", "overall QoS", ("z", *names), rows)]


def figure_9(effort: Effort) -> list[Figure]:
    """Gain by fairness threshold."""
    rows = []
    for delta in (0.1, 0.2, 0.4, 0.6, 0.8, 0.9):
        measure = partial(_gain, "qdpart", 16, fairness_threshold=delta)
        rows.append((delta, *_mean(effort, Settings(), measure)))
    return [
        Figure("figure-9", "Figure 9: SKEW/UNIF, QDPart, l = 16", "fairness threshold Delta",
               "gain over random dropping", ("Delta", *(f"z = {z}" for z in LOADS)), tuple(rows))
    ]  # fmt: skip


def figure_10(effort: Effort) -> list[Figure]:
    """Gain by query side length."""
    rows = []
    for side in (0.01, 0.02, 0.03, 0.04, 0.05):
        settings = Settings(side=(side, side))
        rows.append((side, *_mean(effort, settings, partial(_gain, "data_equi_depth", 16))))
    return [
        Figure("figure-10", "Figure 10: SKEW/UNIF, DEDP, l = 16", "query side length",
               "gain over random dropping", ("side", *(f"z = {z}" for z in LOADS)), tuple(rows))
    ]  # fmt: skip


def real_data(effort: Effort) -> list[Figure]:
    """Loss on the flights of 2013; left out where the data set is not there."""
    try:
        points = flights.read()
    except InvalidInput:
        return []
    figures = []
    for regions in (16, 81):
        losses: dict[str, list[Any]] = {name: [] for name in OURS}
        for seed in range(max(1, effort.seeds // 2)):
            scene = flown(seed, points, fresh=effort.fresh)
            for name, found in losses.items():
                found.append(scene.losses(scene.plan(name, regions), LOADS))
        rows = tuple((LABELS[n], *np.mean(v, axis=0).tolist()) for n, v in losses.items())
        figures.append(
            Figure(f"flights-{regions}", f"Flights of 2013, 1,000 queries, l = {regions}", "",
                   "loss over random dropping", ("partitioner", *(f"z = {z}" for z in LOADS)), rows)
        )  # fmt: skip
    return figures


def write_csv(figure: Figure, path: Path) -> None:
    """Write the table."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(figure.columns)
        writer.writerows(figure.rows)


def write_plot(figure: Figure, path: Path) -> None:
    """Draw one line per column."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(5.5, 3.8), layout="constrained")
    axes = canvas.subplots()
    x = [row[0] for row in figure.rows]
    for i, name in enumerate(figure.columns[1:], start=1):
        axes.plot(x, [row[i] for row in figure.rows], marker="o", markersize=3, label=name)
    axes.set_title(figure.title, fontsize=9)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.legend(fontsize=7)
    canvas.savefig(path, dpi=110)


def write_plan_picture(path: Path) -> None:
    """Draw a plan: its regions at one z over some tuples, and the quality over all z."""
    from matplotlib.figure import Figure as Canvas

    from planning.sifter import figures

    scene = drawn(Settings("SKEW", "SKEW"), 2, fresh=3000)
    plan = scene.plan("cost_tree", 16)
    canvas = Canvas(figsize=(10, 4), layout="constrained")
    left, right = canvas.subplots(1, 2)
    figures.draw(plan, left)
    left.plot(*scene.fresh[:, :2].T, ".", color="0.2", markersize=1.0, alpha=0.5)
    centers = (scene.queries.low + scene.queries.high) / 2.0
    left.plot(*centers[:, :2].T, "x", color="tab:blue", markersize=2.0, alpha=0.5)
    figures.draw_quality(plan, right)
    canvas.savefig(path, dpi=110)


def markdown(figures: Sequence[Figure], effort: Effort) -> str:
    """Return the page: every figure with its table."""
    lines = [
        "# NR sifters: the paper's experiments",
        "",
        "Written by `headgate reproduce sifter`; "
        f"{effort.seeds} seeds, {effort.fresh:,} fresh tuples each. "
        "Gain is 1 - loss over the loss of random dropping.",
        "",
        "![A plan](sifter-plan.png)",
        "",
        "A plan of 16 regions: tuples (dots), queries (crosses), and the quality over all z.",
    ]
    for figure in figures:
        lines += ["", f"## {figure.title}", ""]
        if not isinstance(figure.rows[0][0], str):
            lines += [f"![{figure.title}](sifter-{figure.name}.png)", ""]
        else:
            lines += [f"{figure.y_label[0].upper()}{figure.y_label[1:]}.", ""]
        lines += ["| " + " | ".join(figure.columns) + " |", "|---" * len(figure.columns) + "|"]
        lines += ["| " + " | ".join(_cell(v) for v in row) + " |" for row in figure.rows]
    return "\n".join(lines) + "\n"


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _mean(effort: Effort, settings: Settings, measure: Callable[[Scene], Any]) -> list[float]:
    """Return the mean of a measurement over the seeds."""
    found = [measure(drawn(settings, seed, fresh=effort.fresh)) for seed in range(effort.seeds)]
    return [float(value) for value in np.mean(found, axis=0)]


def _gain(name: str, regions: int, scene: Scene, **more: Any) -> Any:
    """Return the gain over random dropping at every load."""
    return 1.0 - scene.losses(scene.plan(name, regions, **more), LOADS)


def _quality(names: Sequence[str], regions: int, z: float, scene: Scene) -> list[float]:
    """Return the overall QoS of random dropping and of each partitioner."""
    random = scene.bench.measure(scene.bench.random_mask(z), z).quality
    kept = [Shedder(scene.plan(n, regions), z, correct=False).offer(scene.fresh) for n in names]
    return [random, *(scene.bench.measure(keep, z).quality for keep in kept)]


def _best(work: Callable[[], Any], repeats: int = 3) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m planning.sifter.reproduce")
    parser.add_argument("folder", help="where to write, for example docs/reproduction")
    parser.add_argument("--quick", action="store_true", help="one seed, few points")
    given = parser.parse_args()
    print(reproduce(given.folder, given.quick))
    return 0


if __name__ == "__main__":
    sys.exit(main())
