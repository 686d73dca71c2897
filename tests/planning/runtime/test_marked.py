"""Marked samples and shared budgets inside the running shedder."""

import numpy as np
import pytest

from planning.runtime import RunningShedder, SampleMarker, SharedBudget
from planning.shedder import Decision

BATCH = np.array([0.1, 0.3, 0.6, 0.9])


def counts(shedder):
    c = shedder.counters
    return c.offered, c.kept, c.dropped


def test_marked_samples_bypass_the_plan(house, client):
    house.publish(cuts=(0.0, 2.0))
    client.poll()
    shedder = RunningShedder(client, load=0.5, marker=SampleMarker(0.1, seed=3))
    masks = [shedder.offer(np.tile(BATCH, 25)) for _ in range(10)]
    assert [int(m.sum()) for m in masks] == [10] * 10
    assert shedder.marked.tolist() == masks[-1].tolist()
    assert counts(shedder) == (1000, 100, 900)
    assert shedder.counters.marked == 100
    assert int(shedder.shedder.counters.offered) == 900
    assert sum(shedder.offer_one(0.5) for _ in range(50)) == 5


@pytest.mark.parametrize(("load", "marks"), [(0.5, 100), (0.1, 100), (0.05, 50), (0.0, 0)])
def test_marked_samples_are_charged_to_the_load(house, client, load, marks):
    house.publish(cuts=(0.0, 0.0))
    client.poll()
    shedder = RunningShedder(client, load=load, marker=SampleMarker(0.1))
    shedder.offer(BATCH[:0])  # takes the plan up
    assert shedder.shedder.load == pytest.approx((load - marks / 1000) / (1 - marks / 1000))
    shedder.offer(np.tile(BATCH, 250))
    assert shedder.counters.marked == marks


@pytest.mark.parametrize("kind", ["array", "columns", "records"])
def test_marking_works_on_every_kind_of_batch(house, client, monkeypatch, kind):
    house.publish()
    client.poll()
    seen = []
    shedder = RunningShedder(client, load=0.5, marker=SampleMarker(0.5))
    values = np.arange(8.0)
    batch = {"array": values, "columns": {"value": values}, "records": list(values)}[kind]
    shedder.offer(values[:0])

    def decide(self, batch, **_):
        seen.append(batch.numbers("value").tolist())
        return Decision(np.zeros(len(seen[-1]), dtype=bool), 0)

    monkeypatch.setattr(type(shedder.shedder), "decide", decide)
    keep = shedder.offer(batch)
    assert seen == [values[~keep].tolist()]
    assert keep.tolist() == shedder.marked.tolist()
    assert int(keep.sum()) == 4


def test_the_budget_holds_in_every_state(house, client, tmp_path):
    with SharedBudget(tmp_path / "ledger", slack=0) as budget:
        shedder = RunningShedder(client, load=0.25, budget=budget)
        assert shedder.offer(np.tile(BATCH, 5)).sum() == 5
        house.publish(validity={"not_after": "2026-01-02T03:30:00Z", "fallback": "pass"})
        client.poll()
        house.clock.now += 3600
        assert shedder.offer(np.tile(BATCH, 5)).sum() == 5
        assert sum(shedder.offer_one(0.9) for _ in range(20)) == 5
        assert shedder.counters.dropped_by_budget == 30  # thinned evenly before the plan
        assert counts(shedder) == (60, 15, 45)
        assert (budget.totals().offered, budget.totals().kept) == (60, 15)


def test_marked_samples_are_the_last_that_the_budget_takes(house, client, tmp_path):
    house.publish(cuts=(0.0, 0.0))
    client.poll()
    with SharedBudget(tmp_path / "ledger", slack=0) as budget:
        marker = SampleMarker(0.2, seed=1)
        shedder = RunningShedder(client, load=0.25, budget=budget, marker=marker)
        keep = shedder.offer(np.tile(BATCH, 10))
        assert int(keep.sum()) == 10
        assert int(shedder.marked.sum()) == 8
        assert keep[shedder.marked].all()
