"""The picture of a sifter plan: its regions by drop threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planning.sifter.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(plan: Plan, axes: Axes, load: float | None = None) -> None:
    """Draw the regions on the first two attributes, darker where more is dropped."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    z = plan.throttle_fraction if load is None else load
    thresholds = plan.at(z).drop_thresholds
    low, high = plan.partition.bounds(plan.space.low, plan.space.high)
    flat = len(plan.space.axes) == 1
    rectangles = [
        Rectangle((a[0], 0.0 if flat else a[1]), b[0] - a[0], 1.0 if flat else b[1] - a[1])
        for a, b in zip(low, high, strict=True)
    ]
    patches = PatchCollection(rectangles, cmap="YlOrRd", edgecolor="0.3", linewidth=0.6)
    patches.set_array(thresholds)
    patches.set_clim(0.0, 1.0)
    axes.add_collection(patches)
    axes.set_xlim(plan.space.low[0], plan.space.high[0])
    axes.set_ylim((0.0, 1.0) if flat else (plan.space.low[1], plan.space.high[1]))
    axes.set_xlabel(plan.space.names[0])
    axes.set_ylabel("" if flat else plan.space.names[1])
    axes.set_title(f"Drop thresholds of {plan.regions} regions at z = {z:g}")
    axes.figure.colorbar(patches, ax=axes, label="drop threshold d")
