"""What delivery over HTTP promises: news reaches everyone soon, and faults cost no throughput."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from headgate_serve.tokens import Tokens

from benchmarks.faults import FAULTS, Authority
from benchmarks.rows import Row, measure, row
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.artifacts.remote import Remote
from planning.examples import demo_plan, demo_samples
from planning.runtime import PlanClient, RunningShedder

CLIENTS = 2000
NEWS = 10
MOST_P99_S = 2.0
ROWS = 1000
LEAST_RATE = 0.90
PAIRS = 7
SLICE_S = 0.5
POLL_S = 0.5  # ten times as often as by default
REST_S = 5.0
EXPIRED, HOUR_OFF = "an expired certificate", "a clock an hour off"


def run(quick: bool) -> list[Row]:
    return measure([waiting_clients, rates_under_faults], quick)


def waiting_clients(quick: bool) -> list[Row]:
    """Publish while many wait on one server: how long until each has seen it."""
    clients, news = (200, 2) if quick else (CLIENTS, NEWS)
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        tokens = Tokens(Path(folder) / "tokens.json")
        token = tokens.add("fleet", ("ticks",))
        serve = ["planning.cli", "serve", "--store", place.store.root, "--tokens", tokens.path]
        with _process(*serve, "--port", "0") as server:
            url = server.stdout.readline().split()[-1]  # type: ignore[union-attr]
            fleet = ["benchmarks.waiting", url.rpartition(":")[2], token, clients, news]
            with _process(*fleet) as nodes:
                published = {}
                for number in range(news):
                    nodes.stdout.readline()  # type: ignore[union-attr]
                    time.sleep(1.0)
                    if number == 0:
                        before, rested = _cpu_s(server.pid), time.monotonic()
                        time.sleep(REST_S)
                        idle = (_cpu_s(server.pid) - before) / (time.monotonic() - rested)
                    began = time.monotonic()
                    published[place.publish()] = began
                times = json.loads(nodes.stdout.readline())  # type: ignore[union-attr]
            peak_mb = _peak_mb(server.pid)
    late = {
        kind: np.array([t - published[int(v)] for v, ts in times[kind].items() for t in ts])
        for kind in ("seen", "fetched")
    }
    p50, p99, longest = (*np.quantile(late["seen"], [0.5, 0.99]), late["seen"].max())
    fetched = np.quantile(late["fetched"], [0.5, 0.99])
    whole = late["seen"].size == clients * news
    return [
        row(
            f"{clients:,} clients wait on one server: a new version is seen, {news} publications",
            f"p99 <= {MOST_P99_S:g} s",
            f"p50 {p50:.2f} s, p99 {p99:.2f} s, longest {longest:.2f} s",
            bool(p99 <= MOST_P99_S and whole and not quick),
        ),
        row(
            "the same: its plan is fetched too",
            "reported",
            f"p50 {fetched[0]:.2f} s, p99 {fetched[1]:.2f} s",
            None,
        ),
        row(
            f"the server's CPU while {clients:,} wait, and its memory at most",
            "reported",
            f"{100 * idle:.1f} % of a core, {peak_mb:.0f} MB",
            None,
        ),
    ]


def rates_under_faults(quick: bool) -> list[Row]:
    """Offer batches while delivery fails in every way, in turn with delivery that works."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = _Place(folder)
        place.publish("other")
        authority = Authority(folder)
        os.environ["SSL_CERT_FILE"] = str(authority.path)
        certificates = [authority.issue("localhost", days) for days in (1, -1)]
        servers = [["benchmarks.faults", place.store.root, path] for path in certificates]
        with _process(*servers[0]) as good, _process(*servers[1]) as expired:
            ports = [
                int(server.stdout.readline().rpartition(":")[2])  # type: ignore[union-attr]
                for server in (good, expired)
            ]
            ratios = _rates(place, good, ports, folder, 1 if quick else PAIRS)
        del os.environ["SSL_CERT_FILE"]
    bar = f"offering batches of {ROWS:,} under each of {len(ratios)} faults of delivery"
    rows = []
    for index, clock in enumerate(("the rate", "the rate per CPU second")):
        found = {name: ratio[index] for name, ratio in ratios.items()}
        worst = min(found, key=found.__getitem__)
        rows.append(
            row(
                f"{bar}: {clock}, against no fault",
                "reported" if index else f">= {100 * LEAST_RATE:.0f} %",
                f"least {100 * found[worst]:.1f} % ({worst}), median "
                f"{100 * median(found.values()):.1f} %",
                None if index else found[worst] >= LEAST_RATE and not quick,
            )
        )
    return rows


def _rates(
    place: _Place, server: subprocess.Popen[str], ports: list[int], folder: Path, pairs: int
) -> dict[str, tuple[float, float]]:
    """Return the rates under each fault relative to those without: medians of pairs.

    Per second, and per second of this process's CPU, which other work on the machine leaves alone.
    """
    ahead_s = [0.0]

    def clock() -> float:
        return time.time() + ahead_s[0]

    trusted = TrustedKeys.of(place.signer)
    reader = Remote(f"https://localhost:{ports[0]}", trusted, token="t", timeout_s=1.0, clock=clock)
    client = PlanClient(
        reader, "ticks", node="edge-7", poll_interval_s=POLL_S, max_backoff_s=POLL_S,
        clock=clock, memory=folder / "memory",
    )  # fmt: skip
    logging.getLogger("planning").setLevel(logging.ERROR)
    shedder = RunningShedder(client, load=0.5)
    batch = {name: column[:ROWS].copy() for name, column in demo_samples("sifter").items()}

    def switch(name: str) -> None:
        reader._port = ports[name == EXPIRED]
        ahead_s[0] = 3600.0 if name == HOUR_OFF else 0.0
        print(name, file=server.stdin, flush=True)
        server.stdout.readline()  # type: ignore[union-attr]
        if name:  # something new, so that nothing is answered from memory
            place.publish("other")
            place.publish()
        client.wake()

    def shows(name: str) -> bool:
        """Whether the fault is in the status; without one, or off time, the newest is in force."""
        status = client.status()
        if name in ("", HOUR_OFF) and client.version < place.newest:
            return False
        return bool(status.problem or status.clock_skew_s) == bool(name)

    ratios = {}
    with client:
        _until(lambda: client.version > 0)
        _rate(shedder, batch)
        for name in (EXPIRED, HOUR_OFF, *FAULTS):
            found = []
            for _ in range(pairs):
                switch("")
                _until(partial(shows, ""))
                without = _rate(shedder, batch)
                switch(name)
                _until(partial(shows, name))
                found.append(np.divide(_rate(shedder, batch), without))
            by_wall, by_cpu = np.median(found, axis=0).tolist()
            ratios[name] = by_wall, by_cpu
            print(f"    {name}: {by_wall:.3f}, {by_cpu:.3f}", file=sys.stderr, flush=True)
    return ratios


def _rate(shedder: RunningShedder, batch: dict[str, np.ndarray]) -> tuple[float, float]:
    wall, cpu, batches = time.perf_counter(), time.process_time(), 0
    while (took := time.perf_counter() - wall) < SLICE_S:
        shedder.offer(batch)
        batches += 1
    return batches / took, batches / (time.process_time() - cpu)


def _until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not condition():
        if time.monotonic() > ends:
            raise RuntimeError("the fault does not show, or does not go away")
        time.sleep(0.01)


class _Place:
    """A store to publish to."""

    def __init__(self, folder: Path) -> None:
        self.signer = SigningKey.load_or_create(folder / "keys")
        self.store = Store(folder / "plans", TrustedKeys.of(self.signer))
        self.publish()

    def publish(self, stream: str = "ticks") -> int:
        self.newest = self.store.publish(
            stream, demo_plan("sifter"), family="sifter", signer=self.signer,
            created_at="2026-01-02T03:04:05Z",
        ).version  # fmt: skip
        return self.newest


@contextmanager
def _process(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Run a module in a process of its own, with as many open files as are allowed."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    process = subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024
