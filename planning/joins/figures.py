"""Pictures of a join plan: match density over the windows, and what a load compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planning.joins.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0b7285", "#e8590c")


def draw(plan: Plan, axes: Axes, load: float | None = None) -> None:
    """Draw value per comparison over age for both windows; filled is what is compared."""
    r = plan.load if load is None else load
    take = plan.at(r).take
    frequency = plan.type_frequency[::-1, :, None]
    density = (plan.density * frequency).sum(axis=1)
    chosen = (take * frequency).sum(axis=1)
    b = plan.windows.basic_window_s
    scale = float(density.max()) or 1.0
    for i, n in enumerate(plan.windows.counts):
        ages = (np.arange(n) - 0.5) * b
        sign = 1 - 2 * i
        axes.bar(sign * ages, density[i, :n] / scale, width=0.9 * b, color="0.88")
        axes.bar(
            sign * ages, density[i, :n] / scale * chosen[i, :n], width=0.9 * b,
            color=COLOURS[i], label=f"compared in window {i + 1}",
        )  # fmt: skip
    axes.axvline(0.0, color="0.4", linewidth=0.8)
    axes.set_xlabel("age in window 2  ←  seconds  →  age in window 1")
    axes.set_ylabel("utility per comparison, relative")
    axes.set_title(f"Comparisons made at r = {r:g}")
    axes.legend(loc="upper right")
