import shutil
import time

import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.errors import ArtifactError, InvalidInput, NoPlan, SignatureError, StoreError
from planning.runtime import Canary, PlanClient

CREATED_S = 1767323045.0  # 2026-01-02T03:04:05Z


@pytest.fixture
def client(house):
    return PlanClient(house.store, "ticks", node="edge-1", clock=house.clock)


def test_a_client_waits_for_the_first_plan_and_takes_each_newer_one(house, client):
    house.store.root.mkdir()
    assert not client.poll()
    assert (client.state, client.version, client.current) == ("waiting", 0, None)
    assert isinstance(client.last_error, NoPlan)
    assert client.errors == 0
    house.publish("one")
    assert client.poll()
    assert (client.state, client.version) == ("in force", 1)
    assert client.current.plan.label == "one"
    assert not client.poll()
    house.publish("two")
    house.publish("three")
    assert client.poll()
    assert client.current.plan.label == "three"


def test_a_rollback_is_followed_like_any_version(house, client):
    house.publish("good")
    house.publish("bad")
    client.poll()
    house.store.rollback(
        "ticks", 1, signer=house.signer, created_at="2026-01-02T04:00:00Z", reason=""
    )
    assert client.poll()
    assert (client.version, client.current.plan.label) == (3, "good")


def test_a_client_given_a_url_verifies_by_default(house):
    house.publish()
    blind = PlanClient(house.store.root, "ticks", node="edge-1")
    assert not blind.poll()
    assert isinstance(blind.last_error, ArtifactError)
    assert "trusts no key" in str(blind.last_error)
    seeing = PlanClient(str(house.store.root), "ticks", trusted=TrustedKeys.of(house.signer))
    assert seeing.poll()


def spoil_manifest(house):
    house.store.manifest_path("ticks", 2).write_bytes(b"{}")


def spoil_payload(house):
    told = house.store.manifest("ticks", 2)
    path = house.store.payload_path("ticks", told.payloads.binary, "binary")
    path.write_bytes(path.read_bytes()[:-1])


def spoil_store(house):
    shutil.rmtree(house.store.root)
    house.store.root.write_text("a file")


def lose_store(house):
    shutil.rmtree(house.store.root)


def go_back(house):
    house.store.manifest_path("ticks", 2).unlink()
    house.store.manifest_path("ticks", 1).unlink()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (spoil_manifest, ArtifactError),
        (spoil_payload, ArtifactError),
        (spoil_store, StoreError),
        (lose_store, StoreError),
        (go_back, NoPlan),
    ],
)
def test_whatever_happens_to_the_store_the_last_good_plan_stays(house, client, spoil, error):
    house.publish("good")
    client.poll()
    house.publish("spoilt")
    spoil(house)
    for count in (1, 2):
        assert not client.poll()
        assert (client.version, client.current.plan.label) == (1, "good")
        assert isinstance(client.last_error, error)
        assert (client.errors, client.failures) == (count, count)


def test_a_plan_of_a_stranger_is_not_taken(house, client, tmp_path):
    house.publish("good")
    client.poll()
    stranger = SigningKey.load_or_create(tmp_path / "stranger")
    house.tally.publish(house.store, stranger)
    assert not client.poll()
    assert client.version == 1
    assert stranger.key_id in str(client.last_error)
    with pytest.raises(SignatureError):
        house.store.load("ticks")


def test_a_sound_version_below_a_damaged_one_is_taken_and_the_damage_recorded(house, client):
    for label in ("one", "two", "three"):
        house.publish(label)
    house.store.manifest_path("ticks", 3).write_bytes(b"rot")
    assert client.poll()
    assert (client.version, client.errors) == (2, 1)
    assert "00000003.json is not a manifest" in str(client.last_error)
    house.publish("four")
    assert client.poll()
    assert (client.version, client.failures) == (4, 0)


def test_a_store_restored_from_an_old_copy_does_not_turn_the_node_back(house, client):
    house.publish("one")
    house.publish("two")
    client.poll()
    house.store.manifest_path("ticks", 2).unlink()
    assert not client.poll()
    assert client.version == 2
    assert "has gone back from version 2 of ticks to 1" in str(client.last_error)


def test_failures_back_off_and_success_ends_it(house):
    client = PlanClient(
        house.store, "ticks", node="n", poll_interval_s=2.0, max_backoff_s=10.0, clock=house.clock
    )
    house.publish()
    client.poll()
    manifest = house.store.root / "ticks" / "versions"
    manifest.rename(manifest.with_name("hidden"))
    delays = []
    for _ in range(4):
        client.poll()
        delays.append(client.delay_s)
    assert delays == [4.0, 8.0, 10.0, 10.0]
    manifest.with_name("hidden").rename(manifest)
    client.poll()
    assert client.delay_s == 2.0


@pytest.mark.parametrize("fallback", ["keep", "pass", "uniform"])
def test_validity_ends_at_the_stated_moment(house, client, fallback):
    validity = {"not_after": "2026-01-02T03:10:05Z", "fallback": fallback}
    house.publish("short", validity=validity)
    client.poll()
    house.clock.now = CREATED_S + 359.9
    assert client.state == "in force"
    house.clock.now = CREATED_S + 360.0
    assert client.state == "expired"
    assert client.fallback == fallback
    house.publish("fresh")
    client.poll()
    assert client.state == "in force"


def test_the_thread_takes_new_versions_and_stops(house):
    house.publish("one")
    with PlanClient(house.store, "ticks", node="edge-1", poll_interval_s=0.02) as client:
        wait_for(lambda: client.version == 1)
        house.publish("two")
        wait_for(lambda: client.version == 2)
    polls = client.polls
    house.publish("three")
    time.sleep(0.1)
    assert (client.polls, client.version) == (polls, 2)
    client.start()
    wait_for(lambda: client.version == 3)
    client.stop()


def test_waking_the_thread_looks_at_once(house):
    house.publish("one")
    with PlanClient(house.store, "ticks", node="edge-1", poll_interval_s=60) as client:
        wait_for(lambda: client.version == 1)
        house.publish("two")
        client.wake()
        wait_for(lambda: client.version == 2)


def wait_for(condition, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def test_a_node_that_may_not_write_still_follows_plans(house, client):
    house.publish("one")
    (house.store.root / "ticks" / "nodes").write_text("in the way")
    client.poll()
    house.publish("two")
    assert client.poll()
    assert (client.version, client.errors) == (2, 0)
    assert "nodes" in client.status().report_error


def test_canaries_are_stable_and_grow_with_the_fraction():
    nodes = [f"edge-{i}" for i in range(2000)]
    sets = [
        {n for n in nodes if Canary(fraction).includes(n, "ticks")}
        for fraction in (0.0, 0.1, 0.3, 1.0)
    ]
    assert sets[0] == set()
    assert sets[0] < sets[1] < sets[2] < sets[3] == set(nodes)
    assert 150 < len(sets[1]) < 250
    assert sets[1] != {n for n in nodes if Canary(0.1, salt="b").includes(n, "ticks")}


def test_a_node_outside_the_canaries_waits_unless_it_is_a_rollback(house):
    node = next(n for n in map(str, range(100)) if not Canary(0.2).includes(n, "ticks"))
    first = next(n for n in map(str, range(100)) if Canary(0.2).includes(n, "ticks"))
    canary = Canary(0.2, hold_s=600)
    late = PlanClient(house.store, "ticks", node=node, clock=house.clock, canary=canary)
    early = PlanClient(house.store, "ticks", node=first, clock=house.clock, canary=canary)
    house.publish("one", created_at="2026-01-02T02:00:00Z")
    house.publish("two")
    assert (late.poll(), early.poll()) == (True, True)
    assert (late.version, early.version) == (1, 2)
    house.clock.now = CREATED_S + 599
    assert not late.poll()
    house.store.rollback(
        "ticks", 1, signer=house.signer, created_at="2026-01-02T03:12:00Z", reason="v2 is bad"
    )
    assert (late.poll(), early.poll()) == (True, True)
    assert (late.version, early.version) == (3, 3)
    house.publish("four", created_at="2026-01-02T03:13:00Z")
    assert not late.poll()
    house.clock.now = CREATED_S + 3600
    assert late.poll()
    assert late.version == 4


def test_a_held_back_node_without_any_plan_takes_the_oldest(house):
    canary = Canary(0.0, hold_s=600)
    client = PlanClient(house.store, "ticks", node="n", clock=house.clock, canary=canary)
    house.publish("one")
    house.publish("two")
    assert client.poll()
    assert client.version == 1


def test_nonsense_settings_are_refused(house):
    with pytest.raises(InvalidInput, match="poll_interval_s must be positive"):
        PlanClient(house.store, "ticks", poll_interval_s=0)
    with pytest.raises(InvalidInput, match="node must be a name"):
        PlanClient(house.store, "ticks", node="../../etc")
    with pytest.raises(InvalidInput, match=r"canary\.fraction"):
        Canary(1.5)
    assert isinstance(PlanClient(house.store, "ticks").node, str)


def test_polling_an_object_store_sees_what_others_published(house):
    store = Store(f"memory://headgate-{time.time_ns()}/plans", TrustedKeys.of(house.signer))
    client = PlanClient(store, "ticks", node="edge-1", clock=house.clock)
    assert not client.poll()
    house.tally.publish(store, house.signer)
    assert client.poll()
