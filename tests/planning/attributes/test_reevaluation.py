"""Adaptive re-evaluation: when it looks again, and state that survives restarts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planning.attributes import reevaluation
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.errors import InvalidInput
from planning.home import Home
from planning.streams import StreamDefinition, parse


def test_the_interval_doubles_up_to_its_limit_and_resets() -> None:
    state = reevaluation.start(("A",), 0.0, 10.0, longest_s=35.0)
    for want in (20.0, 35.0, 35.0):
        state = state.after(state.next_s, ("A",))
        assert state.interval_s == want
    state = state.after(state.next_s, ("A", "B"))
    assert (state.interval_s, state.changes) == (10.0, 1)


def test_order_does_not_make_a_change() -> None:
    state = reevaluation.start(("A", "B"), 0.0, 10.0)
    assert state.after(10.0, ("B", "A")).changes == 0


def test_a_clock_that_was_set_back_does_not_wait_for_ever() -> None:
    state = reevaluation.start(("A",), 1e9, 10.0)
    assert not state.due(1e9 + 5)
    assert state.due(1e9 - 5)


def definition(**parameters: Any) -> StreamDefinition:
    attributes = [{"name": name, "domain": [0, 1e3]} for name in ("key", "x", "y")]
    document = {"stream": "demo", "family": "attributes", "attributes": attributes}
    return parse({**document, "parameters": parameters}, "demo.yaml")


def shedding(still: str) -> Plan:
    """Return a plan that sheds the attribute that stands still and sends the other."""
    i = np.arange(300)
    moving = "y" if still == "x" else "x"
    samples = {"key": i % 3, still: np.ones(300), moving: i * 7919 % 997}
    plan = plan_samples(samples, Parameters(method="periods", capacity_ratio=0.75))
    assert plan.shed_set(0.75) == (still,)
    return plan


def test_runs_plan_or_skip(tmp_path: Path) -> None:
    home, stream = Home.at(tmp_path), definition(reevaluate_s=300.0, capacity_ratio=0.75)
    assert reevaluation.due(home, stream, 0.0)[0]
    reevaluation.record(home, stream, shedding("x"), 0.0)
    skip, why = reevaluation.due(home, stream, 299.0)
    assert not skip
    assert "next look in 1 s" in why
    assert reevaluation.due(home, stream, 300.0)[0]
    reevaluation.record(home, stream, shedding("x"), 300.0)
    assert not reevaluation.due(home, stream, 800.0)[0]
    assert reevaluation.due(home, stream, 900.0)[0]
    reevaluation.record(home, stream, shedding("y"), 900.0)
    assert reevaluation.due(home, stream, 1200.0)[0]


def test_the_state_survives_a_restart(tmp_path: Path) -> None:
    """Another process reads what this one wrote."""
    home, stream = Home.at(tmp_path), definition(reevaluate_s=300.0, capacity_ratio=0.75)
    reevaluation.record(home, stream, shedding("x"), 1000.0)
    script = (
        "from planning.attributes import reevaluation as r; from planning.home import Home;"
        f"s = r.load(Home.at({str(tmp_path)!r}), 'demo'); print(s.next_s, s.shed)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "1300.0 ('x',)"


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"shed": ["x"]}), "\0\0"])
def test_unreadable_state_means_plan_anew(tmp_path: Path, content: str) -> None:
    home, stream = Home.at(tmp_path), definition(reevaluate_s=300.0, capacity_ratio=0.75)
    path = reevaluation.path_of(home, "demo")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert reevaluation.due(home, stream, 0.0)[0]
    reevaluation.record(home, stream, shedding("x"), 0.0)
    assert not reevaluation.due(home, stream, 1.0)[0]


def test_streams_without_it_always_plan(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    assert reevaluation.record(home, definition(), shedding("x"), 0.0) is None
    assert reevaluation.due(home, definition(), 0.0)[0]


def test_a_bad_interval_is_refused() -> None:
    with pytest.raises(InvalidInput, match="reevaluate_s must lie in"):
        reevaluation.start((), 0.0, 0.0)
