"""The demo stream: repeatable batches, and plans that beat dropping tuples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from upath import UPath

from planning.attributes import demo, planner, simulate, statistics
from planning.examples import demo_definition


@pytest.mark.parametrize("method", ["on_change", "periods"])
def test_the_demo_stream_is_planned_and_beats_tuple_dropping(method: str) -> None:
    stream = demo_definition("attributes").with_parameters({"method": method})
    train, fresh = demo.reports(0, 600), demo.reports(1_000_000, 300)
    profiles = statistics.build(train, stream)
    assert profiles.streams[0].cycle.cid == ("machine",)
    plan = planner.plan(profiles, stream)
    for outcome in simulate.evaluate(plan, fresh, stream, (0.5, 0.7)):
        assert outcome.quality > outcome.random_quality
        assert outcome.passed_fraction <= outcome.load
        assert outcome.loss_ratio < 0.6


def test_demo_batches_are_repeatable_and_distinct(tmp_path: Path) -> None:
    machines = demo_definition("attributes")
    first = demo.land(UPath(tmp_path), 3, machines)
    assert first.read_bytes() == demo.land(UPath(tmp_path / "again"), 3, machines).read_bytes()
    a, b = demo.reports(0, 10), demo.reports(1, 10)
    assert not set(a["sequence"]) & set(b["sequence"])
    assert np.isfinite(a["temperature"]).all()
