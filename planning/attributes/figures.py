"""Pictures of an attribute plan: what is sent at which capacity, and what that loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import FloatArray
from planning.attributes.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = 101


def draw(plan: Plan, axes: Axes, load: float | None = None) -> None:
    """Draw, per attribute and capacity, how coarsely it is sent; a line marks the usual load.

    White is sent with every tuple. With dead bands, darker is a wider band; otherwise, darker is a
    longer period.
    """
    from matplotlib.colors import LogNorm

    loads = np.linspace(0.02, 1.0, STEPS)
    names, coarse = _coarseness(plan, loads)
    shown = np.ma.masked_less_equal(coarse, 0.0)
    top = max(float(coarse.max()), 1e-6)
    low = float(coarse[coarse > 0].min()) if (coarse > 0).any() else top / 10
    picture = axes.imshow(
        shown, aspect="auto", origin="upper", cmap="YlOrRd", extent=(0.02, 1, len(names), 0),
        norm=LogNorm(vmin=min(low, top / 2), vmax=top), interpolation="nearest",
    )  # fmt: skip
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.set_xlabel("capacity ratio C/R")
    axes.axvline(plan.capacity_ratio if load is None else load, color="0.2", linewidth=1)
    axes.set_title(f"What is sent at which capacity ({plan.method})")
    label = "dead band" if plan.method == "on_change" else "reports between two sendings"
    axes.figure.colorbar(picture, ax=axes, label=label)


def _coarseness(plan: Plan, loads: FloatArray) -> tuple[list[str], FloatArray]:
    names = []
    for stream in plan.streams:
        prefix = f"{stream.name}." if plan.stream_attribute else ""
        names += [prefix + plan.attributes[j] for j in stream.items]
    rows = np.zeros((len(names), len(loads)))
    for c, load in enumerate(loads):
        setting = plan.at(float(load))
        period = np.where(setting.period == 0, 1000, setting.period).astype(np.float64)
        silent = np.where(period > 1, period, 0.0)
        banded = setting.band >= 0
        if plan.method == "on_change":
            # Below the bands whole cycles are sent more rarely: as coarse as the widest band.
            value = np.where(banded, setting.band, np.where(silent > 0, 2.0, 0.0))
        else:
            value = silent
        rows[:, c] = np.concatenate([value[s, x.items] for s, x in enumerate(plan.streams)])
    return names, rows
