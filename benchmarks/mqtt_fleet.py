"""Many devices on one broker: storms, and whether a receiver ever shows what is not so.

``python -m benchmarks.mqtt_fleet ADDRESS FAMILY KEYS FIRST COUNT LEDGER PACE_S`` is one process of
them; it is run, and killed, by :func:`storm`. Every node replays an entity of the demo stream.
Before it sends, it writes to the ledger what its receivers are to hold after that message: session,
sequence number, digest. Whatever a receiver shows as current must be in there.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.broker import Broker
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_definition, demo_plan, demo_samples
from planning.runtime.mqtt import Node, Receiver, publish_plan

LOAD = 0.5
NAMED = {"attributes": "machine", "lira": "object_id"}
PATIENCE_S = 180.0
Rows = dict[str, Any]


def digest(rows: Any) -> str:
    """Return a digest of what is known of a node's entities."""
    plain = sorted((entity, sorted(row.items())) for entity, row in rows.items())
    return hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()


class Recorded(Node):
    """A node that writes down what it is about to send."""

    ledger = -1

    def _send(self, message: bytes) -> None:
        self._record()
        super()._send(message)

    def _be_born(self) -> None:
        self._record(1)
        super()._be_born()

    def _record(self, ahead: int = 0) -> None:
        seq = (self.seq + ahead) % (1 << 16)
        line = f"{self.node} {self.session} {seq} {digest(self.twin.rows())}\n"
        os.write(self.ledger, line.encode())


def tracks(family: str) -> list[Rows]:
    """Return the demo stream, entity by entity."""
    samples = demo_samples(family)
    names = samples[NAMED[family]]
    return [
        {name: column[names == entity] for name, column in samples.items()}
        for entity in np.unique(names).tolist()
    ]


def item(track: Rows, family: str, tick: int) -> tuple[Rows, float]:
    """Return what a node measures at a tick, and when: the track over and over."""
    rows = len(next(iter(track.values())))
    lap, place = divmod(tick, rows)
    one = {name: column[place : place + 1] for name, column in track.items()}
    if family == "lira":
        shift = lap * (track["time"][-1] - track["time"][0] + 1.0)
        one = {**one, "time": one["time"] + shift}
        return one, float(one["time"][0])
    return one, float(tick)


def main(arguments: list[str]) -> None:
    """Run some nodes until killed."""
    address, family, keys, first, count, ledger, pace_s = arguments
    Recorded.ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    replayed = tracks(family)
    nodes = [
        Recorded(
            address, demo_definition(family).stream, f"{family}-{i}", family=family,
            trusted=TrustedKeys.load(keys), entity=("machine",), load=LOAD, memory=False,
            longest_wait_s=4.0,
        ).start()
        for i in range(int(first), int(first) + int(count))
    ]  # fmt: skip
    tick = 0
    while True:
        began = time.monotonic()
        for i, node in enumerate(nodes, int(first)):
            node.offer(*item(replayed[i % len(replayed)], family, tick))
            time.sleep(max(0.0, float(pace_s) / len(nodes) * 0.5))
        tick += 1
        time.sleep(max(0.0, float(pace_s) - (time.monotonic() - began)))


@dataclass
class Watch:
    """A receiver, and all that it has ever shown as current."""

    family: str
    address: str
    shown: set[tuple[str, int, int, str]] = field(default_factory=set)
    strange: int = 0

    def __post_init__(self) -> None:
        self.tracks = tracks(self.family)
        self.receiver = Receiver(
            self.address, demo_definition(self.family).stream, listener=self.see,
            longest_wait_s=4.0,
        )  # fmt: skip

    def see(self, node: str) -> None:
        """Write down what is shown, and compare it with the samples themselves."""
        shown = self.receiver.shown(node)
        if shown.state != "alive":
            return
        self.shown.add((node, shown.session, shown.seq, digest(shown.current)))
        track = self.tracks[int(node.rpartition("-")[2]) % len(self.tracks)]
        for row in shown.current.values():
            self.strange += sum(
                not self.true(track, name, *value)
                for name, value in row.items()
                if name not in ("vx", "vy")
            )

    def true(self, track: Rows, name: str, value: Any, time_s: float) -> bool:
        """Whether a value was measured at its time."""
        if self.family == "attributes":
            return bool(track[name][int(time_s) % len(track[name])] == value)
        span = track["time"][-1] - track["time"][0] + 1.0
        at = track["time"] == track["time"][0] + (time_s - track["time"][0]) % span
        return bool((np.abs(track[name][at] - value) < 0.006).any())

    def count(self, state: str) -> int:
        """Return how many nodes are in a state."""
        return list(self.receiver.states().values()).count(state)  # type: ignore[arg-type]


@dataclass
class Result:
    """What a storm has shown."""

    nodes: int
    shown: int = 0  # states of nodes that were shown as current
    wrong: int = 0  # of them, those that the node did not have
    strange: int = 0  # values that were not measured at their time
    current_in_outage: int = 0
    born_s: float = 0.0
    reborn_s: float = 0.0
    dead_s: float = 0.0
    dead: int = 0
    alive: int = 0
    lost: int = 0


def storm(folder: Path, counts: dict[str, int], per_process: int, pace_s: float) -> Result:
    """Run nodes; kill the broker and start it again; kill half of the nodes."""
    signer = SigningKey.load_or_create(folder / "keys")
    ledger = folder / "ledger"
    result = Result(sum(counts.values()))
    with Broker(folder) as broker:
        for family in counts:
            store = Store(folder / "plans", TrustedKeys.load(folder / "keys"))
            stream = demo_definition(family).stream
            store.publish(
                stream, demo_plan(family), family=family, signer=signer,
                created_at="2026-01-02T03:04:05Z",
            )  # fmt: skip
            publish_plan(broker.address, store, stream)
        watches = [Watch(family, broker.address) for family in counts]
        workers = [
            (family, min(per_process, count - first), _worker(
                [broker.address, family, folder / "keys", first,
                 min(per_process, count - first), ledger, pace_s]
            ))
            for family, count in counts.items()
            for first in range(0, count, per_process)
        ]  # fmt: skip
        try:
            for watch in watches:
                watch.receiver.start()

            def count(state: str) -> int:
                return sum(watch.count(state) for watch in watches)

            result.born_s = _until(lambda: count("alive") == result.nodes)
            time.sleep(3 * pace_s)
            broker.kill()
            _until(lambda: count("alive") == 0)
            result.current_in_outage = sum(
                bool(watch.receiver.shown(node).current)
                for watch in watches
                for node in watch.receiver.states()
            )
            time.sleep(pace_s)
            _republish(broker, folder, counts)
            result.reborn_s = _until(lambda: count("alive") == result.nodes)
            time.sleep(3 * pace_s)
            killed = workers[::2]
            for _, _, process in killed:
                process.kill()
            due = sum(size for _, size, _ in killed)
            result.dead_s = _until(lambda: count("dead") == due)
            time.sleep(3 * pace_s)
            result.dead, result.alive = count("dead"), count("alive")
        finally:
            for _, _, process in workers:
                process.kill()
                process.wait()
            for watch in watches:
                watch.receiver.stop()
    held = {tuple(line.split()) for line in ledger.read_text().splitlines()}
    for watch in watches:
        states = {(node, str(s), str(q), seen) for node, s, q, seen in watch.shown}
        result.shown += len(states)
        result.wrong += len(states - held)
        result.strange += watch.strange
        result.lost += watch.receiver.lost
    return result


def _republish(broker: Broker, folder: Path, counts: dict[str, int]) -> None:
    broker.start()
    store = Store(folder / "plans", TrustedKeys.load(folder / "keys"))
    for family in counts:
        publish_plan(broker.address, store, demo_definition(family).stream)


def _worker(arguments: list[Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.mqtt_fleet", *map(str, arguments)])


def _until(so: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not so():
        if time.monotonic() - began > PATIENCE_S:
            return float("inf")
        time.sleep(0.05)
    return time.monotonic() - began


if __name__ == "__main__":
    main(sys.argv[1:])
