"""A refused plan changes nothing."""

from collections import Counter

import numpy as np

from planning.runtime import PlanClient, RunningShedder

BATCH = np.array([0.1, 0.3, 0.6, 0.9])


def test_a_plan_that_cannot_be_used_changes_nothing(house, client):
    house.publish("one")
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    before, in_force = shedder.counters.snapshot(), shedder.shedder
    house.publish("unusable")
    assert not client.poll()
    assert (client.version, client.current.manifest.version) == (1, 1)
    assert client.refused == {2: "this plan cannot be used"}
    for _ in range(3):
        assert shedder.offer(BATCH).tolist() == [False, False, True, True]
    assert shedder.shedder is in_force
    after = shedder.counters.snapshot()
    changed = {name for name in after if after[name] != before[name]}
    items = {"offered", "kept", "dropped", "dropped_by_plan"}
    assert changed == items | {"offered_units", "kept_units"}
    assert shedder.status()["refused"] == {2: "this plan cannot be used"}
    house.publish("three", cuts=(0.0, 0.8))
    client.poll()
    assert shedder.offer(BATCH).tolist() == [False, False, False, True]
    assert shedder.version == 3


def test_a_thousand_refused_versions_change_nothing(house, client):
    house.publish("one")
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    shedder.offer(BATCH)
    before, in_force = shedder.counters.snapshot(), shedder.shedder
    for number in range(1000):
        version = house.publish("unusable").version
        if number % 3 == 1:
            house.store.manifest_path("ticks", version).write_bytes(b"rot")
        elif number % 3 == 2:
            manifest = house.store.manifest_path("ticks", version)
            manifest.unlink()
            manifest.mkdir()
        if number % 100 == 99:
            assert not client.poll()
    assert (client.version, client.refusals, len(client.refused)) == (1, 1000, 1000)
    reasons = Counter(
        reason.split(";")[0].split("(")[0][-40:] for reason in client.refused.values()
    )
    assert reasons["this plan cannot be used"] == 334
    assert all(client.refused.values())
    assert shedder.shedder is in_force
    assert shedder.counters.snapshot() == before
    assert shedder.snapshot()["refused_plans"] == 1000
    (told,) = house.store.nodes("ticks")
    assert not client.status().report_error
    assert told.refused == client.refused
    assert (told.version, told.refuses) == (1, 1001)
    client.poll()
    assert client.refusals == 1000  # each is counted once
    house.publish("good", cuts=(0.0, 0.8))
    assert client.poll()
    shedder.offer(BATCH)
    assert shedder.version == 1002


def test_a_restarted_node_takes_the_newest_sound_version(house):
    house.publish("one")
    house.publish("two", cuts=(0.0, 0.8))
    house.publish("unusable")
    for attach_first in (True, False):
        client = PlanClient(house.store, "ticks", node="edge-1", clock=house.clock)
        if attach_first:
            shedder = RunningShedder(client, load=0.5)
            client.poll()
        else:
            client.poll()
            shedder = RunningShedder(client, load=0.5)
        assert shedder.offer(BATCH).tolist() == [False, False, False, True]
        assert (client.version, shedder.version) == (2, 2)
        assert client.refused == {3: "this plan cannot be used"}


def test_a_plan_of_another_family_or_other_parts_is_refused(house, client):
    house.publish()
    shedder = RunningShedder(client, load=0.5, family="sifter")
    client.poll()
    assert client.refused == {1: "family must be sifter, got a plan of tally"}
    assert shedder.offer(BATCH).sum() == 2
    other = PlanClient(house.store, "ticks", node="n", clock=house.clock)
    named = RunningShedder(other, load=0.5, family="tally", parts=("a", "b"))
    other.poll()
    assert other.refused == {1: "parts must be a, b, got a plan of "}
    assert named.offer(BATCH).shape == (4, 2)
