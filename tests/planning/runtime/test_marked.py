"""Marked samples and shared budgets inside the running shedder."""

import functools
import math

import numpy as np
import pytest

from planning import batches
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.attributes.parameters import Parameters
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder
from planning.examples import demo_plan, demo_samples
from planning.lira.shedder import Shedder as Lira
from planning.runtime import (
    FixedThrottle,
    PlanClient,
    RateMonitor,
    RunningShedder,
    SampleMarker,
    SharedBudget,
)
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


# Marks of every family: what the wire sees, added up by a plain loop.


@pytest.fixture(scope="module")
def client_of(tmp_path_factory):
    """Clients of plans of any family, each with its plan."""
    folder = tmp_path_factory.mktemp("marked")
    signer = SigningKey.load_or_create(folder / "keys")
    stores = {}

    def make(family, plan=None):
        plan = plan or demo_plan(family)
        if id(plan) not in stores:
            store = Store(folder / f"{family}-{len(stores)}", TrustedKeys.of(signer))
            store.publish(
                "s", plan, family=family, signer=signer, created_at="2026-01-02T03:04:05Z"
            )
            stores[id(plan)] = store, plan
        client = PlanClient(stores[id(plan)][0], "s", node="n")
        client.poll()
        assert client.current
        return client

    return make


@functools.cache
def channel(kind):
    """Return samples of an attribute stream, and a plan over long or short windows."""
    rng = np.random.default_rng(7)
    i = np.arange(20_000)
    samples = {
        "station": i % 40, "level": i // 400, "flow": rng.integers(0, 1000, len(i)),
        "valve": np.array(["open", "shut"])[rng.integers(0, 2, len(i))],
    }  # fmt: skip
    if kind == "texts":  # of very different lengths, so that tuples have no size of their own
        samples["note"] = np.array(["n" * n for n in rng.integers(0, 60, len(i))])
    window = {"short": 40, "long": 1000, "texts": 400}[kind]
    part = {name: column[:6000] for name, column in samples.items()}
    return samples, plan_samples(part, Parameters(window_tuples=window))


def sent_bytes(plan, batch, keep, header):
    """Return the bytes of every tuple on the wire, value by value."""
    sizes = {name: int(plan.streams[0].sizes[j]) for j, name in enumerate(plan.attributes)}
    rows = []
    for row in range(len(keep)):
        total = header if keep[row].any() else 0
        for j, name in enumerate(plan.attributes):
            if keep[row, j]:
                text = plan.kinds[j] == "text"
                total += len(str(batch[name][row]).encode()) if text else sizes[name]
        rows.append(total)
    return rows


def offered(samples, sizes):
    """Yield a stream in batches of these sizes, in turn, from the start again at its end."""
    rows, at = len(samples["station"]), 0
    for size in sizes:
        index = np.arange(at, at + size) % rows
        at += size
        yield {name: column[index] for name, column in samples.items()}


SIZES = {1: 1_500, 7: 500, 100: 60, 2_000: 4, 20_000: 1}


@pytest.mark.parametrize("kind", ["short", "long", "texts"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fraction", [0.001, 0.02, 0.5])
def test_no_window_of_an_attribute_stream_exceeds_its_capacity(client_of, kind, size, fraction):
    """Every W consecutive tuples as offered, at every load, however batches are cut."""
    samples, plan = channel(kind)
    for load in (0.1, 0.35, 0.8):
        marker = SampleMarker(fraction, seed=3)
        shedder = RunningShedder(client_of("attributes", plan), load=load, marker=marker)
        capacity, wire, marks = plan.at(load).capacity_bytes, [], 0
        for batch in offered(samples, [size] * SIZES[size]):
            keep = shedder.offer(batch)
            assert keep[shedder.marked].all()
            marks += int(shedder.marked.sum())
            header = int(shedder.shedder.setting.header_bytes[0])
            wire += sent_bytes(plan, batch, keep, header)
        inside = sum(wire[: plan.window])
        worst = inside
        for new, old in zip(wire[plan.window :], wire, strict=False):
            inside += new - old
            worst = max(worst, inside)
        assert worst <= capacity
        counters = shedder.counters
        assert counters.errors == 0
        assert (counters.marked, counters.kept_units) == (marks, sum(wire))
        due = int(SampleMarker(min(fraction, load), seed=3).mark(len(wire)).sum())
        assert marks + counters.marks_skipped == due
        if fraction < load / 2 and kind != "texts":
            assert counters.marks_skipped == 0


def test_windows_hold_while_load_and_batches_change(client_of):
    """A tuple of which anything is sent ends a window within the capacity then in force."""
    samples, plan = channel("long")
    rng = np.random.default_rng(1)
    throttle = FixedThrottle(0.5)
    marker = SampleMarker(0.05, seed=1)
    shedder = RunningShedder(client_of("attributes", plan), throttle, marker=marker)
    wire = []
    for batch in offered(samples, rng.integers(1, 900, 60).tolist()):
        throttle.load = float(rng.choice([0.15, 0.3, 0.5, 0.9]))
        keep = shedder.offer(batch)
        header = int(shedder.shedder.setting.header_bytes[0])
        capacity = plan.at(throttle.load).capacity_bytes
        for total in sent_bytes(plan, batch, keep, header):
            wire.append(total)
            assert not total or sum(wire[-plan.window :]) <= capacity
    assert shedder.counters.marked > 500
    assert shedder.counters.errors == 0


def test_a_limit_holds_with_marks_of_any_length(client_of):
    """Long tuples are marked too; what a throttle allows is never exceeded by them."""
    samples, plan = channel("texts")

    class Quota(FixedThrottle):
        def allowed(self):
            return 700

    shedder = RunningShedder(
        client_of("attributes", plan), Quota(0.6), marker=SampleMarker(0.3, seed=1)
    )
    for batch in offered(samples, [1, 7, 50, 200, 1000]):
        keep = shedder.offer(batch)
        assert keep[shedder.marked].all()
        header = int(shedder.shedder.setting.header_bytes[0])
        assert sum(sent_bytes(plan, batch, keep, header)) <= 700
    assert shedder.counters.errors == 0
    assert shedder.counters.marked > 0
    assert shedder.counters.marks_skipped > 0


def test_a_marked_tuple_refreshes_what_the_receiver_holds():
    """What has been sent as a mark is not sent again for being new or changed."""
    samples, plan = channel("long")
    rows = {name: column[:40] for name, column in samples.items()}  # one tuple per station
    batch = batches.read(rows, batches.Schema(plan.attributes))
    changed = {**rows, "flow": rows["flow"] + 1000}
    marked, plain = Shedder(plan, 0.5), Shedder(plan, 0.5)
    marks = np.ones(40, dtype=bool)
    assert marked.decide_marked(batch, marks).keep.all()
    assert marks.all()
    sheddable = np.array([name not in plan.streams[0].cid for name in plan.attributes])
    assert (plan.at(0.5).period[0, sheddable] != 1).all()
    assert plain.decide(batch).keep[:, sheddable].any()
    period = plan.at(0.5).period[0]  # in which attributes start at different ages
    old = (period > 0) & (marked._memory.age[:40] + 1 >= period)
    assert not (marked.decide(batch).keep & ~old)[:, sheddable].any()
    flow = np.array(plan.attributes) == "flow"
    old = (period > 0) & (marked._memory.age[:40] + 1 >= period)
    again = marked.decide(batches.read(changed, batches.Schema(plan.attributes))).keep & ~old
    assert again[:, flow].any()
    assert not again[:, sheddable & ~flow].any()


def test_unknown_streams_are_sampled_but_not_sent():
    i = np.arange(600)
    kinds = np.array(["a", "b"])[i // 6 % 2]
    samples = {"kind": kinds, "station": i % 6, "load": (i * 7919) % 997}
    plan = plan_samples(samples, Parameters(stream_attribute="kind"))
    batch = {"kind": np.array(["a", "new", "b"]), "station": i[:3], "load": i[:3]}
    marks = np.ones(3, dtype=bool)
    decision = Shedder(plan, 0.5).decide_marked(
        batches.read(batch, batches.Schema(plan.attributes)), marks
    )
    assert not decision.keep[1].any()
    assert marks[1]


@pytest.mark.parametrize("load", [0.2, 0.5, 0.9])
def test_reports_of_marked_positions_are_paid_for(client_of, load):
    """lira: with marks, too, no more than z times the reports due are sent, at any moment."""
    samples = demo_samples("lira")
    shedder = RunningShedder(client_of("lira"), load=load, marker=SampleMarker(0.02, seed=1))
    rows = len(samples["time"])
    for at in range(0, rows, 500):
        batch = {name: column[at : at + 500] for name, column in samples.items()}
        keep = shedder.offer(batch)
        counters = shedder.shedder.counters
        assert counters.sent <= load * counters.due
        assert keep[shedder.marked].all()
    assert shedder.counters.errors == 0
    assert shedder.counters.marked > 0
    assert shedder.counters.marked + shedder.counters.marks_skipped == int(
        SampleMarker(0.02, seed=1).mark(rows).sum()
    )


def test_a_marked_position_renews_what_the_server_believes(client_of):
    """lira: after every position the server is off by no more than the throttler, marks or not."""
    plan = demo_plan("lira")
    samples = demo_samples("lira")
    shedder = Lira(plan, 1.0)
    batch = batches.read(samples, shedder.schema)
    marks = SampleMarker(0.1, seed=1).mark(batch.rows)
    given = marks.copy()
    keep = shedder.decide_marked(batch, marks).keep
    assert (marks == given).all()
    assert keep[marks].mean() > 0.99  # all but late ones
    lowest = plan.frame.low
    last, report = {}, {}
    columns = [np.asarray(samples[name]).tolist() for name in ("object_id", "time", "x", "y")]
    for kept, who, t, x, y in zip(keep.tolist(), *columns, strict=True):
        vx = vy = 0.0
        if who in last:
            before = last[who]
            if not t > before[0]:
                continue
            vx, vy = (x - before[1]) / (t - before[0]), (y - before[2]) / (t - before[0])
            if math.hypot(vx, vy) > shedder.highest_speed:
                vx = vy = 0.0
        last[who] = t, x, y
        if kept:
            report[who] = t, x, y, vx, vy
        sent, at_x, at_y, by_x, by_y = report[who]
        off = math.hypot(at_x + by_x * (t - sent) - x, at_y + by_y * (t - sent) - y)
        assert off <= lowest * (1 + 1e-6)


@pytest.mark.parametrize("family", ["sifter", "lira", "attributes", "joins", "fit"])
def test_no_family_exceeds_a_limit_for_its_marks(client_of, family):
    samples = demo_samples(family)

    class Quota(FixedThrottle):
        quota = 0

        def allowed(self):
            return self.quota

    throttle = Quota(0.4)
    shedder = RunningShedder(client_of(family), throttle, marker=SampleMarker(0.2, seed=2))
    rng, at, before = np.random.default_rng(5), 0, 0
    for size in rng.integers(1, 400, 40).tolist():
        throttle.quota = int(rng.integers(0, 3 * size))
        batch = {name: column[at : at + size] for name, column in samples.items()}
        at += size
        keep = shedder.offer(batch)
        units = shedder.counters.kept_units - before
        before += units
        assert units <= throttle.quota
        assert keep.reshape(len(keep), -1).any(axis=1)[shedder.marked].all()
        if shedder.shedder.UNIT in ("items", "reports", "basic windows"):
            ones = int(np.count_nonzero(keep))
            assert ones <= units if family == "joins" else ones == units
    assert shedder.counters.errors == 0
    assert shedder.counters.marked > 0


def test_marks_are_charged_under_a_rate_vector(client_of):
    """fit: with a fifth marked, no server gets more than it can take; without charging it would."""
    client = client_of("fit")
    plan = client.current.plan
    inputs = plan.network.input_ids
    rates = dict(zip(inputs, plan.rates_at(0.4), strict=True))

    class Known(RateMonitor):
        def before(self, now_s, offered):
            return rates

    fraction = 0.2
    shedder = RunningShedder(client, Known(), marker=SampleMarker(fraction, seed=1))
    arcs = [arc.name for arc in plan.network.arcs]
    labels = np.repeat(arcs, 4000)
    keep = shedder.offer({"arc": np.random.default_rng(0).permutation(labels)})
    assert shedder.counters.marked == pytest.approx(fraction * len(labels), abs=1)
    drops = plan.fractions(shedder.shedder.load)
    assert keep.mean() == pytest.approx(fraction + (1 - fraction) * (1 - drops.mean()), abs=0.02)
    effective = (1.0 - fraction) * drops  # marked items pass every arc
    loads = plan.network.evaluate(rates, dict(zip(arcs, effective.tolist(), strict=True))).loads
    for node in plan.network.nodes:
        assert loads[node.id] <= node.capacity * (1 + 1e-6)
    free = (1.0 - fraction) * plan.fractions(rates)
    loads = plan.network.evaluate(rates, dict(zip(arcs, free.tolist(), strict=True))).loads
    assert any(loads[node.id] > node.capacity * 1.05 for node in plan.network.nodes)


def test_marks_that_weigh_more_than_the_average_stay_within_a_limit(house, client, monkeypatch):
    """Every tenth item weighs a hundred times as much, and just those would be marked."""
    house.publish(cuts=(0.0, 2.0))
    client.poll()

    class Quota(FixedThrottle):
        def allowed(self):
            return 350

    shedder = RunningShedder(client, Quota(0.9), marker=SampleMarker(0.1))
    shedder.offer(BATCH[:0])

    def units(self, batch):
        return int(batch.numbers("value").sum())

    monkeypatch.setattr(type(shedder.shedder), "units", units)
    values = np.where(SampleMarker(0.1).mark(100), 100.0, 1.0)
    keep = shedder.offer(values)
    assert values[keep & shedder.marked].sum() == 300
    assert (shedder.counters.marked, shedder.counters.marks_skipped) == (3, 7)
