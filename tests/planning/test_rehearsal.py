"""The node in miniature: it decides as a node does, and what a node only counts is raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planning import rehearsal
from planning.errors import PlanningError
from planning.examples import demo_plan, demo_samples, demo_store
from planning.rehearsal import Rehearsal
from planning.runtime import PlanClient, RunningShedder
from planning.runtime.throttle import Throttle


def test_it_decides_as_a_running_shedder_does() -> None:
    store, _ = demo_store("sifter")
    client = PlanClient(store, "ticks", node="edge-7")
    client.poll()
    node, samples = RunningShedder(client, load=0.4), demo_samples("sifter", batch=1)
    expected = [node.offer(batch) for _, batch in rehearsal.batches(samples, 700)]
    mask = rehearsal.shed(demo_plan("sifter"), "sifter", samples, 0.4, size=700)
    np.testing.assert_array_equal(mask, np.concatenate(expected))


def test_a_failing_shedder_is_no_plan_to_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Rehearsal(demo_plan("sifter"), "sifter", 0.5)
    node.offer(demo_samples("sifter"))

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a table without rows")

    monkeypatch.setattr(node.shedder, "decide", broken)
    with pytest.raises(PlanningError, match="a table without rows"):
        node.offer(demo_samples("sifter"))


def test_an_answer_of_the_throttle_that_is_no_load_is_raised() -> None:
    class Astray(Throttle):
        def before(self, now_s: float, offered: float) -> float:
            return 7.0

    node = Rehearsal(demo_plan("sifter"), "sifter", throttle=Astray())
    with pytest.raises(PlanningError, match=r"fraction, got 7\.0"):
        node.offer(demo_samples("sifter"))


def test_samples_that_cannot_be_read_are_raised() -> None:
    node = Rehearsal(demo_plan("sifter"), "sifter", 0.5)
    with pytest.raises(PlanningError, match="refused"):
        node.offer({"colour": ["red", "blue"]})
