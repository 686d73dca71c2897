"""The shedder: the capacity holds whatever comes, and odd input never stops it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attributes.experiments import window_bytes
from benchmarks.attributes.workload import stream
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder
from planning.errors import InvalidInput

METHODS = ("paper", "selection", "periods", "on_change")


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


def plans(seed: int = 0, **options: Any) -> tuple[dict[str, Any], dict[str, Plan]]:
    rng = np.random.default_rng(seed)
    samples = stream(rng, cycles=60, lengths=(7,), persistence=(0.99, 0.9, 0.5, 0.0))
    return samples, {m: planned(samples, method=m, **options) for m in METHODS}


SAMPLES, PLANS = plans()


def rows_of(samples: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    return {name: column[start:stop] for name, column in samples.items()}


def true_bytes(plan: Plan, samples: dict[str, Any], keep: np.ndarray, header: int) -> np.ndarray:
    """Count the bytes of every tuple independently of the shedder."""
    total = np.where(keep.any(axis=1), header, 0)
    for j, name in enumerate(plan.attributes):
        if plan.kinds[j] == "text":
            size = np.array([len(str(v).encode()) for v in samples[name]])
        else:
            size = np.full(len(keep), plan.streams[0].sizes[j])
        total = total + keep[:, j] * size
    return total


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_window_ever_exceeds_the_capacity(data: st.DataObject) -> None:
    """Random schemas, sizes, capacities and batch cuts; the capacity changes mid-stream."""
    seed = data.draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    attributes = data.draw(st.integers(1, 6))
    samples = stream(
        rng, cycles=30, lengths=(data.draw(st.integers(2, 9)),),
        persistence=tuple(rng.random(attributes)),
    )  # fmt: skip
    if data.draw(st.booleans()):
        words = np.array(["", "x", "a longer text", "ü" * 20])
        samples["text"] = words[rng.integers(0, 4, len(samples["key0"]))]
    sizes = {f"value{j}": int(rng.integers(0, 40)) for j in range(attributes)}
    plan = planned(
        samples,
        method=data.draw(st.sampled_from(METHODS)),
        window_tuples=data.draw(st.sampled_from([None, 1, 3, 20, 100])),
        refresh_reports=data.draw(st.sampled_from([0, 2, 24])),
        sizes=sizes,
    )
    full = plan.window * plan.tuple_bytes
    capacity = data.draw(st.floats(0, 1.3)) * full
    shedder = Shedder(plan, 1.0)
    shedder.set_capacity(capacity)
    sent, limits = [], []
    start, rows = 0, len(samples["key0"])
    while start < rows:
        stop = min(rows, start + data.draw(st.integers(1, 60)))
        batch = rows_of(samples, start, stop)
        out = shedder.send(batch)
        header = int(shedder.setting.header_bytes[0])
        np.testing.assert_array_equal(true_bytes(plan, batch, out.keep, header), out.bytes)
        sent.append(out.bytes)
        limits.append(np.full(stop - start, int(capacity)))
        if data.draw(st.booleans()):
            capacity = data.draw(st.floats(0, 1.3)) * full
            shedder.set_capacity(capacity)
        start = stop
    spent, limit = np.concatenate(sent), np.concatenate(limits)
    padded = np.concatenate([np.zeros(plan.window - 1, dtype=np.int64), spent])
    window = window_bytes(padded, plan.window)
    assert np.all((window <= limit) | (spent == 0))
    assert shedder.counters.sent_bytes == spent.sum()


@pytest.mark.parametrize("method", METHODS)
def test_everything_passes_at_full_capacity(method: str) -> None:
    shedder = Shedder(PLANS[method], 1.0)
    out = shedder.send(SAMPLES)
    assert out.keep.all()
    assert shedder.counters.passed_fraction == 1.0
    assert shedder.counters.dropped == 0


@pytest.mark.parametrize("method", METHODS)
def test_nothing_passes_at_capacity_zero(method: str) -> None:
    shedder = Shedder(PLANS[method], 0.0)
    assert not shedder.offer(SAMPLES).any()
    assert shedder.counters.dropped == shedder.counters.offered == len(SAMPLES["key0"])


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_single_tuples_decide_alike(method: str) -> None:
    whole = Shedder(PLANS[method], 0.6).offer(SAMPLES)
    batched, single = Shedder(PLANS[method], 0.6), Shedder(PLANS[method], 0.6)
    parts = [batched.offer(rows_of(SAMPLES, a, a + 11)) for a in range(0, 420, 11)]
    np.testing.assert_array_equal(np.concatenate(parts)[:420], whole)
    for i in range(60):
        row = {name: column[i] for name, column in SAMPLES.items()}
        np.testing.assert_array_equal(single.offer_one(row), whole[i])


def test_the_cid_and_must_keep_attributes_are_in_every_sent_tuple() -> None:
    plan = planned(SAMPLES, method="on_change", must_keep=("value2",))
    keep = Shedder(plan, 0.8).offer(SAMPLES)
    named = [plan.attributes.index(n) for n in ("key0", "value2")]
    sent = keep.any(axis=1)
    assert sent.mean() > 0.9
    assert keep[sent][:, named].all()


@pytest.mark.parametrize("method", ["selection", "periods", "on_change"])
def test_a_shed_attribute_is_refreshed(method: str) -> None:
    """No consumer is blind for ever: the longest silence stays near the stated period."""
    rng = np.random.default_rng(3)
    samples = stream(rng, cycles=400, lengths=(5,), persistence=(0.999, 0.99, 0.5, 0.0))
    plan = planned(samples, method=method, refresh_reports=12)
    keep = Shedder(plan, 0.6).offer(samples)
    for entity in range(5):
        sent = keep[entity::5]
        for j in range(sent.shape[1]):
            gaps = np.diff(np.flatnonzero(sent[:, j]))
            assert gaps.max() <= 2 * 12, (entity, plan.attributes[j])


def test_send_on_change_sends_what_moves() -> None:
    rng = np.random.default_rng(4)
    rows = 2000
    step = np.repeat(rng.normal(size=rows // 40), 40) * 10
    samples = {"key": np.arange(rows) % 4, "still": np.zeros(rows), "step": step,
               "noise": rng.normal(size=rows)}  # fmt: skip
    plan = planned(samples, method="on_change", refresh_reports=0)
    keep = Shedder(plan, 0.7).offer(samples)[40:]
    rate = dict(zip(plan.attributes, keep.mean(axis=0), strict=True))
    assert rate["still"] < 0.02
    assert rate["step"] < 0.2
    assert rate["noise"] > 0.5


def test_a_falling_capacity_is_obeyed_at_once() -> None:
    plan = PLANS["periods"]
    shedder = Shedder(plan, 0.9)
    shedder.send(rows_of(SAMPLES, 0, 210))
    shedder.set_load(0.3)
    later = shedder.send(rows_of(SAMPLES, 210, 420)).bytes
    assert window_bytes(later, plan.window).max() <= plan.capacity_bytes(0.3)


def test_the_load_is_followed_up_and_down() -> None:
    samples = stream(np.random.default_rng(12), cycles=200, lengths=(12,))
    plan = planned(samples, method="periods")
    shedder = Shedder(plan, 0.9)
    shedder.send(rows_of(samples, 0, 1000))
    shedder.set_load(0.3)
    less = shedder.send(rows_of(samples, 1000, 2000)).bytes
    assert window_bytes(less[12:], plan.window).max() <= plan.capacity_bytes(0.3)
    shedder.set_load(1.0)
    whole = shedder.send(rows_of(samples, 2000, 2400)).bytes
    assert (whole == 24 + np.char.str_len(samples["key0"][2000:])).all()


@pytest.mark.parametrize("load", [-0.1, 1.1, float("nan")])
def test_loads_outside_the_range_are_refused(load: float) -> None:
    with pytest.raises(InvalidInput, match="load must lie in"):
        Shedder(PLANS["periods"], load)


@pytest.mark.parametrize("capacity", [-1.0, float("nan")])
def test_a_negative_capacity_is_refused_and_changes_nothing(capacity: float) -> None:
    shedder = Shedder(PLANS["periods"], 0.5)
    before = shedder.capacity_bytes
    with pytest.raises(InvalidInput, match="capacity_bytes must lie in"):
        shedder.set_capacity(capacity)
    assert shedder.capacity_bytes == before


def test_a_vanished_attribute_is_not_sent_and_comes_back() -> None:
    plan = PLANS["periods"]
    shedder = Shedder(plan, 0.9)
    j = plan.attributes.index("value3")
    shedder.offer(rows_of(SAMPLES, 0, 70))
    without = {n: c for n, c in rows_of(SAMPLES, 70, 140).items() if n != "value3"}
    assert not shedder.offer(without)[:, j].any()
    assert shedder.offer(rows_of(SAMPLES, 140, 210))[:, j].any()


def test_an_attribute_that_appears_is_counted_and_not_sent() -> None:
    shedder = Shedder(PLANS["periods"], 0.9)
    out = shedder.send({**rows_of(SAMPLES, 0, 70), "new": np.arange(70)})
    assert shedder.counters.unknown_attributes == 1
    assert all("new" not in row for row in out.rows())


def test_an_attribute_that_changes_type_is_sent_as_a_change() -> None:
    plan = planned(SAMPLES, method="on_change", refresh_reports=0)
    shedder = Shedder(plan, 0.8)
    shedder.offer(SAMPLES)
    j = plan.attributes.index("value0")
    texts = {**rows_of(SAMPLES, 0, 70), "value0": np.array(["broken"] * 70)}
    assert shedder.offer(texts)[:, j].any()
    assert shedder.offer(rows_of(SAMPLES, 70, 140)).any()


def test_nulls_infinities_and_objects_go_through() -> None:
    shedder = Shedder(PLANS["on_change"], 0.5)
    batch = {name: column[:70].astype(object) for name, column in SAMPLES.items()}
    batch["value0"][:5] = [None, np.nan, np.inf, -np.inf, "text"]
    batch["key0"][3] = None
    assert shedder.offer(batch).shape == (70, 5)
    assert shedder.counters.unreadable == 0


def test_more_entities_than_memory_still_obey_the_capacity() -> None:
    plan = PLANS["on_change"]
    shedder = Shedder(plan, 0.5, max_entities=4)
    many = {**SAMPLES, "key0": np.array([f"entity {i}" for i in range(420)])}
    sizes = shedder.send(many).bytes
    assert window_bytes(sizes, plan.window).max() <= plan.capacity_bytes(0.5)
    assert sizes.sum() > 0


def test_sent_values_and_rows_agree() -> None:
    shedder = Shedder(PLANS["periods"], 0.5)
    out = shedder.send(SAMPLES)
    rows = out.rows()
    assert len(rows) == out.tuples.sum()
    first = int(np.flatnonzero(out.tuples)[0])
    for j, name in enumerate(out.attributes):
        assert (name in rows[0]) == bool(out.keep[first, j])
        assert shedder.counters.sent_values[j] == out.keep[:, j].sum()


def test_an_arrow_answer_tells_null_from_absent() -> None:
    pa = pytest.importorskip("pyarrow")
    samples = rows_of(SAMPLES, 0, 70)
    samples["value0"] = np.where(np.arange(70) % 3 == 0, np.nan, samples["value0"])
    out = Shedder(PLANS["periods"], 0.6).send(pa.table(samples))
    table = out.to_arrow()
    packed = np.array([list(row) for row in table.column("_present").to_pylist()], dtype=np.uint8)
    bits = np.unpackbits(packed, axis=1, bitorder="little")[:, :5].astype(bool)
    np.testing.assert_array_equal(bits, out.keep[out.tuples])
    j = out.attributes.index("value2")
    absent = np.array(table.column("value2").is_null())
    np.testing.assert_array_equal(absent, ~bits[:, j])
