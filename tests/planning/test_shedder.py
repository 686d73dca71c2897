"""What every family's shedder has from the shared base."""

from __future__ import annotations

import numpy as np
import pytest

from planning import families
from planning.examples import demo_plan
from planning.families import family


@pytest.mark.parametrize("name", families.NAMES)
def test_a_swap_takes_the_plan_and_keeps_the_load(name: str) -> None:
    plan = demo_plan(name)
    other = type(plan).from_bytes(plan.to_bytes())
    shedder = family(name).room("shedder").Shedder(plan, 0.5)
    assert (shedder.plan, shedder.load) == (plan, 0.5)
    shedder.set_load(0.25)
    shedder.swap(other)
    assert (shedder.plan, shedder.load) == (other, 0.25)


@pytest.mark.parametrize("name", families.NAMES)
def test_an_unreadable_batch_gets_a_decision_per_item(name: str) -> None:
    shedder = family(name).room("shedder").Shedder(demo_plan(name), 0.5)
    assert len(shedder.offer({"?": np.zeros(3), "!": np.zeros(2)})) == 3
    assert int(np.sum(shedder.counters.offered)) == 3
