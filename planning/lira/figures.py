"""Pictures of a LIRA plan: regions by throttler, alone and with the nodes and queries in them."""

from __future__ import annotations

from typing import Any

from planning.arrays import FloatArray
from planning.lira.plan import Plan


def draw(plan: Plan, axes: Any, load: float | None = None) -> None:
    """Draw the shedding regions, darker where the throttler is higher."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    z = plan.throttle_fraction if load is None else load
    throttlers = plan.at(z).throttlers
    x_low, y_low, x_high, y_high = plan.frame.bounds
    width, height = plan.frame.cell_size
    patches = PatchCollection(
        [
            Rectangle((x_low + x * width, y_low + y * height), w * width, h * height)
            for x, y, w, h in plan.partition.rectangles.tolist()
        ],
        cmap="YlOrRd",
        edgecolor="0.4",
        linewidth=0.4,
    )
    patches.set_array(throttlers)
    patches.set_clim(plan.frame.low, plan.frame.high)
    axes.add_collection(patches)
    axes.set_xlim(x_low, x_high)
    axes.set_ylim(y_low, y_high)
    axes.set_aspect("equal")
    axes.set_xlabel("x, m")
    axes.set_ylabel("y, m")
    axes.set_title(f"Update throttlers of {plan.regions} regions at z = {z:g}")
    axes.figure.colorbar(patches, ax=axes, label="throttler Δ, m")


def draw_world(
    plan: Plan, axes: Any, positions: FloatArray, queries: FloatArray, load: float
) -> None:
    """Draw regions with the nodes and queries they were made for."""
    from matplotlib.patches import Rectangle

    draw(plan, axes, load)
    axes.plot(positions[:, 0], positions[:, 1], ".", color="tab:blue", markersize=0.8, alpha=0.5)
    for x0, y0, x1, y1 in queries.tolist():
        frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="black", linewidth=0.7)
        axes.add_patch(frame)
