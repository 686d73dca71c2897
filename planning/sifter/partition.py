"""Sifter regions S: a complete, non-overlapping division of the data space (Section IV-A).

Every partitioning here, grids included, is a tree of binary cuts: an inner node sends ``x < cut``
on its axis to the left and the rest to the right, so any point, in the domain or not, has exactly
one region. Nodes are stored in preorder; regions are the leaves from left to right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints
from planning.errors import InvalidInput

LEAF = -1
MOST_CELLS = 1 << 20

Nested = tuple[int, float, Any, Any] | None
"""A tree while it is built: (axis, cut, left, right), or None for a region."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A cut tree; ``dimension`` is -1 at leaves.

    ``orders`` holds, for a category axis whose codes were rearranged before cutting, the position
    of each code; empty for all others. ``seen`` counts the sample points from which the partition
    was made, by region; it serves the calibration and is not part of a plan.

    >>> halves = Partition.from_nested((0, 0.5, None, None))
    >>> halves.lookup(np.array([[0.2], [0.5], [9.0]])).tolist()
    [0, 1, 1]
    """

    dimension: IntArray
    cut: FloatArray
    orders: tuple[tuple[int, ...], ...] = ()
    seen: IntArray = field(default_factory=lambda: frozen_ints([]))

    @classmethod
    def from_nested(
        cls, root: Nested, orders: tuple[tuple[int, ...], ...] = ()
    ) -> Partition:
        """Return the partition of a tree written as nested tuples."""
        dimension: list[int] = []
        cut: list[float] = []
        stack: list[Nested] = [root]
        while stack:
            node = stack.pop()
            dimension.append(LEAF if node is None else node[0])
            cut.append(0.0 if node is None else node[1])
            if node is not None:
                stack += [node[3], node[2]]
        return cls(frozen_ints(dimension), frozen(cut), orders)

    @property
    def regions(self) -> int:
        """Return l, the number of regions."""
        return (len(self.dimension) + 1) // 2

    @cached_property
    def right(self) -> IntArray:
        """Right child of every inner node (the left one follows its parent)."""
        right = np.full(len(self.dimension), LEAF, dtype=np.int64)
        waiting: list[int] = []
        for node, axis in enumerate(self.dimension.tolist()):
            if axis != LEAF:
                waiting.append(node)
            elif waiting and node + 1 < len(right):
                right[waiting.pop()] = node + 1
        return frozen_ints(right)

    @cached_property
    def leaf(self) -> IntArray:
        """Region of every leaf node, -1 at inner ones."""
        is_leaf = self.dimension == LEAF
        return frozen_ints(np.where(is_leaf, np.cumsum(is_leaf) - 1, LEAF))

    def lookup(self, points: FloatArray) -> IntArray:
        """Return the region of each point; -1 where a coordinate is NaN."""
        points = self.arranged(np.asarray(points, dtype=np.float64))
        region = self._by_cell(points) if self._cells is not None else self._by_descent(points)
        region[np.isnan(points).any(axis=1)] = LEAF
        return region

    def count(self, points: FloatArray) -> IntArray:
        """Return how many points each region holds; NaN counts nowhere."""
        regions = self.lookup(points)
        return np.bincount(regions[regions >= 0], minlength=self.regions).astype(np.int64)

    def _by_cell(self, points: FloatArray) -> IntArray:
        """Find regions through the grid that all cuts span."""
        ranks = tuple(
            np.searchsorted(cuts, points[:, axis], side="right")
            for axis, cuts in enumerate(self.axis_cuts)
        )
        assert self._cells is not None
        return self._cells[ranks]

    def _by_descent(self, points: FloatArray) -> IntArray:
        node = np.zeros(len(points), dtype=np.int64)
        active = np.arange(len(points))
        while active.size:
            here = node[active]
            axis = self.dimension[here]
            active, here, axis = (a[axis != LEAF] for a in (active, here, axis))
            goes_left = points[active, axis] < self.cut[here]
            node[active] = np.where(goes_left, here + 1, self.right[here])
        return np.array(self.leaf[node])

    @cached_property
    def axis_cuts(self) -> tuple[FloatArray, ...]:
        """Distinct cuts of every axis that is cut, or comes before one that is, ascending."""
        axes = int(self.dimension.max(initial=LEAF)) + 1
        return tuple(np.unique(self.cut[self.dimension == k]) for k in range(axes))

    @cached_property
    def _cells(self) -> IntArray | None:
        """Region of each cell of the grid that all cuts span; None if there are too many."""
        slabs = [len(cuts) + 1 for cuts in self.axis_cuts]
        if not slabs or float(np.prod(np.array(slabs, dtype=np.float64))) > MOST_CELLS:
            return None
        return self.fill_cells(np.empty(slabs, dtype=np.int64))

    def fill_cells(self, cells: IntArray) -> IntArray:
        """Give each grid cell its region, a subtree's block of cells at a time.

        ``cells`` has at least one slab more than cuts on each axis; further slabs are left alone.
        """
        whole = tuple(slice(0, len(cuts) + 1) for cuts in self.axis_cuts)
        stack = [(0, whole)]
        axis_of, right, leaf = self.dimension.tolist(), self.right.tolist(), self.leaf.tolist()
        place = np.zeros(len(axis_of), dtype=np.int64)
        for k, cuts in enumerate(self.axis_cuts):
            on_axis = self.dimension == k
            place[on_axis] = np.searchsorted(cuts, self.cut[on_axis]) + 1
        places = place.tolist()
        while stack:
            node, block = stack.pop()
            axis = axis_of[node]
            if axis == LEAF:
                cells[block] = leaf[node]
                continue
            here, at = block[axis], places[node]
            before, after = slice(here.start, at), slice(at, here.stop)
            stack.append((node + 1, (*block[:axis], before, *block[axis + 1 :])))
            stack.append((right[node], (*block[:axis], after, *block[axis + 1 :])))
        return cells

    def arranged(self, points: FloatArray) -> FloatArray:
        """Return the points with every rearranged category code replaced by its position."""
        if not any(self.orders):
            return points
        return np.column_stack([self.arranged_axis(k, c) for k, c in enumerate(points.T)])

    def arranged_axis(self, axis: int, column: FloatArray) -> FloatArray:
        """Return one axis's coordinates with rearranged category codes replaced."""
        order = self.orders[axis] if self.orders else ()
        return arrange_codes(column, order) if order else column

    def bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the regions' corners (l, d) in a space with corners ``low``, ``high``."""
        lows = np.empty((self.regions, len(low)))
        highs = np.empty((self.regions, len(low)))
        stack = [(0, low, high)]
        while stack:
            node, here_low, here_high = stack.pop()
            axis = int(self.dimension[node])
            if axis == LEAF:
                lows[self.leaf[node]], highs[self.leaf[node]] = here_low, here_high
                continue
            middle_high, middle_low = here_high.copy(), here_low.copy()
            middle_high[axis] = middle_low[axis] = self.cut[node]
            stack.append((int(self.right[node]), middle_low, here_high))
            stack.append((node + 1, here_low, middle_high))
        return lows, highs

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form: axes in preorder (-1 for a region), and the cuts."""
        inner = self.dimension != LEAF
        return {
            "dimension": self.dimension.tolist(),
            "cut": self.cut[inner].tolist(),
            "orders": [list(order) for order in self.orders],
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Partition:
        """Read the JSON form back; refuse what is not a tree."""
        dimension = np.array(document["dimension"], dtype=np.int64)
        check_preorder(dimension)
        inner = dimension != LEAF
        if len(document["cut"]) != inner.sum() or not np.isfinite(document["cut"]).all():
            raise InvalidInput(
                f"partition.cut must hold {inner.sum()} finite numbers, got "
                f"{len(document['cut'])}; take the plan from its store again"
            )
        cut = np.zeros(len(dimension))
        cut[inner] = document["cut"]
        orders = tuple(tuple(int(c) for c in order) for order in document.get("orders", ()))
        return cls(frozen_ints(dimension), frozen(cut), orders)


def arrange_codes(codes: FloatArray, order: tuple[int, ...]) -> FloatArray:
    """Return the position of each category code; codes of no category become NaN."""
    known = (codes >= 0) & (codes < len(order))
    positions = np.full(len(codes), np.nan)
    positions[known] = np.asarray(order, dtype=np.float64)[codes[known].astype(np.int64)]
    return positions


def check_preorder(dimension: IntArray) -> None:
    """Raise unless ``dimension`` is the preorder of one whole binary tree."""
    open_places = 1 + np.cumsum(np.where(dimension == LEAF, -1, 1))
    whole = dimension.size > 0 and open_places[-1] == 0 and bool((open_places[:-1] > 0).all())
    if not whole or dimension.min(initial=0) < LEAF:
        raise InvalidInput(
            "partition.dimension must be the preorder of a whole cut tree, got one that is "
            "truncated or overlong; take the plan from its store again"
        )


def cut_between(below: float, above: float, discrete: bool = False) -> float:
    """Return a cut in (below, above]: the middle, short to write if it can be.

    Halfway in float32 takes four bytes in the compact form; a discrete axis is cut at a whole
    number.

    >>> cut_between(0.1, 0.3), cut_between(3, 4, discrete=True)
    (0.20000000298023224, 4.0)
    """
    if discrete:
        return float(np.floor((below + above) / 2.0) + 1.0)
    middle = below + (above - below) / 2.0
    for candidate in (float(np.float32(middle)), middle):
        if below < candidate <= above:
            return candidate
    return above
