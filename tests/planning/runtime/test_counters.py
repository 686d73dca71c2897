import threading

from planning.runtime import Counters
from planning.runtime.counters import DROPPED


def test_a_snapshot_adds_up_and_never_falls_while_another_thread_counts():
    counters = Counters()
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counters.kept += 3
            for reason in DROPPED:
                setattr(counters, reason, getattr(counters, reason) + 1)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counters.snapshot()
        for _ in range(5000):
            snapshot = counters.snapshot()
            assert snapshot["offered"] == snapshot["kept"] + snapshot["dropped"]
            assert snapshot["dropped"] == sum(snapshot[reason] for reason in DROPPED)
            assert all(snapshot[name] >= before[name] for name in snapshot)
            before = snapshot
    finally:
        stop.set()
        thread.join()
    assert counters.offered > 0


def test_a_snapshot_has_every_counter():
    counters = Counters()
    assert set(counters.snapshot()) == {*vars(counters), "offered", "dropped"}
