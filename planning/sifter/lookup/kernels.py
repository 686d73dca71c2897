"""Compiled region lookup: the regions of points, by cells, by bitmaps, or by descent of the tree.

``points`` has one row per axis. A block of tuples stays in the first-level cache while axis after
axis turns coordinates into buckets, buckets into ranks, and ranks into cells. Small unsigned
indices avoid the sign checks of array access. What is called from Python is called with one
combination of types, so that nothing is compiled late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

BLOCK = 512
"""Tuples in one pass of the inner loops."""
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT_PLACE = np.zeros(64, dtype=np.int32)
for _place in range(64):
    BIT_PLACE[(int(DE_BRUIJN) << _place) % 2**64 >> 58] = _place
_inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]


@njit(cache=True)
def find_cells(points: Any, tables: Any, place: Any) -> None:
    """Find the regions of the first ``place.size`` columns of ``points`` in a table of cells.

    ``tables`` is a :class:`~planning.sifter.lookup.Lookup`.
    """
    first, scale, start, cuts, compares, stride, cells, _, _ = tables
    bucket, rank = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    for begin in range(0, place.size, BLOCK):
        here = place[begin : begin + BLOCK]
        for k in range(points.shape[0]):
            column = points[k, begin : begin + here.size]
            _buckets(column, first[k], scale[k], start.shape[1] - 1, bucket)
            _ranks(column, bucket, start[k], cuts[k], compares[k], rank)
            if k == 0:
                for j in range(here.size):
                    here[j] = rank[j] * stride[k]
            else:
                for j in range(here.size):
                    here[j] += rank[j] * stride[k]
        for j in range(here.size):
            here[j] = cells[np.uint32(here[j])]


@njit(cache=True)
def find_common(points: Any, tables: Any, unplaced: int, place: Any) -> None:
    """Do as ``find_cells`` with bitmaps: find the one region that all axes' slabs touch."""
    first, scale, start, cuts, compares, _, _, bitmaps, offset = tables
    bucket, rank = np.empty(BLOCK, np.int32), np.empty((points.shape[0], BLOCK), np.int32)
    for begin in range(0, place.size, BLOCK):
        here = place[begin : begin + BLOCK]
        for k in range(points.shape[0]):
            column = points[k, begin : begin + here.size]
            _buckets(column, first[k], scale[k], start.shape[1] - 1, bucket)
            _ranks(column, bucket, start[k], cuts[k], compares[k], rank[k])
        for j in range(here.size):
            here[j] = unplaced
            for w in range(bitmaps.shape[1]):
                common = bitmaps[np.uint32(rank[0, j]), w]
                for k in range(1, rank.shape[0]):
                    common &= bitmaps[np.uint32(rank[k, j] + offset[k]), w]
                if common != 0:
                    lowest = common & (~common + np.uint64(1))
                    here[j] = 64 * w + BIT_PLACE[(lowest * DE_BRUIJN) >> np.uint64(58)]
                    break


@njit(cache=True)
def descend(points: Any, tree: Any, unplaced: int, place: Any) -> None:
    """Find the regions of the first ``place.size`` columns of ``points`` by descending a tree.

    ``tree`` is a partition's dimension, cut, right and leaf.
    """
    dimension, cut, right, leaf = tree
    for j in range(place.size):
        placed = True
        for k in range(points.shape[0]):
            placed &= points[k, j] == points[k, j]
        node = np.int64(0)
        while dimension[node] >= 0:
            node = node + 1 if points[dimension[node], j] < cut[node] else right[node]
        place[j] = leaf[node] if placed else unplaced


@njit(cache=True)
def mark_pinned(points: Any, low: Any, high: Any, forced: Any) -> None:
    """Mark the tuples that lie in any of the pinned boxes."""
    for box in range(low.shape[0]):
        for j in range(forced.size):
            inside = True
            for k in range(points.shape[0]):
                inside &= low[box, k] <= points[k, j] < high[box, k]
            forced[j] |= inside


@_inner
def _buckets(column: Any, first: float, scale: float, buckets: int, bucket: Any) -> None:
    top = np.float64(buckets - 1)
    for j in range(column.size):
        x = column[j]
        b = (x - first) * scale
        b = b if b > 0.0 else 0.0
        b = b if b < top else top
        i = np.int32(b)
        bucket[j] = i if x == x else np.int32(buckets)


@_inner
def _ranks(column: Any, bucket: Any, start: Any, cuts: Any, compares: int, rank: Any) -> None:
    if compares <= 1:
        for j in range(column.size):
            r = start[np.uint32(bucket[j])]
            rank[j] = r + np.int32(column[j] >= cuts[np.uint32(r)])
    elif compares == 2:
        for j in range(column.size):
            r = start[np.uint32(bucket[j])]
            r += np.int32(column[j] >= cuts[np.uint32(r)])
            rank[j] = r + np.int32(column[j] >= cuts[np.uint32(r)])
    else:
        for j in range(column.size):
            r = start[np.uint32(bucket[j])]
            while column[j] >= cuts[np.uint32(r)]:
                r += np.int32(1)
            rank[j] = r
