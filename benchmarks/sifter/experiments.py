"""The paper's experiments (Figures 3 to 10) and the flights, measured.

Quality is measured on fresh tuples that are actually shed; the server drops blindly whatever passes
above z. QoS slopes are those of Table I divided by their mean, [1, 2] / 1.5: the paper's axes show
random dropping at a QoS of about z, which slopes of mean 1.5 cannot give, and so the relative
improvement in QoS is defined at every z. Loss over the loss of random dropping does not depend on
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks.figures import Figure, curves
from benchmarks.sifter import recorded
from benchmarks.sifter.scene import LABELS, PAPER, WORKLOADS, Scene, drawn, flown
from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.sifter.demo import Settings
from planning.sifter.shedder import Shedder

LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
PARTITIONERS = (*PAPER, "cost_tree")
REGIONS = (4, 9, 16, 36, 64, 100)
DEFAULT = Settings(data="SKEW", query="UNIF", slope=(2 / 3, 4 / 3))
BY_LOAD = tuple(f"z = {z}" for z in LOADS)
IMPROVEMENT = "improvement over random dropping, %"


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    seeds: int
    fresh: int  # tuples per seed on which plans are measured
    points: int  # along skew axes


FULL = Effort(seeds=10, fresh=100_000, points=5)
QUICK = Effort(seeds=1, fresh=10_000, points=2)


def figure_3(effort: Effort) -> list[Figure]:
    """How unequal the regions of the approximate grid and equi-depth partitionings are."""
    by_volume, by_count = [], []
    for seed in range(effort.seeds):
        scene = _scene(DEFAULT, seed, effort.fresh)
        for regions in range(2, 33):
            grid = scene.plan("flexible_uniform_grid", regions)
            low, high = grid.partition.bounds(grid.space.low, grid.space.high)
            volumes = np.prod(high - low, axis=1)
            by_volume.append(volumes.max() / volumes.min())
            counts = scene.plan("flexible_data_equi_depth", regions).frequency
            by_count.append(counts.max() / counts.min())
    rows = (
        ("uniform grid, volume", float(max(by_volume))),
        ("data equi-depth, tuples", float(max(by_count))),
    )
    return [
        curves("figure-3", "Figure 3: flexible partitionings, l = 2 to 32", "",
               "largest region over smallest", ("approximation of", "at most"), rows)
    ]  # fmt: skip


def figure_4(effort: Effort) -> list[Figure]:
    """Overall QoS by partitioner under global and local skew."""
    figures = []
    for skew, symbol in (("global_skew", "G"), ("local_skew", "L")):
        for data, query in WORKLOADS:
            rows = []
            for value in np.linspace(2, 10, effort.points).tolist():
                settings = replace(DEFAULT, data=data, query=query, **{skew: value})
                measure = partial(_qualities, PARTITIONERS, 16, 0.5)
                rows.append((value, *_mean(effort, settings, measure)))
            figures.append(
                curves(
                    name=f"figure-4-{symbol}-{data}-{query}",
                    title=f"Figure 4, {skew.replace('_', ' ')}: {data}/{query}, l = 16, z = 0.5",
                    x_label=f"{skew.replace('_', ' ')} {symbol}",
                    y_label="overall QoS",
                    columns=(symbol, "random", *(LABELS[n] for n in PARTITIONERS)),
                    rows=tuple(rows),
                )
            )
    return figures


def figure_5(effort: Effort) -> list[Figure]:
    """Improvement by number of regions."""
    figures = []
    for name in ("data_equi_depth", "cost_tree"):
        rows = [
            (regions, *_mean(effort, DEFAULT, partial(_improvements, name, regions)))
            for regions in REGIONS
        ]
        title = f"Figure 5: {LABELS[name]}, SKEW/UNIF"
        figures.append(
            curves(f"figure-5-{name}", title, "number of regions l", IMPROVEMENT,
                   ("l", *BY_LOAD), tuple(rows))
        )  # fmt: skip
    return figures


def figures_6_and_7(effort: Effort) -> list[Figure]:
    """Time of construction, and decisions per second, by number of regions."""
    scene = drawn(DEFAULT, 1, fresh=2 * effort.fresh)
    build, decide = [], []
    for regions in REGIONS:
        times, rates = [], []
        for name in PARTITIONERS:
            plan = scene.plan(name, regions)
            times.append(1e3 * _best_time(partial(scene.plan, name, regions)))
            taken = _best_time(partial(Shedder(plan, 0.5).offer, scene.fresh))
            rates.append(len(scene.fresh) / taken / 1e6)
        build.append((regions, *times))
        decide.append((regions, *rates))
    columns = ("l", *(LABELS[n] for n in PARTITIONERS))
    return [
        curves("figure-6", "Figure 6: construction from 1,000 samples and 1,000 queries",
               "number of regions l", "milliseconds", columns, tuple(build)),
        curves("figure-7", "Figure 7: decisions in batches", "number of regions l",
               "million tuples per second", columns, tuple(decide)),
    ]  # fmt: skip


def growth(effort: Effort) -> list[Figure]:
    """Time of construction with the cost tree, l = 100, by number of samples and of queries."""
    rows = []
    for size in (1000, 3000, 10_000, 30_000, 100_000)[: effort.points]:
        many_samples = drawn(DEFAULT, 1, samples=size, fresh=1000)
        many_queries = drawn(replace(DEFAULT, queries=size), 1, fresh=1000)
        times = [
            1e3 * _best_time(partial(scene.plan, "cost_tree", 100))
            for scene in (many_samples, many_queries)
        ]
        rows.append((size, *times))
    columns = ("size", "samples, with 1,000 queries", "queries, with 1,000 samples")
    return [
        curves("growth", "Growth of construction: cost tree, l = 100", "samples, or queries",
               "milliseconds", columns, tuple(rows), log=True)
    ]  # fmt: skip


def figure_8(effort: Effort) -> list[Figure]:
    """Overall QoS by throttle fraction."""
    figures = []
    names = tuple(f"{data}/{query}" for data, query in WORKLOADS)
    for partitioner in ("data_equi_depth", "cost_tree"):
        lines = [
            _mean(effort, replace(DEFAULT, data=data, query=query),
                  partial(_quality_by_load, partitioner))
            for data, query in WORKLOADS
        ]  # fmt: skip
        rows = tuple((z, *values) for z, *values in zip(LOADS, *lines, strict=True))
        figures.append(
            curves(f"figure-8-{partitioner}", f"Figure 8: {LABELS[partitioner]}, l = 16",
                   "throttle fraction z", "overall QoS", ("z", *names), rows)
        )  # fmt: skip
    return figures


def figure_9(effort: Effort) -> list[Figure]:
    """Improvement by fairness threshold."""
    rows = []
    for delta in (0.1, 0.2, 0.4, 0.6, 0.8, 0.9):
        measure = partial(_improvements, "data_equi_depth", 16, fairness_threshold=delta)
        rows.append((delta, *_mean(effort, DEFAULT, measure)))
    return [
        curves("figure-9", "Figure 9: DEDP, SKEW/UNIF, l = 16", "fairness threshold Δ",
               IMPROVEMENT, ("Δ", *BY_LOAD), tuple(rows))
    ]  # fmt: skip


def figure_10(effort: Effort) -> list[Figure]:
    """Improvement by query side length."""
    rows = []
    for side in (0.01, 0.02, 0.03, 0.04, 0.05):
        settings = replace(DEFAULT, side=(side, side))
        rows.append((side, *_mean(effort, settings, partial(_improvements, "data_equi_depth", 16))))
    return [
        curves("figure-10", "Figure 10: DEDP, SKEW/UNIF, l = 16", "query side length",
               IMPROVEMENT, ("side", *BY_LOAD), tuple(rows))
    ]  # fmt: skip


def real_data(effort: Effort) -> list[Figure]:
    """Loss on the flights of 2013; left out where the data set is missing."""
    try:
        points = recorded.read()
    except InvalidInput:
        return []
    figures = []
    for regions in (16, 81):
        losses: dict[str, list[Any]] = {name: [] for name in PARTITIONERS}
        for seed in range(max(1, effort.seeds // 2)):
            scene = flown(seed, points, fresh=effort.fresh)
            for name, by_seed in losses.items():
                by_seed.append(scene.losses(scene.plan(name, regions), LOADS))
        rows = tuple((LABELS[n], *np.mean(v, axis=0).tolist()) for n, v in losses.items())
        figures.append(
            curves(f"flights-{regions}", f"Flights of 2013, 1,000 queries, l = {regions}", "",
                   "loss over random dropping", ("partitioner", *BY_LOAD), rows)
        )  # fmt: skip
    return figures


EXPERIMENTS: tuple[Callable[[Effort], list[Figure]], ...] = (
    figure_3, figure_4, figure_5, figures_6_and_7, figure_8, figure_9, figure_10, growth, real_data,
)  # fmt: skip


@lru_cache(maxsize=16)
def _scene(settings: Settings, seed: int, fresh: int) -> Scene:
    return drawn(settings, seed, fresh=fresh)


def _mean(effort: Effort, settings: Settings, measure: Callable[[Scene], Any]) -> list[float]:
    """Return the mean of a measurement over the seeds."""
    by_seed = [measure(_scene(settings, seed, effort.fresh)) for seed in range(effort.seeds)]
    return [float(value) for value in np.mean(by_seed, axis=0)]


def _qualities(names: Sequence[str], regions: int, z: float, scene: Scene) -> list[float]:
    """Return the overall QoS of random dropping and of each partitioner."""
    random = 1.0 - scene.random_loss(z)
    losses = [scene.losses(scene.plan(name, regions), (z,))[0] for name in names]
    return [random, *(1.0 - loss * scene.random_loss(z) for loss in losses)]


def _quality_by_load(name: str, scene: Scene) -> FloatArray:
    """Return the overall QoS at every load, l = 16."""
    random_loss = np.array([scene.random_loss(z) for z in LOADS])
    return np.asarray(1.0 - scene.losses(scene.plan(name, 16), LOADS) * random_loss)


def _improvements(name: str, regions: int, scene: Scene, **more: Any) -> FloatArray:
    """Return by how many per cent the QoS exceeds that of random dropping, at every load."""
    random_loss = np.array([scene.random_loss(z) for z in LOADS])
    saved = (1.0 - scene.losses(scene.plan(name, regions, **more), LOADS)) * random_loss
    return np.asarray(100.0 * saved / (1.0 - random_loss))


def _best_time(work: Callable[[], Any], repeats: int = 9) -> float:
    """Return the least processor time of some repetitions, after a first one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
