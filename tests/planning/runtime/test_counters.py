import threading

from planning.runtime import Counters
from planning.runtime.counters import GAUGES, HELP, prometheus


def test_every_counter_is_described():
    assert set(Counters().snapshot()) <= set(HELP)
    assert set(HELP) >= GAUGES


def test_a_snapshot_adds_up_while_another_thread_counts():
    counters = Counters()
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counters.kept += 3
            counters.dropped += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(5000):
            snapshot = counters.snapshot()
            assert snapshot["offered"] == snapshot["kept"] + snapshot["dropped"]
    finally:
        stop.set()
        thread.join()
    assert counters.offered > 0


def test_labels_are_escaped():
    text = prometheus({"kept": 1}, {"node": 'a"b\\c\nd'})
    assert text.splitlines()[-1] == 'headgate_kept_total{node="a\\"b\\\\c\\nd"} 1'
    assert prometheus({"kept": 1}, {}).splitlines()[-1] == "headgate_kept_total 1"
