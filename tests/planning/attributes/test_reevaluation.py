"""Adaptive re-evaluation: the paper's half-hour example, and state that survives restarts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planning.attributes import reevaluation
from planning.attributes.parameters import Parameters
from planning.errors import InvalidInput
from planning.home import Home

MINUTE = 60.0


def half_hours(now_s: float) -> tuple[str, ...]:
    """A is least informative in the first half of every hour, B in the second."""
    return ("A",) if now_s % (60 * MINUTE) < 30 * MINUTE else ("B",)


def test_the_half_hour_example() -> None:
    seen = reevaluation.notices(half_hours, 5 * MINUTE, 5 * MINUTE, 60 * MINUTE)
    assert [t / MINUTE for t, _ in seen[:4]] == [5, 10, 20, 40]
    assert [shed for _, shed in seen[:4]] == [("A",), ("A",), ("A",), ("B",)]
    assert seen[4][0] == 45 * MINUTE, "the interval is reset after a change"


def test_the_hourly_fixed_check_never_notices() -> None:
    seen = reevaluation.notices(
        half_hours, 5 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE, adaptive=False
    )
    assert len(seen) == 24
    assert {shed for _, shed in seen} == {("A",)}


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


def definition(**parameters: Any) -> Any:
    return SimpleNamespace(stream="demo", parameters=Parameters(**parameters))


class _Plan:
    def __init__(self, *shed: str) -> None:
        self.shed = shed

    def shed_set(self, _: float) -> tuple[str, ...]:
        return self.shed


def test_runs_plan_or_skip(tmp_path: Path) -> None:
    home, stream = Home.at(tmp_path), definition(reevaluate_s=300.0)
    assert reevaluation.due(home, stream, 0.0)[0]
    reevaluation.record(home, stream, _Plan("x"), 0.0)
    skip, why = reevaluation.due(home, stream, 299.0)
    assert not skip
    assert "next look in 1 s" in why
    assert reevaluation.due(home, stream, 300.0)[0]
    reevaluation.record(home, stream, _Plan("x"), 300.0)
    assert not reevaluation.due(home, stream, 800.0)[0]
    assert reevaluation.due(home, stream, 900.0)[0]
    reevaluation.record(home, stream, _Plan("y"), 900.0)
    assert reevaluation.due(home, stream, 1200.0)[0]


def test_the_state_survives_a_restart(tmp_path: Path) -> None:
    """Another process reads what this one wrote."""
    home, stream = Home.at(tmp_path), definition(reevaluate_s=300.0)
    reevaluation.record(home, stream, _Plan("x"), 1000.0)
    script = (
        "from planning.attributes import reevaluation as r; from planning.home import Home;"
        f"s = r.load(Home.at({str(tmp_path)!r}), 'demo'); print(s.next_s, s.shed)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "1300.0 ('x',)"


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"shed": ["x"]}), "\0\0"])
def test_unreadable_state_means_plan_anew(tmp_path: Path, content: str) -> None:
    home, stream = Home.at(tmp_path), definition(reevaluate_s=300.0)
    path = reevaluation.path_of(home, "demo")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert reevaluation.due(home, stream, 0.0)[0]
    reevaluation.record(home, stream, _Plan("x"), 0.0)
    assert not reevaluation.due(home, stream, 1.0)[0]


def test_streams_without_it_always_plan(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    assert reevaluation.record(home, definition(), _Plan("x"), 0.0) is None
    assert reevaluation.due(home, definition(), 0.0)[0]


def test_a_bad_interval_is_refused() -> None:
    with pytest.raises(InvalidInput, match="reevaluate_s must lie in"):
        reevaluation.start((), 0.0, 0.0)
