"""The throttler problem with guarantees, written down anew for HiGHS, and small random streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

from planning.lira.model import ErrorAxis
from planning.lira.statistics import Grid, Statistics, levels_between, query_counts
from planning.streams import StreamDefinition, parse

SIDE_M, CELLS = 800.0, 8


class Reference:
    """Throttlers on the error axis: a_i, f_i above every line of the convex f, t, e_p."""

    def __init__(self, plan: Any, asked: list[tuple[int, float, int]]) -> None:
        """``asked`` are guarantees as (level, max_delta, priority)."""
        axis: ErrorAxis = plan.axis
        d, f = axis.curve.thresholds, axis.curve.hull
        bound = set(np.flatnonzero(plan.weight > 0).tolist()) | {level for level, _, _ in asked}
        self.levels = sorted(bound)
        self.priorities = sorted({p for _, _, p in asked}, reverse=True)
        n, self.weight = len(self.levels), plan.weight[self.levels]
        self.importance = self.weight * plan.ratio[self.levels]
        self.width = 2 * n + 1 + len(self.priorities)
        rows, right = [], []
        for i in range(n):
            for k in range(d.size - 1):
                slope = (f[k + 1] - f[k]) / (d[k + 1] - d[k])
                rows.append(self._row({i: slope, n + i: -1.0}))
                right.append(slope * d[k] - f[k])
            rows += [self._row({i: -1.0, 2 * n: 1.0}), self._row({i: 1.0, 2 * n: -1.0})]
            right += [0.0, plan.fairness_threshold]
        # Δ(a) lies above the lines through its first two and its next breakpoints.
        delta = axis.levels
        for level, most, priority in asked:
            i, e = self.levels.index(level), 2 * n + 1 + self.priorities.index(priority)
            for k in (0, 1) if d.size > 2 else (0,):
                slope = (delta[k + 1] - delta[k]) / (d[k + 1] - d[k])
                rows.append(self._row({i: slope, e: -most}))
                right.append(most - delta[k] + slope * d[k])
        rows.append(np.zeros(self.width))
        rows[-1][n : 2 * n] = self.weight
        self.rows, self.right = np.array(rows), np.array(right)
        self.bounds: list[Any] = [(d[0], d[-1])] * n + [(None, None)] * n + [(0.0, d[-1])]
        self.bounds += [(0.0, None)] * len(self.priorities)
        self.floor, self.scale = float(f[-1]), self.importance.sum() * (d[-1] - d[0])

    def _row(self, entries: dict[int, float]) -> np.ndarray:
        row = np.zeros(self.width)
        for place, value in entries.items():
            row[place] += value
        return row

    def _solve(self, cost: np.ndarray, load: float, bounds: list[Any]) -> float:
        right = np.append(self.right, load * self.weight.sum())
        found = linprog(cost, self.rows, right, bounds=bounds, method="highs")
        assert found.status == 0, found.message
        return float(found.fun)

    def least(self, load: float) -> list[float]:
        """Return the least excess of every priority, the highest first, one after another."""
        bounds, reached = list(self.bounds), []
        for p in range(len(self.priorities)):
            place = self.width - len(self.priorities) + p
            reached.append(max(0.0, self._solve(self._row({place: 1.0}), load, bounds)))
            bounds[place] = (0.0, reached[-1] + 1e-7)
        return reached

    def inaccuracy(self, load: float, excess: list[float]) -> float:
        """Return the least Σ m_i·a_i with these excesses."""
        bounds = list(self.bounds)
        for p, most in enumerate(excess):
            bounds[self.width - len(excess) + p] = (0.0, most + 1e-7)
        cost = np.zeros(self.width)
        cost[: len(self.levels)] = self.importance
        return self._solve(cost, load, bounds)


def looked_at(plan: Any, definition: StreamDefinition) -> list[tuple[int, float, int]]:
    """Return (level, max_delta, priority), cell by cell, from the definition as it is written."""
    width, height = plan.frame.cell_size
    found = set()
    for query in definition.queries.inline:
        if query.max_delta is None:
            continue
        (a, c), (b, d) = query.ranges["x"], query.ranges["y"]
        for iy in range(plan.frame.side):
            for ix in range(plan.frame.side):
                across = ix * width <= c and (ix + 1) * width > a
                upright = iy * height <= d and (iy + 1) * height > b
                if across and upright:
                    level = int(plan.raster[iy, ix])
                    found.add((level, float(query.max_delta), query.priority))
    return sorted(found)


def random_stream(rng: np.random.Generator) -> tuple[Statistics, StreamDefinition]:
    """Return statistics nobody measured and queries of which most have a guarantee."""
    low, high = 5.0, float(rng.choice([50.0, 100.0]))
    inline = []
    for i in range(int(rng.integers(2, 7))):
        corner, size = rng.uniform(0, 0.8 * SIDE_M, 2), rng.uniform(20, 300, 2)
        top = np.minimum(corner + size, SIDE_M)
        query: dict[str, Any] = {
            "name": f"q{i}", "weight": float(rng.choice([0.0, 1.0, 3.0])),
            "ranges": {n: [float(corner[k]), float(top[k])] for k, n in enumerate("xy")},
        }  # fmt: skip
        if i == 0 or rng.random() < 0.7:
            query["max_delta"] = float(np.round(rng.uniform(low, 1.1 * high), 2))
            query["priority"] = int(rng.integers(0, 3))
        inline.append(query)
    names = ("object_id", "time", "x", "y", "speed")
    definition = parse(
        {
            "stream": "cars", "family": "lira", "queries": {"inline": inline},
            "attributes": [{"name": n, "domain": [0, SIDE_M if n in "xy" else 1e9]} for n in names],
            "parameters": {
                "regions": int(rng.integers(2, 20)), "cells": CELLS, "levels": 12,
                "highest_threshold": high, "segments": int(rng.integers(1, 24)),
                "fairness_threshold": float(rng.choice([0.0, 10.0, 30.0, 200.0])),
                "departure": float(rng.choice([0.0, 3.0])) if rng.random() < 0.7 else None,
                "background": float(rng.choice([0.001, 0.3])),
            },
        },
        "cars.yaml",
    )  # fmt: skip
    nodes = rng.poisson(rng.exponential(20.0, (CELLS, CELLS)) * (rng.random((CELLS, CELLS)) < 0.7))
    nodes[0, 0] += 1
    rows = np.array([[*q["ranges"]["x"], *q["ranges"]["y"]] for q in inline])[:, [0, 2, 1, 3]]
    bounds = (0.0, 0.0, SIDE_M, SIDE_M)
    grid = Grid(bounds, nodes, np.ones((CELLS, CELLS)), query_counts(rows, CELLS, bounds))
    thresholds = levels_between(low, high)
    falls = (low / thresholds) ** rng.uniform(0.3, 1.5)
    bumps = 1.0 + float(rng.choice([0.0, 0.05])) * rng.normal(size=falls.size) * (thresholds > low)
    reports = np.maximum(np.rint(1e6 * falls * bumps), 1).astype(np.int64)
    errors = 0.3 * (thresholds - low) + np.where(thresholds > low, 1.5, 0.0)
    return Statistics(grid, 40, 5_000_000, thresholds, reports, errors), definition
