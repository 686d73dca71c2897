"""Partitions of the statistics grid into shedding regions: rectangles found by halving.

Every partitioner here yields a tree of halvings (a quad-tree split is a halving across followed by
two upright ones), written down in preorder: ``LEAF``, ``ACROSS`` (x is halved), ``UPRIGHT`` (y is
halved), the lower half first. The leaves, in that order, are the shedding regions A_i. A grid whose
side is not a power of two is padded; leaves wholly inside the padding are not regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput
from planning.lira.kernels import inner

LEAF, ACROSS, UPRIGHT = 0, 1, 2
FINENESS = 10.0  # cells along the side of a region of mean size, at most
DEEPEST = 64  # halvings from the whole grid to a cell, at most
Symbols = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A partition of an α × α grid.

    Attributes
    ----------
    side
        α; ``padded`` is the power of two the halvings start from.
    symbols
        The tree in preorder.
    rectangles
        Row i: (ix, iy, width, height) of region i in cells, clipped to the grid.
    places
        Where the leaf of region i is in ``symbols``.
    """

    side: int
    symbols: Symbols
    rectangles: IntArray
    places: IntArray

    @classmethod
    def of(cls, side: int, symbols: Symbols) -> Partition:
        """Lay out the tree's leaves.

        >>> Partition.of(4, np.array([1, 0, 2, 0, 0], np.uint8)).rectangles.tolist()
        [[0, 0, 2, 4], [2, 0, 2, 2], [2, 2, 2, 2]]
        """
        symbols = np.ascontiguousarray(symbols, dtype=np.uint8)
        leaves = int(np.count_nonzero(symbols == LEAF))
        rectangles = np.empty((leaves, 4), dtype=np.int64)
        used = _leaves(symbols, walk_from(padded(side)), rectangles)
        if used != symbols.size:
            raise InvalidInput(
                "partition symbols must form one tree of halvings down to single cells, got "
                f"{symbols.size} symbols of which {max(used, 0)} fit"
            )
        inside = (rectangles[:, 0] < side) & (rectangles[:, 1] < side)
        kept = rectangles[inside]
        kept[:, 2] = np.minimum(kept[:, 2], side - kept[:, 0])
        kept[:, 3] = np.minimum(kept[:, 3], side - kept[:, 1])
        kept.flags.writeable = False
        return cls(side, symbols, kept, np.flatnonzero(symbols == LEAF)[inside])

    @classmethod
    def even(cls, side: int, regions: int, *, at_most: bool = False) -> Partition:
        """Return the l-partitioning of Lira-Grid: the even 2^a × 2^b grid nearest above l.

        With ``at_most``, the nearest below.

        >>> len(Partition.even(128, 250).rectangles)
        256
        """
        nearest = np.floor if at_most else np.ceil
        levels = max(0, int(nearest(np.log2(max(regions, 1)))))
        levels = min(levels, 2 * int(np.log2(padded(side))))
        symbols = [LEAF]
        for level in reversed(range(levels)):  # halved alternately, first across
            symbols = [ACROSS if level % 2 == 0 else UPRIGHT, *symbols, *symbols]
        return cls.of(side, np.array(symbols, dtype=np.uint8))

    def cut(self, kinds: NDArray[np.integer]) -> Partition:
        """Halve regions until the cells of each are of one kind; ``kinds`` is ``[iy, ix]``.

        >>> one = Partition.of(4, np.array([LEAF], np.uint8))
        >>> kinds = np.array([[0, 0, 1, 1]] * 4)
        >>> one.cut(kinds).rectangles.tolist()
        [[0, 0, 2, 4], [2, 0, 2, 4]]
        """
        given, symbols = iter(self.symbols.tolist()), []
        size = padded(self.side)
        waiting = [(0, 0, size, size, True)]
        while waiting:
            x, y, w, h, known = waiting.pop()
            symbol = next(given) if known else LEAF
            if symbol == LEAF:
                known, symbol = False, _way(kinds[y : y + h, x : x + w], w, h)
            symbols.append(symbol)
            if symbol == ACROSS:
                w //= 2
                waiting += [(x + w, y, w, h, known), (x, y, w, h, known)]
            elif symbol == UPRIGHT:
                h //= 2
                waiting += [(x, y + h, w, h, known), (x, y, w, h, known)]
        return Partition.of(self.side, np.array(symbols, dtype=np.uint8))

    @property
    def regions(self) -> int:
        """Number of regions."""
        return len(self.rectangles)

    def sums(self, cells: FloatArray) -> FloatArray:
        """Return the sum of a grid ``cells[iy, ix]`` over every region."""
        return np.asarray(_sums(self.rectangles, np.ascontiguousarray(cells, dtype=np.float64)))

    def paint(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the raster ``[iy, ix]`` in which every cell holds its region's value."""
        raster = np.empty((self.side, self.side), dtype=values.dtype)
        paint(self.rectangles, values, raster)
        return raster


def padded(side: int) -> int:
    """Return the smallest power of two that is at least ``side``.

    >>> padded(100), padded(128)
    (128, 128)
    """
    if side < 1:
        raise InvalidInput(f"the statistics grid needs at least one cell a side, got {side}")
    return 1 << (int(side) - 1).bit_length()


def grid_side(regions: int) -> int:
    """Return α = 2^⌊log₂(10·√l)⌋ for l regions (Section 3.2.5).

    Deviation: the floor of the logarithm, not the printed ceiling, gives the paper's own 128 for
    l = 250 and 512 for l = 4000.

    >>> grid_side(250), grid_side(4000)
    (128, 512)
    """
    if regions < 1:
        raise InvalidInput(f"regions must be at least 1, got {regions}")
    return 1 << max(0, int(np.floor(np.log2(FINENESS * np.sqrt(regions)) + 1e-12)))


def _way(kinds: NDArray[np.integer], w: int, h: int) -> int:
    """Return how to halve a rectangle of w × h cells with fewest mixed halves; LEAF if not mixed.

    ``kinds`` are its cells that lie inside the grid.
    """
    if not _mixed(kinds):
        return LEAF
    middle, centre = w // 2, h // 2
    across = _mixed(kinds[:, :middle]) + _mixed(kinds[:, middle:]) if w > 1 else 3
    upright = _mixed(kinds[:centre]) + _mixed(kinds[centre:]) if h > 1 else 3
    return ACROSS if (across, -w) <= (upright, -h) else UPRIGHT


def _mixed(kinds: NDArray[np.integer]) -> bool:
    return bool(kinds.size and (kinds != kinds.flat[0]).any())


@njit(cache=True)
def _leaves(symbols, stack, out):  # type: ignore[no-untyped-def]
    """Write the leaves' rectangles; return the number of symbols used (−1: halved a cell)."""
    used, leaf, top = 0, 0, 1
    while top > 0 and used < symbols.size:
        top -= 1
        x, y, w, h, depth, _ = stack[top]
        symbol = np.int64(symbols[used])
        used += 1
        if symbol == LEAF:
            out[leaf, 0], out[leaf, 1], out[leaf, 2], out[leaf, 3] = x, y, w, h
            leaf += 1
        elif (symbol == ACROSS and w > 1) or (symbol == UPRIGHT and h > 1):
            top = push_halves(stack, top, x, y, w, h, depth, symbol)
        else:
            return -1
    return used if top == 0 else -1


def walk_from(side: int) -> IntArray:
    """Return a stack that holds the whole square, to walk its tree in preorder.

    Rows are (x, y, w, h, depth, how the parent was halved).
    """
    stack = np.zeros((2 * DEEPEST, 6), dtype=np.int64)
    stack[0, 2:4] = side
    return stack


@inner
def push_halves(stack, top, x, y, w, h, depth, symbol):  # type: ignore[no-untyped-def]
    """Put both halves of a rectangle on the stack, the lower one on top; return its height."""
    if symbol == ACROSS:
        w //= 2
        stack[top, 0], stack[top, 1] = x + w, y
    else:
        h //= 2
        stack[top, 0], stack[top, 1] = x, y + h
    stack[top + 1, 0], stack[top + 1, 1] = x, y
    for half in range(top, top + 2):  # number by number: tuples take seconds to compile
        stack[half, 2], stack[half, 3], stack[half, 4], stack[half, 5] = w, h, depth + 1, symbol
    return top + 2


@njit(cache=True)
def _sums(rectangles, cells):  # type: ignore[no-untyped-def]
    out = np.zeros(rectangles.shape[0])
    for i in range(rectangles.shape[0]):
        x, y, w, h = rectangles[i]
        total = 0.0
        for row in range(y, y + h):
            for column in range(x, x + w):
                total += cells[row, column]
        out[i] = total
    return out


def paint(rectangles: IntArray, values: NDArray[Any], raster: NDArray[Any]) -> None:
    """Write every rectangle's value into its cells."""
    for (x, y, w, h), value in zip(rectangles.tolist(), values.tolist(), strict=True):
        raster[y : y + h, x : x + w] = value
