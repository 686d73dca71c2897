"""Pictures of a FIT plan: drops over the load, quality, and the critical regions of two inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planning.fit.plan import Plan

if TYPE_CHECKING:
    from planning.fit.comparison import Comparison

SHOWN = 8


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


def draw_quality(plan: Plan, axes: Any) -> None:
    """Draw predicted quality over z, beside dropping evenly at the inputs."""
    loads = np.linspace(0.0, 1.0, 101)
    quality = [plan.predicted_quality(float(z)) for z in loads]
    axes.plot(loads, quality, label="coordinated (predicted)")
    axes.plot(loads, loads, "--", label="random dropping")
    axes.set_xlabel("share z of the busiest server's load that it can afford")
    axes.set_ylabel("weighted throughput")
    axes.set_xlim(0.0, 1.0)
    axes.legend()


def draw_throughput(comparison: Comparison, axes: Any, periods: int = 240) -> None:
    """Draw throughput over time of the methods, local shedding and random dropping."""
    for method in ("exact", "Solver 10 %", "C-FIT 10 %", "local shedding", "random dropping"):
        if method in comparison.throughput:
            axes.plot(comparison.throughput[method][:periods], label=method, linewidth=0.9)
    axes.set_xlabel("control period")
    axes.set_ylabel("weighted throughput per second")
    axes.legend(fontsize="x-small", ncols=3)


def draw_regions(plan: Plan, axes: Any, first: str, second: str, points: int = 200) -> None:
    """Colour the plane of two inputs by the set of arcs that shed; the others stay at the mean."""
    network = plan.network
    columns = [network.input_ids.index(name) for name in (first, second)]
    ticks = [np.linspace(0, network.max_rates[c], points) for c in columns]
    rates = np.tile(np.minimum(plan.reference, network.max_rates), (points * points, 1))
    grid = np.meshgrid(*ticks, indexing="ij")
    for column, values in zip(columns, grid, strict=True):
        rates[:, column] = values.ravel()
    drops = plan.at_many(rates)
    kinds = np.where(drops <= 1e-9, 0, np.where(drops >= 1 - 1e-9, 2, 1))
    _, code = np.unique(kinds, axis=0, return_inverse=True)
    axes.pcolormesh(
        ticks[0], ticks[1], code.reshape(points, points).T, cmap="tab20", shading="auto"
    )
    axes.set_xlabel(f"{first} (tuples/s)")
    axes.set_ylabel(f"{second} (tuples/s)")
    axes.set_title("Where the same arcs shed")
