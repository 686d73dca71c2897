"""What nodes say about themselves: at once when it changes, else at every heartbeat."""

import subprocess
import sys
import time

import msgspec
import numpy as np
import pytest

from planning.artifacts import Status, status
from planning.artifacts.fleet import fleet
from planning.errors import ArtifactError
from planning.runtime import PlanClient, RunningShedder

BATCH = np.array([0.1, 0.3, 0.6, 0.9])


def told(house):
    (word,) = house.store.nodes("ticks")
    return word


def test_a_status_says_what_is_in_force_and_what_is_wrong(house, client):
    house.publish("one")
    shedder = RunningShedder(client, load=0.5)
    client.poll()
    assert (told(house).version, told(house).ready, told(house).state) == (0, 1, "waiting")
    shedder.offer(BATCH)
    house.clock.now += 5
    client.poll()
    word = told(house)
    assert (word.version, word.ready, word.state, word.load) == (1, 1, "in force", 0.5)
    assert (word.at, word.started_at) == ("2026-01-02T03:05:10Z", "2026-01-02T03:05:05Z")
    assert word.since == word.started_at
    assert word.counters["offered"] == 4
    house.publish("unusable")
    client.poll()
    word = told(house)
    assert (word.version, word.refuses) == (1, 2)
    assert word.refused == {2: "this plan cannot be used"}


def test_heartbeats_come_when_due_and_changes_at_once(house, client):
    house.publish("one")
    client.poll()
    first = told(house).at
    house.clock.now += client.heartbeat_s - 1
    client.poll()
    assert told(house).at == first
    house.clock.now += 1
    client.poll()
    assert told(house).at != first
    house.publish("two")
    client.poll()
    assert told(house).ready == 2
    house.clock.now -= 3600  # a clock that is set back does not silence the node
    client.poll()
    assert told(house).at == "2026-01-02T02:05:35Z"


def test_several_shedders_of_a_node_speak_with_one_voice(house, client):
    house.publish("one")
    client.poll()
    shedders = [RunningShedder(client, load=load) for load in (0.5, 0.25)]
    for shedder in shedders:
        shedder.offer(BATCH)
    word = client.status()
    assert word.counters["offered"] == 8
    assert (word.load, word.version) == (0.25, 1)
    assert shedders[0].status()["load"] == 0.5
    house.publish("two")
    client.poll()
    shedders[0].offer(BATCH)
    assert client.status().version == 1  # the other one still decides by version 1
    assert shedders[0].status()["version"] == 2


def test_threads_report_a_swap_without_waiting_for_the_next_look(house):
    house.publish("one")
    client = PlanClient(house.store, "ticks", node="edge-1", poll_interval_s=60, memory=False)
    shedder = RunningShedder(client, load=0.5)
    with client:
        deadline = time.monotonic() + 20
        while not (found := house.store.nodes("ticks").sound) or found[0].version < 1:
            assert time.monotonic() < deadline
            shedder.offer(BATCH)
            time.sleep(0.01)
    assert client.polls == 1


def test_a_node_that_is_stopped_takes_leave_and_is_not_called_silent(house, client):
    house.publish("one")
    with client:
        wait_for(lambda: client.version)
    word = told(house)
    assert (word.state, word.ready) == ("stopped", 1)
    assert not msgspec.structs.replace(word, age_s=1e9).silent
    assert fleet(house.store, "ticks").nodes[0].sentence.startswith("was stopped ")
    client.poll()
    assert told(house).state == "in force"


def test_a_killed_node_becomes_silent_and_a_living_one_does_not(house, tmp_path):
    house.publish("one")
    script = f"""
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("tally_family", {house.tally.__file__!r})
tally = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tally)
from planning.artifacts import TrustedKeys
from planning.runtime import PlanClient
with tally.registered():
    trusted = TrustedKeys.load({str(tmp_path / "keys")!r})
    with PlanClient({str(tmp_path / "plans")!r}, "ticks", trusted=trusted, node="edge-9",
                    poll_interval_s=0.1, heartbeat_s=0.2, memory=False):
        time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_for(lambda: house.store.nodes("ticks").sound)
        before = told(house).at
        wait_for(lambda: told(house).at != before)
        assert not told(house).silent
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: told(house).silent)


def wait_for(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_the_word_of_a_node_of_release_0_1_is_read(house):
    house.publish("one")
    acks = house.store.folder("ticks", "acks")
    acks.mkdir()
    (acks / "old.json").write_bytes(
        b'{"at":"2026-01-02T03:04:05Z","counters":{"kept":3},"node":"old","version":1}'
    )
    word = told(house)
    assert (word.node, word.version, word.state, word.silent) == ("old", 1, "in force", False)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"node": "../x", "at": "2026-01-02T03:04:05Z"}',
        b'{"node": "x", "at": "2026-13-41T03:04:05Z"}',
        b'{"node": "x", "at": "2026-01-02T03:04:05Z", "version": -1}',
        b'{"node": "x", "at": "2026-01-02T03:04:05Z", "since": "9999-99-99T00:00:00Z"}',
        b'{"node": "x", "at": "2026-01-02T03:04:05Z", "load": "much"}',
        b'{"node": "\xff", "at": "2026-01-02T03:04:05Z"}',
    ],
)
def test_a_damaged_status_is_named_and_not_believed(data):
    with pytest.raises(ArtifactError, match="is not a node's status"):
        status.decode(data, "edge-7.json")


def test_a_status_keeps_everything_and_ignores_what_comes_later():
    word = Status(node="n", at="2026-01-02T03:04:05Z", version=3, refused={4: "no", 5: "nor this"})
    data = status.encode(word)
    assert status.decode(data, "") == word
    assert status.decode(data[:-1] + b',"of_a_later_release":[1]}', "") == word
