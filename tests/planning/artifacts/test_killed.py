"""Publishers that die, and publishers that race: real processes, real files."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys

PUBLISHER = Path(__file__).parent / "publisher.py"
KILLS = 60


class Publishers:
    """The publisher process that forks children on request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(PUBLISHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def start(self, log: str, count: int = 0, keep: int = 0) -> int:
        folder = self.folder
        line = f"{folder / 'plans'} {folder / 'keys'} ticks {folder / log} {count} {keep}"
        return int(self.ask(line))

    def reap(self) -> None:
        assert self.ask("") == "reaped"

    def told(self, log: str) -> list[int]:
        path = self.folder / log
        return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.fixture
def publishers(tmp_path):
    made = Publishers(tmp_path)
    yield made
    made.process.stdin.close()
    made.process.wait()


@pytest.fixture
def signer(tmp_path):
    return SigningKey.load_or_create(tmp_path / "keys")


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0, 5])
def test_a_publisher_killed_at_any_instant_leaves_a_readable_plan(
    tally, publishers, signer, tmp_path, keep
):
    rng = random.Random(20260102 + keep)
    store = Store(tmp_path / "plans", TrustedKeys.of(signer), temporary_max_age_s=0.05)
    tally.publish(store, signer)
    started = time.perf_counter()
    for i in range(5):
        newest = tally.publish(store, signer, tally.tally_plan(str(i))).version
    publication_s = (time.perf_counter() - started) / 5
    published, hit_inside = 0, 0
    for i in range(KILLS):
        child = publishers.start(f"log-{i}", keep=keep)
        if i % 3:
            while not publishers.told(f"log-{i}"):
                time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 2 * publication_s))
        os.kill(child, signal.SIGKILL)
        publishers.reap()

        versions = store.versions("ticks")
        assert versions == tuple(range(versions[0], versions[-1] + 1))
        assert versions[-1] >= newest
        told = publishers.told(f"log-{i}")
        assert told == list(range(newest + 1, newest + 1 + len(told)))
        # At most the publication under way is there without the child having said so.
        assert versions[-1] - newest - len(told) in (0, 1)
        published += len(told)
        unfinished = any((tmp_path / "plans").rglob(".tmp-*"))
        hit_inside += unfinished or versions[-1] - newest > len(told)
        report = store.verify("ticks")
        assert report.ok, report
        assert store.load("ticks").manifest.version == versions[-1]

        newest = tally.publish(store, signer).version
        assert newest == versions[-1] + 1
    # Without publications, and kills in the middle of them, this test would show nothing.
    assert published >= KILLS // 2
    assert hit_inside >= KILLS // 10
    assert not store.history("ticks").broken
    if not keep:
        assert store.versions("ticks") == tuple(range(1, newest + 1))
    time.sleep(0.1)
    tally.publish(store, signer)
    assert list((tmp_path / "plans").rglob(".tmp-*")) == []


CALLS = ("open", "write", "fsync", "link", "replace", "unlink", "mkdir", "close")


@pytest.mark.parametrize("action", ["publish", "rollback", "prune"])
def test_dying_before_any_system_call_leaves_everything_readable(tally, signer, tmp_path, action):
    """Each step of the action in turn is the last one."""
    store = Store(tmp_path / "plans", TrustedKeys.of(signer), temporary_max_age_s=0.0)
    for i in range(3):
        tally.publish(store, signer, tally.tally_plan(str(i)))

    def act() -> None:
        if action == "publish":
            tally.publish(store, signer, tally.tally_plan(f"new {store.newest('ticks')}"))
        elif action == "rollback":
            options = {"signer": signer, "created_at": tally.CREATED, "reason": ""}
            store.rollback("ticks", store.versions("ticks")[0], **options)
        else:
            store.prune("ticks", 1)

    for step in range(200):
        before = store.newest("ticks")
        if action == "prune" and len(store.versions("ticks")) < 3:
            tally.publish(store, signer, tally.tally_plan(f"more {step}"))
            tally.publish(store, signer, tally.tally_plan(f"yet more {step}"))
            before = store.newest("ticks")
        survived = die_at(step, act)
        history = store.history("ticks")
        assert not history.broken
        assert history[0].version in (before, before + 1)
        for found in history:
            report = store.verify("ticks", found.version)
            assert report.ok, (step, report)
        if survived:
            break
    assert survived
    assert step > 5
    assert tally.publish(store, signer).version == store.newest("ticks")


def die_at(step: int, act) -> bool:
    """Run ``act`` in a child that ends before its ``step``-th system call; False if it did."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            left = [step]
            for name in CALLS:
                setattr(os, name, mortal(getattr(os, name), left))
            act()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9), code
    return code == 0


def mortal(call, left):
    def wrapped(*arguments, **options):
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1
        return call(*arguments, **options)

    return wrapped


def test_publishers_at_once_share_no_version_and_lose_none(publishers, signer, tmp_path):
    logs = [f"log-{i}" for i in range(4)]
    for log in logs:
        publishers.start(log, count=25)
    publishers.reap()
    told = [publishers.told(log) for log in logs]
    assert [len(t) for t in told] == [25] * 4
    assert all(t == sorted(t) for t in told)
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))
    assert sorted(sum(told, [])) == list(range(1, 101)) == list(store.versions("ticks"))
    history = store.history("ticks")
    assert not history.broken
    assert [m.parent for m in history] == [*range(99, 0, -1), None]
    for version in store.versions("ticks"):
        assert store.verify("ticks", version).ok


def test_retention_among_publishers_never_removes_a_needed_payload(publishers, signer, tmp_path):
    """Publishers reuse payloads (equal plans) that retention is about to delete."""
    logs = [f"log-{i}" for i in range(3)]
    for log in logs:
        publishers.start(log, count=25, keep=2)
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))
    publishers.reap()
    told = sum((publishers.told(log) for log in logs), [])
    assert sorted(told) == list(range(1, 76))
    assert store.versions("ticks")[-1] == 75
    for version in store.versions("ticks"):
        assert store.verify("ticks", version).ok


def test_attempts_of_one_run_at_once_publish_once(tally, signer, tmp_path):
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for run in range(10):
                    tally.publish(store, signer, run=f"run-{run}")
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert sorted(m.run for m in store.history("ticks")) == sorted(f"run-{i}" for i in range(10))
