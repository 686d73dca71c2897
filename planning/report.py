"""The HTML report: what was planned, and what the plans do to quality, with pictures."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader
from upath import UPath

from planning import assurances, families
from planning.families import FurtherFigures
from planning.pictures import NAIVE, OURS, PREDICTED, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from planning.trial import Trial

CURVE_LOADS = 101
SIZE = (10.5, 4.0)


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
    kept = assurances.guarantees(trial.published, [outcome.load for outcome in trial.outcomes])
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
            "certificate": assurances.certificate(manifest),
        },
        "tables": {
            "Guarantees": assurances.table(kept),
            "Queries": trial.queries,
            "Certificate": assurances.checks(manifest),
        },
        "summary": trial.published.plan.summary(),
        "data_docs": trial.data_docs,
        "outcomes": trial.outcomes,
        "counters": trial.counters,
        "picture": _embedded(picture(trial)),
        "further": [(caption, _embedded(image)) for caption, image in further_pictures(trial)],
    }


def _embedded(image: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(image).decode()


def write_pictures(folder: UPath, trials: Sequence[Trial]) -> None:
    """Write each stream's picture as ``<stream>.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    for trial in trials:
        (folder / f"{trial.definition.stream}.svg").write_bytes(picture(trial))


def picture(trial: Trial) -> bytes:
    """Return the plan and its quality over load as an SVG picture."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        families.family(trial.definition.family).room("figures").draw(trial.published.plan, left)
        draw_quality(trial, right)

    return svg(draw, *SIZE)


def further_pictures(trial: Trial) -> list[tuple[str, bytes]]:
    """Return what else the family shows: captions and SVGs."""
    figures = families.family(trial.definition.family).room("figures")
    if not isinstance(figures, FurtherFigures):
        return []
    further = figures.further(trial.published.plan, trial.samples, trial.definition)
    return [(caption, svg(partial(_on_axes, draw), *SIZE)) for caption, draw in further]


def _on_axes(draw: Callable[[Axes], None], figure: Figure) -> None:
    draw(figure.add_subplot())


def draw_quality(trial: Trial, axes: Axes) -> None:
    """Draw predicted quality as a curve, achieved and random quality as points."""
    loads = np.linspace(0, 1, CURVE_LOADS)
    predicted = [trial.published.promised(float(load)).quality for load in loads]
    axes.plot(loads, predicted, color=PREDICTED, label="predicted")
    tried = [o.load for o in trial.outcomes]
    axes.plot(tried, [o.quality for o in trial.outcomes], "o", color=OURS, label="achieved")
    axes.plot(
        tried, [o.random_quality for o in trial.outcomes], "x", color=NAIVE, label="random dropping"
    )
    axes.set(xlabel="load passed", ylabel="quality", ylim=(0, 1.02), title="Quality over load")
    axes.grid()
    axes.legend(loc="lower right")
