"""What every family's shedder has from the shared base."""

from __future__ import annotations

import numpy as np
import pytest

from planning import families
from planning.batches import read
from planning.examples import demo_plan
from planning.families import family


@pytest.mark.parametrize("name", families.NAMES)
def test_a_new_plan_is_a_new_shedder_that_adopts_what_outlives_the_old_one(name: str) -> None:
    plan = demo_plan(name)
    other = type(plan).from_bytes(plan.to_bytes())
    build = family(name).room("shedder").Shedder
    shedder = build(plan, 0.5)
    assert (shedder.plan, shedder.load) == (plan, 0.5)
    shedder.offer(shedder.probe(200))
    offered = int(np.sum(shedder.counters.offered))
    assert offered == 200
    successor = build(other, 0.25)
    successor.adopt(shedder)
    assert (successor.plan, successor.load) == (other, 0.25)
    successor.offer(successor.probe(100))
    counted = int(np.sum(successor.counters.offered))
    assert counted == (100 if name == "sifter" else 300)  # the sifter's regions count anew


@pytest.mark.parametrize("name", families.NAMES)
def test_an_unreadable_batch_gets_a_decision_per_item(name: str) -> None:
    shedder = family(name).room("shedder").Shedder(demo_plan(name), 0.5)
    assert len(shedder.offer({"?": np.zeros(3), "!": np.zeros(2)})) == 3
    assert int(np.sum(shedder.counters.offered)) == 3


@pytest.mark.parametrize("name", families.NAMES)
def test_a_limit_that_does_not_bite_changes_nothing(name: str) -> None:
    build = family(name).room("shedder").Shedder
    free, limited = build(demo_plan(name), 0.5), build(demo_plan(name), 0.5)
    for rows in (1, 50, 300):
        batch = free.probe(rows)

        whole = read(batch, free.schema)
        without = free.decide(whole)
        most = max(without.units, 1)
        within = limited.decide(whole, most=most)
        np.testing.assert_array_equal(within.keep, without.keep)
        assert (within.units, within.cut) == (without.units, 0)


@pytest.mark.parametrize("most", [0, 1, 7, 100])
@pytest.mark.parametrize("name", families.NAMES)
def test_no_more_than_the_limit_passes(name: str, most: int) -> None:

    shedder = family(name).room("shedder").Shedder(demo_plan(name), 1.0)
    for _ in range(3):
        whole = read(shedder.probe(300), shedder.schema)
        decision = shedder.decide(whole, most=most)
        assert 0 <= decision.units <= most
        if not decision.units:
            assert not decision.keep.any()
