"""The one type of a measured figure: a table whose first column is the horizontal axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planning.arrays import FloatArray

PRINTED = ", printed"
"""Ends the name of a column that shows the paper's own method next to ours."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes: which columns are drawn over the first one."""

    y_label: str
    columns: Sequence[str]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure or table of a paper: its rows, and how they are drawn.

    >>> figure = Figure("t", "", "l", ("l", "E_C"), [(25, 0.5), (64, 0.25)], [])
    >>> figure.column("E_C").tolist(), figure.at(64, "E_C")
    ([0.5, 0.25], 0.25)
    """

    name: str
    title: str
    x_label: str
    columns: Sequence[str]
    rows: Sequence[Sequence[float | str]]
    panels: Sequence[Panel]
    log_x: bool = False
    dashed: Sequence[str] = ()  # columns
    apart: int = 0  # last rows that are not points of the curves

    def column(self, name: str) -> FloatArray:
        """Return one column."""
        place = list(self.columns).index(name)
        return np.array([row[place] for row in self.rows], dtype=np.float64)

    def at(self, x: float, name: str) -> float:
        """Return a column where the first one is ``x``."""
        return float(self.column(name)[[row[0] for row in self.rows].index(x)])

    @property
    def has_curves(self) -> bool:
        """Whether the first column is numbers: texts do not make a horizontal axis."""
        return not isinstance(self.rows[0][0], str)

    def draw(self, canvas: Any) -> None:
        """Draw the panels side by side, each with its legend above."""
        panels = canvas.subplots(1, len(self.panels), squeeze=False)[0]
        for axes, panel in zip(panels, self.panels, strict=True):
            for name in panel.columns:
                self._draw_column(name, axes)
            axes.set(xlabel=self.x_label, ylabel=panel.y_label)
            if panel.log:
                axes.set_yscale("log")
            if self.log_x:
                x = self.column(self.columns[0])
                axes.set_xscale("log")
                axes.set_xticks(x, [f"{value:g}" for value in x])
                axes.set_xticks([], minor=True)
            axes.grid()
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)

    def _draw_column(self, name: str, axes: Any) -> None:
        """Draw one curve, dashed in our plan's colour if it is its printed counterpart."""
        x, y = self.column(self.columns[0]), self.column(name)
        on_curve = len(x) - self.apart
        ours = name.removesuffix(PRINTED)
        drawn = {line.get_label(): line.get_color() for line in axes.get_lines()}
        style = "--" if name != ours or name in self.dashed else "-"
        (line,) = axes.plot(
            x[:on_curve], y[:on_curve], style, marker="o", label=name, color=drawn.get(ours)
        )
        axes.plot(x[on_curve:], y[on_curve:], "*", color=line.get_color(), markersize=9)


def curves(
    name: str,
    title: str,
    x_label: str,
    y_label: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[float | str]],
    log: bool = False,
) -> Figure:
    """Return a figure of one panel in which every further column is a line.

    >>> curves("f", "", "l", "QoS", ("l", "ours"), [(4, 0.5)]).panels[0].columns
    ('ours',)
    """
    panel = Panel(y_label, tuple(columns[1:]), log=log)
    return Figure(name, title, x_label, columns, rows, [panel], log_x=log)
