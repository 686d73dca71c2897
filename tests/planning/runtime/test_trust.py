"""Keys that are removed while a node runs."""

import numpy as np
import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.runtime import PlanClient, RunningShedder

BATCH = np.array([0.1, 0.3, 0.6, 0.9])


@pytest.fixture
def keys(house, tmp_path):
    """A second publisher's key beside the first's, both trusted."""
    second = SigningKey.load_or_create(tmp_path / "second")
    trusted = tmp_path / "keys" / "trusted"
    name = f"{second.key_id}.pem"
    (trusted / name).write_bytes((tmp_path / "second" / "trusted" / name).read_bytes())
    store = Store(house.store.root, TrustedKeys.load(tmp_path / "keys"))
    client = PlanClient(store, "ticks", node="edge-1", memory=False)
    return trusted, second, client


def test_a_removed_key_signs_no_new_plan(house, keys, tally):
    trusted, second, client = keys
    house.publish("one")
    assert client.poll()
    (trusted / f"{second.key_id}.pem").unlink()
    tally.publish(house.store, second, tally.tally_plan("stolen"))
    assert not client.poll()
    assert client.version == 1
    assert second.key_id in client.refused[2]


def test_the_plan_in_force_goes_with_its_key_and_the_newest_trusted_one_comes(house, keys, tally):
    trusted, second, client = keys
    house.publish("one", cuts=(0.0, 0.8))
    tally.publish(house.store, second, tally.tally_plan("stolen"))
    shedder = RunningShedder(client, load=0.5)
    assert client.poll()
    assert shedder.offer(BATCH).tolist() == [False, False, True, True]
    (trusted / f"{second.key_id}.pem").unlink()
    assert client.poll()
    assert (client.version, client.seen) == (1, 2)
    assert shedder.offer(BATCH).tolist() == [False, False, False, True]
    assert second.key_id in shedder.status()["refused"][2]
    house.publish("three")
    assert client.poll()
    assert client.version == 3


def test_a_version_that_was_refused_and_then_taken_is_refused_no_longer(house, keys, tally):
    trusted, second, client = keys
    pem = trusted / f"{second.key_id}.pem"
    key = pem.read_bytes()
    pem.unlink()
    tally.publish(house.store, second)
    assert not client.poll()
    assert list(client.status().refused) == [1]
    pem.write_bytes(key)
    assert client.poll()
    assert client.status().refused == {}


def test_with_no_trusted_plan_left_the_node_falls_back_within_its_load(house, keys):
    trusted, _, client = keys
    house.publish("one")
    shedder = RunningShedder(client, load=0.5)
    client.poll()
    shedder.offer(BATCH)
    for path in trusted.iterdir():
        path.unlink()
    assert not client.poll()
    kept = sum(int(shedder.offer(BATCH).sum()) for _ in range(10))
    assert kept == 20
    status = shedder.status()
    assert (status["state"], status["version"]) == ("waiting", 0)
    assert shedder.counters.passed_without_plan == 20


def test_a_folder_that_is_gone_is_not_a_removal_and_a_bad_file_is_named(house, keys):
    trusted, second, client = keys
    house.publish("one")
    client.poll()
    aside = trusted.with_name("aside")
    trusted.rename(aside)
    house.publish("two")
    assert client.poll()
    aside.rename(trusted)
    (trusted / "broken.pem").write_text("no key")
    (trusted / f"{second.key_id}.pem").unlink()
    house.publish("three")
    assert client.poll()
    assert "broken.pem" in client.status().problem
    assert second.key_id not in client.store.trusted.keys
    (trusted / "broken.pem").unlink()
    client.poll()
    assert client.status().problem == ""
