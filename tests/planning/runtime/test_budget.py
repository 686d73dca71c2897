import fcntl
import math
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import InvalidInput, StoreError
from planning.runtime import SharedBudget
from planning.runtime import budget as budget_module

draws = st.lists(
    st.tuples(st.integers(0, 50), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(draws=draws, slack=st.integers(0, 20))
def test_the_promise_holds_over_every_stretch(tmp_path_factory, draws, slack):
    """Brute force: for all i <= j, kept in (i, j] is at most the sum of z * offered plus slack."""
    with SharedBudget(tmp_path_factory.mktemp("b") / "ledger", slack=slack) as budget:
        credit, kept = [0.0], [0]
        for offered, wish, z in draws:
            wanted = int(wish * offered)
            granted = budget.take(offered, wanted, z)
            assert 0 <= granted <= wanted
            credit.append(credit[-1] + z * offered)
            kept.append(kept[-1] + granted)
        for i in range(len(kept)):
            for j in range(i, len(kept)):
                allowed = credit[j] - credit[i] + max(slack, 1)
                assert kept[j] - kept[i] <= allowed + 1e-6
        assert kept[-1] <= math.floor(credit[-1] + 1e-9) + slack
        assert budget.totals().offered == sum(offered for offered, _, _ in draws)
        assert budget.totals().kept == kept[-1]


@pytest.mark.parametrize("z", [0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
def test_a_fleet_that_wants_everything_gets_exactly_its_budget(tmp_path, z):
    with SharedBudget(tmp_path / "ledger", slack=0) as budget:
        kept = 0
        for n in range(1, 2001):
            kept += budget.take(1, 1, z)
            assert kept == math.floor(Fraction(z) * n)


def test_unused_tokens_are_saved_only_up_to_the_slack(tmp_path):
    with SharedBudget(tmp_path / "ledger", slack=10) as budget:
        assert budget.take(1000, 0, 0.5) == 0
        assert budget.take(100, 100, 0.5) == 60


FLEET = """
import sys
from planning.runtime import SharedBudget
path, rounds, z = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
granted = 0
with SharedBudget(path, slack=5, patience_s=float(sys.argv[4])) as budget:
    for i in range(rounds):
        granted += budget.take(1 + i % 7, 1 + i % 7, z)
        totals = budget.totals()
        assert totals.kept <= int(z * totals.offered + 1e-6) + 5, totals
    busy = budget.busy
    granted += budget.take(0, 0, z)
print(granted, busy)
"""


@pytest.mark.parametrize("patience_s", [1.0, 0.0])
def test_several_processes_share_one_budget(tmp_path, patience_s):
    rounds, z, processes = 2000, 0.3, 4
    command = [sys.executable, "-c", FLEET, str(tmp_path / "ledger"), str(rounds), str(z)]
    fleet = [
        subprocess.Popen([*command, str(patience_s)], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    results = [process.communicate()[0].split() for process in fleet]
    assert all(process.returncode == 0 for process in fleet)
    granted = sum(int(result[0]) for result in results)
    offered = processes * sum(1 + i % 7 for i in range(rounds))
    with SharedBudget(tmp_path / "ledger", slack=5) as budget:
        totals = budget.totals()
    if patience_s:
        assert (totals.offered, totals.kept) == (offered, granted)
        assert granted == math.floor(Fraction(z) * offered) + 5
    else:
        # A process that ended while the ledger was busy may leave its last draw unsettled.
        assert granted <= math.floor(z * offered + 1e-6) + 5
        assert granted >= 0.95 * z * offered


class Clock:
    """A clock that advances a quarter of a millisecond at every reading, and only then."""

    now = 0.0

    def monotonic(self):
        self.now += 0.00025
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_busy_ledger_never_blocks_and_is_settled_later(tmp_path, monkeypatch):
    path = tmp_path / "ledger"
    clock = Clock()
    monkeypatch.setattr(budget_module, "time", clock)
    with SharedBudget(path, slack=0, patience_s=0.001) as budget:
        assert budget.take(10, 10, 0.5) == 5
        other = os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        for offered, granted in ((10, 5), (1, 0)):
            started = clock.now
            assert budget.take(offered, offered, 0.5) == granted
            assert 0.001 <= clock.now - started <= 0.0015  # its patience, and one more look
        assert budget.busy == 2
        os.close(other)
        assert budget.take(1, 1, 0.5) == 1
        assert (budget.totals().offered, budget.totals().kept) == (22, 11)


def test_processes_killed_while_drawing_leave_a_sound_ledger(tmp_path):
    path = tmp_path / "ledger"
    SharedBudget(path, slack=0).close()
    for i in range(20):
        child = os.fork()
        if child == 0:
            try:
                budget = SharedBudget(path, slack=0)
                while True:
                    budget.take(10, 10, 0.5)
            finally:
                os._exit(1)
        time.sleep(0.003 + 0.0007 * i)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with SharedBudget(path, slack=0) as budget:
            totals = budget.totals()
            assert totals.offered % 10 == 0
            assert totals.kept == totals.offered // 2
    assert totals.offered > 0


def test_a_writer_that_dies_half_way_leaves_the_old_state(tmp_path, monkeypatch):
    class Torn:
        size = budget_module.SLOT.size
        unpack_from = staticmethod(budget_module.SLOT.unpack_from)

        def pack_into(self, ledger, at, *values):
            ledger[at : at + 8] = b"\xff" * 8
            raise KeyboardInterrupt

    path = tmp_path / "ledger"
    with SharedBudget(path, slack=0) as budget:
        budget.take(10, 10, 0.5)
        monkeypatch.setattr(budget_module, "SLOT", Torn())
        with pytest.raises(KeyboardInterrupt):
            budget.take(10, 10, 0.5)
        monkeypatch.undo()
    with SharedBudget(path, slack=0) as budget:
        assert (budget.totals().offered, budget.totals().kept) == (10, 5)
        assert budget.take(10, 10, 0.5) == 5


def test_files_that_are_no_ledger_are_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("important notes, longer than a ledger by far, really" * 3)
    before = path.read_text()
    with pytest.raises(InvalidInput, match=r"notes\.txt must be a budget ledger"):
        SharedBudget(path)
    assert path.read_text() == before
    with pytest.raises(StoreError, match="cannot be used as a budget ledger"):
        SharedBudget(tmp_path / "missing" / "ledger")
    with pytest.raises(InvalidInput, match="slack must be at least 0"):
        SharedBudget(tmp_path / "ledger", slack=-1)
    with SharedBudget(tmp_path / "ledger") as budget, pytest.raises(InvalidInput, match="z must"):
        budget.take(1, 1, 1.5)
