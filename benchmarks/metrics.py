"""What it costs to be seen: metrics scraped every second and a status every heartbeat."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.rows import Row, best_of, measure, row
from planning.arrays import Columns
from planning.examples import demo_definition, demo_samples, demo_store
from planning.runtime import Counters, PlanClient, RunningShedder, metrics
from planning.shedder import Decision

FAMILIES = ("sifter", "attributes")
ITEMS = 1000
MOST = 0.01
EVERY_S = 1.0  # fifteen times as often as Prometheus does by default
REPEATS = 50
COUNTED = 10_000


def run(quick: bool) -> list[Row]:
    return measure([cost_in_a_batch, batches_beside_a_scraper], quick)


def running(family: str) -> tuple[RunningShedder, Columns]:
    """Return a shedder with a plan in force, and a batch."""
    store, _ = demo_store(family)
    client = PlanClient(store, demo_definition(family).stream, node="bench", memory=False)
    client.poll()
    shedder = RunningShedder(client, load=0.5)
    batch = {name: column[:ITEMS] for name, column in demo_samples(family).items()}
    shedder.offer(batch)
    return shedder, batch


def scraper() -> Callable[[], bytes]:
    """Return what answers a scrape."""
    registry = CollectorRegistry()
    registry.register(metrics.Collector())
    return lambda: generate_latest(registry)


def cost_in_a_batch(quick: bool) -> list[Row]:
    """Add up the CPU of counting, scraping and reporting that falls to one batch.

    Between two scrapes a busy core decides on ``EVERY_S / batch`` batches, so that the part of a
    scrape that falls to one is ``scrape * batch / EVERY_S``: noise cannot decide.
    """
    return [_cost(family, 3 if quick else 10) for family in FAMILIES]


def _cost(family: str, repeats: int) -> Row:
    shedder, batch = running(family)
    client = shedder.client

    def report() -> None:
        client.store.report(client.stream, client.status())

    def cpu(work: Callable[[], object]) -> float:
        return best_of(repeats, lambda: [work() for _ in range(REPEATS)]).cpu / REPEATS

    batch_s, scrape_s, report_s = cpu(lambda: shedder.offer(batch)), cpu(scraper()), cpu(report)
    counting_s = best_of(repeats, _count).cpu / COUNTED
    shares = counting_s / batch_s, scrape_s / EVERY_S, report_s / client.heartbeat_s
    return row(
        f"{family}: metrics and status, CPU of a batch of {ITEMS:,} items ({1e6 * batch_s:.0f} µs)",
        f"<= {MOST:.0%}",
        f"{sum(shares):.2%} (counting {shares[0]:.2%}, a scrape per second of "
        f"{1e3 * scrape_s:.2f} ms {shares[1]:.2%}, a status per {client.heartbeat_s:g} s of "
        f"{1e3 * report_s:.2f} ms {shares[2]:.3%})",
        sum(shares) <= MOST,
    )


def _count() -> None:
    """Count what is counted of a batch only so that it can be shown."""
    counters, decision = Counters(), Decision(np.zeros(0, dtype=np.bool_), 500)
    for _ in range(COUNTED):
        counters.offered_units += ITEMS
        counters.kept_units += decision.units
        if decision.cut:
            raise AssertionError


def batches_beside_a_scraper(quick: bool) -> list[Row]:
    """Time batches in turns with and without a thread that scrapes every second."""
    rows, turns, seconds = [], 3 if quick else 9, 1.0 if quick else 2.0
    for family in FAMILIES:
        shedder, batch = running(family)
        scrape = scraper()
        ratios = []
        for _ in range(turns):
            without = _cpu_of_a_batch(shedder, batch, seconds)
            stop = threading.Event()
            thread = threading.Thread(target=_scrape_until, args=(stop, scrape))
            thread.start()
            beside = _cpu_of_a_batch(shedder, batch, seconds)
            stop.set()
            thread.join()
            ratios.append(beside / without - 1.0)
        rows.append(
            row(
                f"{family}: the same by comparing batches with and without a scraper, CPU",
                "",
                f"median {statistics.median(ratios):+.2%} of {turns} turns "
                f"({min(ratios):+.2%} to {max(ratios):+.2%})",
                None,
            )
        )
    return rows


def _scrape_until(stop: threading.Event, scrape: Callable[[], bytes]) -> None:
    while not stop.wait(EVERY_S / 2):
        scrape()
        stop.wait(EVERY_S / 2)


def _cpu_of_a_batch(shedder: RunningShedder, batch: Columns, seconds: float) -> float:
    done, cpu, end = 0, time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < end:
        shedder.offer(batch)
        done += 1
    return (time.process_time() - cpu) / done
