"""Pictures of a FIT plan: drops over the load, and throughput over time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import Columns, FloatArray
from planning.fit.demo import web
from planning.fit.network import QueryNetwork
from planning.fit.plan import Plan
from planning.fit.printed.comparison import METHODS, Comparison, compare
from planning.fit.statistics import period_counts

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters

SHOWN = 8
REPORTED_METHODS = ("exact", "Solver 5 %", "Solver 10 %", "C-FIT 10 %")
REPORTED_PERIODS = 120
DRAWN_POINTS = 240
REPORTED_PLANS = 20_000  # enough for small fragments, and quickly refused elsewhere
COLOURS = {
    "exact": "#0b7285",
    "Solver 5 %": "#7048e8",
    "Solver 10 %": "#ae3ec9",
    "C-FIT 10 %": "#2b8a3e",
    "local shedding": "#f59f00",
    "random dropping": "#c92a2a",
}
Draw = Callable[[Any], None]


def draw(plan: Plan, axes: Any, load: float | None = None) -> None:
    """Draw the drop fraction of the arcs that shed most, over the scalar load z."""
    loads = np.linspace(0.05, 1.0, 96)
    table = [plan.at(float(z)) for z in loads]
    names = sorted({arc for drops in table for arc in drops})
    total = {arc: sum(drops.get(arc, 0.0) for drops in table) for arc in names}
    for arc in sorted(names, key=lambda a: (-total[a], a))[:SHOWN]:
        axes.plot(loads, [drops.get(arc, 0.0) for drops in table], label=arc, linewidth=1.2)
    if load is not None:
        axes.axvline(load, color="0.5", linestyle=":")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("share z of the busiest server's load that it can afford")
    axes.set_ylabel("drop fraction on the arc")
    axes.set_title(f"Coordinated drops over {len(plan.network.nodes)} servers ({plan.method})")
    if names:
        axes.legend(fontsize="x-small")


def draw_throughput(comparison: Comparison, axes: Any) -> None:
    """Draw throughput over time of all methods; labels give their share of the optimum.

    A long stretch is drawn as means over equally many periods.
    """
    highest = len(comparison.throughput)
    together = max(1, len(comparison.offered) // DRAWN_POINTS)
    for place, (method, throughput) in enumerate(comparison.throughput.items()):
        means = _means(throughput, together)
        axes.plot(
            together * np.arange(len(means)),
            means,
            label=f"{method}: {comparison.share_of_optimum(method):.3f}",
            linewidth=1.0,
            color=COLOURS.get(method),
            zorder=2 + highest - place,  # the exact plan, which is first, is drawn on top
        )
    axes.set_xlabel("control period" + (f" (means of {together})" if together > 1 else ""))
    axes.set_ylabel("weighted throughput per second")
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0.0)
    axes.legend(
        title="share of the optimum in overloaded periods",
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=4,
        frameon=False,
    )


def _means(values: FloatArray, together: int) -> FloatArray:
    """Return the mean of every ``together`` values; an incomplete group at the end is left out."""
    whole = len(values) // together * together
    return np.asarray(values[:whole].reshape(-1, together).mean(axis=1))


def further(
    plan: Plan, samples: Columns, definition: Definition[Parameters]
) -> list[tuple[str, Draw]]:
    """Return captioned pictures for the report: throughput over time of all methods.

    The network follows fresh samples. Before the demo stream's comes a network of small fragments,
    on which all of the paper's methods can plan.
    """
    rates = period_counts(samples, plan.network) / definition.parameters.period_s
    networks = [plan.network]
    if definition.demo and web().input_ids == plan.network.input_ids:
        networks.insert(0, web())
    return [_over_time(network, rates) for network in networks]


def _over_time(network: QueryNetwork, rates: FloatArray) -> tuple[str, Draw]:
    """Compare the methods over a stretch of the rates; return caption and drawing."""
    methods = [entry for entry in METHODS if entry[0] in REPORTED_METHODS]
    shown = compare(network, rates[:REPORTED_PERIODS], methods=methods, max_plans=REPORTED_PLANS)
    caption = (
        f"Throughput over time on fresh samples: network {network.name}, {len(network.inputs)} "
        f"inputs on {len(network.nodes)} servers, {len(shown.offered)} control periods, "
        f"{shown.overloaded.mean():.0%} of them overloaded."
    )
    if shown.refused:
        names = ", ".join(shown.refused)
        caption += f" Refused, for needing more than {REPORTED_PLANS:,} plans: {names}."
    return caption, partial(draw_throughput, shown)
