"""The report shows throughput over time of all methods, on real rates where they are at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planning.fit import demo, examples, figures
from planning.fit.planner import plan_network
from planning.home import Home
from planning.report import write_report
from planning.stages import collect, gate, local, publish, solve
from planning.trial import Trial, try_stream

METHODS = ("exact", "Solver 5 %", "Solver 10 %", "C-FIT 10 %", "local shedding", "random dropping")


@pytest.fixture
def definition(demo_definitions: list[Any]) -> Any:
    return next(d for d in demo_definitions if d.family == "fit")


@pytest.fixture
def tried(definition: Any, tmp_path: Path) -> Trial:
    home = Home.at(tmp_path)
    demo.land(home.resolve(definition.landing), 0, definition)
    run = collect.collect(home, definition, "batch-0")
    local.validate(run)
    local.statistics(run)
    solve.solve(run)
    gate.gate(home, run)
    publish.publish(home, run, created_at="2026-01-02T03:04:05Z")
    return try_stream(home, definition)


def labels(draw: figures.Draw) -> dict[str, float]:
    """Draw, and return the share of the optimum that each line's label states."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    draw(axes)
    stated = (line.get_label().rsplit(": ", 1) for line in axes.lines)
    return {name: float(share) for name, share in stated}


def further(definition: Any) -> list[tuple[str, figures.Draw]]:
    columns = {name: np.asarray(v) for name, v in demo.counts(7, definition, periods=60).items()}
    good = columns["tuples_out"] >= 0
    samples = {name: values[good] for name, values in columns.items()}
    return figures.further(plan_network(demo.network()), samples, definition)


def test_the_page_holds_a_captioned_picture_per_network(tried: Trial, tmp_path: Path):
    page = write_report(Home.at(tmp_path).reports / "report.html", [tried]).read_text("utf-8")
    assert page.count("<figcaption>Throughput over time on ") == 2
    assert page.count("data:image/svg+xml;base64,") == 3
    for network in ("network web, 6 inputs on 6 servers", "network requests, 6 inputs on 4"):
        assert f"{network}" in page


def test_the_real_trace_is_followed_by_every_method(definition: Any, shared_data: Path):
    first, second = further(definition)
    assert "the NASA trace: network web" in first[0]
    shares = labels(first[1])
    assert tuple(shares) == METHODS
    assert shares["exact"] == 1.0
    assert shares["Solver 5 %"] >= 0.95
    assert min(shares["Solver 10 %"], shares["C-FIT 10 %"]) >= 0.9
    assert max(shares["local shedding"], shares["random dropping"]) < 0.95
    assert "Refused, for needing more than 20,000 plans: Solver 5 %" in second[0]
    assert tuple(labels(second[1])) == ("exact", "local shedding", "random dropping")


def test_without_real_data_the_streams_own_samples_are_followed(
    definition: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path))
    pictures = further(definition)
    assert [caption.split(":")[0] for caption, _ in pictures] == [
        "Throughput over time on fresh samples"
    ] * 2
    assert tuple(labels(pictures[0][1])) == METHODS
    assert examples.web().input_ids == demo.network().input_ids


def test_a_users_stream_follows_its_own_samples_only(requests_definition: Any):
    pictures = further(requests_definition())
    assert len(pictures) == 1
    assert "fresh samples: network requests" in pictures[0][0]
