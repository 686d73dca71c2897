"""What may happen to hosts, messages and Redis: the fleet never passes more than its capacity."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lease_world import (
    CAPACITY,
    SLACK,
    WHOLE,
    Lost,
    Server,
    World,
    check_windows,
    needs_redis,
    rounds,
    shares,
)

from planning.runtime import LeasedCapacity
from planning.runtime.leases import capacity as leases

MEMBER = st.integers(0, 3)


FAULTS = st.sampled_from(
    ["", "", "", ""]
    + [f"{which} {what}" for which in ("first", "second") for what in ("request", "reply", "late")]
)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("renew"), MEMBER, FAULTS),
        st.tuples(st.just("round")),
        st.tuples(st.just("wait"), st.sampled_from([0.01, 0.1, 1.0, 10.0])),
        st.tuples(st.just("begin"), MEMBER, st.sampled_from([1, 5, 20, 500])),
        st.tuples(st.just("end"), MEMBER),
        st.tuples(st.just("kill"), MEMBER),
        st.tuples(st.just("leave"), MEMBER),
        st.tuples(st.just("join")),
        st.tuples(st.just("deliver")),
        st.tuples(st.just("save")),
        st.tuples(st.just("empty")),
        st.tuples(st.just("restore")),
        st.tuples(st.just("fail over")),
        st.tuples(st.just("move"), MEMBER, st.integers(0, 3)),
    ),
    max_size=60,
)


@needs_redis
@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(settled=st.integers(0, 4), steps=STEPS)
@example(0, [("fail over",), ("round",)])
@example(
    0, [("renew", 0, ""), ("fail over",), ("move", 0, 0), ("leave", 0), ("move", 0, 1), ("round",)]
)
@example(0, [("renew", 0, ""), ("restore",), ("leave", 0), ("move", 0, 0), ("round",)])
def test_no_schedule_lets_more_pass_than_the_capacity(
    server, tmp_path, monkeypatch, settled, steps
):
    """Losses, late messages, restarts, pauses, an empty Redis, stale replicas, two masters."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nothing here loses what it wrote
    monkeypatch.setattr(leases, "SILENT", 1e6)  # virtual time: nobody is slow
    world = World(server, tmp_path)
    world.join()
    world.join()
    for step in [("join",), *[("round",), ("wait", 1.0)] * settled, ("save",), *steps]:
        apply(world, *step)
        world.check_shares()
    for number in range(len(world.members)):
        world.end(number)
    world.close()
    check_windows(world.passed, CAPACITY, SLACK)


def apply(world, what, *how):
    number = how[0] % len(world.members) if how and isinstance(how[0], int) else 0
    place = world.members[number].place
    if what == "renew":
        world.renew(number, how[1])
    elif what == "round":
        for each in range(len(world.members)):
            world.begin(each, 10 * (1 + each))
            world.renew(each)
    elif what == "wait":
        world.clock.now += how[0]
    elif what == "begin":
        world.begin(number, how[1])
    elif what == "end":
        world.end(number)
    elif what == "kill":
        world.boot(number)
    elif what == "leave":
        world.end(number)
        world.members[number].close()
        world.boot(number)
    elif what == "join" and len(world.members) < 5:
        world.join()
    elif what == "deliver":
        world.deliver()
    elif what == "save":
        world.old = world.dump(place)
    elif what == "empty":
        world.late.clear()  # they would have reached the process that is gone
        world.redis.delete(world.key(place))
    elif what in ("restore", "fail over"):
        world.late.clear()
        world.replica(world.old)
        for member in world.members:
            member.place = len(world.names) - 1 if what == "restore" else member.place
        world.members[0].place = len(world.names) - 1
    elif what == "move":
        world.members[number].place = how[1] % len(world.names)


@needs_redis
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("renew"), st.integers(0, 2), FAULTS),
            st.tuples(st.just("kill"), st.integers(0, 2)),
            st.tuples(st.just("wait"), st.floats(0.1, 15.0)),
            st.tuples(st.just("empty")),
            st.tuples(st.just("restore")),
        ),
        max_size=60,
    )
)
def test_promises_hold_with_clocks_that_run_apart(server, tmp_path, monkeypatch, steps):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(leases, "SILENT", 1e6)
    world = World(server, tmp_path, forget_after_s=10.0)
    for pace in (0.96, 1.0, 1.04):
        member = world.join()
        member._clock = lambda pace=pace: pace * world.clock.now
    rounds(world, 4, (500, 500, 500))
    for step in steps:
        apply(world, *step)
        for member, pace in zip(world.members, (0.96, 1.0, 1.04), strict=True):
            member._clock = lambda pace=pace: pace * world.clock.now
        use = [m._memory.share for m in world.members if m._clock() < m._until_s]
        assert sum(use) <= WHOLE
    world.close()


@needs_redis
def test_a_late_message_does_nothing(world):
    world.join()
    world.join()
    rounds(world, 6, (500, 0))
    whole = world.members[0].share
    assert whole > 0.9
    rounds(world, 1, (500, 500), members=(1,))
    world.renew(0, "second late")  # lowers its share, and says so in vain
    assert world.members[0].share == pytest.approx(0.5, rel=0.06)
    rounds(world, 30, (500, 0))
    assert world.members[0].share == pytest.approx(whole, rel=0.06)
    world.deliver()
    rounds(world, 1, (500, 500), members=(1,))
    world.check_shares()


@needs_redis
def test_a_newcomer_waits_until_the_others_know_of_it(world):
    world.join()
    leaving = world.join()
    rounds(world, 6, (500, 500))
    leaving.close()
    newcomer = world.join()
    for _ in range(3):
        world.renew(2)
    assert newcomer.share == 0.0  # though half is free
    rounds(world, 3, (500, 0, 500), members=(0, 2))
    assert newcomer.share > 0.4
    # So its share is safe even if Redis is emptied while it is cut off.
    world.redis.delete(world.key(0))
    for _ in range(5):
        world.renew(0)
    world.check_shares()


@needs_redis
def test_a_record_below_what_is_held_begins_a_new_epoch(world):
    world.join()
    world.join()
    rounds(world, 6, (500, 500))
    member, key = world.members[0], world.key(0)
    epoch, held = member._memory.epoch, member.share
    record = json.loads(world.redis.hget(key, member._memory.id))
    world.redis.hset(key, member._memory.id, json.dumps(record | {"share": 1000}))
    rounds(world, 3, (500, 500))
    assert member._memory.epoch != epoch
    assert member.share == pytest.approx(held, rel=0.06)
    world.check_shares()


@needs_redis
def test_a_member_that_was_with_another_master_is_asked_again(world):
    for _ in range(3):
        world.join()
    rounds(world, 6, (500, 500, 500))
    world.replica(world.dump(0))
    world.members[1].place = world.members[2].place = 1
    rounds(world, 30, (500, 0, 500), members=(1, 2))  # one gives to the other
    assert world.members[2].share > 0.6
    world.members[1].place = 0
    for number in (1, 0, 1, 0):
        world.renew(number)
        world.check_shares()


@needs_redis
def test_an_emptied_redis_is_restored_by_a_member_and_not_by_a_newcomer(world):
    world.join()
    world.join()
    rounds(world, 6, (500, 500))
    world.redis.flushall()
    newcomer = world.join()
    assert not world.renew(2)
    assert newcomer.share == 0.0
    world.renew(0)
    rounds(world, 5, (500, 500, 500), members=(0, 2))
    # The other has not said yet what it holds.
    assert list(newcomer.status()["silent"].values()) == [None]
    world.check_shares()
    assert newcomer.share == pytest.approx(0.25, rel=0.1)  # half of what the first brought along
    rounds(world, 8, (500, 500, 500))
    assert shares(world) == pytest.approx([1 / 3] * 3, rel=0.06)


@needs_redis
def test_a_redis_that_restarts_with_old_data_begins_anew(tmp_path):
    server = Server(tmp_path)
    server.start()
    world = World(server, tmp_path)
    try:
        world.join()
        world.join()
        rounds(world, 6, (500, 0))
        rounds(world, 1, (500, 500), members=(1,))
        usual, calls = world.members[0]._call, []

        def saved_in_between(request):
            calls.append(usual(request))
            if len(calls) == 2:
                raise Lost
            world.redis.save()
            return calls[0]

        world.members[0]._call = saved_in_between
        assert not world.members[0].renew()  # lowers its share: recorded, not saved, not confirmed
        world.members[0]._call = usual
        rounds(world, 1, (500, 500), members=(1,))
        assert shares(world) == pytest.approx([0.5, 0.5], rel=0.06)
        server.kill()
        assert (tmp_path / "dump.rdb").exists()
        server.start()  # with data in which the first still holds nearly all
        for _ in range(3):
            world.renew(0)
            world.check_shares()
        rounds(world, 30, (500, 0))
        assert world.members[0].share > 0.8
        world.check_shares()
    finally:
        world.close()
        server.kill()


MEMBER_PROCESS = """
import struct, sys, time
from planning.runtime import LeasedCapacity, LeasedThrottle
url, name, member, home = sys.argv[1:]
with open(f"{home}/log", "ab", buffering=0) as log:
    with LeasedCapacity(url, name, member=member, path=f"{home}/lease", renew_s=0.1) as lease:
        throttle = LeasedThrottle(lease)
        while True:
            began = time.monotonic()
            throttle.before(began, 50)
            passed = throttle.allowed()  # greedy: whatever the limit allows
            throttle.after(passed)
            if passed:
                log.write(struct.pack("<ddd", began, time.monotonic(), passed))
            time.sleep(0.003)
"""


class Host:
    """A member in a process and a folder of its own."""

    def __init__(self, server, name, home):
        home.mkdir()
        self.home = home
        self.command = [sys.executable, "-c", MEMBER_PROCESS, server.url, name, home.name]
        self.start()

    def start(self):
        self.process = subprocess.Popen([*self.command, str(self.home)])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def log(self):
        path = self.home / "log"
        data = path.read_bytes() if path.exists() else b""
        return np.frombuffer(data[: len(data) // 24 * 24]).reshape(-1, 3)

    def passes(self, units=20.0):
        """Wait until it has passed more."""
        before, deadline = self.log()[:, 2].sum(), time.monotonic() + 20.0
        while self.log()[:, 2].sum() < before + units:
            assert time.monotonic() < deadline, f"{self.home.name} passes nothing"
            assert self.process.poll() is None
            time.sleep(0.02)


@needs_redis
def test_hosts_and_redis_are_killed_paused_and_back(tmp_path):
    """Three hosts and a newcomer on one capacity, at once, in every window."""
    capacity, slack = 600.0, 120.0
    server = Server(tmp_path)
    server.start()
    hosts = []
    try:
        LeasedCapacity.create(server.url, "fleet", capacity_per_s=capacity, slack=slack)
        hosts += [Host(server, "fleet", tmp_path / f"host-{n}") for n in range(3)]
        for host in hosts:
            host.passes()
        hosts[0].kill()
        hosts[1].passes(60.0)
        hosts[0].start()
        hosts[0].passes()
        hosts[1].process.send_signal(signal.SIGSTOP)
        server.kill()
        hosts[2].passes(60.0)  # goes on with its share
        hosts[0].kill()
        hosts[0].start()
        hosts[0].passes(60.0)  # and so does who is started while Redis is away
        server.start()  # without its data
        hosts.append(Host(server, "fleet", tmp_path / "host-3"))
        hosts[2].passes(60.0)
        hosts[1].process.send_signal(signal.SIGCONT)
        for host in hosts:
            host.passes(60.0)
    finally:
        for host in hosts:
            host.kill()
        server.kill()
    began, ended, units = np.concatenate([host.log() for host in hosts]).T
    order = np.argsort(ended, kind="stable")
    began, ended, units = began[order], ended[order], units[order]
    for start in np.unique(began):
        # What began and ended within a window has surely passed within it.
        inside = np.cumsum(np.where(began >= start, units, 0.0))
        allowed = capacity * (ended - start) + slack
        assert (inside <= allowed + 1e-6)[ended >= start].all()
    assert units.sum() > 500
