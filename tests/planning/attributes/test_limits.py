"""Decisions within a limit, by keys, and over changes of load and plan."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attributes.experiments import window_bytes
from benchmarks.attributes.workload import stream
from planning import batches
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder

METHODS = ("paper", "selection", "periods", "on_change")
ROOMY = 100_000  # a window that holds every test


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


def streamed(seed: int, cycles: int = 60, entities: int = 7, text: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    samples: dict[str, Any] = stream(rng, cycles, (entities,), (0.99, 0.9, 0.5, 0.0))
    if text:
        words = np.array(["", "x", "a longer text", "ü" * 20])
        samples["text"] = words[rng.integers(0, 4, len(samples["key0"]))]
    return samples


SAMPLES = streamed(0)
PLANS = {m: planned(SAMPLES, method=m) for m in METHODS}
ROWS = len(SAMPLES["key0"])


def cut(samples: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    return {name: column[start:stop] for name, column in samples.items()}


def read(shedder: Shedder, samples: dict[str, Any]) -> batches.Batch:
    return batches.read(samples, shedder.schema)


def keys(seed: int, count: int = ROWS) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, count).astype(np.uint32)


def held(shedder: Shedder, samples: dict[str, Any], keep: np.ndarray) -> None:
    """Compare what the shedder remembers with the last values that its masks let through."""
    columns = {name: np.asarray(column) for name, column in samples.items()}
    want: dict[tuple[str, int], Any] = {}
    for i in range(len(keep)):
        for j in np.flatnonzero(keep[i]):
            want[columns["key0"][i], j] = columns[shedder.parts[j]][i]
    coded = batches.read(samples, shedder.schema)
    read = shedder._read(coded)
    memory = shedder._memory
    slots = memory.entities.slots_of(read.columns, read.streams, coded.rows)
    for i, slot in enumerate(slots):
        for j, name in enumerate(shedder.parts):
            there = want.get((columns["key0"][i], j))
            assert (there is None) == (memory.age[slot, j] < 0)
            if there is not None and shedder.plan.numeric[j]:
                assert memory.last[slot, j] == there, name


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_limit_holds_and_what_was_cut_is_not_remembered(data: st.DataObject) -> None:
    """Random plans, loads, keys, batches and limits; the window's capacity holds all along."""
    samples = streamed(data.draw(st.integers(0, 1000)), 30, text=data.draw(st.booleans()))
    rows = len(samples["key0"])
    window = data.draw(st.sampled_from([None, 3, 50]))
    plan = planned(samples, method=data.draw(st.sampled_from(METHODS)), window_tuples=window)
    shedder = Shedder(plan, data.draw(st.sampled_from([0.05, 0.3, 0.6, 0.95, 1.0])))
    keyed = data.draw(st.booleans())
    draws = keys(1, rows)
    bits = plan.streams[0].header_bytes
    masks, sizes, start = [], [], 0
    while start < rows:
        stop = min(rows, start + data.draw(st.integers(1, 80)))
        batch = read(shedder, cut(samples, start, stop))
        given_draws = draws[start:stop] if keyed else None
        free = copy.deepcopy(shedder)
        alone = free.decide(batch, draws=given_draws)
        share = data.draw(st.floats(0, 1.2))
        most = math.floor(share * alone.units)
        before = shedder.counters.sent_bytes
        decision = shedder.decide(batch, draws=given_draws, most=most)
        assert decision.units <= most
        assert decision.units == shedder.counters.sent_bytes - before
        assert decision.units + decision.cut == alone.units + alone.cut
        if alone.units <= most:
            np.testing.assert_array_equal(decision.keep, alone.keep)
            np.testing.assert_array_equal(shedder._memory.age, free._memory.age)
            np.testing.assert_array_equal(shedder._memory.ring, free._memory.ring)
        masks.append(decision.keep)
        start = stop
    keep = np.concatenate(masks)
    for i in range(rows):  # counted independently: values, and presence bits where something lacks
        plain = sum(
            len(str(samples[n][i]).encode()) if kind == "text" else plan.streams[0].sizes[j]
            for j, (n, kind) in enumerate(zip(plan.attributes, plan.kinds, strict=True))
            if keep[i, j]
        )
        sizes.append(int(plain))
    assert 0 <= shedder.counters.sent_bytes - sum(sizes) <= bits * int(keep.any(1).sum())
    if shedder.capacity_bytes >= 0:
        assert window_bytes(np.array(sizes), min(plan.window, rows)).max() <= shedder.capacity_bytes
    held(shedder, samples, keep)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("load", [0.6, 1.0])
def test_the_limit_is_spread_over_the_batch_and_over_the_entities(method: str, load: float) -> None:
    samples = streamed(3, cycles=400, entities=12)
    rows = len(samples["key0"])
    plan = planned(samples, method=method)
    shedder = Shedder(plan, load)
    batch = read(shedder, samples)
    most = shedder.units(batch) * 3 // 10
    decision = shedder.decide(batch, most=most)
    own = int(Shedder(plan, 0.3).send(samples).bytes.sum())
    assert 0.9 * min(own, most) <= decision.units <= most
    quarters = decision.keep.any(axis=1).reshape(4, rows // 4).sum(axis=1)
    assert quarters.min() > 0.7 * quarters.max()
    entities = decision.keep.any(axis=1).reshape(-1, 12).sum(axis=0)
    assert entities.min() > 0.7 * entities.max()


@pytest.mark.parametrize("keyed", [False, True])
def test_the_limit_is_spread_when_tuples_are_longer_than_planned(keyed: bool) -> None:
    """Also if no key is thinned, so that only the limit is left to hold them back."""
    samples = streamed(9, cycles=100, entities=12)
    samples["note"] = np.array([f"{i}" for i in range(1200)])
    plan = planned(samples, method="periods", must_keep=("note",))
    shedder = Shedder(plan, 0.9)
    batch = read(shedder, {**samples, "note": np.array([f"{i:0200}" for i in range(1200)])})
    most = shedder.units(batch) // 20
    draws = np.full(1200, 2**32 - 1, dtype=np.uint32) if keyed else None
    decision = shedder.decide(batch, draws=draws, most=most)
    assert 0.8 * most < decision.units <= most
    quarters = decision.keep.any(axis=1).reshape(4, 300).sum(axis=1)
    assert quarters.tolist() == pytest.approx([quarters.mean()] * 4, rel=0.25)


@pytest.mark.parametrize("digits", [4, 200])
def test_small_batches_under_a_limit_silence_nobody(digits: int) -> None:
    """One cycle per batch, also of tuples longer than planned: not always the same entities pay."""
    samples = streamed(4, cycles=300, entities=12)
    samples["note"] = np.array([f"{i:04}" for i in range(3600)])
    longer = {**samples, "note": np.array([f"{i:0{digits}}" for i in range(3600)])}
    for method in METHODS:
        shedder = Shedder(planned(samples, method=method, must_keep=("note",)), 1.0)
        sent = np.zeros(12)
        for start in range(0, 3600, 12):
            batch = read(shedder, cut(longer, start, start + 12))
            keep = shedder.decide(batch, most=shedder.units(batch) * 2 // 5).keep
            sent += keep.any(axis=1)
        assert sent.min() > 0.5 * sent.max() > 0, method


@pytest.mark.parametrize("method", METHODS)
def test_what_is_cut_follows_the_plan(method: str) -> None:
    """A limit of half the bytes sends each attribute as often as the plan does at half."""
    samples = streamed(5, cycles=400)
    plan = planned(samples, method=method, window_tuples=70)
    shedder = Shedder(plan, 1.0)
    batch = read(shedder, samples)
    often = shedder.decide(batch, most=shedder.units(batch) // 2).keep.mean(axis=0)
    expected = Shedder(plan, 0.5).offer(samples).mean(axis=0)
    np.testing.assert_allclose(often, expected, atol=0.12)


def test_a_key_fixes_which_tuples_are_thinned() -> None:
    """Whatever arrived before, in whatever batches; nested over the load.

    Something is new in every tuple; of a tuple with nothing due, nothing is sent.
    """
    plan = planned(SAMPLES, method="selection", window_tuples=ROOMY, must_keep=("value3",))
    loads = [x for x in np.linspace(0.01, 0.99, 50) if plan.at(x).tuple_rate[0] < 1]
    assert len(loads) > 3
    draws = keys(2)
    order = np.random.default_rng(3).permutation(ROWS)
    before = np.zeros(ROWS, dtype=bool)
    rate = 0.0
    for load in loads:
        whole = Shedder(plan, load)
        decision = whole.decide(read(whole, SAMPLES), draws=draws)
        tuples = decision.keep.any(axis=1)
        step = math.ceil((1 - float(plan.at(load).tuple_rate[0])) * 2**32)
        np.testing.assert_array_equal(tuples, draws.astype(np.int64) >= step)
        free = Shedder(PLANS["selection"], load)
        rate_of_free = float(free.setting.tuple_rate[0])
        sent = free.decide(read(free, SAMPLES), draws=draws).keep.any(axis=1)
        assert not (sent & (draws < math.ceil((1 - rate_of_free) * 2**32))).any()
        other = Shedder(plan, load)
        other.offer(cut(SAMPLES, 0, 50))
        shuffled = {name: column[order] for name, column in SAMPLES.items()}
        for start in range(0, ROWS, 33):
            part = read(other, cut(shuffled, start, start + 33))
            mine = order[start : start + 33]
            again = other.decide(part, draws=draws[mine]).keep.any(axis=1)
            np.testing.assert_array_equal(again, tuples[mine])
        if plan.at(load).tuple_rate[0] >= rate:
            assert not (before & ~tuples).any()
        before, rate = tuples, plan.at(load).tuple_rate[0]


def test_an_entity_with_a_key_depends_on_its_own_history_alone() -> None:
    """With room for all that is due, other entities do not matter."""
    plan = planned(SAMPLES, method="on_change", window_tuples=ROOMY)
    alone = SAMPLES["key0"] == SAMPLES["key0"][0]
    draws = keys(4)
    masks = []
    for mine in (np.ones(ROWS, dtype=bool), alone):
        shedder = Shedder(plan, 0.5)
        shedder._memory.floats[0] = 1e9  # all the credit there is
        batch = read(shedder, {name: column[mine] for name, column in SAMPLES.items()})
        decision = shedder.decide(batch, draws=draws[mine])
        assert decision.cut == 0
        masks.append(decision.keep[alone[mine]])
    assert 0 < masks[0].mean() < 1
    np.testing.assert_array_equal(*masks)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("load", [0.05, 0.1, 0.3])
def test_a_jittering_load_silences_nobody(method: str, load: float) -> None:
    samples = streamed(6, cycles=400, entities=12)
    plan = planned(samples, method=method)
    rng = np.random.default_rng(7)
    fixed, shaky = Shedder(plan, load), Shedder(plan, load)
    sent = np.zeros((2, 12))
    for start in range(0, 4800, 12):
        shaky.set_load(load * (1 + rng.uniform(-0.02, 0.02)))
        batch = cut(samples, start, start + 12)
        for k, shedder in enumerate((fixed, shaky)):
            sent[k] += shedder.offer(batch).any(axis=1)
    assert sent[0].min() > 0
    assert sent[1].min() > 0.5 * sent[0].min()


def test_a_spell_at_full_load_leaves_no_debt_and_no_false_memory() -> None:
    samples = streamed(8, cycles=600)
    plan = planned(samples, method="on_change", refresh_reports=0)
    quiet, busy = Shedder(plan, 0.5), Shedder(plan, 1.0)
    keep = busy.offer(cut(samples, 0, 2100))
    held(busy, cut(samples, 0, 2100), keep)
    quiet.offer(cut(samples, 0, 2100))
    busy.set_load(0.5)
    rest = cut(samples, 2100, 4200)
    items = plan.streams[0].items
    expected = quiet.offer(rest)[:, items].sum()
    assert busy.offer(rest)[:, items].sum() == pytest.approx(expected, rel=0.1)


def test_a_new_shedder_of_the_same_layout_goes_on_as_if_nothing_had_happened() -> None:
    for method in METHODS:
        plan = PLANS[method]
        whole = Shedder(plan, 0.4)
        want = [whole.offer(cut(SAMPLES, a, a + 70)) for a in range(0, ROWS, 70)]
        shedder = Shedder(plan, 0.4)
        for k, start in enumerate(range(0, ROWS, 70)):
            new = Shedder(Plan.from_bytes(plan.to_bytes()), 0.9)
            for load in (0.0, 0.1, 0.4):  # as a plan is tried before it is in force
                new.set_load(load)
                new.offer(new.probe(200))
            new.adopt(shedder)
            shedder = new
            np.testing.assert_array_equal(shedder.offer(cut(SAMPLES, start, start + 70)), want[k])
        assert shedder.counters.offered == ROWS
        assert shedder.counters.sent_bytes == whole.counters.sent_bytes
        np.testing.assert_array_equal(shedder.counters.sent_values, whole.counters.sent_values)


def test_another_plan_keeps_what_the_receiver_has_of_its_attributes() -> None:
    old = Shedder(PLANS["on_change"], 0.6)
    keep = old.offer(SAMPLES)
    fewer = {name: column for name, column in SAMPLES.items() if name != "value1"}
    fewer["fresh"] = np.arange(ROWS, dtype=np.float64)
    new = Shedder(planned(fewer, method="on_change"), 0.6)
    new.offer(new.probe(300))
    new.adopt(old)
    mine = [old.parts.index(name) if name in old.parts else -1 for name in new.parts]
    had = np.where(np.array(mine) >= 0, keep[:, mine], False)
    held(new, fewer, had)
    assert new.counters.offered == ROWS
    assert dict(zip(new.parts, new.counters.sent_values, strict=True))["fresh"] == 0
    assert new.offer(fewer).shape == (ROWS, 5)


def test_other_entities_start_fresh_but_counters_and_ledger_go_on() -> None:
    old = Shedder(PLANS["periods"], 0.6)
    old.offer(SAMPLES)
    renamed = {"line" if name == "key0" else name: c for name, c in SAMPLES.items()}
    plan = planned(renamed, method="periods")
    assert plan.window == old.plan.window
    new = Shedder(plan, 0.6)
    new.offer(new.probe(300))
    new.adopt(old)
    assert new._memory.entities.count == 0
    assert (new._memory.age == -1).all()
    assert new._memory.ring is old._memory.ring
    assert new.counters.sent_bytes == old.counters.sent_bytes > 0
    assert new.offer(renamed).any()


@pytest.mark.parametrize("windows", [(7, 30), (30, 7), (30, 30)])
def test_no_window_exceeds_the_capacity_across_a_change_of_plan(windows: tuple[int, int]) -> None:
    plans = [planned(SAMPLES, method="periods", window_tuples=w) for w in windows]
    old, new = (Shedder(plan, 0.5) for plan in plans)
    new.offer(new.probe(100))
    first = old.send(cut(SAMPLES, 0, 200)).bytes
    new.adopt(old)
    second = new.send(cut(SAMPLES, 200, ROWS)).bytes
    known = min(windows)  # what came before the old window is not known
    both = np.concatenate([first[-known:], second])
    assert window_bytes(both, windows[1])[1:].max() <= new.capacity_bytes


def test_a_load_that_is_refused_changes_nothing() -> None:
    shedder = Shedder(PLANS["on_change"], 0.4)
    shedder.offer(SAMPLES)
    other = copy.deepcopy(shedder)
    for load in (float("nan"), -0.1, 1.5):
        with pytest.raises(ValueError, match="load must lie in"):
            shedder.set_load(load)
    assert shedder.load == 0.4
    np.testing.assert_array_equal(shedder.offer(SAMPLES), other.offer(SAMPLES))
