"""What a source node promises: the data path never waits, and starts are quick."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.rows import Row, best_of, measure, row
from planning import families
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.batches import read
from planning.examples import demo_definition, demo_plan, demo_samples, demo_store
from planning.runtime import FeedForwardThrottle, PlanClient, RunningShedder

ROWS = 500
SWAPS = 100
MOST_P999_S = 0.010
MOST_LONGEST_S = 0.050
MOST_IMPORT = 2.0
MOST_START = 4.0
LEAST_USED = 0.95


def run(quick: bool) -> list[Row]:
    return measure([imports, warm_starts, cold_starts, capacity, keyed_batches], quick)


def cold_starts(quick: bool) -> list[Row]:
    """Offer from process start on, with an empty compile cache, through a first plan and swaps."""
    rows = []
    for family in families.NAMES:
        with tempfile.TemporaryDirectory() as folder:
            node, control = _lived(Path(folder), family, 10 if quick else SWAPS)
        slow, longest = _tail(node["took"], control["took"])
        late, latest = _tail(node["late"], control["late"])
        swaps, first = node["counters"]["swaps"], node["first_plan_s"]
        rows.append(
            row(
                f"{family}: offer, cold cache, first plan and {swaps - 1} swaps, above a loop",
                f"p99.9 <= {1e3 * MOST_P999_S:g} ms, longest <= {1e3 * MOST_LONGEST_S:g} ms",
                f"{1e3 * slow:.1f} ms, {1e3 * longest:.1f} ms over {len(node['took'])} batches; "
                f"end of the batch {1e3 * late:.1f} ms, {1e3 * latest:.1f} ms late; first plan "
                f"after {first[0]:.1f} s",
                slow <= MOST_P999_S and longest <= MOST_LONGEST_S and not quick,
            )
        )
    return rows


def _tail(node: list[float], control: list[float]) -> tuple[float, float]:
    slow = np.quantile(node, 0.999) - np.quantile(control, 0.999)
    return float(slow), max(node) - max(control)


def _lived(folder: Path, family: str, swaps: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a node and its control side by side; publish a version whenever one is in force."""
    signer = _furnished(folder, family)
    store = Store(folder / "plans", TrustedKeys.of(signer))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.node_loop", kind, str(folder), str(swaps + 1)],
            env=environment,
        )
        for kind in ("control", "node")
    ]
    published = 1
    while processes[1].poll() is None:
        in_force = [status.version for status in store.nodes("bench")]
        if in_force == [published] and published <= swaps:
            _publish(store, signer, family)
            published += 1
        time.sleep(0.02)
    (folder / "done").touch()
    if any(process.wait() for process in processes):
        raise RuntimeError("a node or its control has failed")
    control, node = (json.loads((folder / kind).read_text()) for kind in ("control", "node"))
    return node, control


def _furnished(folder: Path, family: str) -> SigningKey:
    signer = SigningKey.load_or_create(folder / "keys")
    _publish(Store(folder / "plans", TrustedKeys.of(signer)), signer, family)
    samples = demo_samples(family)
    batch = {name: column[:ROWS].copy() for name, column in samples.items()}
    (folder / "batch").write_bytes(pickle.dumps(batch))
    return signer


def _publish(store: Store, signer: SigningKey, family: str) -> None:
    store.publish(
        "bench", demo_plan(family), family=family, signer=signer,
        created_at="2026-01-02T03:04:05Z",
    )  # fmt: skip


def warm_starts(quick: bool) -> list[Row]:
    """Compare a start to the plan in force, from a filled cache, with importing numpy and numba."""
    rows = []
    for family in families.NAMES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _furnished(folder, family)
            start = (
                "from planning.artifacts import TrustedKeys\n"
                "from planning.runtime import PlanClient, RunningShedder\n"
                f"trusted = TrustedKeys.load({str(folder / 'keys')!r})\n"
                f"client = PlanClient({str(folder / 'plans')!r}, 'bench', trusted=trusted)\n"
                "shedder = RunningShedder(client, load=0.5)\n"
                "assert client.poll(), client.last_error"
            )
            _seconds(start, folder)
            pairs = [
                (_seconds("import numpy, numba", folder), _seconds(start, folder))
                for _ in range(1 if quick else 5)
            ]
        imports_s, start_s = (min(times) for times in zip(*pairs, strict=True))
        rows.append(
            row(
                f"{family}: process start to plan in force, warm cache, against importing "
                "numpy and numba",
                f"<= {MOST_START:g}x",
                f"{start_s / imports_s:.2f}x ({start_s:.2f} s, {imports_s:.2f} s)",
                start_s <= MOST_START * imports_s,
            )
        )
    return rows


def imports(quick: bool) -> list[Row]:
    """Compare importing the runtime with importing numpy."""
    scripts = {
        "nothing": "pass",
        "numpy": "import numpy",
        "import planning.runtime": "import planning.runtime",
        "from planning.runtime import PlanClient, RunningShedder": (
            "from planning.runtime import PlanClient, RunningShedder"
        ),
    }
    best = dict.fromkeys(scripts, float("inf"))
    with tempfile.TemporaryDirectory() as name:
        for _ in range(3 if quick else 15):
            for what, script in scripts.items():
                best[what] = min(best[what], _seconds(script, Path(name)))
    rows = []
    for number, what in enumerate(list(scripts)[2:]):
        ratio = (best[what] - best["nothing"]) / (best["numpy"] - best["nothing"])
        rows.append(
            row(
                f"{what} against import numpy, the interpreter's start taken off",
                "reported" if number else f"<= {MOST_IMPORT:g}x",
                f"{ratio:.2f}x ({1e3 * (best[what] - best['nothing']):.0f} ms)",
                None if number else ratio <= MOST_IMPORT,
            )
        )
    return rows


def capacity(quick: bool) -> list[Row]:
    """Offer demo samples beyond a capacity: how much of it is used, and whether it ever exceeds."""
    rows = []
    for family in families.NAMES:
        used, excess = _used(family, 50 if quick else 500)
        promised = family in ("sifter", "fit")
        rows.append(
            row(
                f"{family}: capacity used under twice the load (lira: a seventh of the positions), "
                "and worst excess over capacity x time",
                f"{'>= 95 %' if promised else 'reported'}, <= slack",
                f"{100 * used:.1f} %, {excess:.2f} of the slack",
                (used >= LEAST_USED or not promised) and excess <= 1.0 + 1e-9,
            )
        )
    return rows


class Recording(FeedForwardThrottle):
    """Remembers what passed of every batch."""

    def __init__(self, capacity_per_s: float) -> None:
        super().__init__(capacity_per_s)
        self.passed: list[float] = []

    def after(self, passed: float, cut: float = 0.0) -> None:
        """Remember, then account as usual."""
        self.passed.append(passed)
        super().after(passed, cut)


def _used(family: str, batches: int) -> tuple[float, float]:
    now = [0.0]
    client = _client(family)
    samples = demo_samples(family)
    rows = 100
    probe = RunningShedder(client)
    probe.offer({name: column[:rows] for name, column in samples.items()})
    assert probe.shedder is not None
    offered = probe.shedder.units(read(samples, probe.shedder.schema))
    per_s = offered / len(next(iter(samples.values()))) * rows / 0.01
    throttle = Recording(per_s / (7.0 if family == "lira" else 2.0))
    shedder = RunningShedder(client, throttle, clock=lambda: now[0])
    size = len(next(iter(samples.values())))
    for tick in range(batches):
        now[0] = tick / 100
        index = np.arange(tick * rows, tick * rows + rows) % size
        shedder.offer({name: column[index] for name, column in samples.items()})
    units, times = np.array(throttle.passed), np.arange(batches) / 100
    flow = np.cumsum(units) - throttle.capacity_per_s * times
    excess = (flow - np.minimum.accumulate(flow - units)).max()
    late = times >= times[-1] / 5  # the slack that is saved up at first is not counted
    used = units[late].sum() / (throttle.capacity_per_s * np.count_nonzero(late) / 100)
    return float(used), float(excess / throttle.slack)


def keyed_batches(quick: bool) -> list[Row]:
    """Compare batches with a key to batches without one, through the running shedder."""
    items = 200_000 if quick else 1_000_000
    rng = np.random.default_rng(14)
    columns = {"price": rng.random(items) * 100, "volume": rng.random(items) * 1000}
    numbers = rng.integers(0, 2**60, items)
    forms = {
        "int64": (numbers, 1.5),
        "Arrow text": (pa.array([f"order-{number:x}" for number in numbers]), 5.0),
    }
    rows = []
    for form, (key, most) in forms.items():
        batch = {**columns, "order": key}
        offers = [partial(shedder.offer, batch) for shedder in (_running(), _running(key="order"))]
        pairs = [[best_of(1, offer).cpu for offer in offers] for _ in range(5 if quick else 15)]
        plain_s, keyed_s = (min(times) for times in zip(*pairs, strict=True))
        rows.append(
            row(
                f"a batch of {items:,} keyed by {form} against one without a key, sifter",
                f"<= {most:g}x",
                f"{keyed_s / plain_s:.2f}x ({1e9 * keyed_s / items:.1f} ns per item)",
                keyed_s <= most * plain_s,
            )
        )
    return rows


def _running(**options: Any) -> RunningShedder:
    return RunningShedder(_client("sifter"), load=0.5, **options)


def _client(family: str) -> PlanClient:
    store, _ = demo_store(family)
    client = PlanClient(store, demo_definition(family).stream, node="bench")
    client.poll()
    return client


def _seconds(script: str, folder: Path) -> float:
    """Return how long a fresh process takes for a script."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    return time.perf_counter() - begun
