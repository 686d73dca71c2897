"""``make reproduce FAMILY=lira``: Figures 1 and 4 to 14 and Table 3 of the paper, reproduced.

Writes one Markdown page that begins with what the paper states next to what was measured, and for
each figure a CSV table and a plot. Recorded tracks are added where there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from benchmarks import datasets
from benchmarks.figures import Figure
from benchmarks.lira.claims import claims
from benchmarks.lira.experiments import EXPERIMENTS, FULL, QUICK, recorded
from benchmarks.lira.recorded import Tracks, load_tracks
from benchmarks.lira.scene import Scene
from benchmarks.reproduction import Page
from planning.arrays import FloatArray
from planning.lira.figures import draw as draw_plan
from planning.lira.plan import Plan

Progress = Callable[[str], None]
SEED = 11  # not one of those that the objective was chosen on
INTRODUCTION = """\
Made by `{command}`: {cars:,} generated cars for {seconds:,} s (seed {seed}), {queries} queries
unless a column says otherwise. "Printed" is LIRA as the paper has it, "LIRA" and "ours" this
family's plan. Times are those of one run on one machine."""


def reproduce(folder: Path, quick: bool, progress: Progress = print) -> Path:
    """Measure every figure, write tables, plots and the page; return the page's path."""
    scale = QUICK if quick else FULL
    command = "make reproduce FAMILY=lira" + (" QUICK=1" if quick else "")
    introduction = INTRODUCTION.format(
        command=command, cars=scale.cars, seconds=scale.seconds, seed=SEED, queries=scale.queries
    )
    page = Page(folder, "lira", "LIRA, reproduced", introduction)
    progress(f"Driving {scale.cars} cars for {scale.seconds} s")
    scene = Scene(SEED, cars=scale.cars, seconds=scale.seconds, warm_up=scale.warm_up)
    tables: dict[str, Figure] = {}
    for experiment in EXPERIMENTS:
        progress(experiment.__name__.replace("_", " ").capitalize())
        for table in experiment(scene, scale):
            tables[table.name] = table
            page.figure(table)
    page.claim(*claims(tables))
    for tracks in load_tracks(datasets.folder()):
        progress(f"Recorded tracks, {tracks.name}")
        _show_tracks(page, tracks)
    return page.write()


def _show_tracks(page: Page, tracks: Tracks) -> None:
    """Measure recorded tracks and draw their map."""
    scene = tracks.scene()
    queries = tracks.queries(scene)
    page.figure(recorded(tracks, scene, queries))
    middle = tracks.trace.positions[:, tracks.trace.ticks // 2].astype(np.float64)
    plan = scene.plan(queries, 0.5)
    page.text("Regions, objects (dots) and queries (frames) at z = 0.5:")

    def draw_map(figure: Any) -> None:
        figure.set_size_inches(7.0, 6.0)
        draw_world(plan, figure.subplots(), middle, queries, 0.5)

    page.plot(f"{tracks.name}-map", draw_map)


def draw_world(
    plan: Plan, axes: Any, positions: FloatArray, queries: FloatArray, load: float
) -> None:
    """Draw regions with the nodes and queries they were made for."""
    draw_plan(plan, axes, load)
    axes.plot(positions[:, 0], positions[:, 1], ".", color="tab:blue", markersize=0.8, alpha=0.5)
    for x0, y0, x1, y1 in queries.tolist():
        frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="black", linewidth=0.7)
        axes.add_patch(frame)
