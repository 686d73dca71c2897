"""How the rows of a sampled or offered batch represent tuples of two streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import BoolArray, Columns, FloatArray, IntArray
from planning.batches import Batch, codes, numbers
from planning.errors import InvalidInput
from planning.joins.model import Condition, Tuples, from_arrays, texts

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.joins.parameters import Parameters

NO_ITEM = -1
LARGEST_ITEM = 2.0**62
ONE_TYPE = "any"
MOST_BOUNDS = 8  # automatic size classes, less one


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of the columns; a plan carries them, so that a shedder needs no definition."""

    stream: str  # column that names the stream
    streams: tuple[str, str]  # its two values
    time: str
    type: str | None
    types: tuple[str, ...]
    items: tuple[str, ...]
    weights: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()  # largest set of each size class but the last
    text: bool = False  # items are texts, known by their hash; "" is no item

    @classmethod
    def of(cls, definition: Definition[Parameters]) -> Layout:
        """Return the layout that a stream definition describes."""
        parameters = definition.parameters
        values = {a.name: tuple(a.values) for a in definition.attributes}
        first, second = values[parameters.stream]
        types = values[parameters.type] if parameters.type else (ONE_TYPE,)
        return cls(
            parameters.stream, (first, second), parameters.time, parameters.type, types,
            parameters.items, parameters.weights, parameters.sizes, _of_texts(definition),
        )  # fmt: skip

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that the plan distinguishes: types, each cut by the size of the set.

        >>> Layout("s", ("a", "b"), "t", None, ("any",), ("i",), (), (0, 4)).classes
        ('any, up to 0 items', 'any, up to 4 items', 'any, more items')
        """
        if not self.sizes:
            return self.types
        labels = [f"up to {size} items" for size in self.sizes] + ["more items"]
        return tuple(f"{name}, {label}" for name in self.types for label in labels)

    def utilities(self, parameters: Parameters) -> FloatArray:
        """Return the utility V(z) of every class."""
        of_types = parameters.utilities or (1.0,) * len(self.types)
        return np.repeat(np.asarray(of_types, dtype=np.float64), len(self.sizes) + 1)

    def refine(self, batch: Tuples) -> Tuples:
        """Return the tuples with their class instead of their type; types must be known ones.

        A class is a type, cut by the number of items.

        >>> from planning.joins.model import tuples
        >>> layout = Layout("s", ("a", "b"), "t", "z", ("x", "y"), ("i", "j", "k"), (), (0, 2))
        >>> batch = tuples([0, 1, 2], [{1}, {1, 2, 3}, set()], kind=[0, 1, 1])
        >>> layout.refine(batch).kind.tolist()
        [1, 5, 3]
        """
        part = np.searchsorted(self.sizes, np.diff(batch.first), side="left")
        return replace(batch, kind=batch.kind * (len(self.sizes) + 1) + part)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in a fixed order."""
        type_column = (self.type,) if self.type else ()
        return (self.stream, self.time, *type_column, *self.items, *self.weights)

    def streams_in(self, rows: Mapping[str, Any]) -> IntArray:
        """Return the stream of every row: 0, 1, or -1 if unknown."""
        return codes(rows[self.stream], _numbered(self.streams))

    def types_in(self, rows: Mapping[str, Any]) -> IntArray:
        """Return the type of every row, -1 if unknown."""
        if self.type is None:
            return np.zeros(len(rows[self.stream]), dtype=np.int64)
        return codes(rows[self.type], _numbered(self.types))

    def size_classes(self, batch: Batch) -> IntArray:
        """Return the size class of every row's set; its items count once.

        >>> layout = Layout("s", ("a", "b"), "t", None, ("any",), ("i", "j"), (), (0, 1))
        >>> layout.size_classes(Batch({"i": np.array([7, 7, -1]), "j": np.array([7, 3, -1])}, 3))
        array([1, 2, 0])
        """
        if not self.sizes:
            return np.zeros(batch.rows, dtype=np.int64)
        table = np.column_stack(
            [
                texts(batch.columns[name]) if self.text else _items(batch.numbers(name))
                for name in self.items
            ]
        )
        table.sort(axis=1)
        return np.asarray(np.searchsorted(self.sizes, _fresh(table).sum(axis=1), side="left"))

    def read(self, rows: Mapping[str, Any]) -> tuple[IntArray, Tuples]:
        """Read rows as tuples: the stream of each (0, 1, or -1 if unknown), and the tuples.

        Columns are NumPy or Arrow arrays.
        """
        missing = [name for name in self.columns if name not in rows]
        if missing:
            raise InvalidInput(f"rows must have the columns {', '.join(missing)}, got {list(rows)}")
        items = np.column_stack(
            [
                texts(rows[name]) if self.text else _items(numbers(rows[name]))
                for name in self.items
            ]
        )
        weights = None
        if self.weights:
            weights = np.column_stack([numbers(rows[name]) for name in self.weights])
        batch = from_table(numbers(rows[self.time]), items, weights, self.types_in(rows))
        return self.streams_in(rows), batch

    def rows(self, stream: IntArray, batch: Tuples) -> dict[str, Any]:
        """Return tuples as columns: the reverse of ``read``."""
        table = np.full((len(batch), len(self.items)), NO_ITEM, dtype=np.int64)
        weights = np.zeros(table.shape)
        for k in range(len(self.items)):
            has = np.diff(batch.first) > k
            table[has, k] = batch.items[batch.first[:-1][has] + k]
            weights[has, k] = batch.weights[batch.first[:-1][has] + k]
        columns: dict[str, Any] = {self.stream: np.array(self.streams)[stream]}
        columns[self.time] = batch.time
        if self.type:
            columns[self.type] = np.array(self.types)[batch.kind]
        columns |= {name: weights[:, k] for k, name in enumerate(self.weights)}
        return columns | {name: table[:, k] for k, name in enumerate(self.items)}

    def streams_of(self, rows: Columns) -> tuple[Tuples, Tuples]:
        """Split rows into the two streams, each in order of time; unreadable rows are left out."""
        stream, batch = self.read(rows)
        order = np.argsort(batch.time, kind="stable")
        order = order[np.isfinite(batch.time[order]) & (batch.kind[order] >= 0)]
        stream, batch = stream[order], batch.take(order)
        return batch.take(stream == 0), batch.take(stream == 1)


def vocabulary(definition: Definition[Parameters]) -> int | None:
    """Return how many items there can be, if they are numbered from 0."""
    if _of_texts(definition):
        return None
    names = definition.parameters.items
    return 1 + int(max(a.bounds[1] for a in definition.attributes if a.name in names))


def automatic_sizes(items: int, condition: Condition) -> tuple[int, ...]:
    """Bounds of the size classes for sets of up to ``items`` items, spread evenly.

    The first class holds the sets that are too small to match at all.

    >>> automatic_sizes(10, Condition("overlap", 3))
    (2, 3, 4, 5, 6, 7, 8, 9)
    >>> automatic_sizes(64, Condition("subset")), automatic_sizes(1, Condition("equality"))
    ((0, 9, 18, 27, 36, 45, 54, 63), ())
    """
    least = int(condition.threshold) - 1 if condition.kind == "overlap" else 0
    if least >= items - 1:
        return ()
    spread = np.linspace(least, items - 1, min(items - least, MOST_BOUNDS))
    return tuple(int(bound) for bound in np.rint(spread))


def from_table(
    time: FloatArray, items: IntArray, weights: FloatArray | None, kind: IntArray
) -> Tuples:
    """Build tuples from a table of items, -1 where a row has no more; repeated items count once.

    >>> t = from_table(np.array([0.5]), np.array([[7, -1, 3, 7]]), None, np.array([0]))
    >>> t.items.tolist()
    [3, 7]
    """
    order = np.argsort(items, axis=1, kind="stable")
    sorted_items = np.take_along_axis(items, order, axis=1)
    fresh = _fresh(sorted_items)
    first = np.concatenate(([0], np.cumsum(fresh.sum(axis=1)))).astype(np.int64)
    if weights is not None:
        weights = np.take_along_axis(weights, order, axis=1)[fresh]
    return from_arrays(time, first, sorted_items[fresh], weights=weights, kind=kind)


def _fresh(table: IntArray) -> BoolArray:
    """Where each sorted row has an item that it has not had before."""
    fresh = table > NO_ITEM
    fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
    return fresh


def _of_texts(definition: Definition[Parameters]) -> bool:
    names = definition.parameters.items
    return any(a.name in names and a.type != "int" for a in definition.attributes)


def _numbered(names: tuple[str, ...]) -> dict[str, int]:
    return {name: code for code, name in enumerate(names)}


def _items(values: FloatArray) -> IntArray:
    known = np.nan_to_num(values, nan=NO_ITEM, posinf=NO_ITEM, neginf=NO_ITEM)
    return np.clip(known, NO_ITEM, LARGEST_ITEM).astype(np.int64)
