"""The HTML report: what was planned, and what the plans do to quality, with pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader
from upath import UPath

from planning import families

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from planning.trial import Trial

CURVE_LOADS = 101
OURS, NAIVE, PREDICTED = "#0b7285", "#c92a2a", "#868e96"


def write_report(path: UPath, trials: Sequence[Trial]) -> UPath:
    """Write one self-contained HTML page about the tried streams; return its path."""
    template = Environment(
        loader=PackageLoader("planning"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template("report.html")
    page = template.render(streams=[_section(trial) for trial in trials])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _section(trial: Trial) -> dict[str, Any]:
    manifest = trial.published.manifest
    return {
        "name": trial.definition.stream,
        "family": trial.definition.family,
        "description": trial.definition.description,
        "facts": {
            "version": manifest.version,
            "created": manifest.created_at,
            "samples": trial.rows,
            "quarantined": trial.quarantined,
            "statistics": f"{trial.statistics_bytes} bytes",
            "plan, binary": f"{manifest.payloads.binary.bytes} bytes",
            "plan, JSON": f"{manifest.payloads.json.bytes} bytes",
            "gate": manifest.gate.reason,
            "signed by": manifest.key_id,
        },
        "summary": trial.published.plan.summary(),
        "data_docs": trial.data_docs,
        "outcomes": trial.outcomes,
        "counters": trial.counters,
        "picture": "data:image/svg+xml;base64," + base64.b64encode(picture(trial)).decode(),
    }


def write_pictures(folder: UPath, trials: Sequence[Trial]) -> None:
    """Write each stream's picture as ``<stream>.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    for trial in trials:
        (folder / f"{trial.definition.stream}.svg").write_bytes(picture(trial))


def picture(trial: Trial) -> bytes:
    """Return the plan and its quality over load as an SVG picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # A fixed salt keeps the SVG's ids, and so its bytes, the same from run to run.
    with plt.rc_context({"svg.hashsalt": "headgate", "font.size": 9}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
        families.family(trial.definition.family).room("figures").draw(trial.published.plan, left)
        draw_quality(trial, right)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        plt.close(figure)
    return stream.getvalue()


def draw_quality(trial: Trial, axes: Axes) -> None:
    """Draw predicted quality as a curve, achieved and random quality as points."""
    loads = np.linspace(0, 1, CURVE_LOADS)
    predicted = [trial.published.plan.predicted_quality(float(load)) for load in loads]
    axes.plot(loads, predicted, color=PREDICTED, label="predicted")
    tried = [o.load for o in trial.outcomes]
    axes.plot(tried, [o.quality for o in trial.outcomes], "o", color=OURS, label="achieved")
    axes.plot(
        tried, [o.random_quality for o in trial.outcomes], "x", color=NAIVE, label="random dropping"
    )
    axes.set(xlabel="load passed", ylabel="quality", ylim=(0, 1.02), title="Quality over load")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
