"""A node that restarts begins with what it knew, checked again, whatever became of the store."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from planning.artifacts import Store, TrustedKeys
from planning.errors import StoreError
from planning.runtime import FeedForwardThrottle, PlanClient, RunningShedder

BATCH = np.array([0.1, 0.3, 0.6, 0.9])


@pytest.fixture
def node(house, tmp_path):
    """Start the node again and again, each time as a new process would."""

    def start(**options):
        # As a process would that is given the folders: nothing is shared with the one before.
        trusted = TrustedKeys.load(tmp_path / "keys")
        settings = {"node": "edge-1", "memory": tmp_path / "node", "clock": house.clock} | options
        return PlanClient(str(house.store.root), "ticks", trusted=trusted, **settings)

    return SimpleNamespace(start=start, folder=tmp_path / "node")


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_node_that_restarts_without_its_store_starts_with_its_plan(house, node):
    house.publish("one", cuts=(0.0, 0.8))
    first = node.start()
    first.poll()
    reached = first.status().reached_at
    shutil.rmtree(house.store.root)
    house.clock.now += 900
    client = node.start()
    shedder = RunningShedder(client, FeedForwardThrottle(1000.0), family="tally")
    assert shedder.offer(BATCH).tolist() == [True] * 4  # within capacity
    held = RunningShedder(client, load=0.5, family="tally")
    assert held.offer(BATCH).tolist() == [False, False, False, True]
    assert not client.poll()
    house.clock.now += 100
    assert not client.poll()
    status = held.status()
    assert (status["state"], status["version"], status["seen"]) == ("in force", 1, 1)
    assert "is missing" in status["problem"]
    assert status["problem_since"] == "2026-01-02T03:20:05Z"
    assert status["reached_at"] == reached == "2026-01-02T03:05:05Z"
    for counters in (shedder.counters, held.counters):
        assert counters.passed_without_plan == 0
    assert client.errors == 2


def test_a_missing_store_is_an_error_from_the_first_look_on(house, node):
    client = node.start()
    shedder = RunningShedder(client, load=0.5)
    assert not client.poll()
    assert isinstance(client.last_error, StoreError)
    assert client.errors == 1
    assert shedder.status()["problem_since"] == "2026-01-02T03:05:05Z"
    assert shedder.status()["state"] == "waiting"
    house.store.root.mkdir()  # now nothing is published, which is no error
    client.poll()
    assert client.errors == 1
    assert shedder.status()["problem"] == ""


def test_the_highest_version_outlives_a_restart(house, node):
    house.publish("one")
    house.publish("two")
    node.start().poll()
    house.store.manifest_path("ticks", 2).unlink()
    client = node.start()
    assert (client.version, client.seen) == (2, 2)
    assert not client.poll()
    assert "gone back from version 2" in client.problem
    assert str(node.folder) in client.problem  # what to remove if that was on purpose
    assert client.current.plan.label == "two"


def test_only_verified_versions_count_as_seen(house, node):
    house.publish("one")
    far = house.store.manifest_path("ticks", 99999)
    far.write_bytes(house.store.manifest_path("ticks", 1).read_bytes())
    client = node.start()
    assert client.poll()
    assert client.seen == 1
    far.unlink()
    assert node.start().poll()  # the store confirms what was recalled
    house.publish("two")
    restarted = node.start()
    assert restarted.poll()
    assert (restarted.version, restarted.problem) == (2, "")


def test_a_damaged_memory_is_not_believed(house, node):
    house.publish("one")
    node.start().poll()
    for path in files_in(node.folder):
        sound = path.read_bytes()
        for damage in (b"", sound[: len(sound) // 2], b"\xff" + sound[1:]):
            path.write_bytes(damage)
            client = node.start()
            if path.name != "seen":
                assert client.current is None
                assert client.status().problem
            assert client.poll()
            assert not client.poll()
            assert (client.version, client.errors) == (1, 0)
            path.write_bytes(sound)


def test_memory_signed_by_a_key_that_is_gone_is_not_used(house, node, tmp_path):
    house.publish("one")
    node.start().poll()
    for key in (tmp_path / "keys" / "trusted").iterdir():
        key.unlink()
    client = node.start()
    assert client.current is None
    assert "trusts no key" in client.status().problem


def test_a_disk_that_is_full_or_not_there_does_not_stop_the_node(house, tmp_path):
    (tmp_path / "file").write_text("in the way")
    house.publish("one")
    client = PlanClient(house.store, "ticks", node="edge-1", memory=tmp_path / "file" / "node")
    assert client.poll()
    assert "cannot remember" in client.status().problem
    assert client.errors == 0


def test_the_memory_stays_small_and_of_one_store(house, node, tmp_path, tally):
    for number in range(20):
        house.publish(str(number))
        node.start().poll()
    assert len(files_in(node.folder)) == 3  # a manifest, its plan, and the highest version
    other = Store(tmp_path / "other", TrustedKeys.of(house.signer))
    tally.publish(other, house.signer)
    client = PlanClient(other, "ticks", node="edge-1", memory=node.folder)
    assert client.current is None
    assert client.poll()
    assert client.version == 1


def test_no_memory_if_none_is_wanted(house, node, tmp_path):
    house.publish("one")
    node.start(memory=False).poll()
    assert not node.folder.exists()
    assert node.start(memory=False).current is None


def test_a_real_process_without_its_store_passes_nothing_without_a_plan(house, node, tmp_path):
    from planning.examples import demo_plan

    house.store.publish(
        "prices", demo_plan("sifter"), family="sifter", signer=house.signer,
        created_at="2026-01-02T03:04:05Z",
    )  # fmt: skip
    script = f"""
from planning.artifacts import TrustedKeys
from planning.examples import demo_samples
from planning.runtime import PlanClient, RunningShedder
trusted = TrustedKeys.load({str(tmp_path / "keys")!r})
client = PlanClient({str(tmp_path / "plans")!r}, "prices", trusted=trusted, node="edge-1",
                    memory={str(node.folder)!r}, poll_interval_s=0.05)
shedder = RunningShedder(client, load=0.1)
if not client.current:
    assert client.poll()
with client:
    for _ in range(20):
        shedder.offer(demo_samples("sifter"))
status = shedder.status()
print(status["version"], status["counters"]["passed_without_plan"], bool(status["problem"]))
"""

    def run():
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run() == ["1", "0", "False"]
    shutil.rmtree(tmp_path / "plans")
    assert run() == ["1", "0", "True"]
