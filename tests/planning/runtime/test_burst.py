"""Capacity is a promise for every pattern of batches: passed <= capacity x time + slack."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import CAPACITY, PATTERNS, poisson, worst_excess

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_plan
from planning.runtime import (
    FeedForwardThrottle,
    PlanClient,
    RunningShedder,
    SharedBudget,
    ThrotLoop,
)

FAMILIES = ("sifter", "fit", "lira")


def columns(family, size, rng, at=0.0):
    if family == "sifter":
        return {"price": rng.random(size) * 100, "volume": rng.random(size) * 1000}
    if family == "fit":
        inputs = demo_plan("fit").network.input_ids
        return {"input": rng.choice(inputs, size)}
    return {
        "object_id": rng.integers(0, 200, size),
        "time": at + np.arange(size) * 1e-7,
        "x": rng.random(size) * 5000,
        "y": rng.random(size) * 5000,
    }


@pytest.fixture(scope="module")
def client_of(tmp_path_factory):
    """Clients of published demo plans, one per family."""
    folder = tmp_path_factory.mktemp("house")
    signer = SigningKey.load_or_create(folder / "keys")
    store = Store(folder / "plans", TrustedKeys.of(signer))
    for family in FAMILIES:
        store.publish(
            family, demo_plan(family), family=family, signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip

    def make(family):
        client = PlanClient(store, family, node="n")
        client.poll()
        return client

    return make


def run(client, family, events, throttle, **options):
    now, rng = [0.0], np.random.default_rng(1)
    shedder = RunningShedder(client, throttle, clock=lambda: now[0], **options)
    times, passed = [], []
    for at, size in events:
        now[0] = at
        times.append(at)
        keep = shedder.offer(columns(family, size, rng, at))
        passed.append(int(keep.sum()))
    assert shedder.counters.errors == 0
    assert shedder.counters.kept == sum(passed)
    return shedder, np.array(times), np.array(passed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", PATTERNS)
def test_no_stretch_passes_more_than_capacity_and_slack(client_of, family, name):
    throttle = FeedForwardThrottle(CAPACITY)
    _, times, passed = run(client_of(family), family, PATTERNS[name], throttle)
    assert worst_excess(times, passed) <= throttle.slack + 1e-6


@pytest.mark.parametrize("window_s", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("slack", [10, 1000])
def test_windows_budgets_and_marks_change_nothing_about_it(client_of, tmp_path, window_s, slack):
    throttle = FeedForwardThrottle(CAPACITY, window_s=window_s, slack=slack)
    with SharedBudget(tmp_path / "ledger", slack=1000) as budget:
        events = PATTERNS["100 and 19,900 each second"]
        _, times, passed = run(client_of("sifter"), "sifter", events, throttle, budget=budget)
    assert worst_excess(times, passed) <= slack + 1e-6


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5000)), min_size=1, max_size=40),
    st.floats(1, 5000),
    st.floats(1, 5000),
    st.sampled_from(FAMILIES),
)
def test_random_patterns_keep_the_promise(client_of, steps, capacity, slack, family):
    times = np.cumsum([gap for gap, _ in steps])
    events = list(zip(times.tolist(), [size for _, size in steps], strict=True))
    throttle = FeedForwardThrottle(capacity, slack=slack)
    _, times, passed = run(client_of(family), family, events, throttle)
    assert worst_excess(times, passed, capacity) <= slack + 1e-6


@pytest.mark.parametrize("family", ["sifter", "fit"])
@pytest.mark.parametrize("rate", [500, 1050, 2000, 20_000])
@pytest.mark.parametrize("step", [0.001, 0.01, 0.5])
def test_capacity_is_used(client_of, family, rate, step):
    """At least 95 % of min(offered, capacity) passes when the slack allows it."""
    events = list(poisson([(30, rate)], step=step))
    _, times, passed = run(client_of(family), family, events, FeedForwardThrottle(CAPACITY))
    offered = sum(size for _, size in events)
    assert passed.sum() >= 0.95 * min(offered, CAPACITY * 30)


@pytest.mark.parametrize("name", PATTERNS)
def test_throtloop_keeps_its_queue_below_b_under_the_same_patterns(client_of, name):
    loop = ThrotLoop(max_queue=500)
    client, rng = client_of("sifter"), np.random.default_rng(1)
    now, queue, last, longest, carry = [0.0], 0, 0.0, 0, 0.0
    shedder = RunningShedder(client, loop, clock=lambda: now[0])
    for at, size in PATTERNS[name]:
        carry += min(float(queue), CAPACITY * (at - last))
        served = int(carry)
        carry -= served
        queue -= served
        if served:
            loop.served(served, served / CAPACITY)
        last = now[0] = at
        queue += int(shedder.offer(columns("sifter", size, rng)).sum())
        longest = max(longest, queue)
    assert longest < 500


def test_the_budget_keeps_passed_below_z_times_offered(client_of, tmp_path):
    with SharedBudget(tmp_path / "ledger", slack=50) as budget:
        client, rng = client_of("sifter"), np.random.default_rng(1)
        shedder = RunningShedder(client, load=0.3, budget=budget)
        offered = passed = 0
        excess = [0.0]
        for size in rng.integers(1, 5000, 60):
            keep = shedder.offer(columns("sifter", int(size), rng))
            passed += int(keep.sum())
            offered += int(size)
            excess.append(passed - 0.3 * offered)
        assert max(excess) - min(excess) <= 50 + 1
        assert passed >= 0.29 * offered


@pytest.mark.parametrize("answer", [float("nan"), 7, -1, None, "0.5", float("inf"), {"i1": 3.0}])
@pytest.mark.parametrize("looks_back", [False, True])
def test_nonsense_from_a_throttle_never_opens_the_gate(client_of, answer, looks_back):
    class Old:
        load = 0.2

        def observe(self, now_s, offered, kept):
            return answer

    class New(FeedForwardThrottle):
        of_share = False

        def before(self, now_s, offered):
            return answer

        def after(self, passed, cut=0.0):
            raise RuntimeError("no")

    client, rng = client_of("sifter"), np.random.default_rng(1)
    shedder = RunningShedder(client, Old() if looks_back else New(1e9))
    kept = [shedder.offer(columns("sifter", 1000, rng)).mean() for _ in range(5)]
    assert max(kept[1:]) <= (0.21 if looks_back else 1.0)
    assert shedder.counters.throttle_errors >= 4
    if not looks_back:
        assert shedder.load == 1.0  # what it said before it went wrong


def test_what_the_limit_cuts_follows_the_plan(client_of):
    """At load 1 with a tenth of the capacity, whole regions go in the plan's order."""
    client, rng = client_of("sifter"), np.random.default_rng(1)
    batch = columns("sifter", 20_000, rng)

    class Narrow(FeedForwardThrottle):
        def before(self, now_s, offered):
            super().before(now_s, offered)
            return 1.0

    shedder = RunningShedder(client, Narrow(2000.0), clock=lambda: 0.0)
    keep = shedder.offer(batch)
    assert keep.sum() == 2000
    assert shedder.counters.dropped_by_budget == 18_000
    plan = client.current.plan
    order, queried = plan.path.order, plan.path.queried
    region = plan.partition.lookup(np.column_stack(list(batch.values())))
    ranked = [*np.flatnonzero(~queried.astype(bool)), *(i for i in order if i >= 0)]
    rates = np.array([keep[region == i].mean() for i in ranked if (region == i).any()])
    assert ((rates > 0) & (rates < 1)).sum() <= 1
    assert (np.diff(rates) >= 0).all()
    assert rates[0] == 0.0
    assert rates[-1] > 0.0
