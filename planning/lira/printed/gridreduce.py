"""GRIDREDUCE (Algorithm 1): drill down a quad-tree where most accuracy is gained.

As printed, with what it needs to run everywhere: any l (a split that would overshoot is not made),
l > α² (all cells become regions), α that is not a power of two (padded with empty cells). Known
weaknesses are kept, because this is the paper's partitioner: E[t] ignores n, speed and fairness.
For better regions see :mod:`planning.lira.partition.halving`.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.errors import InvalidInput, check_between
from planning.lira.model import ReductionCurve
from planning.lira.partition import pyramid
from planning.lira.partition.regions import Partition, padded


def grid_reduce(
    nodes: FloatArray,
    queries: FloatArray,
    curve: ReductionCurve,
    regions: int,
    throttle_fraction: float,
) -> Partition:
    """Return the (α, l)-partitioning of the grids ``nodes[iy, ix]`` and ``queries[iy, ix]``.

    >>> nodes, queries = np.ones((4, 4)), np.zeros((4, 4))
    >>> queries[0, 0] = 1
    >>> curve = ReductionCurve.of([5, 10, 15], [1.0, 0.5, 0.3])
    >>> grid_reduce(nodes, queries, curve, 7, 0.5).rectangles[:4].tolist()
    [[0, 0, 1, 1], [0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]]
    """
    z = check_between("throttle_fraction", throttle_fraction, 0, 1)
    if regions < 1:
        raise InvalidInput(f"regions must be at least 1, got {regions}")
    if nodes.shape != queries.shape or nodes.ndim != 2 or nodes.shape[0] != nodes.shape[1]:
        raise InvalidInput(
            f"nodes and queries must be square grids of one size, got {nodes.shape} and "
            f"{queries.shape}"
        )
    return grid_reduce_sums(nodes, queries, curve, regions, z)[0]


def grid_reduce_sums(
    nodes: FloatArray,
    queries: FloatArray,
    curve: ReductionCurve,
    regions: int,
    throttle_fraction: float,
) -> tuple[Partition, FloatArray, FloatArray]:
    """Return the partitioning with n_i and m_i of its regions, as Algorithm 1 does (line 21)."""
    side = nodes.shape[0]
    size = padded(side)
    n_tree, m_tree = pyramid.sum_up(nodes, size), pyramid.sum_up(queries, size)
    symbols = _grid_reduce(
        n_tree, m_tree, size, curve.thresholds, curve.hull, regions, throttle_fraction
    )
    partition = Partition.of(side, symbols)
    if size != side:
        return partition, partition.sums(nodes), partition.sums(queries)
    n, m = (_read_sums(tree, partition.rectangles, size) for tree in (n_tree, m_tree))
    return partition, n, m


@njit(cache=True)
def _read_sums(sums, rectangles, size):  # type: ignore[no-untyped-def]
    """Return the sums of regions that are nodes of the quad-tree."""
    of_regions = np.empty(rectangles.shape[0])
    for i in range(rectangles.shape[0]):
        x, y, w, _ = rectangles[i]
        across = size // w
        of_regions[i] = sums[(across * across - 1) // 3 + (y // w) * across + x // w]
    return of_regions


@njit(cache=True)
def _gain(m, n, gains, segment, d, f, rates, z, uniform):  # type: ignore[no-untyped-def]
    """CALCERRGAIN for the four children's m and n: E − E_p."""
    total_m = (m[0] + m[1]) + (m[2] + m[3])
    if total_m == 0.0:
        return 0.0
    segments = rates.size
    error = total_m * d[0]
    over = ((n[0] + n[1]) + (n[2] + n[3])) * (1.0 - z)  # updates still to be shed
    for i in range(4):
        segment[i] = 0
        gains[i] = 0.0
        if m[i] > 0.0:
            gains[i] = n[i] / m[i] * rates[0]
        elif n[i] > 0.0:
            over -= n[i] * (1.0 - f[segments])
    while over > 0.0:
        best = 0
        for i in range(1, 4):
            if gains[i] > gains[best]:
                best = i
        if gains[best] == 0.0:
            break
        k = segment[best]
        shed = n[best] * (f[k] - f[k + 1])
        step = d[k + 1] - d[k]
        if shed > over:
            step *= over / shed
        error += m[best] * step
        over -= shed
        segment[best] = k + 1
        gains[best] = n[best] / m[best] * rates[k + 1] if k + 1 < segments else 0.0
    return total_m * uniform - error


@njit(cache=True)
def _node_gain(  # type: ignore[no-untyped-def]
    level, y, x, n_tree, m_tree, bottom, d, f, rates, z, uniform, m, n, gains, segment
):
    if level == bottom:
        return -1.0
    for c in range(4):
        i = pyramid.node_at(level + 1, 2 * y + c // 2, 2 * x + c % 2)
        m[c] = m_tree[i]
        n[c] = n_tree[i]
    return _gain(m, n, gains, segment, d, f, rates, z, uniform)


@njit(cache=True)
def _grid_reduce(n_tree, m_tree, size, d, f, regions, z):  # type: ignore[no-untyped-def]
    bottom = pyramid.last_level(size)
    rates = (f[:-1] - f[1:]) / (d[1:] - d[:-1])
    uniform = d[-1]
    for k in range(rates.size):
        if f[k + 1] <= z:
            uniform = d[k] + (f[k] - z) / rates[k] if rates[k] > 0.0 else d[k]
            break
    uniform = max(uniform, d[0])
    split = np.zeros(n_tree.size, np.bool_)
    m4, n4, gains, segment = np.empty(4), np.empty(4), np.empty(4), np.empty(4, np.int64)
    gain = _node_gain(
        0, 0, 0, n_tree, m_tree, bottom, d, f, rates, z, uniform, m4, n4, gains, segment
    )
    heap = [(-gain, np.int64(0), np.int64(0), np.int64(0))]
    made = 1
    splits = 0
    while len(heap) > 0 and made + 3 <= regions:
        _, level, y, x = heapq.heappop(heap)
        if level == bottom:
            continue  # stays a region: a cell cannot be split
        split[pyramid.node_at(level, y, x)] = True
        splits += 1
        made += 3
        for c in range(4):
            cy, cx = 2 * y + c // 2, 2 * x + c % 2
            gain = _node_gain(
                level + 1, cy, cx, n_tree, m_tree, bottom, d, f, rates, z, uniform, m4, n4, gains,
                segment,
            )
            heapq.heappush(heap, (-gain, level + 1, cy, cx))
    return pyramid.halvings(split, bottom, splits)
