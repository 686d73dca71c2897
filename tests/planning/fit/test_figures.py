"""Pictures of a plan, and the report's: throughput over time of all methods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from planning.examples import demo_run
from planning.fit import demo, figures
from planning.fit.planner import plan_network
from planning.home import Home
from planning.report import write_report
from planning.stages import gate, local, publish, solve
from planning.trial import Trial, try_stream

METHODS = ("exact", "Solver 5 %", "Solver 10 %", "C-FIT 10 %", "local shedding", "random dropping")


def test_every_line_is_the_drop_fraction_of_its_arc():
    plan = plan_network(demo.network())
    axes = Figure().add_subplot()
    figures.draw(plan, axes, 0.5)
    *arcs, marked = axes.lines
    assert marked.get_xdata() == [0.5, 0.5]
    assert len(arcs) == figures.SHOWN
    for line in arcs:
        for load, fraction in zip(*line.get_data(), strict=True):
            assert fraction == plan.at(float(load)).get(line.get_label(), 0.0)
    shown = [sum(line.get_ydata()) for line in arcs]
    assert shown == sorted(shown, reverse=True)


@pytest.fixture
def demo_stream(demo_definitions: list[Any]) -> Any:
    return next(d for d in demo_definitions if d.family == "fit")


@pytest.fixture
def tried(demo_stream: Any, tmp_path: Path) -> Trial:
    home = Home.at(tmp_path)
    run = demo_run(home, "fit")
    for stage in (local.validate, local.statistics, solve.solve):
        stage(run)
    gate.gate(home, run)
    publish.publish(home, run, created_at="2026-01-02T03:04:05Z")
    return try_stream(home, demo_stream)


def labels(draw: figures.Draw) -> dict[str, float]:
    """Draw, and return the share of the optimum that each line's label states."""
    axes = Figure().add_subplot()
    draw(axes)
    stated = (line.get_label().rsplit(": ", 1) for line in axes.lines)
    return {name: float(share) for name, share in stated}


@pytest.fixture
def further(clean_samples: Callable[..., Any]) -> Callable[[Any], list[tuple[str, figures.Draw]]]:
    def make(definition: Any) -> list[tuple[str, figures.Draw]]:
        samples = clean_samples(definition, 7, periods=60)
        return figures.further(plan_network(demo.network()), samples, definition)

    return make


def test_the_page_holds_a_captioned_picture_per_network(tried: Trial, tmp_path: Path):
    page = write_report(Home.at(tmp_path).reports / "report.html", [tried]).read_text("utf-8")
    assert page.count("<figcaption>Throughput over time on ") == 2
    assert page.count("data:image/svg+xml;base64,") == 3
    for network in ("network web, 6 inputs on 6 servers", "network requests, 6 inputs on 4"):
        assert f"{network}" in page


def test_the_demo_stream_shows_every_method_on_small_fragments(demo_stream: Any, further: Any):
    first, second = further(demo_stream)
    assert "fresh samples: network web" in first[0]
    shares = labels(first[1])
    assert tuple(shares) == METHODS
    assert shares["exact"] == 1.0
    assert shares["Solver 5 %"] >= 0.95
    assert min(shares["Solver 10 %"], shares["C-FIT 10 %"]) >= 0.9
    assert max(shares["local shedding"], shares["random dropping"]) < 0.95
    assert "Refused, for needing more than 20,000 plans: Solver 5 %" in second[0]
    assert tuple(labels(second[1])) == ("exact", "local shedding", "random dropping")
    assert demo.web().input_ids == demo.network().input_ids


def test_a_users_stream_follows_its_own_network_only(definition: Any, further: Any):
    pictures = further(definition)
    assert len(pictures) == 1
    assert "fresh samples: network requests" in pictures[0][0]
