"""The set-up of Section 4.2: statistics from the first half of a trace, errors on the second.

Bars and the reproduced figures (:mod:`benchmarks.lira.experiments`) are measured in scenes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.lira.bench import Bench, Maps, Result
from benchmarks.lira.fleet import ThresholdMap
from benchmarks.lira.greedy import greedy_increment
from benchmarks.lira.trace import Trace, generate_trace
from benchmarks.lira.workload import Distribution, generate_queries
from planning.arrays import FloatArray
from planning.lira.model import ReductionCurve
from planning.lira.parameters import Parameters
from planning.lira.partition.regions import Partition, grid_side
from planning.lira.plan import Plan
from planning.lira.planner import solve
from planning.lira.planner.importance import update_weight
from planning.lira.printed.gridreduce import grid_reduce
from planning.lira.statistics import (
    Grid,
    Replay,
    Statistics,
    complete,
    grid,
    levels_between,
    query_counts,
    replay,
)

SNAPSHOT_EVERY = 20  # ticks
REPLAYED_NODES = 2000
REPLAYED_TICKS = 900


class Scene:
    """One seed: a trace, its statistics, and a bench on the part that no plan has seen.

    Parameters
    ----------
    seed
        Draws roads, cars and queries.
    cars, seconds
        Size of the generated trace.
    parameters
        Thresholds and fairness of all plans made here.
    trace
        Used instead of a generated one.
    warm_up, period, correct_every
        As for the :class:`~benchmarks.lira.bench.Bench`, in ticks and periods.
    """

    def __init__(
        self,
        seed: int,
        cars: int = 10_000,
        seconds: int = 3600,
        parameters: Parameters | None = None,
        trace: Trace | None = None,
        warm_up: int = 300,
        period: int = 60,
        correct_every: int = 1,
    ) -> None:
        self.seed = seed
        self.parameters = parameters or Parameters()
        self.trace = trace or generate_trace(seed, cars, seconds)
        half = self.trace.ticks // 2
        self.train = self.trace.part(0, half)
        self.bench = Bench(
            self.trace.part(half - warm_up, self.trace.ticks), self.parameters.lowest_threshold,
            warm_up=warm_up, period=period, correct_every=correct_every,
        )  # fmt: skip
        self.levels = levels_between(
            self.parameters.lowest_threshold, self.parameters.highest_threshold
        )
        self.replayed = replay_trace(self.train, self.levels, self.parameters.highest_speed)
        self.curve = ReductionCurve.even(
            self.parameters.lowest_threshold, self.parameters.highest_threshold,
            self.parameters.segments, self.levels, self.replayed.reports,
        )  # fmt: skip
        self._grids: dict[int, Grid] = {}  # by cells per side, without queries

    def queries(self, distribution: Distribution, count: int, side_m: float = 1000.0) -> FloatArray:
        """Draw queries around the nodes, at the first moment when most of them are present."""
        rng = np.random.default_rng([self.seed, 1])
        present = np.isfinite(self.train.positions[:, :, 0]).sum(axis=0)
        positions = self.train.positions[:, int(present.argmax())].astype(np.float64)
        there = positions[np.isfinite(positions[:, 0])]
        return generate_queries(rng, distribution, count, side_m, self.trace.bounds, there)

    def statistics(self, queries: FloatArray, cells: int) -> Statistics:
        """Return the statistics of the first part, with these queries."""
        if cells not in self._grids:
            x, y, speed = snapshots(self.train)
            self._grids[cells] = grid(x, y, speed, np.zeros((0, 4)), cells, self.trace.bounds)
        counted = replace(
            self._grids[cells], queries=query_counts(queries, cells, self.trace.bounds)
        )
        return complete(counted, self.levels, replace(self.replayed, objects=self.trace.nodes))

    def plan(self, queries: FloatArray, load: float, **changes: Any) -> Plan:
        """Make our plan for one operating point; ``changes`` are parameters."""
        chosen = self.parameters.model_copy(update={"throttle_fraction": load, **changes})
        cells = chosen.cells or grid_side(chosen.regions)
        return solve(self.statistics(queries, cells), queries, np.ones(len(queries)), chosen)

    def printed(
        self, queries: FloatArray, load: float, regions: int = 250, *, even: bool = False
    ) -> Maps:
        """Return the paper's LIRA: GRIDREDUCE (or Lira-Grid's even regions) and GREEDYINCREMENT."""
        cells = grid_side(regions)
        counted = self.statistics(queries, cells).grid
        fairness = self.parameters.fairness_threshold
        nodes = counted.nodes.astype(np.float64)
        if even:
            partition = Partition.even(cells, regions)
        else:
            partition = grid_reduce(nodes, counted.queries, self.curve, regions, load)
        m = partition.sums(counted.queries)
        w = partition.sums(update_weight(counted, False))

        def maps(z: float) -> ThresholdMap:
            throttlers = greedy_increment(m, w, self.curve, fairness, z)
            painted = partition.paint(throttlers).astype(np.float64)
            return ThresholdMap(self.trace.bounds, painted)

        return maps

    def measure(self, queries: FloatArray, maps: Maps, load: float) -> Result:
        """Run a fleet under ``maps`` and measure its errors."""
        return self.bench.measure(queries, maps, load)


def snapshots(trace: Trace) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return x, y and speed of all nodes at every ``SNAPSHOT_EVERY``-th tick."""
    last = trace.ticks - 1
    at = np.arange(0, last, SNAPSHOT_EVERY)
    here = trace.positions[:, at].reshape(-1, 2).astype(np.float64)
    then = trace.positions[:, at + 1].reshape(-1, 2).astype(np.float64)
    speed = np.hypot(*(then - here).T) / trace.tick_s
    there = np.isfinite(speed)
    return here[there, 0], here[there, 1], speed[there]


def replay_trace(trace: Trace, levels: FloatArray, highest_speed: float) -> Replay:
    """Replay dead reckoning over a part of a trace: some nodes, some minutes."""
    step = max(1, trace.nodes // REPLAYED_NODES)
    part = trace.positions[::step, :REPLAYED_TICKS]
    nodes, ticks, _ = part.shape
    ids = np.repeat(np.arange(nodes, dtype=np.float64), ticks)
    times = np.tile(np.arange(ticks, dtype=np.float64) * trace.tick_s, nodes)
    flat = part.reshape(-1, 2).astype(np.float64)
    return replay(ids, times, flat[:, 0], flat[:, 1], levels, highest_speed)
