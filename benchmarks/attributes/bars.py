"""How each bar is measured."""

from __future__ import annotations

import numpy as np

from benchmarks.attributes import experiments, recorded
from benchmarks.attributes.workload import stream
from benchmarks.rows import Row, best_of, row
from planning.attributes import cycles
from planning.attributes.parameters import Parameters
from planning.attributes.path import solve
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder
from planning.errors import PlanningError

HALF = recorded.CYCLES // 2
BATCH = 50_000


def real_weather(quick: bool) -> list[Row]:
    """Measure what needs the recorded weather."""
    try:
        return [*_weather(quick), *_channel(quick)]
    except PlanningError as error:
        return [row("real weather", "data", str(error), None)]


def frontier(quick: bool) -> list[Row]:
    instances = 500 if quick else 5000
    wrong = experiments.selection_mismatches(instances)
    rng = np.random.default_rng(2)
    sizes, loss = rng.integers(1, 65, 60), rng.random(60)
    periods = (1, 2, 3, 4, 6, 8, 12, 24)
    plain = best_of(
        5, lambda: solve([[int(s), 0] for s in sizes], [[0.0, float(v)] for v in loss])
    ).cpu
    rich = best_of(
        3,
        lambda: solve(
            [[int(s) * 24 // k for k in periods] for s in sizes],
            [[float(v) * (1 - 1 / k) for k in periods] for v in loss],
        ),
    ).cpu
    return [
        row(
            f"selection against brute force, {instances} instances, every budget",
            "0 differ", f"{wrong} differ", wrong == 0,
        ),
        row("frontier of 60 attributes, sent or shed", "< 0.5 s", f"{plain:.4f} s", plain < 0.5),
        row("frontier of 60 attributes, 8 periods each", "< 0.5 s", f"{rich:.3f} s", rich < 0.5),
    ]  # fmt: skip


def cycle_identifier(quick: bool) -> list[Row]:
    seeds = 20 if quick else 120
    streams, wrong = experiments.wrong_cycles(seeds)
    shuffled, false = experiments.false_cycles(seeds)
    rng = np.random.default_rng(3)
    million = stream(rng, 10_000, (100,), (0.9,) * 7, twins=1, constants=1)
    seconds = best_of(3, lambda: cycles.detect(million)).cpu
    length = cycles.detect(million).length
    size = f"{len(million['key0']):,} tuples x {len(million)} attributes"
    return [
        row(
            f"CID on {streams} generated streams, up to 5 % lost, doubled, corrupted "
            f"({seeds} seeds)", "0 wrong", f"{wrong} wrong", wrong == 0,
        ),
        row(f"cycles in {shuffled} shuffled streams", "0", str(false), false == 0),
        row(
            f"detection, {size}", "< 3 s, length 100", f"{seconds:.2f} s, length {length}",
            seconds < 3 and length == 100,
        ),
    ]  # fmt: skip


def capacity(quick: bool) -> list[Row]:
    streams = 100 if quick else 1000
    offered, violations = experiments.capacity_violations(streams)
    bar = f"windows beyond C, {streams} random streams, {offered:,} tuples, C changing"
    return [row(bar, "0", str(violations), violations == 0)]


def speed(quick: bool) -> list[Row]:
    rng = np.random.default_rng(4)
    samples = stream(rng, 2000 if quick else 5000, (100,), tuple(np.linspace(0.2, 0.999, 11)))
    samples["key0"] = np.arange(len(samples["key0"])) % 100
    rows = len(samples["key0"])
    values = rows * len(samples)
    batches = [
        {n: c[start : start + BATCH] for n, c in samples.items()}
        for start in range(0, rows, BATCH)
    ]
    measured = []
    for method in experiments.METHODS:
        plan = plan_samples({n: c[:50_000] for n, c in samples.items()}, Parameters(method=method))
        shedder = Shedder(plan, 0.5)
        seconds = best_of(5, lambda s=shedder: [s.send(batch) for batch in batches]).cpu
        rate = values / seconds / 1e6
        measured.append(
            row(
                f"shedder, {method}, million values per second of one core",
                ">= 20", f"{rate:.0f}", rate >= 20,
            )  # fmt: skip
        )
    return measured


def _weather(quick: bool) -> list[Row]:
    train, test = recorded.load(0, HALF), recorded.load(HALF, HALF // (4 if quick else 1))
    compared = {
        (c.method, c.load): c
        for c in experiments.compare(experiments.METHODS, (0.8, 0.5), train, test)
    }
    rows = []
    for method, load, least in (
        ("periods", 0.8, 5.0), ("periods", 0.5, 1.5), ("on_change", 0.5, 10.0),
    ):  # fmt: skip
        one = compared[method, load]
        fits = one.fullest_window <= one.capacity
        rows.append(
            row(
                f"weather, {method}, C/R {load:g}: tuple dropping's hold error over ours",
                f">= {least:g}, no window above C",
                f"{one.gain:.1f}, fullest window {one.fullest_window} of {one.capacity} B",
                one.gain >= least and fits,
            )
        )
    for method, load in (("paper", 0.8), ("paper", 0.5), ("selection", 0.8), ("on_change", 0.8)):
        one = compared[method, load]
        rows.append(row(f"weather, {method}, C/R {load:g}: same", "-", f"{one.gain:.2f}", None))
    return rows


def _channel(quick: bool) -> list[Row]:
    train = recorded.multiplexed(recorded.load(0, HALF))
    test = recorded.multiplexed(recorded.load(HALF, HALF // (4 if quick else 1)))
    rows = []
    for method in ("selection", "periods", "on_change"):
        losses = experiments.share_channel(method, (0.8, 0.5, 0.3), train, test)
        for place, load in enumerate((0.8, 0.5, 0.3)):
            pooled, even = losses["pooled"][place], losses["proportional"][place]
            judged = method != "on_change" and load > 0.4
            rows.append(
                row(
                    f"channel of three streams, {method}, C/R {load:g}: pooled over proportional",
                    "<= 0.5" if judged else "-",
                    f"{pooled / even:.2f} ({pooled:.4f} / {even:.4f})",
                    pooled <= 0.5 * even if judged else None,
                )
            )
    return rows
