"""What the plan promises holds at run time: over changes of load, swaps and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.attributes import recorded
from benchmarks.attributes.experiments import window_bytes
from benchmarks.attributes.workload import stream
from planning import rehearsal
from planning.attributes import planner
from planning.attributes.memory import Entities
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.receiver import Receiver
from planning.attributes.shedder import Shedder
from planning.attributes.simulate import Trace, evaluate, measure, noise, replay
from planning.attributes.statistics import build, profile_observed
from planning.attributes.statistics.build import in_stream_order
from planning.columns import encode
from planning.errors import DefinitionError
from planning.examples import demo_definition, demo_plan, demo_samples
from planning.streams import parse
from tests.support import schedules

METHODS = ("paper", "selection", "periods", "on_change")


def cut(samples: Any, start: int, stop: int) -> dict[str, Any]:
    return {name: np.asarray(column)[start:stop] for name, column in samples.items()}


# A spell at load 1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("spell", [120, 1200, 6000])
def test_a_spell_at_full_load_costs_nothing_afterwards(spell: int) -> None:
    plan, samples = demo_plan("attributes"), demo_samples("attributes", batch=1)
    items = plan.streams[0].items
    sent = []
    for before in (0, spell):
        shedder = Shedder(plan, 1.0)
        shedder.send(cut(samples, spell - before, spell))
        shedder.set_load(0.5)
        starts = range(spell, spell + 3600, 600)
        keep = [shedder.send(cut(samples, a, a + 600)).keep for a in starts]
        sent.append([int(mask[:, items].sum()) for mask in keep])
    np.testing.assert_allclose(sent[1], sent[0], rtol=0.05)


@pytest.mark.parametrize("refresh", [0, 24])
def test_the_receiver_is_right_again_after_a_spell_at_full_load(refresh: int) -> None:
    """A level that changed and changed back while no band was in force."""
    rng = np.random.default_rng(0)
    entities, cycles = 10, 2000
    i = np.arange(entities * cycles)
    walk = np.cumsum(rng.normal(size=(cycles, entities)), axis=0).ravel()
    level = np.where((i // entities // 50) % 2 == 0, 10.0, 20.0)
    samples = {"station": i % entities, "level": level + rng.normal(scale=0.001, size=len(i)),
               "noise": rng.normal(size=len(i)), "slow": walk}  # fmt: skip
    plan = plan_samples(samples, Parameters(refresh_reports=refresh))
    shedder, receiver = Shedder(plan, 0.5), Receiver(plan)
    known: dict[int, float] = {}

    def report(value: float, times: int) -> None:
        for _ in range(times):
            batch = {"station": np.arange(entities), "level": np.full(entities, value),
                     "noise": rng.normal(size=entities), "slow": np.zeros(entities)}  # fmt: skip
            got = receiver.accept(shedder.send(batch)).columns
            known.update(zip(got["station"].tolist(), got["level"].tolist(), strict=True))

    report(10.0, 30)
    shedder.set_load(1.0)
    report(20.0, 3)
    assert set(known.values()) == {20.0}
    shedder.set_load(0.5)
    report(10.0, 6)
    assert set(known.values()) == {10.0}


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("method", METHODS)
def test_a_jittering_load_loses_hardly_more_than_a_steady_one(method: str, every: int) -> None:
    """By 2 % up and down, every cycle or every fifth; no entity falls silent."""
    columns = {}
    for seed, cycles in ((1, 1500), (2, 400)):
        rng, i = np.random.default_rng(seed), np.arange(12 * cycles)
        columns[seed] = {
            "station": i % 12, "a": rng.normal(size=len(i)), "c": rng.normal(size=len(i)),
            "b": np.cumsum(rng.normal(size=(cycles, 12)), axis=0).ravel(),
            "d": rng.integers(0, 3, len(i)),
        }  # fmt: skip
    plan, rng = plan_samples(columns[1], Parameters(method=method)), np.random.default_rng(3)
    trace = Trace.of(plan, columns[2])
    for load in (0.05, 0.1, 0.2, 0.3, 0.5):
        steady, shaky = Shedder(plan, load), Shedder(plan, load)
        masks: list[list[Any]] = [[], []]
        for start in range(0, trace.rows, 12):
            if start // 12 % every == 0:
                shaky.set_load(load * (1 + rng.uniform(-0.02, 0.02)))
            for mask, shedder in zip(masks, (steady, shaky), strict=True):
                mask.append(shedder.decide(trace.batch(start, start + 12)).keep)
        keep = [np.concatenate(mask) for mask in masks]
        sent = [mask.any(axis=1).reshape(-1, 12).sum(axis=0) for mask in keep]
        assert sent[1].min() > 0.5 * sent[0].min() > 0, load
        first, second = (measure(plan, trace, mask).loss for mask in keep)
        assert method == "paper" or second < first + 0.05, load


# What is not sent at all -----------------------------------------------------------------------


def test_a_tuple_with_nothing_new_is_not_sent() -> None:
    """Neither its header nor its CID; a change of what is never shed is always sent."""
    rows = 4000
    rng = np.random.default_rng(4)
    key, report = np.arange(rows) % 4, np.arange(rows) // 4
    samples = {"key": key, "value": rng.normal(size=(4, 102))[key, (report + 3 * key) // 10],
               "state": np.array(["on", "off"])[report // 50 % 2]}  # fmt: skip
    plan = plan_samples(
        samples, Parameters(must_keep=("state",), refresh_reports=0, window_tuples=40)
    )
    keep = Shedder(plan, 0.5).offer(samples)
    moved = np.zeros(rows, dtype=bool)
    for key in range(4):
        mine = np.arange(rows) % 4 == key
        for name in ("value", "state"):
            values = samples[name][mine]
            moved[np.flatnonzero(mine)[1:]] |= values[1:] != values[:-1]
    moved[:4] = True
    start = 40  # until the credit has come in, the first tuples wait
    sent = keep.any(axis=1)
    assert not (sent & ~moved)[start:].any()
    assert 0.05 < sent[start:].mean() <= moved[start:].mean() < 0.15
    changed = np.zeros(rows, dtype=bool)
    changed[4:] = samples["state"][4:] != samples["state"][:-4]
    assert keep[changed, plan.attributes.index("state")].all()


def test_skipping_pays_where_the_capacity_is_small() -> None:
    plan, definition = demo_plan("attributes"), demo_definition("attributes")
    (low,) = evaluate(plan, demo_samples("attributes", batch=1), definition, (0.1,))
    assert low.quality > low.strongest[1]
    assert low.quality - low.random_quality > 0.02
    assert low.predicted_quality == pytest.approx(low.quality, abs=0.05)


def test_a_long_value_finds_room() -> None:
    """Longer than any that was planned for, and than what a cycle may send on average."""
    rows = 1200
    rng = np.random.default_rng(5)
    samples = {"key": np.arange(rows) % 12, "value": rng.normal(size=rows),
               "note": np.array([f"n{k % 3}" for k in rng.integers(0, 3, rows)])}  # fmt: skip
    plan = plan_samples(samples, Parameters(window_tuples=120))
    shedder = Shedder(plan, 0.8)
    shedder.offer(samples)
    long = "x" * (plan.capacity_bytes(0.8) * 6 // 10)
    notes = np.full(rows, "n0", dtype=f"U{len(long)}")
    notes[5::12] = long
    keep = shedder.offer({**samples, "value": np.ones(rows), "note": notes})
    assert keep[5::12, plan.attributes.index("note")].any()


# The order of a stream, and what names its entities ---------------------------------------------


def test_rows_of_the_same_time_stay_as_they_arrived() -> None:
    order = np.random.default_rng(6).permutation(60)
    samples = {"time": order // 6, "station": order % 6, "value": order * 1.5}
    columns = in_stream_order(samples, ("station", "value"), ("time",))
    want = sorted(range(60), key=lambda i: order[i] // 6)  # stable
    np.testing.assert_array_equal(columns["station"].values, order[want] % 6)
    twice = {name: np.concatenate([column, column[:9]]) for name, column in samples.items()}
    again = in_stream_order(twice, ("station", "value"), ("time",))
    np.testing.assert_array_equal(again["value"].values, columns["value"].values)


def test_without_an_entity_the_plan_says_so_and_keeps_what_may_name_one() -> None:
    rng = np.random.default_rng(7)
    samples = {"host": np.array(["a", "b", "c"])[rng.integers(0, 3, 500)],
               "value": rng.normal(size=500)}  # fmt: skip
    document = {"stream": "s", "family": "attributes", "attributes": [
        {"name": "host", "type": "category", "values": ["a", "b", "c"]},
        {"name": "value", "domain": [-9, 9]}]}  # fmt: skip
    definition = parse(document, "s.yaml")
    statistics = build(samples, definition)
    plan = planner.plan(statistics, definition)
    assert plan.streams[0].cid == ()
    (warning,) = planner.warnings(plan, statistics, definition)
    assert "name the entity in parameters.cid" in warning
    keep = Shedder(plan, 0.6).offer(samples)
    assert keep[keep.any(axis=1), 0].all()
    named = definition.with_parameters({"cid": ["host"], "window_tuples": 1000})
    statistics = build(samples, named)
    (warning,) = planner.warnings(planner.plan(statistics, named), statistics, named)
    assert "window of 1000 tuples is longer than the 500 samples" in warning


def test_a_window_too_small_for_a_tuple_is_a_warning() -> None:
    definition = demo_definition("attributes").with_parameters({"window_tuples": 1})
    statistics = build(demo_samples("attributes"), definition)
    (warning,) = planner.warnings(planner.plan(statistics, definition), statistics, definition)
    assert "raise parameters.window_tuples to 2 or more" in warning


def test_text_and_open_categories_are_planned() -> None:
    rng = np.random.default_rng(8)
    words = np.array(["", "ok", "a longer note", "ü" * 9])
    samples = {"host": np.array([f"host-{k % 5}" for k in range(600)]),
               "note": words[rng.integers(0, 4, 600)], "value": rng.normal(size=600)}  # fmt: skip
    document = {"stream": "s", "family": "attributes", "attributes": [
        {"name": "host", "type": "category"}, {"name": "note", "type": "text"},
        {"name": "value", "domain": [-9, 9]}]}  # fmt: skip
    definition = parse(document, "s.yaml")
    plan = planner.plan(build(samples, definition), definition)
    assert plan.kinds == ("category", "text", "number")
    length = np.mean([len(word.encode()) for word in samples["note"].tolist()])
    assert plan.streams[0].sizes.tolist() == [2, int(np.ceil(length)), 8]
    assert plan.streams[0].cid == ("host",)
    observed = profile_observed(samples, Parameters()).streams[0].attributes[1]
    assert observed.size == plan.streams[0].sizes[1]
    with pytest.raises(DefinitionError, match="family sifter needs them"):
        parse({**document, "family": "sifter"}, "s.yaml")


# Batches, days, predictions ---------------------------------------------------------------------


def generated() -> tuple[Plan, dict[str, Any]]:
    columns = stream(np.random.default_rng(9), 3000, (7,), (0.999, 0.98, 0.9, 0.5))
    return plan_samples(cut(columns, 0, 10_500), Parameters()), cut(columns, 10_500, 21_000)


def machines() -> tuple[Plan, Any]:
    return demo_plan("attributes"), demo_samples("attributes", batch=1)


def weather() -> tuple[Plan, Any]:
    definition = recorded.definition()
    statistics = build(recorded.load(0, 3000), definition)
    return planner.plan(statistics, definition), recorded.load(3000, 2000)


@pytest.mark.parametrize("source", [generated, machines, weather])
@pytest.mark.parametrize("load", [0.1, 0.3, 0.7])
def test_quality_does_not_depend_on_the_size_of_batches(
    source: Callable[[], tuple[Plan, Any]], load: float, request: pytest.FixtureRequest
) -> None:
    if source is weather:
        request.getfixturevalue("shared_data")  # skips where there is none
    plan, samples = source()
    trace = Trace.of(plan, samples)
    sizes = rehearsal.by_size(
        trace.rows, lambda size, rows: replay(plan, trace, load, size, rows).quality
    )
    assert set(sizes) == {"1", "100", "2000", "20000"}
    assert max(sizes.values()) - min(sizes.values()) <= 0.02
    assert abs(plan.predicted_quality(load) - sizes["2000"]) <= 0.05


def random_tuples(plan: Plan, load: np.ndarray, seed: int) -> np.ndarray:
    """Drop whole tuples at random, and those that do not fit into their window."""
    drawn = np.random.default_rng(seed).random(len(load)) < load
    size = plan.streams[0].full_bytes
    kept: list[bool] = []
    for i, wanted in enumerate(drawn.tolist()):
        room = plan.capacity_bytes(float(load[i]))
        before = sum(kept[max(0, i - plan.window + 1) :])
        kept.append(bool(wanted and (room < 0 or (before + 1) * size <= room)))
    return np.array(kept)


@pytest.mark.parametrize("part", range(8))
def test_random_days_keep_the_budget_and_beat_random_dropping(part: int) -> None:
    """Jumps, jitter, spells at load 1, swaps, batches of any size: 200 days in all."""
    rng = np.random.default_rng(100 + part)
    entities, attributes = int(rng.integers(3, 9)), int(rng.integers(2, 5))
    persistence = tuple(rng.uniform(0.3, 1.0, attributes))
    columns = stream(rng, 400, (entities,), persistence)
    half = 200 * entities
    train, test = cut(columns, 0, half), cut(columns, half, 2 * half)
    refresh = int(rng.choice([0, 24]))
    plans = [
        plan_samples(train, Parameters(method=method, refresh_reports=refresh, cid=("key0",)))
        for method in ("on_change", "periods")
    ]
    trace = Trace.of(plans[0], test)
    key = encode(test["key0"]).length
    assert key is not None
    for seed in range(25 * part, 25 * part + 25):
        day = schedules.live(plans, "attributes", test, seed)
        sent = day.keep[:, 0] * key + 8 * day.keep[:, 1:].sum(axis=1)
        limit = np.array([plans[0].capacity_bytes(float(load)) for load in day.load])
        padded = np.concatenate([np.zeros(plans[0].window - 1, dtype=np.int64), sent])
        window = window_bytes(padded, plans[0].window)
        assert ((window <= limit) | (sent == 0) | (limit < 0)).all()
        remembered(day.node.shedder, test, day.keep)
        mine = measure(plans[0], trace, day.keep)
        kept = random_tuples(plans[0], day.load, seed)
        other = measure(plans[0], trace, np.repeat(kept[:, None], day.keep.shape[1], axis=1))
        chance = 4.5 * noise(mine.lost - other.lost)
        assert mine.loss <= other.loss + chance, (seed, mine.loss, other.loss)


def remembered(shedder: Shedder, samples: dict[str, Any], keep: np.ndarray) -> None:
    """Compare what a shedder takes the receiver to have with what its masks let through."""
    columns = {name: encode(column) for name, column in samples.items()}
    rows = len(keep)
    entities: Entities = shedder._memory.entities
    slots = entities.locate(columns, rows)[1]
    last = np.full(shedder._memory.last.shape, np.nan)
    for j, name in enumerate(shedder.parts):
        sent = np.flatnonzero(keep[:, j])
        last[slots[sent], j] = columns[name].values[sent]
    np.testing.assert_array_equal(shedder._memory.last, last)
