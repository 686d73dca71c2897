"""Members of a fleet in virtual time, and the Redis servers that they reach."""

import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from planning.runtime import LeasedCapacity
from planning.runtime.leases import capacity as leases
from planning.runtime.leases.capacity import WHOLE

redis = pytest.importorskip("redis")
REDIS_SERVER = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(not REDIS_SERVER, reason="redis-server is not installed")
CAPACITY, SLACK = 100.0, 40.0
NAMES = count()


class Server:
    """A Redis server of the test's own, reached through a socket in its folder."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process = None

    def start(self) -> None:
        command = [REDIS_SERVER, "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.socket.parent)
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert self.process.poll() is None
                    time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)


@contextmanager
def running(folder):
    """Run a server while a test or a module needs it."""
    if not REDIS_SERVER:
        pytest.skip("redis-server is not installed")
    server = Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Lost(Exception):
    """A message that did not arrive."""


class World:
    """Members, and the Redis servers that they reach, in virtual time.

    A server is a key of the test's Redis; a copy of an older state that names another process as
    its writer is what a replica has when it is promoted.
    """

    def __init__(self, server, folder, clock=None, **options):
        self.server, self.folder, self.clock = server, folder, clock or Clock()
        self.options = options
        self.redis = redis.Redis.from_url(server.url)
        self.names = [f"w{next(NAMES)}"]
        LeasedCapacity.create(server.url, self.names[0], capacity_per_s=CAPACITY, slack=SLACK)
        self.members = []
        self.late = []
        self.passed = []
        self.under_way = {}
        self.sums = []
        self.old = self.dump(0)

    def key(self, place):
        return f"headgate:capacity:{self.names[place]}"

    def dump(self, place):
        return self.redis.dump(self.key(place))

    def replica(self, state):
        """Add a server that has an older state, written by another process."""
        self.names.append(f"w{next(NAMES)}")
        if state is not None:
            key = self.key(-1)
            self.redis.restore(key, 0, state, replace=True)
            content = json.loads(self.redis.hget(key, "state"))
            self.redis.hset(key, "state", json.dumps(content | {"server": "another"}))

    def join(self, **options):
        number = len(self.members)
        self.members.append(None)
        self.boot(number, **options)
        return self.members[number]

    def boot(self, number, **options):
        old = self.members[number]
        if old is not None:  # killed
            old._unlock()
            self.under_way.pop(number, None)
        member = LeasedCapacity(
            self.server.url,
            self.names[0],
            member=f"m{number}",
            path=self.folder / f"{self.names[0]}-{number}",
            clock=self.clock,
            **(self.options | options),
        )
        change = member.bucket.change

        def observed(*how):
            change(*how)
            self.sums.append(sum(m._memory.share for m in self.members if m and m._file >= 0))

        member.bucket.change = observed
        member.open()
        member.place = 0 if old is None else old.place
        member._call = lambda request: self.call(member.place)(request)
        self.members[number] = member

    def call(self, place):
        return leases.connect(self.server.url, self.names[place])

    def renew(self, number, fault=""):
        """Renew with a network that works, or that loses or delays one of the messages."""
        member = self.members[number]
        call = self.call(member.place)
        usual = member._call
        faults = iter([fault] if fault.startswith("first") else ["", fault])

        def faulty(request):
            fault = next(faults, "")
            if fault.endswith("late"):
                self.late.append((call, json.loads(json.dumps(request))))
            if fault.endswith(("request", "late")):
                raise Lost
            reply = call(request)
            if fault.endswith("reply"):
                raise Lost
            return reply

        member._call = faulty
        try:
            return member.renew()
        finally:
            member._call = usual

    def deliver(self):
        for call, request in reversed(self.late):
            call(request)
        self.late.clear()

    def begin(self, number, units):
        self.end(number)
        _, granted = self.members[number].reserve(units, units)
        self.under_way[number] = (self.clock.now, granted)

    def end(self, number):
        if number in self.under_way:
            began, granted = self.under_way.pop(number)
            self.members[number].settle(granted, granted)
            self.passed.append((began, self.clock.now, granted))

    def check_shares(self):
        """Check the sum after every change of a share, also within a renewal."""
        assert max(self.sums, default=0) <= WHOLE, shares(self)

    def close(self):
        for member in self.members:
            member._unlock()


def check_windows(passed, capacity, slack):
    """Whatever surely passed within a window, for every window, by brute force."""
    for start in sorted({began for began, _, _ in passed}):
        units = 0
        for _, end, more in sorted((e, e, u) for b, e, u in passed if b >= start):
            units += more
            allowed = capacity * (end - start) + slack
            assert units <= allowed + 1e-6, (start, end, units, allowed)


def rounds(world, number, demands, members=None):
    """Let members renew once a second, with a demand per second."""
    for _ in range(number):
        world.clock.now += 1.0
        for each in range(len(demands)) if members is None else members:
            world.members[each].reserve(demands[each], 0)
            world.renew(each)


def shares(world):
    return [member.share for member in world.members]
