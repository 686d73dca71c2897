"""Compiled inner loops of the shedder: region lookup and the counter rule, block by block.

``columns`` is a tuple with one array per axis. A block of tuples stays in the first-level cache
while axis after axis adds its rank to the tuples' cells; then the rule runs over the block in order
of arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

CARRY = np.uint64(32)
BLOCK = 1024


@njit(cache=True)
def decide(
    columns: Any, first: Any, scale: Any, start: Any, cuts: Any, compares: Any, stride: Any,
    cells: Any, bitmaps: Any, offset: Any, dimension: Any, cut: Any, right: Any, leaf: Any,
    step: Any, credit: Any, offered: Any, keep: Any,
) -> None:  # fmt: skip
    """Decide on a batch: ``keep`` is filled, ``credit`` and ``offered`` go on."""
    n = keep.size
    cell = np.empty(BLOCK, np.int64)
    ranks = np.empty((len(columns), BLOCK if bitmaps.size else 1), np.int64)
    unplaced = step.size - 1
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        if cells.size:
            for j in range(size):
                cell[j] = 0
            for k in range(len(columns)):
                _add_rank(columns[k][begin : begin + size], first[k], scale[k], start[k], cuts[k],
                          compares[k], stride[k], cell)  # fmt: skip
            for j in range(size):
                region = unplaced if cell[j] < 0 else cells[cell[j]]
                total = credit[region]
                after = total + step[region]
                credit[region] = after
                offered[region] += 1
                keep[begin + j] = (total >> CARRY) == (after >> CARRY)
            continue
        if bitmaps.size:
            for j in range(size):
                cell[j] = 0
            for k in range(len(columns)):
                for j in range(size):
                    ranks[k, j] = offset[k]
                _add_rank(columns[k][begin : begin + size], first[k], scale[k], start[k], cuts[k],
                          compares[k], 1, ranks[k])  # fmt: skip
            _intersect(bitmaps, ranks, size, cell)
        else:
            _descend(columns, begin, size, dimension, cut, right, leaf, cell)
        for j in range(size):
            region = unplaced if cell[j] < 0 else cell[j]
            total = credit[region]
            after = total + step[region]
            credit[region] = after
            offered[region] += 1
            keep[begin + j] = (total >> CARRY) == (after >> CARRY)


@njit(cache=True)
def _add_rank(
    column: Any, first: float, scale: float, start: Any, cuts: Any, compares: int, stride: int,
    cell: Any,
) -> None:  # fmt: skip
    """Add rank * stride to each tuple's cell; a NaN makes it negative for good."""
    top = start.size - 1.0
    if compares <= 1:
        for j in range(column.size):
            x = column[j]
            b = (x - first) * scale
            b = b if b > 0.0 else 0.0
            b = b if b < top else top
            rank = start[np.int64(b)]
            rank += x >= cuts[rank]
            cell[j] += rank * stride if x == x else np.int64(-(1 << 62))
        return
    for j in range(column.size):
        x = column[j]
        b = (x - first) * scale
        b = b if b > 0.0 else 0.0
        b = b if b < top else top
        rank = start[np.int64(b)]
        for _ in range(compares):
            rank += x >= cuts[rank]
        cell[j] += rank * stride if x == x else np.int64(-(1 << 62))


@njit(cache=True)
def _intersect(bitmaps: Any, ranks: Any, size: int, cell: Any) -> None:
    """Find the one region that all axes' slabs touch."""
    words = bitmaps.shape[1]
    for j in range(size):
        placed = True
        for k in range(ranks.shape[0]):
            placed &= ranks[k, j] >= 0
        cell[j] = -1
        if not placed:
            continue
        for w in range(words):
            common = bitmaps[ranks[0, j], w]
            for k in range(1, ranks.shape[0]):
                common &= bitmaps[ranks[k, j], w]
            if common != 0:
                cell[j] = 64 * w + _trailing_zeros(common)
                break


@njit(cache=True)
def _trailing_zeros(word: Any) -> int:
    """Return the place of the lowest set bit, by halving."""
    place = 0
    for half in (32, 16, 8, 4, 2, 1):
        low = word & ((np.uint64(1) << np.uint64(half)) - np.uint64(1))
        if low == 0:
            place += half
            word = word >> np.uint64(half)
    return place


@njit(cache=True)
def _descend(
    columns: Any, begin: int, size: int, dimension: Any, cut: Any, right: Any, leaf: Any, cell: Any
) -> None:
    """Find regions by descending the tree."""
    point = np.empty(len(columns))
    for j in range(size):
        placed = True
        for k in range(len(columns)):
            point[k] = columns[k][begin + j]
            placed &= point[k] == point[k]
        node = 0
        while dimension[node] >= 0:
            node = node + 1 if point[dimension[node]] < cut[node] else right[node]
        cell[j] = leaf[node] if placed else -1
