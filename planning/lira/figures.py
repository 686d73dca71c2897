"""The picture of a LIRA plan: its regions by throttler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planning.lira.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(plan: Plan, axes: Axes, load: float | None = None) -> None:
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
