"""Throttles in each family's unit: rates by input, bytes per second, a share of a core."""

import numpy as np
import pytest
from patterns import PATTERNS, worst_excess

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_plan, demo_samples
from planning.runtime import (
    CpuShare,
    FeedForwardThrottle,
    PlanClient,
    RateMonitor,
    RunningShedder,
)


@pytest.fixture
def client_of(tmp_path):
    def make(family):
        signer = SigningKey.load_or_create(tmp_path / "keys")
        store = Store(tmp_path / family, TrustedKeys.of(signer))
        store.publish(
            "s", demo_plan(family), family=family, signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip
        client = PlanClient(store, "s", node="n")
        assert client.poll()
        return client

    return make


def test_fit_follows_the_rates_of_its_inputs(client_of):
    """What passes of every input is what the plan says at the rates that really come."""
    client, now = client_of("fit"), [0.0]
    plan = client.current.plan
    inputs = plan.network.input_ids
    true = dict(zip(inputs, plan.rates_at(0.5), strict=True))
    shedder = RunningShedder(client, RateMonitor(period_s=1.0, head_room=0.0), clock=lambda: now[0])
    rng = np.random.default_rng(1)
    offered, kept = dict.fromkeys(inputs, 0), dict.fromkeys(inputs, 0)
    for tick in range(300):
        now[0] = tick / 10
        counts = [int(rng.poisson(true[name] / 10)) for name in inputs]
        labels = rng.permutation(np.repeat(inputs, counts))
        keep = shedder.offer({"input": labels})
        if tick >= 100:
            for name in inputs:
                offered[name] += int((labels == name).sum())
                kept[name] += int(keep[labels == name].sum())
    assert shedder.counters.throttle_errors == shedder.counters.errors == 0
    assert set(shedder.load) == set(inputs)
    drops = plan.at(true)
    for name in inputs:
        assert shedder.load[name] == pytest.approx(true[name], rel=0.2)
        least = min(drops.get(arc.name, 0.0) for arc in plan.network.arcs if arc.stream == name)
        assert kept[name] / offered[name] == pytest.approx(1.0 - least, abs=0.06)


def test_rates_that_a_plan_does_not_know_change_nothing(client_of):
    class Astray(RateMonitor):
        def before(self, now_s, offered):
            return {"no such input": 5.0}

    shedder = RunningShedder(client_of("fit"), Astray(uniform_share=0.3))
    inputs = client_of("fit").current.plan.network.input_ids
    shedder.offer({"input": np.resize(inputs, 500)})
    assert shedder.counters.throttle_errors == 1
    assert shedder.shedder.load == 0.3


@pytest.mark.parametrize("name", ["10,000 each second", "100 and 19,900 each second"])
def test_attributes_hold_a_capacity_in_bytes_per_second(client_of, name):
    client, now = client_of("attributes"), [0.0]
    samples = demo_samples("attributes")
    rows = len(samples["machine"])
    throttle = FeedForwardThrottle(20_000.0)
    shedder = RunningShedder(client, throttle, clock=lambda: now[0])
    times, passed, at, before = [], [], 0, 0
    for moment, size in PATTERNS[name][:40]:
        now[0] = moment
        index = np.arange(at, at + size) % rows
        at += size
        shedder.offer({key: column[index] for key, column in samples.items()})
        sent = shedder.shedder.counters.sent_bytes
        times.append(moment)
        passed.append(sent - before)
        before = sent
    assert shedder.counters.errors == 0
    assert worst_excess(times, passed, 20_000.0) <= throttle.slack + 1e-6
    assert sum(passed) > 0


def test_joins_hold_a_share_of_a_core(client_of):
    """The operator behind the shedder takes 20 microseconds per pair of tuple and basic window."""
    client, now = client_of("joins"), [0.0]
    samples = demo_samples("joins")
    throttle = CpuShare(0.2, unit_cost_s=20e-6)
    shedder = RunningShedder(client, throttle, clock=lambda: now[0])
    busy = 0.0
    for tick in range(100):
        now[0] = tick / 10
        batch = {key: column[tick * 100 : tick * 100 + 100] for key, column in samples.items()}
        pairs = int(shedder.offer(batch).sum())
        throttle.served(pairs, pairs * 20e-6)
        busy += pairs * 20e-6
    assert shedder.counters.errors == 0
    assert 0.7 * 0.2 * 10 <= busy <= 0.2 * 10 + throttle.slack
