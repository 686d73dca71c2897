"""Region lookup by tables instead of descent.

Each axis turns a coordinate into its rank among the axis's cuts: a table over equal buckets gives
the number of cuts in earlier buckets, and the few cuts inside the bucket are compared. The bucket
function is monotone, so the rank is exact whatever it rounds to. Ranks then meet either in one
table of grid cells, or, where that would be too large, in bitmaps: per axis and rank the set of
regions that the slab touches, whose intersection is the one region. NaN has its own bucket on
every axis; it leads to the place after the last region.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.sifter.model import Partition

FEW_CELLS = 1 << 16  # beyond, the cells leave the near caches and short bitmaps are faster
MOST_CELLS = 1 << 20
MOST_BUCKETS = 4096
MOST_WORDS = 64  # bitmaps of up to 4,096 regions; beyond, the tree is descended


class Lookup(NamedTuple):
    """Tables for one partition, as the kernels take them; row k of each belongs to axis k."""

    first: FloatArray  # start of bucket 0
    scale: FloatArray  # buckets per unit
    start: NDArray[np.int32]  # (d, buckets + 1) cuts in earlier buckets; last: NaN
    cuts: FloatArray  # (d, cuts + padding) ascending, then NaN
    compares: IntArray  # cuts in the fullest bucket
    stride: NDArray[np.int32]  # of the axis in ``cells``
    cells: NDArray[np.int32]  # region of each grid cell; empty if bitmaps are used
    bitmaps: NDArray[np.uint64]  # (ranks of all axes, words); empty if cells are used
    offset: NDArray[np.int32]  # first row of the axis in ``bitmaps``

    @property
    def kind(self) -> str:
        """Which tables are in use: ``cells``, ``bitmaps`` or ``tree``."""
        return "cells" if self.cells.size else "bitmaps" if self.bitmaps.size else "tree"


def build(partition: Partition, dimensions: int) -> Lookup:
    """Make the tables of a partition of a space with ``dimensions`` axes."""
    per_axis = [np.unique(partition.cut[partition.dimension == k]) for k in range(dimensions)]
    slabs = np.array([len(cuts) + 2 for cuts in per_axis])  # one more for NaN
    buckets = int(min(MOST_BUCKETS, 64 * 2 ** np.ceil(np.log2(slabs.max()))))
    first, scale = np.zeros(dimensions), np.zeros(dimensions)
    start = np.zeros((dimensions, buckets + 1), dtype=np.int32)
    compares = np.zeros(dimensions, dtype=np.int64)
    for k, cuts in enumerate(per_axis):
        if cuts.size:
            # Buckets span the cuts only: beyond them the rank is known.
            first[k], span = cuts[0], cuts[-1] - cuts[0]
            scale[k] = (buckets - 1) / span if span > 0 else 0.0
        # Exactly as the kernels compute a bucket.
        bucket = np.clip((cuts - first[k]) * scale[k], 0.0, buckets - 1.0).astype(np.int64)
        filled = np.bincount(bucket, minlength=buckets)
        start[k, :-1] = np.cumsum(filled) - filled
        start[k, -1] = slabs[k] - 1
        compares[k] = filled.max(initial=0)
    # Nothing is >= NaN, not even infinity.
    table = np.full((dimensions, int(slabs.max() + compares.max())), np.nan)
    for k, cuts in enumerate(per_axis):
        table[k, : cuts.size] = cuts
    stride = np.concatenate([np.cumprod(slabs[::-1].astype(np.float64))[-2::-1], [1.0]])
    cells, bitmaps = np.zeros(0, dtype=np.int32), np.zeros((0, 0), dtype=np.uint64)
    size, words = stride[0] * slabs[0], (partition.regions + 63) // 64
    if size <= (FEW_CELLS if words <= 2 else MOST_CELLS):
        cells = _cells(partition, per_axis, slabs)
    elif words <= MOST_WORDS:
        bitmaps = _bitmaps(partition, per_axis)
    offset = (np.cumsum(slabs) - slabs).astype(np.int32)
    fits = np.minimum(stride, np.iinfo(np.int32).max).astype(np.int32)
    return Lookup(first, scale, start, table, compares, fits, cells, bitmaps, offset)


def _cells(
    partition: Partition, per_axis: list[FloatArray], slabs: IntArray
) -> NDArray[np.int32]:
    low, high = _corners(partition, len(slabs))
    begin = [np.searchsorted(c, low[:, k], side="right") for k, c in enumerate(per_axis)]
    end = [np.searchsorted(c, high[:, k]) + 1 for k, c in enumerate(per_axis)]
    cells = np.full(slabs, partition.regions, dtype=np.int32)
    for region in range(partition.regions):
        cells[tuple(slice(a[region], b[region]) for a, b in zip(begin, end, strict=True))] = region
    return cells.ravel()


def _bitmaps(partition: Partition, per_axis: list[FloatArray]) -> NDArray[np.uint64]:
    low, high = _corners(partition, len(per_axis))
    touches = []
    for k, cuts in enumerate(per_axis):
        # Slab r begins at cut r - 1; the last row, for NaN, touches no region.
        slab = np.concatenate([[-np.inf], cuts, [np.inf]])[:, None]
        touches.append((low[None, :, k] <= slab) & (slab < high[None, :, k]))
    padded = np.pad(np.vstack(touches), ((0, 0), (0, -len(low) % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _corners(partition: Partition, dimensions: int) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the regions in unbounded space."""
    unbounded = np.full(dimensions, np.inf)
    return partition.bounds(-unbounded, unbounded)
