"""Region lookup by tables instead of descent.

Each axis turns a coordinate into its rank among the axis's cuts: a table over equal buckets gives
the number of cuts in earlier buckets, and the few cuts inside the bucket are compared. The bucket
function is monotone, so the rank is exact whatever it rounds to. Ranks then meet either in one
table of grid cells, or, where that would be too large, in bitmaps: per axis and rank the set of
regions that the slab touches, whose intersection is the one region.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.sifter.partition import LEAF, Partition

MOST_CELLS = 1 << 20
MOST_BUCKETS = 4096
MOST_WORDS = 64  # bitmaps of up to 4,096 regions; beyond, the tree is descended


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Tables for one partition; row k of each belongs to axis k."""

    first: FloatArray  # start of bucket 0
    scale: FloatArray  # buckets per unit
    start: NDArray[np.int32]  # (d, buckets) cuts in earlier buckets
    cuts: FloatArray  # (d, cuts + padding) ascending, then infinity
    compares: IntArray  # cuts in the fullest bucket
    stride: IntArray  # of the axis in ``cells``
    cells: NDArray[np.int32]  # region of each grid cell; empty if bitmaps are used
    bitmaps: NDArray[np.uint64]  # (sum of ranks, words); empty if cells are used
    offset: IntArray  # first row of the axis in ``bitmaps``

    @property
    def kind(self) -> str:
        """Which tables are in use: ``cells``, ``bitmaps`` or ``tree``."""
        return "cells" if self.cells.size else "bitmaps" if self.bitmaps.size else "tree"


def build(partition: Partition, low: FloatArray, high: FloatArray) -> Lookup:
    """Make the tables of a partition of the space [low, high)."""
    dimensions = len(low)
    per_axis = [np.unique(partition.cut[partition.dimension == k]) for k in range(dimensions)]
    ranks = np.array([len(cuts) + 1 for cuts in per_axis])
    buckets = int(min(MOST_BUCKETS, 64 * 2 ** np.ceil(np.log2(max(ranks)))))
    first, scale = np.zeros(dimensions), np.zeros(dimensions)
    start = np.zeros((dimensions, buckets), dtype=np.int32)
    compares = np.zeros(dimensions, dtype=np.int64)
    for k, cuts in enumerate(per_axis):
        if cuts.size:
            first[k] = cuts[0]
            # Buckets span the cuts only: beyond them the rank is known.
            span = cuts[-1] - cuts[0]
            scale[k] = (buckets - 1) / span if span > 0 else 0.0
        where = bucket_of(cuts, first[k], scale[k], buckets)
        filled = np.bincount(where, minlength=buckets)
        start[k] = np.cumsum(filled) - filled
        compares[k] = filled.max(initial=0)
    padding = int(compares.max(initial=0)) + 1
    table = np.full((dimensions, int(ranks.max()) + padding), np.inf)
    for k, cuts in enumerate(per_axis):
        table[k, : cuts.size] = cuts
    stride = np.concatenate([np.cumprod(ranks[::-1])[-2::-1], [1]]).astype(np.int64)
    cells, bitmaps = np.zeros(0, dtype=np.int32), np.zeros((0, 0), dtype=np.uint64)
    if float(np.prod(ranks.astype(np.float64))) <= MOST_CELLS:
        cells = _cells(partition, per_axis, ranks)
    elif partition.regions <= 64 * MOST_WORDS:
        bitmaps = _bitmaps(partition, per_axis, low, high)
    offset = np.cumsum(ranks) - ranks
    return Lookup(first, scale, start, table, compares, stride, cells, bitmaps, offset)


def bucket_of(values: FloatArray, first: float, scale: float, buckets: int) -> IntArray:
    """Return the bucket of each value, exactly as the kernels compute it."""
    return np.clip((values - first) * scale, 0.0, buckets - 1.0).astype(np.int64)


def _cells(
    partition: Partition, per_axis: list[FloatArray], ranks: IntArray
) -> NDArray[np.int32]:
    """Give each grid cell its region, a subtree's block of cells at a time."""
    cells = np.empty(ranks, dtype=np.int32)
    stack = [(0, tuple(slice(0, int(r)) for r in ranks))]
    while stack:
        node, block = stack.pop()
        axis = int(partition.dimension[node])
        if axis == LEAF:
            cells[block] = partition.leaf[node]
            continue
        at = int(np.searchsorted(per_axis[axis], partition.cut[node])) + 1
        here = block[axis]
        for child, part in (
            (node + 1, slice(here.start, min(at, here.stop))),
            (int(partition.right[node]), slice(max(at, here.start), here.stop)),
        ):
            stack.append((child, (*block[:axis], part, *block[axis + 1 :])))
    return cells.ravel()


def _bitmaps(
    partition: Partition, per_axis: list[FloatArray], low: FloatArray, high: FloatArray
) -> NDArray[np.uint64]:
    region_low, region_high = partition.bounds(np.full_like(low, -np.inf), np.full_like(high, np.inf))
    rows = []
    for k, cuts in enumerate(per_axis):
        # Slab r holds coordinates from cut r - 1 on.
        slab = np.concatenate([[-np.inf], cuts])
        touches = (region_low[None, :, k] <= slab[:, None]) & (slab[:, None] < region_high[None, :, k])
        rows.append(_packed(touches))
    return np.vstack(rows)


def _packed(touches: NDArray[np.bool_]) -> NDArray[np.uint64]:
    words = (touches.shape[1] + 63) // 64
    padded = np.zeros((len(touches), words * 64), dtype=np.bool_)
    padded[:, : touches.shape[1]] = touches
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
