"""The picture of ``docs/solver.md``: chord, tangents and gap on the demo stream of sifter.

``python -m benchmarks.solver`` draws it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planning.examples import demo_definition, demo_statistics
from planning.linear import Point, Solver
from planning.pictures import NAIVE, OURS, PREDICTED, svg
from planning.sifter.program import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "solver.svg"
TWO = (0.02, 0.8)


def draw(figure: Figure) -> None:
    """Draw the optimum over the load, two solved loads, and what they prove of those between."""
    solver = Solver(Problem.of(demo_statistics("sifter"), demo_definition("sifter")).program)
    loads = np.linspace(0.0, 1.0, 101)
    points = {z: _point(solver, z) for z in (*loads.tolist(), *TWO)}
    p, q = (points[z] for z in TWO)
    meet = (q.base - p.base) / (p.slope - q.slope)
    chord = np.interp(meet, TWO, [p.value, q.value])
    top = p.base + p.slope * meet
    axes = figure.add_subplot()
    axes.plot(loads, [1.0 + points[z].value for z in loads.tolist()], color=OURS, label="optimum")
    for line, name in ((p, "tangents: no setting is better"), (q, None)):
        near = np.clip(np.array([meet, line.load, 2 * line.load - meet]), 0.0, 1.0)
        axes.plot(np.sort(near), 1.0 + line.base + line.slope * np.sort(near), "--",
                  color=PREDICTED, label=name)  # fmt: skip
    axes.plot(TWO, [1.0 + p.value, 1.0 + q.value], color=NAIVE, label="chord: mixtures are as good")
    axes.plot(TWO, [1.0 + p.value, 1.0 + q.value], "o", color=OURS)
    axes.annotate("", (meet, 1.0 + top), (meet, 1.0 + chord), arrowprops={"arrowstyle": "<->"})
    axes.text(meet + 0.02, 1.0 + chord - 0.03, "gap: solve here next", va="top")
    axes.set(xlabel="load", ylabel="quality", xlim=(0, 1))
    axes.grid(True)
    axes.legend(loc="lower right")


def _point(solver: Solver, load: float) -> Point:
    point = solver.optimum(load, np.zeros(0))
    assert point is not None
    return point


if __name__ == "__main__":
    PICTURE.write_bytes(svg(draw))
    print(PICTURE)
