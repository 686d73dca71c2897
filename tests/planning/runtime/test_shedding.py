import logging
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning import families
from planning.artifacts import Store, codec
from planning.errors import InvalidInput
from planning.runtime import (
    FeedForwardThrottle,
    FixedThrottle,
    PlanClient,
    RunningShedder,
    SampleMarker,
    SharedBudget,
)
from planning.shedder import Decision

GOLDEN = Path(__file__).parents[1] / "artifacts" / "golden"
BATCH = np.array([0.1, 0.3, 0.6, 0.9])


def counts(shedder):
    c = shedder.counters
    return c.offered, c.kept, c.dropped


def test_everything_passes_before_the_first_plan_if_nobody_asks_for_less(client):
    shedder = RunningShedder(client)
    assert shedder.fallback == "pass"
    assert shedder.offer(BATCH).all()
    assert shedder.offer_one(0.1)
    assert counts(shedder) == (5, 5, 0)
    assert shedder.counters.passed_without_plan == 5


@pytest.mark.parametrize("asked", ["load", "throttle", "budget"])
def test_items_are_thinned_evenly_before_the_first_plan(client, tmp_path, asked):
    with SharedBudget(tmp_path / "ledger", slack=0) as budget:
        options = {
            "load": {"load": 0.25},
            "throttle": {"throttle": FixedThrottle(0.25)},
            "budget": {"load": 0.25, "budget": budget},
        }[asked]
        shedder = RunningShedder(client, **options)
        assert shedder.fallback == "uniform"
        keep = shedder.offer(np.tile(BATCH, 10))
        assert np.flatnonzero(keep).tolist() == list(range(3, 40, 4))
        assert [shedder.offer_one(0.1) for _ in range(4)] == [False, False, False, True]
        assert shedder.counters.passed_without_plan == 11


def test_what_was_named_holds_before_the_first_plan(client):
    shedder = RunningShedder(client, load=0.25, fallback="pass", parts=("a", "b", "c"))
    assert shedder.offer(BATCH).shape == (4, 3)
    assert shedder.offer([]).shape == shedder.offer(None).shape == (0, 3)
    assert shedder.offer_one(0.1).tolist() == [True] * 3
    with pytest.raises(InvalidInput, match="fallback must be pass or uniform, got 'open'"):
        RunningShedder(client, fallback="open")
    with pytest.raises(InvalidInput, match="throttle must be a planning.runtime.Throttle"):
        RunningShedder(client, throttle=0.5)


def test_a_new_version_is_taken_between_two_batches_and_counters_go_on(house, client):
    shedder = RunningShedder(client, load=0.5)
    house.publish("one")
    client.poll()
    assert shedder.offer(BATCH).tolist() == [False, False, True, True]
    house.publish("two", cuts=(0.0, 0.0, 0.8, 0.8))
    client.poll()
    assert shedder.version == 1
    assert shedder.offer(BATCH).tolist() == [False, False, False, True]
    assert shedder.version == 2
    assert shedder.offer_one(0.9)
    assert not shedder.offer_one(0.7)
    assert counts(shedder) == (10, 4, 6)
    assert shedder.counters.swaps == 2
    client.poll()
    (told,) = house.store.nodes("ticks")
    assert told.version == 2
    assert told.counters["offered"] == 10


def test_the_data_path_does_no_io(house, client, monkeypatch):
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    house.publish("two")
    client.poll()

    def forbidden(*_, **__):
        raise AssertionError("I/O on the data path")

    for name in ("open", "listdir", "stat", "scandir"):
        monkeypatch.setattr(os, name, forbidden)
    monkeypatch.setattr("builtins.open", forbidden)
    shedder.offer(BATCH)
    shedder.offer_one(0.5)
    assert shedder.counters.errors == 0
    assert shedder.version == 2


def test_a_running_process_swaps_to_a_version_published_by_another(house, tmp_path):
    """No restart: the process sheds on while its client's thread finds the new version."""
    house.publish("one", cuts=(0.0, 0.5))
    helpers = GOLDEN.parent / "tally_family.py"
    script = f"""
import importlib.util, sys, time
import numpy as np
spec = importlib.util.spec_from_file_location("tally_family", {str(helpers)!r})
tally = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tally)
from planning.artifacts import TrustedKeys
from planning.runtime import PlanClient, RunningShedder
batch = np.array([0.1, 0.3, 0.6, 0.9])
with tally.registered():
    trusted = TrustedKeys.load({str(tmp_path / "keys")!r})
    client = PlanClient({str(tmp_path / "plans")!r}, "ticks", trusted=trusted,
                        node="other-process", poll_interval_s=0.05)
    shedder = RunningShedder(client, load=0.5)
    kept = {{}}
    with client:
        end = time.monotonic() + 30
        while shedder.version < 2 and time.monotonic() < end:
            mask = shedder.offer(batch)
            if kept.setdefault(shedder.version, mask.tolist()) != mask.tolist():
                sys.exit("the mask changed within a version")
            if shedder.version == 1 and shedder.counters.offered > 40:
                print("shedding", flush=True)
            time.sleep(0.001)
        client.wake()
        time.sleep(0.3)
    c = shedder.counters
    assert c.offered == c.kept + c.dropped and c.offered % 4 == 0, c.snapshot()
    assert c.offered > 40 and c.swaps == 2 and c.errors == 0, c.snapshot()
    print(kept[1], kept[2])
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "shedding\n", process.stderr.read()
    house.publish("two", cuts=(0.0, 0.8))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    expected = "[False, False, True, True] [False, False, False, True]"
    assert out.splitlines()[-1] == expected
    (told,) = house.store.nodes("ticks")
    assert (told.node, told.version) == ("other-process", 2)


@pytest.mark.parametrize(("fallback", "kept"), [("pass", 4), ("uniform", 2)])
def test_a_failing_shedder_does_what_was_named_and_is_counted(
    house, client, caplog, fallback, kept
):
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5, fallback=fallback)
    shedder.offer(BATCH)
    bad = np.array([-1.0, 0.5, 0.5, 0.5])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert shedder.offer(bad).sum() == kept
    assert len(caplog.records) == 1
    assert shedder.counters.errors == 3
    assert "negative value" in shedder.status()["error"]
    assert shedder.counters.passed_on_error == 3 * kept
    assert counts(shedder) == (16, 2 + 3 * kept, 14 - 3 * kept)
    assert shedder.offer(BATCH).tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("bad", "reason", "missing"),
    [
        ({"valeu": BATCH}, "columns value are missing; got valeu", 1),
        ({"value": np.array(["x"] * 4)}, "column value must be numbers: 'x' is no number", 0),
        ([object()] * 4, "column value must be numbers", 0),
        (np.zeros((4, 3)), r"rows must have 1 values \(value\), got 3", 0),
        ({"value": BATCH.astype(complex)}, "complex128 is no kind of number", 0),
    ],
)
def test_a_batch_that_cannot_be_read_is_refused_and_counted(house, client, bad, reason, missing):
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    for _ in range(3):
        assert shedder.offer(bad).sum() == 2
    assert shedder.counters.refused_items == 12
    assert shedder.counters.passed_on_refusal == 6
    assert shedder.counters.missing_columns == 3 * missing
    assert shedder.counters.errors == 0
    assert re.search(reason, shedder.status()["refused_batch"])
    assert shedder.offer(BATCH).tolist() == [False, False, True, True]


def test_what_is_not_a_batch_does_not_raise(house, client):
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    for batch in (None, 7, object()):
        assert shedder.offer(batch).tolist() == []
        assert "got " + type(batch).__name__ in shedder.status()["refused_batch"]
    assert shedder.offer([]).tolist() == shedder.offer({}).tolist() == []
    for item in (None, {}, (), object()):
        assert shedder.offer_one(item) in (True, False)
    assert shedder.counters.offered == 4


def test_a_shedder_that_returns_nonsense_counts_as_failing(house, client, monkeypatch):
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    for wrong in (np.zeros(3, dtype=bool), np.zeros(4), None):
        decision = Decision(wrong, 0)
        monkeypatch.setattr(type(shedder.shedder), "decide", lambda *_, d=decision, **__: d)
        assert shedder.offer(BATCH).sum() == 2
    assert shedder.counters.errors == 3


def test_a_family_may_shed_parts_of_items(house, client, monkeypatch):
    house.publish()
    client.poll()
    kind = families.family("tally").room("shedder").Shedder
    monkeypatch.setattr(kind, "parts", ("left", "right"))
    parts = np.array([[True, False], [False, False], [True, True]])
    monkeypatch.setattr(
        kind, "decide", lambda _, batch, **__: Decision(np.resize(parts, (batch.rows, 2)), 3)
    )
    shedder = RunningShedder(client, load=0.5, marker=SampleMarker(0.25))
    keep = shedder.offer(BATCH)
    assert keep.shape == (4, 2)
    assert keep[shedder.marked].all()
    assert (keep[~shedder.marked] == parts).all()
    assert counts(shedder) == (4, 3, 1)


@pytest.mark.parametrize(
    ("fallback", "kept"), [("keep", [20, 20]), ("pass", [40, 40]), ("uniform", [20, 20])]
)
def test_an_expired_plan_does_what_its_manifest_states(house, client, fallback, kept):
    house.publish(validity={"not_after": "2026-01-02T03:30:00Z", "fallback": fallback})
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    assert shedder.offer(BATCH).tolist() == [False, False, True, True]
    house.clock.now += 3600
    masks = [shedder.offer(np.tile(BATCH, 10)) for _ in range(2)]
    assert [int(mask.sum()) for mask in masks] == kept
    assert shedder.counters.expired == 1
    if fallback == "uniform":
        # Evenly over all items, whatever their value.
        assert masks[0].tolist() == [False, True] * 20
        assert [shedder.offer_one(0.1) for _ in range(4)] == [False, True, False, True]
    elif fallback == "pass":
        assert shedder.counters.passed_on_expiry == 80
        assert shedder.offer_one(0.1)
    else:
        assert masks[0].tolist() == [False, False, True, True] * 10
        assert not shedder.offer_one(0.1)
    assert shedder.counters.offered == shedder.counters.kept + shedder.counters.dropped


def test_the_throttle_moves_the_plan(house, client):
    house.publish()
    client.poll()
    now = [0.0]
    throttle = FeedForwardThrottle(capacity_per_s=200.0, window_s=1.0)
    shedder = RunningShedder(client, throttle, clock=lambda: now[0])
    passed = 0
    for _ in range(100):
        passed += int(shedder.offer(np.tile(BATCH, 10)).sum())
        now[0] += 0.1
    assert passed == pytest.approx(200.0 * 10, rel=0.15)
    assert shedder.counters.load == pytest.approx(0.5, rel=0.3)
    assert shedder.shedder.load == shedder.counters.load


def test_a_failing_throttle_does_not_reach_the_data_path(house, client):
    house.publish()
    client.poll()

    class Broken:
        load = 0.5

        def observe(self, now_s, offered, kept):
            raise RuntimeError("no")

    shedder = RunningShedder(client, Broken())
    for _ in range(3):
        assert shedder.offer(BATCH).tolist() == [False, False, True, True]
    assert shedder.counters.throttle_errors == 3
    assert "no" in shedder.status()["throttle_error"]


def test_a_candidate_in_shadow_only_counts(house, client):
    house.publish("one")
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    house.publish("candidate", cuts=(0.0, 0.8), stream="trial")
    shedder.shadow(house.store.load("trial"))
    assert shedder.offer(BATCH).tolist() == [False, False, True, True]
    assert shedder.counters.shadow_kept == 1
    assert shedder.counters.shadow_disagreed == 1
    assert counts(shedder) == (8, 4, 4)
    shedder.shadow(None)
    shedder.offer(BATCH)
    assert shedder.counters.shadow_kept == 1


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_accounting_adds_up_whatever_happens(tally, tmp_path_factory, data):
    from planning.artifacts import SigningKey, Store, TrustedKeys

    folder = tmp_path_factory.mktemp("house")
    signer = SigningKey.load_or_create(folder / "keys")
    store = Store(folder / "plans", TrustedKeys.of(signer))
    client = PlanClient(store, "ticks", node="n")
    now = [0.0]
    throttle = FeedForwardThrottle(50.0) if data.draw(st.booleans()) else None
    marker = SampleMarker(0.1) if data.draw(st.booleans()) else None
    shedder = RunningShedder(client, throttle, 0.5, marker=marker, clock=lambda: now[0])
    offered = kept = 0
    actions = st.sampled_from(["batch", "batch", "one", "bad", "publish", "spoil", "unusable"])
    for action in data.draw(st.lists(actions, max_size=12)):
        now[0] += data.draw(st.floats(0, 2))
        if action == "batch":
            values = data.draw(st.lists(st.floats(0, 1), max_size=30))
            offered += len(values)
            kept += int(shedder.offer(np.array(values)).sum())
        elif action == "one":
            offered += 1
            kept += shedder.offer_one(data.draw(st.floats(-1, 1)))
        elif action == "bad":
            offered += 2
            kept += int(shedder.offer([-1.0, None]).sum())
        elif action == "spoil" and store.versions("ticks"):
            store.manifest_path("ticks", store.newest("ticks")).write_bytes(b"rot")
        else:
            label = "unusable" if action == "unusable" else "good"
            tally.publish(store, signer, tally.tally_plan(label))
        client.poll()
        c = shedder.counters
        assert (c.offered, c.kept, c.dropped) == (offered, kept, offered - kept)


def test_the_check_for_a_new_plan_asks_nobody(house, client, monkeypatch):
    """Items cost no look at the store, no decoding and no import; a new plan costs one swap."""
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    calls = Counter()

    def counted(owner, name):
        honest = getattr(owner, name)

        def counting(*arguments, **options):
            calls[name] += 1
            return honest(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    for name in ("newest", "versions", "manifest", "load", "plan", "payload"):
        counted(Store, name)
    counted(codec, "decode")
    counted(families, "family")
    counted(type(shedder.shedder), "adopt")
    for _ in range(100):
        shedder.offer_one(0.5)
        shedder.offer(BATCH)
    assert calls == {}
    house.publish("two")
    client.poll()
    calls.clear()
    for _ in range(100):
        shedder.offer_one(0.5)
        shedder.offer(BATCH)
    assert calls == {"adopt": 1}
    assert shedder.version == 2


def test_the_sifter_sheds_with_a_published_plan(house, client):
    import json

    plan_module = pytest.importorskip("planning.sifter.plan")
    document = json.loads((GOLDEN / "sifter" / "plan.json").read_bytes())["plan"]
    plan = plan_module.Plan.from_document(document)
    house.tally.publish(house.store, house.signer, plan, family="sifter")
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    rng = np.random.default_rng(1)
    batch = {"x": rng.random(10_000), "carrier": rng.choice(["AA", "B6", "UA"], 10_000)}
    kept = int(shedder.offer(batch).sum())
    assert shedder.version == 1
    assert shedder.counters.errors == 0
    assert 0 < kept < 10_000
    house.publish("another family", cuts=(0.0, 0.0))
    client.poll()
    assert shedder.offer(BATCH).all()
    assert shedder.version == 2
    assert counts(shedder) == (10_004, kept + 4, 10_000 - kept)


def test_a_plan_whose_predecessor_cannot_be_adopted_starts_anew(house, client, monkeypatch):
    house.publish("one")
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    house.publish("two", cuts=(0.0, 0.8))
    client.poll()

    def fails(self, old):
        raise RuntimeError("no")

    monkeypatch.setattr(type(shedder.shedder), "adopt", fails)
    for _ in range(2):
        assert shedder.offer(BATCH).tolist() == [False, False, False, True]
    assert (shedder.version, shedder.counters.errors) == (2, 1)


def test_a_single_item_that_cannot_be_read_is_counted_too(house, client):
    house.publish()
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    for item in ({"value": "x"}, ("x",), {"valeu": 0.5}, (0.5, 0.5), {"value": object()}):
        shedder.offer_one(item)
    assert (shedder.counters.refused_items, shedder.counters.offered) == (5, 5)
    assert [shedder.offer_one({"value": 0.9}), shedder.offer_one((0.1,))] == [True, False]
    assert shedder.counters.refused_items == 5
