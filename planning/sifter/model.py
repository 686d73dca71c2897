"""The paper's nouns: the data space D and its division into regions S (Sections II and IV-A).

Every axis of the space is half-open, so that membership in a box is ``low <= x < high`` on all of
them: a float domain [a, b] ends at the float after b, an int domain at b + 1, and a category is its
code, one unit wide.

Every partitioning, grids included, is a tree of binary cuts: an inner node sends ``x < cut`` on its
axis to the left and the rest to the right, so any point, in the domain or not, has exactly one
region. Nodes are stored in preorder; regions are the leaves from left to right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planning import batches
from planning.arrays import FloatArray, IntArray, frozen, frozen_ints
from planning.batches import Batch, number_or_nan
from planning.errors import InvalidInput
from planning.families import Definition

if TYPE_CHECKING:
    from planning.sections import Attribute

LEAF = -1

Nested = tuple[int, float, Any, Any] | None
"""A tree while it is built: (axis, cut, left, right), or None for a region."""
Orders = tuple[tuple[int, ...], ...]
"""Per axis, the position of each category code; empty where codes keep their order."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One attribute as an axis of the data space: [low, high), high exclusive."""

    name: str
    kind: str
    low: float
    high: float
    values: tuple[str, ...] = ()

    def edge_after(self, value: float) -> float:
        """Return the first coordinate after ``value``: the open end of a range closed at it.

        >>> Axis("n", "int", 0, 11).edge_after(3)
        4.0
        """
        if self.kind == "float":
            return float(np.nextafter(value, np.inf))
        return float(np.floor(value) + 1)


@dataclass(frozen=True, slots=True)
class Space:
    """The data space of a stream.

    >>> space = Space((Axis("price", "float", 0, 100), Axis("side", "category", 0, 2, ("b", "s"))))
    >>> space.matrix({"price": [3.5, None], "side": ["s", "x"]}).tolist()
    [[3.5, 1.0], [nan, nan]]
    """

    axes: tuple[Axis, ...]
    codes: tuple[dict[str, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        codes = tuple({text: code for code, text in enumerate(a.values)} for a in self.axes)
        object.__setattr__(self, "codes", codes)

    @classmethod
    def of(cls, definition: Definition[object]) -> Space:
        """Return the space that a stream definition's attributes span."""
        return cls(tuple(_axis(attribute) for attribute in definition.attributes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes, axis by axis."""
        return tuple(axis.name for axis in self.axes)

    @property
    def low(self) -> FloatArray:
        """Lower bounds, one per axis."""
        return np.array([axis.low for axis in self.axes])

    @property
    def high(self) -> FloatArray:
        """Upper bounds (exclusive), one per axis."""
        return np.array([axis.high for axis in self.axes])

    def matrix(self, columns: Mapping[str, Any] | Any) -> FloatArray:
        """Return tuples as an (n, d) array of points; what cannot be read is NaN.

        A mapping gives one array per attribute; an array is taken as points already.
        """
        if not isinstance(columns, Mapping):
            points = np.asarray(columns, dtype=np.float64)
            if points.ndim != 2 or points.shape[1] != len(self.axes):
                raise InvalidInput(
                    f"points must have shape (n, {len(self.axes)}), got {points.shape}; "
                    f"give one column for each of {', '.join(self.names)}"
                )
            return points
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise InvalidInput(
                f"columns must hold {', '.join(self.names)}, got none for {', '.join(missing)}"
            )
        read = [self.coordinates(i, columns[axis.name]) for i, axis in enumerate(self.axes)]
        return np.column_stack(read) if read[0].size else np.empty((0, len(read)))

    def coordinates(self, axis: int, values: Sequence[Any] | Any) -> FloatArray:
        """Return one attribute's values as coordinates; categories become their codes."""
        array = np.asarray(values)
        if array.dtype.kind in "biufmM":
            return batches.numbers(array)
        read = array.tolist()
        if self.axes[axis].kind == "category":
            code = self.codes[axis]
            read = [code.get(x) if isinstance(x, str) else x for x in read]
        return np.array([number_or_nan(value) for value in read], dtype=np.float64)

    def column(self, axis: int, batch: Batch) -> FloatArray:
        """Return one attribute of a batch as coordinates; refuse numbers without a single one.

        Numbers in a category's column are codes.
        """
        name = self.axes[axis].name
        if self.axes[axis].kind != "category":
            return batch.numbers(name)
        values = batch.columns[name]
        kind = np.asarray(values[:0]).dtype.kind
        if kind in "biuf":
            return batch.numbers(name)
        if kind == "O" and isinstance(values, np.ndarray):  # texts among numbers
            return self.coordinates(axis, values)
        coded = batches.codes(values, self.codes[axis]).astype(np.float64)
        coded[coded < 0.0] = np.nan
        return coded


def _axis(attribute: Attribute) -> Axis:
    low, high = attribute.bounds
    if attribute.type == "int":
        low, high = float(np.ceil(low)), float(np.floor(high)) + 1.0
    elif attribute.type == "float":
        high = float(np.nextafter(high, np.inf))
    return Axis(attribute.name, attribute.type, float(low), float(high), tuple(attribute.values))


@dataclass(frozen=True, slots=True, eq=False)
class Pins:
    """Boxes [low, high) whose tuples are never dropped; row b is box b."""

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Partition:
    """A cut tree; ``dimension`` is -1 at leaves.

    ``orders`` holds, for a category axis whose codes were rearranged before cutting, the position
    of each code; empty for all others. ``seen`` counts the sample points from which the partition
    was made, by region; it is for the calibration and is not part of a plan.

    >>> halves = Partition.from_nested((0, 0.5, None, None))
    >>> halves.lookup(np.array([[0.2], [0.5], [9.0]])).tolist()
    [0, 1, 1]
    """

    dimension: IntArray
    cut: FloatArray
    orders: Orders = ()
    seen: IntArray = field(default_factory=lambda: frozen_ints([]))

    @classmethod
    def from_nested(cls, root: Nested, orders: Orders = ()) -> Partition:
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

    @property
    def tree(self) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        """The arrays as the compiled functions take them."""
        return self.dimension, self.cut, self.right, self.leaf

    def same(self, other: Partition) -> bool:
        """Tell whether both divide the space into the same regions."""
        return (
            self.orders == other.orders
            and np.array_equal(self.dimension, other.dimension)
            and np.array_equal(self.cut, other.cut)
        )

    def lookup(self, points: FloatArray) -> IntArray:
        """Return the region of each point; -1 where a coordinate is NaN."""
        # Kernels take a second to load, which merely reading a plan should not cost.
        from planning.sifter.lookup.kernels import descend

        columns = np.ascontiguousarray(self.arranged(np.asarray(points, dtype=np.float64)).T)
        region = np.empty(len(points), dtype=np.int32)
        descend(columns, self.tree, LEAF, region)
        return region.astype(np.int64)

    def count(self, points: FloatArray) -> IntArray:
        """Return how many points each region holds; NaN counts nowhere."""
        regions = self.lookup(points)
        return np.bincount(regions[regions >= 0], minlength=self.regions).astype(np.int64)

    def arranged(self, points: FloatArray) -> FloatArray:
        """Return the points with every rearranged category code replaced by its position."""
        if not any(self.orders):
            return points
        return np.column_stack([self.arranged_axis(k, c) for k, c in enumerate(points.T)])

    def arranged_axis(self, axis: int, column: FloatArray) -> FloatArray:
        """Return one axis's coordinates with rearranged category codes replaced."""
        order = self.orders[axis] if self.orders else ()
        if not order:
            return column
        known = (column >= 0) & (column < len(order))  # a code of no category becomes NaN
        positions = np.full(len(column), np.nan)
        positions[known] = np.asarray(order, dtype=np.float64)[column[known].astype(np.int64)]
        return positions

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


def is_preorder(dimension: IntArray) -> bool:
    """Tell whether ``dimension`` is the preorder of one whole binary tree.

    >>> is_preorder(np.array([0, -1, 1, -1, -1])), is_preorder(np.array([0, -1]))
    (True, False)
    """
    open_places = 1 + np.cumsum(np.where(dimension == LEAF, -1, 1))
    if not dimension.size or open_places[-1] != 0 or dimension.min() < LEAF:
        return False
    return bool((open_places[:-1] > 0).all())


def cut_between(below: float, above: float, discrete: bool) -> float:
    """Return a cut in (below, above]: the middle, in a short form if possible.

    Halfway in float32 takes four bytes in the compact form; a discrete axis is cut at a whole
    number. Partitioners also compile this function.

    >>> cut_between(0.1, 0.3, False), cut_between(3, 4, True)
    (0.20000000298023224, 4.0)
    """
    middle = below + (above - below) / 2.0
    if discrete:
        return float(np.floor(middle) + 1.0)
    short = float(np.float64(np.float32(middle)))
    if below < short <= above:
        return short
    return middle if below < middle else above
