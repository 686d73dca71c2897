"""Flexible partitioning: split the most beneficial region, until there are l (Section V-A).

The engine keeps, for every region, its best division and the benefit of that; three rules define
"best". ``VOLUME`` and ``COUNT`` approximate the uniform grid and the equi-depth partitionings
for any l; ``DIVERSITY`` is QDPart (Equation 11), whose sums of squared errors are carried along
the sorted points, so that a region costs O(n * |U'| * log |U'|).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.sifter.model import LEAF, Partition
from planning.sifter.partitioners.sample import Sample
from planning.sifter.partitioners.trees import cut_between, partition_of
from planning.sifter.queries.matching import hit_counts

VOLUME, COUNT, DIVERSITY = 0, 1, 2


def grow(sample: Sample, points: FloatArray, regions: int, rule: int) -> Partition:
    """Split by ``rule`` until there are ``regions`` regions or no split gains anything."""
    hits = np.zeros(len(points))
    if rule == DIVERSITY:
        hits += hit_counts(points, sample.queries)
    whole = (np.ascontiguousarray(points), hits, sample.low, sample.high, sample.discrete)
    return partition_of(*_grow(*whole, rule, 2 * regions - 1))


@njit(cache=True)
def _grow(
    points: Any, hits: Any, low: Any, high: Any, discrete: Any, rule: int, nodes: int
) -> Any:
    """Return axis, cut and left child of every node, of which there are at most ``nodes``."""
    d = low.size
    items = np.arange(points.shape[0])
    start, stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    lows, highs = np.zeros((nodes, d)), np.zeros((nodes, d))
    axis, cut, left = np.full(nodes, LEAF), np.zeros(nodes), np.zeros(nodes, np.int64)
    benefit, best_axis = np.full(nodes, -1.0), np.zeros(nodes, np.int64)
    stop[0], lows[0], highs[0] = items.size, low, high
    width = high - low
    benefit[0], best_axis[0], cut[0] = _best_cut(
        points[items], hits, low, high, width, discrete, rule
    )
    used = 1
    while used + 1 < nodes:
        node = np.argmax(benefit[:used])
        if benefit[node] <= 0.0:
            break
        k = best_axis[node]
        axis[node], left[node] = k, used
        benefit[node] = -1.0
        part = items[start[node] : stop[node]].copy()
        to_left = points[part, k] < cut[node]
        middle = start[node] + to_left.sum()
        items[start[node] : middle] = part[to_left]
        items[middle : stop[node]] = part[~to_left]
        start[used], stop[used] = start[node], middle
        start[used + 1], stop[used + 1] = middle, stop[node]
        for child in range(used, used + 2):
            lows[child], highs[child] = lows[node], highs[node]
        highs[used, k], lows[used + 1, k] = cut[node], cut[node]
        for child in range(used, used + 2):
            part = items[start[child] : stop[child]]
            benefit[child], best_axis[child], cut[child] = _best_cut(
                points[part], hits[part], lows[child], highs[child], width, discrete, rule
            )
        used += 2
    return axis, cut, left


@njit(cache=True)
def _best_cut(
    points: Any, hits: Any, low: Any, high: Any, width: Any, discrete: Any, rule: int
) -> Any:
    """Return benefit, axis and place of the best division of one region by the rule."""
    if rule == VOLUME:
        return _halving(low, high, width, discrete)
    if rule == COUNT:
        return _median(points, width, discrete)
    best, axis, cut = -1.0, 0, 0.0
    for k in range(width.size):
        gain, below, above = _diversity(points[:, k] / width[k], points[:, k], hits)
        if gain > best:
            best, axis, cut = gain, k, cut_between(below, above, discrete[k])
    return best, axis, cut


@njit(cache=True)
def _halving(low: Any, high: Any, width: Any, discrete: Any) -> Any:
    """Halve the longest edge; the benefit is the volume."""
    best, longest, volume = -1, 0.0, 1.0
    for k in range(width.size):
        edge = (high[k] - low[k]) / width[k]
        volume *= edge
        cuttable = not discrete[k] or high[k] - low[k] >= 2.0
        if cuttable and edge > longest:
            best, longest = k, edge
    if best < 0:
        return -1.0, 0, 0.0
    middle = (low[best] + high[best]) / 2
    return volume, best, np.round(middle) if discrete[best] else middle


@njit(cache=True)
def _median(points: Any, width: Any, discrete: Any) -> Any:
    """Divide at the median of the most varied axis; the benefit is the number of points."""
    best, largest = -1, 0.0
    for k in range(width.size if len(points) > 1 else 0):
        column = points[:, k]
        variance = np.var(column) / (width[k] * width[k])
        # The variance of equal values may come out as rounding noise.
        if variance > largest and column.min() < column.max():
            best, largest = k, variance
    if best < 0:
        return -1.0, 0, 0.0
    ordered = np.sort(points[:, best])
    place = np.searchsorted(ordered, ordered[ordered.size // 2])
    if place == 0:
        place = np.searchsorted(ordered, ordered[0], side="right")
    cut = cut_between(ordered[place - 1], ordered[place], discrete[best])
    return float(len(points)), best, cut


@njit(cache=True)
def _diversity(scaled: Any, raw: Any, hits: Any) -> Any:
    """Scan the divisions along one axis: roof minus floor diversity (Equation 11).

    Returns the largest gain and the neighbours between which it lies.
    """
    best, below, above = -1.0, 0.0, 0.0
    m = raw.size
    if m < 2:
        return best, below, above
    order = np.argsort(scaled, kind="mergesort")
    x, h = scaled[order] - scaled.mean(), hits[order] - hits.mean()
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
        if gain > best and gain > 1e-12 * (1.0 + roof):
            best, below, above = gain, raw[order[j - 1]], raw[order[j]]
    return best, below, above
