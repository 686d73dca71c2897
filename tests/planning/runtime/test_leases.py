import json
import math
import os
import shutil
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lease_world import (
    CAPACITY,
    SLACK,
    Lost,
    check_windows,
    needs_redis,
    rounds,
    shares,
)

from planning.errors import InvalidInput, MissingExtra, StoreError
from planning.runtime import (
    FeedForwardThrottle,
    LeasedBudget,
    LeasedCapacity,
    LeasedThrottle,
    RunningShedder,
)
from planning.runtime.feed_forward import Bucket
from planning.runtime.leases import capacity as leases
from planning.runtime.leases.capacity import fair_share


@needs_redis
def test_members_converge_to_max_min_fair_shares(world):
    for _ in range(3):
        world.join()
    rounds(world, 6, (10, 300, 300))
    # 10 of 100 and its head room, then halves of the rest.
    assert shares(world) == pytest.approx([0.11, 0.445, 0.445], rel=0.06)
    rounds(world, 30, (300, 300, 10))
    assert shares(world) == pytest.approx([0.445, 0.445, 0.11], rel=0.06)
    rounds(world, 30, (0, 0, 0))
    assert shares(world) == pytest.approx([1 / 3] * 3, rel=0.06)
    assert sum(shares(world)) > 0.9


@needs_redis
def test_a_share_is_lowered_only_as_far_as_batches_under_way_allow(world):
    world.join()
    world.join()
    rounds(world, 6, (500, 0))
    world.begin(0, 500)  # all that its bucket holds, and then it is paused
    under_way = world.under_way[0][1]
    assert under_way > 0.9 * SLACK
    rounds(world, 5, (500, 500))
    assert under_way <= world.members[0].bucket.depth <= SLACK - world.members[1].bucket.depth
    world.end(0)
    rounds(world, 3, (500, 500))
    assert shares(world) == pytest.approx([0.5, 0.5], rel=0.06)


@given(
    st.lists(st.fractions(0, 10), min_size=1, max_size=6),
    st.fractions(0, 30),
)
def test_fair_shares_are_max_min_fair(wishes, room):
    got = [fair_share(wish, wishes, room) for wish in wishes]
    assert sum(got) == room  # nothing is left over: Fractions are exact
    if sum(wishes) >= room:
        assert all(share <= wish for share, wish in zip(got, wishes, strict=True))
        # Whoever has less than its wish has as much as anybody.
        assert all(s == max(got) for s, w in zip(got, wishes, strict=True) if s < w)
    else:
        extra = Fraction(room - sum(wishes), len(wishes))
        assert got == [wish + extra for wish in wishes]


@needs_redis
def test_a_member_without_redis_keeps_its_share_and_nobody_else_gets_it(world, monkeypatch):
    monkeypatch.setattr(leases, "SILENT", 0.0)  # whoever is not renewing right now is silent
    for _ in range(3):
        world.join()
    rounds(world, 8, (500, 500, 500))
    before = shares(world)
    world.clock.now += 1000.0
    for _ in range(20):
        assert not world.renew(0, "first request")
    rounds(world, 20, (500, 500, 500), members=(1, 2))
    assert world.members[0].share == before[0] > 0.3
    assert world.members[0].status()["state"] == "lost"
    assert "Lost" in world.members[0].status()["error"]
    assert shares(world)[1:] == pytest.approx(before[1:], rel=0.06)
    silent = world.members[1].status()["silent"]
    assert silent[world.members[0]._memory.id] == pytest.approx(before[0])
    assert world.members[0].reserve(1000, 1000)[1] == int(before[0] * SLACK)


@needs_redis
def test_an_operator_forgets_the_silent_and_only_them(world):
    for _ in range(2):
        world.join()
    rounds(world, 8, (500, 500))
    world.members[0]._unlock()  # killed for good
    forget = [world.server.url, world.names[0], "m0"]
    assert LeasedCapacity.forget(*forget) == []  # not silent yet
    id = world.members[0]._memory.id
    record = json.loads(world.redis.hget(world.key(0), id))
    long_ago = json.dumps(record | {"at": record["at"] - 6000})
    world.redis.hset(world.key(0), id, long_ago)
    assert LeasedCapacity.forget(*forget) == [id]
    rounds(world, 3, (500, 500), members=(1,))
    assert world.members[1].share > 0.99
    assert not world.renew(0)  # it was not gone after all
    assert "was forgotten" in world.members[0].error
    assert world.members[0].share == 0.0
    rounds(world, 8, (500, 500))
    assert shares(world) == pytest.approx([0.5, 0.5], rel=0.06)


@needs_redis
def test_a_restarted_member_has_its_share_at_once_and_no_tokens(world):
    world.join()
    world.join()
    rounds(world, 8, (500, 500))
    before = world.members[0].share
    assert before > 0.4
    world.boot(0)  # Redis is not asked
    assert world.members[0].share == before
    assert world.members[0].reserve(1, 1) == (0.0, 0)
    world.clock.now += 0.1
    assert world.members[0].reserve(100, 100)[1] == int(before * CAPACITY * 0.1)
    world.renew(0)
    assert world.members[0].share == before


@needs_redis
def test_closing_frees_the_share_and_without_redis_keeps_it_for_a_restart(world):
    for _ in range(2):
        world.join()
    rounds(world, 8, (500, 500))
    first, second = world.members
    first.close()
    assert first.reserve(1, 1) == (0.0, 0)
    assert (first.share, first.status()["state"]) == (0.0, "closed")
    rounds(world, 2, (500, 500), members=(1,))
    assert second.share > 0.99

    def away(request):
        raise Lost

    second._call = away
    second.close()
    assert second.reserve(1, 1) == (0.0, 0)
    world.boot(1)
    assert world.members[1].share > 0.99


@needs_redis
def test_a_member_that_promised_to_stop_stops_before_others_use_its_share(world):
    for _ in range(2):
        world.join(forget_after_s=20.0)
    rounds(world, 8, (500, 500))
    before = world.members[0].share
    world.clock.now += 17.9
    world.renew(1)
    assert world.members[0].reserve(5, 5)[1] == 5
    world.clock.now += 0.2
    assert world.members[0].reserve(5, 5) == (0.0, 0)
    assert world.members[0].status()["stopped"]
    world.renew(1)
    assert world.members[1].share < 0.6
    world.boot(0)  # a restart does not know how long it was away
    assert world.members[0].share == 0.0
    world.clock.now += 2.0
    world.renew(1)
    world.renew(1)
    assert world.members[1].share > 0.99
    rounds(world, 10, (500, 500))
    assert world.members[0].share == pytest.approx(before, rel=0.06)
    assert world.members[0].reserve(5, 5)[1] == 5


@needs_redis
def test_a_new_capacity_reaches_all_members(world):
    world.join()
    world.join()
    rounds(world, 5, (5000, 5000))
    LeasedCapacity.create(world.server.url, world.names[0], capacity_per_s=1000.0, slack=10.0)
    rounds(world, 5, (5000, 5000))
    assert sum(member.bucket.rate for member in world.members) == pytest.approx(1000.0, rel=0.02)
    assert sum(member.bucket.depth for member in world.members) == pytest.approx(10.0, rel=0.02)


@needs_redis
def test_what_is_missing_or_full_is_said_and_lets_nothing_pass(world, server, tmp_path):
    other = LeasedCapacity(server.url, "nobody", member="m", path=tmp_path / "m")
    other.open()
    assert not other.renew()
    assert "no capacity nobody" in other.status()["error"]
    assert other.status()["state"] == "waiting"
    assert other.reserve(10, 10) == (0.0, 0)
    LeasedCapacity.create(server.url, world.names[0], capacity_per_s=100.0, slack=4.0)
    for _ in range(3):
        world.join()
    rounds(world, 3, (100, 100, 100))
    assert "too small a slack for one more member" in world.members[2].error
    assert world.members[2].share == 0.0 < world.members[1].share


@needs_redis
def test_of_two_processes_with_copies_of_one_file_the_older_stops(world, tmp_path):
    member = world.join()
    rounds(world, 2, (500,))
    copy = tmp_path / "copy"
    shutil.copy(member.path, copy)
    twin = LeasedCapacity(world.server.url, world.names[0], member="m0", path=copy)
    twin.open()
    assert twin.renew()
    assert not world.renew(0)
    assert world.members[0].status()["state"] == "replaced"
    assert "is there a copy" in world.members[0].error
    world.clock.now += 10.0
    assert world.members[0].reserve(10, 10) == (0.0, 0)
    twin.close()


@needs_redis
def test_files_of_others_are_refused(world, tmp_path):
    member = world.join()

    def another(name="m0", path=member.path):
        lease = LeasedCapacity(world.server.url, world.names[0], member=name, path=path)
        lease.open()
        lease._unlock()

    with pytest.raises(StoreError, match="file of this process alone"):
        another()
    member._unlock()
    another()
    with pytest.raises(InvalidInput, match="must belong to m1 .* got the file of m0"):
        another("m1")
    notes = tmp_path / "notes"
    notes.write_text("important")
    with pytest.raises(InvalidInput, match="must be a lease's file"):
        another(path=notes)
    assert notes.read_text() == "important"
    with pytest.raises(StoreError, match="cannot be used as a lease's file"):
        another(path=tmp_path / "missing" / "file")


def test_bad_arguments(tmp_path, monkeypatch):
    options = {"member": "m", "path": tmp_path / "m"}
    with pytest.raises(InvalidInput, match="must be a Redis URL"):
        LeasedCapacity("http://hub", "c", **options)
    with pytest.raises(InvalidInput, match="renew_s must be a positive number"):
        LeasedCapacity("redis://hub", "c", renew_s=0, **options)
    with pytest.raises(InvalidInput, match="at least 10 x renew_s"):
        LeasedCapacity("redis://hub", "c", forget_after_s=5, **options)
    with pytest.raises(InvalidInput, match="capacity_per_s must be a positive number"):
        LeasedCapacity.create("redis://hub", "c", capacity_per_s=0)
    with pytest.raises(StoreError, match="Redis does not answer"):
        LeasedCapacity.create(f"unix://{tmp_path}/nobody", "c", capacity_per_s=1)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match=r"pip install 'headgate\[redis\]'"):
        LeasedCapacity("redis://hub", "c", **options)


@needs_redis
def test_a_forked_copy_lets_nothing_pass(world):
    member = world.join()
    rounds(world, 2, (500,))
    world.clock.now += 10.0
    child = os.fork()
    if child == 0:
        os._exit(member.reserve(10, 10)[1])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert member.reserve(10, 10)[1] == 10


@needs_redis
def test_threads_share_a_lease(world):
    member = world.join()
    rounds(world, 2, (500,))
    world.clock.now += 10.0
    assert member.reserve(30, 30) == (SLACK, 30)
    assert member.reserve(30, 30) == (SLACK - 30, 10)  # while the first is under way
    member.settle(30, 0)
    member.settle(10, 0)
    passed = []

    def offer():
        throttle = LeasedThrottle(member)
        for _ in range(200):
            throttle.before(0.0, 3)
            allowed = throttle.allowed()
            throttle.after(min(allowed, 2))
            passed.append(min(allowed, 2))

    threads = [threading.Thread(target=offer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == SLACK
    assert member._under_way == 0


@needs_redis
def test_a_throttle_with_the_whole_capacity_does_as_a_plain_one(world):
    member = world.join()
    rounds(world, 2, (500,))
    assert member.share == 1.0
    leased, plain = LeasedThrottle(member), FeedForwardThrottle(CAPACITY, slack=SLACK)
    world.clock.now += 10.0  # both buckets are full
    for step in range(300):
        world.clock.now += 0.01
        offered = 1 + step % 7
        answers = []
        for throttle in (leased, plain):
            load = throttle.before(world.clock.now, offered)
            wanted = math.ceil(load * offered)
            passed = min(wanted, throttle.allowed())
            throttle.after(passed, wanted - passed)
            answers.append((load, passed))
        assert answers[0] == pytest.approx(answers[1])


@needs_redis
def test_a_lease_as_budget(world):
    member = world.join()
    rounds(world, 2, (500,))
    world.clock.now += 10.0
    budget = LeasedBudget(member)
    assert budget.take(100, 30, 0.5) == 30
    budget.give_back(10)
    assert budget.take(100, 100, 0.5) == SLACK - 20
    budget.give_back(0)
    assert budget.take(100, 100, 0.5) == 0


@needs_redis
@pytest.mark.parametrize("how", ["throttle", "budget"])
def test_a_running_shedder_with_a_lease(world, house, client, how):
    member = world.join()
    rounds(world, 2, (500,))
    house.publish()
    client.poll()
    means = (
        {"throttle": LeasedThrottle(member)}
        if how == "throttle"
        else {"budget": LeasedBudget(member)}
    )
    shedder = RunningShedder(client, clock=world.clock, **means)
    passed = []
    for _ in range(200):
        world.clock.now += 0.05
        keep = shedder.offer({"x": np.random.default_rng(0).random(50)})
        passed.append((world.clock.now, world.clock.now, int(keep.sum())))
    check_windows(passed, CAPACITY, SLACK)
    assert sum(units for _, _, units in passed) > 0.8 * 10.0 * CAPACITY
    world.members[0].close()
    world.clock.now += 10.0
    assert not shedder.offer({"x": np.zeros(50)}).any()


def test_a_bucket_that_changes_agrees_with_a_plain_loop():
    bucket, tokens, rate, depth = Bucket(8.0, 4.0), 4.0, 8.0, 4.0
    for step in range(1, 400):
        tokens = min(tokens + rate / 64, depth)
        assert bucket.at(step / 64) == pytest.approx(tokens)
        if step % 3 == 0 and tokens >= 1:
            bucket.spend(1.0)
            tokens -= 1.0
        if step % 50 == 0:
            rate, depth = 2.0 * (step % 7), 1.0 + step % 4
            bucket.change(step / 64, rate, depth)
            tokens = min(tokens, depth)
