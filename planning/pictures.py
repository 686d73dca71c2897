"""Pictures in one style: SVG whose bytes are the same from run to run."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A fixed salt keeps the SVG's ids, and so its bytes, the same.
STYLE = {
    "svg.hashsalt": "headgate",
    "font.size": 9,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "legend.fontsize": "small",
    "lines.markersize": 4,
}
OURS, NAIVE, PREDICTED = "#0b7285", "#c92a2a", "#868e96"


def svg(draw: Callable[[Figure], None], width: float = 6.0, height: float = 3.6) -> bytes:
    """Return what ``draw`` puts on a figure of ``width`` by ``height`` inches, as SVG.

    >>> svg(lambda figure: figure.add_subplot().plot([1, 2])).startswith(b"<?xml")
    True
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
