"""One capacity over several hosts: what passes together, through faults, and what a lease costs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, best_of, measure, row
from planning.arrays import FloatArray
from planning.examples import demo_samples, demo_store
from planning.runtime import (
    FeedForwardThrottle,
    LeasedCapacity,
    LeasedThrottle,
    PlanClient,
    RunningShedder,
)

CAPACITY, SLACK = 2000.0, 400.0
LEAST_USED = 0.9
BATCHES = 500

HOST = """
import struct, sys, time
from planning.runtime import LeasedCapacity, LeasedThrottle
url, home, offered = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(f"{home}/log", "ab", buffering=0) as log:
    with LeasedCapacity(url, "fleet", member="host", path=f"{home}/lease", renew_s=0.25) as lease:
        throttle, carry = LeasedThrottle(lease), 0.0
        while True:
            began = time.monotonic()
            carry += throttle.before(began, offered) * offered
            passed = min(int(carry), throttle.allowed())
            throttle.after(passed, int(carry) - passed)
            carry -= int(carry)
            log.write(struct.pack("<ddd", began, time.monotonic(), passed))
            time.sleep(0.01)
"""


def run(quick: bool) -> list[Row]:
    if not shutil.which("redis-server"):
        return [row("leases", "redis-server", "not installed", None)]
    return measure([used, faults, data_path, renewals], quick)


class Server:
    """A Redis server on a socket in a folder, without persistence."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        """Start with no data."""
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not self.socket.exists():
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it; what it knew is gone."""
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)


@contextmanager
def _fleet(
    offered: tuple[int, ...],
) -> Iterator[tuple[Server, list[subprocess.Popen[bytes]], Path]]:
    """Run a server, and hosts in folders of their own; units are offered 100 times a second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(folder)
        hosts: list[subprocess.Popen[bytes]] = []
        try:
            LeasedCapacity.create(server.url, "fleet", capacity_per_s=CAPACITY, slack=SLACK)
            for number, units in enumerate(offered):
                (folder / str(number)).mkdir()
                hosts.append(_host(server, folder / str(number), units))
            _passing(*(folder / str(number) for number in range(len(offered))))
            yield server, hosts, folder
        finally:
            for host in hosts:
                host.kill()
                host.wait()
            server.kill()


def _host(server: Server, home: Path, offered: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HOST, server.url, str(home), str(offered)])


def _passing(*homes: Path) -> None:
    """Wait until every host has let more pass."""
    before = {home: _passed(home) for home in homes}
    deadline_s = time.monotonic() + 60.0
    while any(_passed(home) <= units for home, units in before.items()):
        if time.monotonic() > deadline_s:
            raise TimeoutError("a host lets nothing pass")
        time.sleep(0.05)


def _passed(home: Path) -> float:
    log = home / "log"
    return float(_table(log)[:, 2].sum()) if log.exists() else 0.0


def _table(log: Path) -> FloatArray:
    """Return when each batch began and ended, and what passed of it."""
    data = log.read_bytes()
    return np.frombuffer(data[: len(data) // 24 * 24]).reshape(-1, 3)


def _logs(folder: Path) -> FloatArray:
    """Return the batches of all hosts, by end."""
    table = np.concatenate([_table(log) for log in sorted(folder.glob("*/log"))])
    return table[np.argsort(table[:, 1], kind="stable")]


def _most_beyond(table: FloatArray) -> float:
    """Return the most that any window passes beyond capacity x time."""
    began, ended, units = table[table[:, 2] > 0].T
    most = -np.inf
    for start in np.unique(began):
        inside = np.cumsum(np.where(began >= start, units, 0.0)) - CAPACITY * (ended - start)
        most = max(most, float(inside[ended >= start].max()))
    return most


def used(quick: bool) -> list[Row]:
    """Offer one host little and two more than the capacity; count what passes once settled."""
    seconds = 4.0 if quick else 15.0
    with _fleet((4, 30, 60)) as (_, _, folder):
        time.sleep(3.0)  # until shares are fair
        start = time.monotonic()
        time.sleep(seconds)
        table = _logs(folder)
    settled = table[(table[:, 0] >= start) & (table[:, 1] <= start + seconds)]
    share = settled[:, 2].sum() / (CAPACITY * seconds)
    return [
        row(
            "capacity used by three hosts with demands of 0.2, 1.5 and 3 x capacity",
            f">= {LEAST_USED:.0%}",
            f"{share:.1%} over {seconds:.0f} s",
            bool(share >= LEAST_USED),
        )
    ]


def faults(quick: bool) -> list[Row]:
    """Kill a host, pause one, kill Redis and bring it back empty, with a newcomer."""
    pause_s = 1.0 if quick else 4.0
    with _fleet((60, 60, 60)) as (server, hosts, folder):
        time.sleep(pause_s)
        hosts[0].kill()
        hosts[0].wait()
        hosts[1].send_signal(signal.SIGSTOP)
        time.sleep(pause_s)
        server.kill()
        hosts[0] = _host(server, folder / "0", 60)
        _passing(folder / "0")
        time.sleep(1.0 + pause_s)
        away = time.monotonic()
        server.start()
        (folder / "3").mkdir()
        hosts.append(_host(server, folder / "3", 60))
        _passing(folder / "3")
        hosts[1].send_signal(signal.SIGCONT)
        time.sleep(pause_s)
        _passing(folder / "1")
        table = _logs(folder)
    most = _most_beyond(table)
    alone = table[(table[:, 0] >= away - 1.0) & (table[:, 1] <= away)][:, 2].sum()
    return [
        row(
            "passed beyond capacity x time in any window: host killed, host paused, Redis killed "
            "and back empty, newcomer",
            f"<= slack = {SLACK:g}",
            f"{most:.1f}; without Redis two of three hosts pass {alone / CAPACITY:.0%} of it",
            0.0 < most <= SLACK,
        )
    ]


def data_path(quick: bool) -> list[Row]:
    """Time batches of 1,000 items with a lease and with a plain throttle."""
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        try:
            LeasedCapacity.create(server.url, "fleet", capacity_per_s=1e7)
            with LeasedCapacity(server.url, "fleet", member="m", path=Path(name) / "m") as lease:
                throttles = {"plain": FeedForwardThrottle(1e7), "leased": LeasedThrottle(lease)}
                # The best of several turns each: other work on the machine comes and goes.
                turns = [
                    {key: (_throttle_s(each), _offer_s(each)) for key, each in throttles.items()}
                    for _ in range(2 if quick else 6)
                ]
        finally:
            server.kill()
    alone = {key: min(turn[key][0] for turn in turns[1:]) for key in throttles}
    whole = {key: min(turn[key][1] for turn in turns[1:]) for key in throttles}
    more = alone["leased"] - alone["plain"]
    return [
        row(
            "lease on the data path, a batch of 1,000 items",
            "reported",
            f"throttle {1e6 * alone['plain']:.1f} us plain, {1e6 * alone['leased']:.1f} us leased: "
            f"{more / whole['plain']:.1%} of a batch of {1e6 * whole['plain']:.0f} us "
            f"({1e6 * whole['leased']:.0f} us with the lease)",
            None,
        )
    ]


def _throttle_s(throttle: FeedForwardThrottle) -> float:
    def work() -> None:
        for _ in range(BATCHES):
            throttle.before(time.monotonic(), 1000)
            throttle.after(min(500, throttle.allowed()))

    return best_of(5, work).wall / BATCHES


def _offer_s(throttle: FeedForwardThrottle) -> float:
    store, _ = demo_store("sifter")
    client = PlanClient(store, "ticks", node="bench")
    shedder = RunningShedder(client, throttle)
    client.poll()
    batch = {name: np.resize(column, 1000) for name, column in demo_samples("sifter").items()}
    return best_of(5, lambda: [shedder.offer(batch) for _ in range(BATCHES)]).wall / BATCHES


def renewals(quick: bool) -> list[Row]:
    """Time the renewals of a fleet of many members, one after the other."""
    members = 20 if quick else 100
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        try:
            LeasedCapacity.create(server.url, "fleet", capacity_per_s=CAPACITY, slack=SLACK)
            fleet = [
                LeasedCapacity(server.url, "fleet", member=f"m{n}", path=Path(name) / f"m{n}")
                for n in range(members)
            ]
            for member in fleet:
                member.open()
            for _ in range(10):
                for member in fleet:
                    member.renew()
            took = best_of(3, lambda: [member.renew() for member in fleet], warm=False).wall
            total = sum(member.share for member in fleet)
            for member in fleet:
                member.close()
        finally:
            server.kill()
    return [
        row(
            f"a renewal among {members} members",
            "reported",
            f"{1e3 * took / members:.2f} ms; shares add up to {total:.3f}",
            None,
        )
    ]
