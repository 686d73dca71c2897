"""``make reproduce FAMILY=sifter``: the paper's Figures 3 to 10 and the flights, reproduced.

Writes one Markdown page that begins with what the paper states next to what was measured, and for
each figure a CSV table and a plot.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.reproduction import Page
from benchmarks.sifter.claims import claims
from benchmarks.sifter.experiments import EXPERIMENTS, FULL, QUICK
from benchmarks.sifter.scene import drawn
from planning.sifter import figures as pictures
from planning.sifter.demo import Settings
from planning.sifter.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Progress = Callable[[str], None]
INTRODUCTION = """\
Made by `{command}`: means over {seeds} seeds of the paper's generator, each with
1,000 samples to plan from and {fresh:,} fresh tuples to measure on. QoS slopes are Table I's over
their mean, [1, 2] / 1.5, so that random dropping has a QoS of about z, as on the paper's axes.
Workloads are named data/queries. Times and rates are those of one core of one machine."""


def reproduce(folder: Path, quick: bool, progress: Progress = print) -> Path:
    """Measure every figure, write tables, plots and the page; return the page's path."""
    effort = QUICK if quick else FULL
    figures: list[Figure] = []
    for experiment in EXPERIMENTS:
        progress(experiment.__name__.replace("_", " ").capitalize())
        figures += experiment(effort)
    command = "make reproduce FAMILY=sifter" + (" QUICK=1" if quick else "")
    introduction = INTRODUCTION.format(command=command, seeds=effort.seeds, fresh=effort.fresh)
    page = Page(folder, "sifter", "NR sifters, reproduced", introduction)
    page.claim(*claims(figures))
    page.section(
        "A plan",
        "16 regions of the cost tree on SKEW/SKEW: tuples (dots), queries (crosses), and the "
        "quality over all z.",
    )
    page.plot("plan", _plan_picture, width=10.0)
    for figure in figures:
        label = figure.panels[0].y_label
        page.figure(figure, f"{label[0].upper()}{label[1:]}.")
    return page.write()


def _plan_picture(canvas: Any) -> None:
    """Draw a plan: its regions at one z over tuples and queries, and the quality over all z."""
    scene = drawn(Settings("SKEW", "SKEW"), 2, fresh=1000)
    plan = scene.plan("cost_tree", 16)
    left, right = canvas.subplots(1, 2)
    pictures.draw(plan, left)
    centers = (scene.queries.low + scene.queries.high) / 2.0
    left.plot(*scene.fresh.T, ".", color="0.2", markersize=1.5, alpha=0.5)
    left.plot(*centers[:300].T, "x", color="tab:blue", markersize=2.0, alpha=0.5)
    draw_quality(plan, right)


def draw_quality(plan: Plan, axes: Axes) -> None:
    """Draw predicted quality over z, next to random dropping."""
    loads = np.linspace(0.0, 1.0, 101)
    axes.plot(loads, [plan.predicted_quality(z) for z in loads], label="sifter (predicted)")
    worst = plan.predicted_quality(0.0)
    axes.plot(loads, worst + (1.0 - worst) * loads, "--", label="random dropping")
    axes.set_xlabel("throttle fraction z")
    axes.set_ylabel("overall QoS")
    axes.set_xlim(0.0, 1.0)
    axes.legend(loc="lower right")
