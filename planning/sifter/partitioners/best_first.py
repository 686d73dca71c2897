"""Flexible partitioning: split the most beneficial region, until there are l (Section V-A).

The engine keeps, for every region, its best division and the benefit of it; three rules say what
best means. ``VOLUME`` and ``COUNT`` approximate the uniform grid and the equi-depth partitionings
for any l; ``DIVERSITY`` is QDPart (Equation 11), whose sums of squared errors are carried along
the sorted points, so that a region costs O(n * |U'| * log |U'|).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from planning.arrays import FloatArray, IntArray
from planning.sifter.partition import LEAF, Partition, cut_between
from planning.sifter.partitioners.sample import Sample

VOLUME, COUNT, DIVERSITY = 0, 1, 2


def grow(
    sample: Sample, points: FloatArray, hits: IntArray | None, regions: int, rule: int
) -> Partition:
    """Split by ``rule`` until there are ``regions`` regions or no split brings anything."""
    nodes = 2 * regions - 1
    dimension = np.full(nodes, LEAF, dtype=np.int64)
    below, above = np.zeros(nodes), np.zeros(nodes)
    left = np.zeros(nodes, dtype=np.int64)
    values = np.zeros(len(points)) if hits is None else hits.astype(np.float64)
    _grow(
        np.ascontiguousarray(points), values, sample.low, sample.high, sample.discrete, rule,
        dimension, below, above, left,
    )  # fmt: skip
    return Partition.from_nested(_nested(dimension, below, above, left, sample.discrete))


def _nested(dimension: Any, below: Any, above: Any, left: Any, discrete: Any) -> Any:
    """Turn the engine's arrays into a tree; children of a node stand side by side."""
    done: dict[int, Any] = {}
    for n in reversed(range(len(dimension))):
        axis = int(dimension[n])
        if axis == LEAF:
            done[n] = None
            continue
        cut = (
            float(below[n])
            if below[n] == above[n]
            else cut_between(float(below[n]), float(above[n]), bool(discrete[axis]))
        )
        done[n] = (axis, cut, done[int(left[n])], done[int(left[n]) + 1])
    return done[0]


@njit(cache=True)
def _grow(
    points: Any, values: Any, low: Any, high: Any, discrete: Any, rule: int,
    dimension: Any, below: Any, above: Any, left: Any,
) -> None:  # fmt: skip
    """Fill the node arrays; a cut lies between ``below`` and ``above`` of its node."""
    nodes, d = dimension.size, low.size
    items = np.arange(points.shape[0])
    start, stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    lows, highs = np.zeros((nodes, d)), np.zeros((nodes, d))
    benefit = np.full(nodes, -1.0)
    axis, floor, ceiling = np.zeros(nodes, np.int64), np.zeros(nodes), np.zeros(nodes)
    stop[0], lows[0], highs[0] = items.size, low, high
    width = high - low
    _propose(points, values, items, start, stop, lows, highs, width, discrete, rule, 0,
             benefit, axis, floor, ceiling)  # fmt: skip
    used = 1
    while used + 1 < nodes:
        node = np.argmax(benefit[:used])
        if benefit[node] <= 0.0:
            break
        k = axis[node]
        dimension[node], below[node], above[node], left[node] = k, floor[node], ceiling[node], used
        cut = floor[node] if floor[node] == ceiling[node] else (floor[node] + ceiling[node]) / 2
        part = items[start[node] : stop[node]].copy()
        coordinates = points[part, k]
        to_left = coordinates < cut if floor[node] == ceiling[node] else coordinates <= floor[node]
        middle = start[node] + to_left.sum()
        items[start[node] : middle] = part[to_left]
        items[middle : stop[node]] = part[~to_left]
        for child in range(used, used + 2):
            lows[child], highs[child] = lows[node], highs[node]
        highs[used, k], lows[used + 1, k] = cut, cut
        start[used], stop[used], start[used + 1], stop[used + 1] = (
            start[node], middle, middle, stop[node],
        )  # fmt: skip
        benefit[node] = -1.0
        for child in range(used, used + 2):
            _propose(points, values, items, start, stop, lows, highs, width, discrete, rule, child,
                     benefit, axis, floor, ceiling)  # fmt: skip
        used += 2


@njit(cache=True)
def _propose(
    points: Any, values: Any, items: Any, start: Any, stop: Any, lows: Any, highs: Any,
    width: Any, discrete: Any, rule: int, node: int, benefit: Any, axis: Any, floor: Any,
    ceiling: Any,
) -> None:  # fmt: skip
    """Find the best division of one region by the rule."""
    d = width.size
    part = items[start[node] : stop[node]]
    if rule == VOLUME:
        best, volume = -1, 1.0
        for k in range(d):
            edge = (highs[node, k] - lows[node, k]) / width[k]
            volume *= edge
            cuttable = not discrete[k] or highs[node, k] - lows[node, k] >= 2.0
            longer = best < 0 or edge > (highs[node, best] - lows[node, best]) / width[best]
            if cuttable and longer:
                best = k
        if best >= 0:
            middle = (lows[node, best] + highs[node, best]) / 2
            middle = np.round(middle) if discrete[best] else middle
            benefit[node], axis[node] = volume, best
            floor[node], ceiling[node] = middle, middle
        return
    if part.size < 2:
        return
    if rule == COUNT:
        best, largest = -1, 0.0
        for k in range(d):
            column = points[part, k]
            variance = np.var(column) / (width[k] * width[k])
            # The variance of equal values may come out as rounding noise.
            if variance > largest and column.min() < column.max():
                best, largest = k, variance
        if best >= 0:
            ordered = np.sort(points[part, best])
            place = np.searchsorted(ordered, ordered[ordered.size // 2])
            if place == 0:
                place = np.searchsorted(ordered, ordered[0], side="right")
            benefit[node], axis[node] = float(part.size), best
            floor[node], ceiling[node] = ordered[place - 1], ordered[place]
        return
    for k in range(d):
        _diversity(points[part, k] / width[k], points[part, k], values[part], k, node,
                   benefit, axis, floor, ceiling)  # fmt: skip


@njit(cache=True)
def _diversity(
    scaled: Any, raw: Any, hits: Any, k: int, node: int, benefit: Any, axis: Any, floor: Any,
    ceiling: Any,
) -> None:  # fmt: skip
    """Scan the divisions along one axis: roof minus floor diversity (Equation 11)."""
    order = np.argsort(scaled, kind="mergesort")
    x, h = scaled[order] - scaled.mean(), hits[order] - hits.mean()
    m = x.size
    all_x, all_xx, all_h, all_hh = x.sum(), (x * x).sum(), h.sum(), (h * h).sum()
    roof = (all_xx - all_x * all_x / m) * (all_hh - all_h * all_h / m)
    sx = sxx = sh = shh = 0.0
    for j in range(1, m):
        sx += x[j - 1]
        sxx += x[j - 1] * x[j - 1]
        sh += h[j - 1]
        shh += h[j - 1] * h[j - 1]
        if raw[order[j]] == raw[order[j - 1]]:
            continue
        rest = m - j
        left = max(0.0, sxx - sx * sx / j) * max(0.0, shh - sh * sh / j)
        rx, rh = all_x - sx, all_h - sh
        right = max(0.0, all_xx - sxx - rx * rx / rest) * max(0.0, all_hh - shh - rh * rh / rest)
        gain = roof - left - right
        # The tolerance keeps rounding noise from counting as a benefit where all hits are equal.
        if gain > benefit[node] and gain > 1e-12 * (1.0 + roof):
            benefit[node], axis[node] = gain, k
            floor[node], ceiling[node] = raw[order[j - 1]], raw[order[j]]
