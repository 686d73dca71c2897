"""Which tuples match which queries, without comparing every pair.

A k-d tree over the points (median cuts, buckets of a few points) is walked once per query box: a
subtree whose bounding box lies inside the query counts as a whole, one outside not at all. The
cost per box grows with the surface of the box, not with the product of points and queries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.sifter.queries import Queries

BUCKET = 16  # points in a leaf, about
MANY = 1  # sample points that show how data are spread inside a query
DISJOINT, CROSSING, INSIDE = 0, 1, 2


class PointIndex(NamedTuple):
    """A balanced k-d tree over points; node k has children 2k + 1 and 2k + 2."""

    points: FloatArray  # in tree order
    order: IntArray  # tree order -> original index
    start: IntArray  # first point of each node
    stop: IntArray
    low: FloatArray  # bounding boxes of the nodes' points
    high: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> PointIndex:
        """Index the points; NaN coordinates match no query and are left out."""
        points = np.ascontiguousarray(points, dtype=np.float64)
        known = np.flatnonzero(~np.isnan(points).any(axis=1))
        order = known.astype(np.int64)
        levels = max(0, int(np.ceil(np.log2(max(1, order.size) / BUCKET))))
        nodes = 2 ** (levels + 1) - 1
        start, stop = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        low = np.full((nodes, points.shape[1]), np.inf)
        high = np.full((nodes, points.shape[1]), -np.inf)
        _build(points, order, start, stop, low, high)
        return cls(np.ascontiguousarray(points[order]), order, start, stop, low, high)

    def add_up(self, queries: Queries, per_box: FloatArray, size: int) -> FloatArray:
        """Return, for each of the ``size`` original points, the sum over the boxes it lies in."""
        sums = np.zeros(size)
        sums[self.order] = _add_to_points(self, queries.low, queries.high, per_box)
        return sums

    def totals(self, queries: Queries, values: FloatArray | BoolArray) -> FloatArray:
        """Return, per query, the sum of the original points' values over its matches."""
        ordered = np.asarray(values, dtype=np.float64)[self.order]
        prefix = np.concatenate([[0.0], np.cumsum(ordered)])
        sums = np.zeros(queries.count)
        _add_totals(self, queries.low, queries.high, queries.owner, prefix, ordered, sums)
        return sums


def hit_counts(points: FloatArray, queries: Queries) -> IntArray:
    """Return the number of queries that each point satisfies (Section V-B).

    >>> from planning.sifter.queries import boxes
    >>> two = boxes(np.array([[0.0], [0.5]]), np.array([[1.0], [1.0]]))
    >>> hit_counts(np.array([[0.2], [0.7], [2.0]]), two).tolist()
    [1, 2, 0]
    """
    index = PointIndex.of(points)
    sums = index.add_up(queries, np.ones(len(queries.owner)), len(points))
    return np.rint(sums).astype(np.int64)


def spread(points: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    """Return the queries' mass w * alpha as mass on points and mass on box centers.

    A query that enough points match gives each of them an equal part, which follows the data
    inside it; any other divides its mass among its boxes by volume.
    """
    index = PointIndex.of(points)
    matches = index.totals(queries, np.ones(len(points)))
    coefficient = queries.coefficient
    many = matches >= MANY
    part = np.divide(coefficient, matches, out=np.zeros(queries.count), where=many)
    mass = index.add_up(queries, part[queries.owner], len(points))
    volume = np.prod(queries.high - queries.low, axis=1)
    whole = np.bincount(queries.owner, weights=volume, minlength=queries.count)
    center_mass = np.where(many[queries.owner], 0.0, coefficient[queries.owner])
    return mass, center_mass * (volume / whole[queries.owner])


@njit(cache=True)
def _build(points: Any, order: Any, start: Any, stop: Any, low: Any, high: Any) -> None:
    stop[0] = order.size
    nodes = start.size
    d = points.shape[1]
    for node in range(nodes):
        a, b = start[node], stop[node]
        for i in range(a, b):
            for k in range(d):
                value = points[order[i], k]
                low[node, k] = min(low[node, k], value)
                high[node, k] = max(high[node, k], value)
        if 2 * node + 2 >= nodes:
            continue
        axis = 0
        for k in range(1, d):
            if high[node, k] - low[node, k] > high[node, axis] - low[node, axis]:
                axis = k
        middle = (a + b) // 2
        _select(points[:, axis], order, a, b, middle)
        start[2 * node + 1], stop[2 * node + 1] = a, middle
        start[2 * node + 2], stop[2 * node + 2] = middle, b


@njit(cache=True)
def _select(column: Any, order: Any, start: int, stop: int, middle: int) -> None:
    """Rearrange a stretch so that no value before the middle exceeds one after it (quickselect)."""
    low, high = start, stop - 1
    while low < high:
        pivot = column[order[(low + high) // 2]]
        i, j = low, high
        while i <= j:
            while column[order[i]] < pivot:
                i += 1
            while column[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@njit(cache=True)
def _relation(low: Any, high: Any, node: int, box_low: Any, box_high: Any, box: int) -> int:
    """Return how a node's points lie relative to a box."""
    relation = INSIDE
    for k in range(low.shape[1]):
        if high[node, k] < box_low[box, k] or low[node, k] >= box_high[box, k]:
            return DISJOINT
        if low[node, k] < box_low[box, k] or high[node, k] >= box_high[box, k]:
            relation = CROSSING
    return relation


@njit(cache=True)
def _contains(points: Any, i: int, box_low: Any, box_high: Any, box: int) -> bool:
    for k in range(points.shape[1]):
        if not (box_low[box, k] <= points[i, k] < box_high[box, k]):
            return False
    return True


@njit(cache=True)
def _pieces(index: Any, box_low: Any, box_high: Any, box: int, stack: Any, pieces: Any) -> int:
    """Write what a box holds, and return how many pieces: node k as k, single point i as -1 - i."""
    points, _, start, stop, low, high = index
    stack[0] = 0
    depth, written = 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if start[node] == stop[node]:
            continue
        relation = _relation(low, high, node, box_low, box_high, box)
        if relation == INSIDE:
            pieces[written] = node
            written += 1
        elif relation == CROSSING and 2 * node + 2 < start.size:
            stack[depth] = 2 * node + 1
            stack[depth + 1] = 2 * node + 2
            depth += 2
        elif relation == CROSSING:
            for i in range(start[node], stop[node]):
                if _contains(points, i, box_low, box_high, box):
                    pieces[written] = -1 - i
                    written += 1
    return written


@njit(cache=True)
def _add_to_points(index: Any, box_low: Any, box_high: Any, per_box: Any) -> Any:
    """Return the sum over boxes for each point; whole nodes are handed down at the end."""
    points, _, start, stop = index[:4]
    inside, single = np.zeros(start.size), np.zeros(points.shape[0])
    stack, pieces = np.empty(128, np.int64), np.empty(start.size + points.shape[0], np.int64)
    for box in range(box_low.shape[0]):
        for piece in pieces[: _pieces(index, box_low, box_high, box, stack, pieces)]:
            if piece >= 0:
                inside[piece] += per_box[box]
            else:
                single[-1 - piece] += per_box[box]
    for node in range(start.size):
        if inside[node] != 0.0:
            for i in range(start[node], stop[node]):
                single[i] += inside[node]
    return single


@njit(cache=True)
def _add_totals(
    index: Any, box_low: Any, box_high: Any, owner: Any, prefix: Any, values: Any, sums: Any
) -> None:
    """Add what each box holds to its owner; ``prefix`` are running sums of ``values``."""
    points, _, start, stop = index[:4]
    stack, pieces = np.empty(128, np.int64), np.empty(start.size + points.shape[0], np.int64)
    for box in range(box_low.shape[0]):
        for piece in pieces[: _pieces(index, box_low, box_high, box, stack, pieces)]:
            if piece >= 0:
                sums[owner[box]] += prefix[stop[piece]] - prefix[start[piece]]
            else:
                sums[owner[box]] += values[-1 - piece]
