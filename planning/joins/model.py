"""The nouns of a windowed stream join: tuples, conditions, windows and basic windows.

Streams are numbered 0 and 1 (the paper's S_1 and S_2); *window i* is the window over stream i, and
the tuples that probe it come from the other stream. Times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, IntArray, frozen
from planning.errors import InvalidInput, Mistake

ConditionKind = Literal["equality", "subset", "superset", "overlap", "inner_product"]
CONDITIONS: tuple[ConditionKind, ...] = get_args(ConditionKind)
Combine = Literal["max", "mean", "min", "sum", "product"]
COMBINES: tuple[Combine, ...] = get_args(Combine)
MOST_BASIC_WINDOWS = 10_000


@dataclass(frozen=True, slots=True)
class Condition:
    """When a tuple of stream 0 and a tuple of stream 1 match.

    ``subset`` means that the set of stream 0 is contained in that of stream 1, ``superset`` the
    reverse; ``overlap`` needs at least ``threshold`` common items; ``inner_product`` needs at
    least one common item and a weighted sum over common items of at least ``threshold``.
    """

    kind: ConditionKind = "equality"
    threshold: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in CONDITIONS:
            allowed = f"one of {', '.join(CONDITIONS)}"
            raise Mistake("condition.kind", allowed, repr(self.kind), at=("condition",))
        number = float(self.threshold)
        if self.kind == "overlap" and not (number >= 1 and number == math.floor(number)):
            field, allowed = "condition.threshold of an overlap", "a whole number >= 1"
            raise Mistake(field, allowed, f"{number:g}", at=("threshold",))
        if self.kind == "inner_product" and not (number > 0 and math.isfinite(number)):
            field = "condition.threshold of an inner product"
            raise Mistake(field, "positive", f"{number:g}", at=("threshold",))

    @property
    def code(self) -> int:
        """Number of the kind, as the compiled kernels know it."""
        return CONDITIONS.index(self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Tuples:
    """Tuples of one stream, in order of arrival.

    Row k has the items ``items[first[k]:first[k + 1]]``.

    Items of a tuple are sorted and distinct (Section 3.2: sorted when fetched). A single-valued
    attribute is a set of one item.
    """

    time: FloatArray
    first: IntArray
    items: IntArray
    weights: FloatArray
    kind: IntArray

    def __len__(self) -> int:
        return int(self.time.size)

    def slice(self, low: int, high: int) -> Tuples:
        """Return rows ``low`` to ``high`` (exclusive)."""
        a, b = int(self.first[low]), int(self.first[high])
        return Tuples(
            self.time[low:high],
            self.first[low : high + 1] - a,
            self.items[a:b],
            self.weights[a:b],
            self.kind[low:high],
        )

    def take(self, rows: ArrayLike) -> Tuples:
        """Return the given rows, in the given order."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == np.bool_ else index.astype(np.int64)
        sizes = np.diff(self.first)[index]
        first = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        picks = np.repeat(self.first[index] - first[:-1], sizes) + np.arange(first[-1])
        return Tuples(
            self.time[index], first, self.items[picks], self.weights[picks], self.kind[index]
        )


def tuples(time: ArrayLike, sets: Iterable[Any], *, kind: ArrayLike | None = None) -> Tuples:
    """Build :class:`Tuples` from times and sets: iterables of items, mappings item → weight.

    Items are whole numbers, or texts (:func:`texts`).

    >>> batch = tuples([0.5, 0.7], [{3, 1}, {2: 0.5}])
    >>> batch.items.tolist(), batch.first.tolist(), batch.weights.tolist()
    ([1, 3, 2], [0, 2, 3], [1.0, 1.0, 0.5])
    """
    first, items, weights = [0], [], []
    for content in sets:
        mapping = content if isinstance(content, dict) else dict.fromkeys(content, 1.0)
        if any(isinstance(item, str) for item in mapping):
            mapping = dict(zip(texts(list(mapping)).tolist(), mapping.values(), strict=True))
        for item in sorted(mapping):
            items.append(item)
            weights.append(mapping[item])
        first.append(len(items))
    return from_arrays(time, first, items, weights=weights, kind=kind)


def texts(column: Any) -> IntArray:
    """Return texts as items: the upper 62 bits of their hash as a key, -1 for none.

    >>> texts(["storm", "", "storm"]).tolist()
    [3879546525696706773, -1, 3879546525696706773]
    """
    from planning import keys

    values = column.to_pylist() if hasattr(column, "to_pylist") else np.asarray(column).tolist()
    words = ["" if value is None or value != value else str(value) for value in values]
    hashed = keys.hashes([words]) >> np.uint64(2)
    return np.where(np.array(words, dtype=object) == "", -1, hashed.astype(np.int64))


def from_arrays(
    time: ArrayLike,
    first: ArrayLike,
    items: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    kind: ArrayLike | None = None,
) -> Tuples:
    """Build :class:`Tuples` from arrays; the items of each row must be sorted and distinct."""
    times = np.array(time, dtype=np.float64, ndmin=1)
    offsets = np.array(first, dtype=np.int64)
    content = np.array(items, dtype=np.int64, ndmin=1)
    kinds = np.zeros(times.size) if kind is None else kind
    loads = np.ones(content.size) if weights is None else weights
    batch = Tuples(
        times, offsets, content, np.array(loads, dtype=np.float64), np.array(kinds, dtype=np.int64)
    )
    if offsets.size != times.size + 1 or batch.kind.size != times.size:
        raise InvalidInput(
            f"tuples must have one time, type and set each, got {times.size} times, "
            f"{batch.kind.size} types and {offsets.size - 1} sets"
        )
    if offsets[0] != 0 or offsets[-1] != content.size or np.any(np.diff(offsets) < 0):
        raise InvalidInput(
            f"first must rise from 0 to the number of items ({content.size}), "
            f"got {offsets[0]} … {offsets[-1]}"
        )
    if batch.weights.size != content.size:
        raise InvalidInput(f"weights must be {content.size} numbers, got {batch.weights.size}")
    rows = np.repeat(np.arange(times.size), np.diff(offsets))
    if np.any((np.diff(rows) == 0) & (np.diff(content) <= 0)):
        raise InvalidInput(
            "items of a tuple must be sorted and distinct, got a repeated or unsorted item; "
            "build the batch with planning.joins.model.tuples"
        )
    return batch


def concatenate(parts: Sequence[Tuples]) -> Tuples:
    """Return several batches of one stream as one.

    >>> len(concatenate([tuples([0.0], [{1}]), tuples([1.0], [{2}])]))
    2
    """
    sizes = np.concatenate([np.diff(part.first) for part in parts])
    return Tuples(
        np.concatenate([part.time for part in parts]),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.kind for part in parts]),
    )


@dataclass(frozen=True)
class Windows:
    """Both windows and their basic windows (Section 5.1); times in seconds.

    Window i holds ``basic_windows(i)`` = 1 + ceil(w_i / b) basic windows: the first is filling, the
    last is expiring, so each of the two is half full on average.
    """

    window_s: tuple[float, float]  # w_1, w_2
    basic_window_s: float  # b
    origin_s: float = 0.0  # a boundary between basic windows

    def __post_init__(self) -> None:
        seconds: tuple[tuple[str, float, tuple[str | int, ...]], ...] = (
            ("window_s[0]", self.window_s[0], ("window_s", 0)),
            ("window_s[1]", self.window_s[1], ("window_s", 1)),
            ("basic_window_s", self.basic_window_s, ("basic_window_s",)),
        )
        for field, value, at in seconds:
            if not (math.isfinite(value) and value > 0):
                raise Mistake(field, "positive seconds", f"{value:g}", at=at)
        if not math.isfinite(self.origin_s):
            raise Mistake("origin_s", "finite", f"{self.origin_s:g}", at=("origin_s",))
        if max(self.window_s) / self.basic_window_s > MOST_BASIC_WINDOWS:
            raise Mistake(
                "basic_window_s",
                f"a window into at most {MOST_BASIC_WINDOWS} parts",
                f"{self.basic_window_s:g} for {max(self.window_s):g}",
                "raise basic_window_s",
                verb="cut",
                at=("basic_window_s",),
            )

    @cached_property
    def counts(self) -> tuple[int, int]:
        """n_1 and n_2.

        >>> Windows((20, 20), 1).counts, Windows((2.5, 0.2), 1).counts
        ((21, 21), (4, 2))
        """
        low, high = (1 + math.ceil(w / self.basic_window_s) for w in self.window_s)
        return low, high

    @property
    def most(self) -> int:
        """The larger of n_1 and n_2: the width of arrays over basic windows."""
        return max(self.counts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the basic windows, newest first."""
        return tuple(f"basic window {j}" for j in range(self.most))

    @cached_property
    def extents_s(self) -> FloatArray:
        """Mean length in seconds that each basic window covers, zero beyond n_i.

        The paper takes b for all; the first and last are half full on average, and only with the
        true lengths does r = 1 mean the whole window: each row sums to w_i.

        >>> Windows((2, 2), 1).extents_s.tolist()
        [[0.5, 1.0, 0.5], [0.5, 1.0, 0.5]]
        """
        table = np.zeros((2, self.most))
        for i in range(2):
            for j in range(self.counts[i]):
                table[i, j] = mean_extent(j + 1, self.window_s[i], self.basic_window_s)
        return frozen(table)


def coverage(j: int, x: float, window_s: float, basic_window_s: float) -> tuple[float, float]:
    """Ages that B_{i,j} covers when a fraction x of the first basic window is full (5.1.1).

    >>> coverage(1, 0.25, 20, 1), coverage(3, 0.25, 20, 1)
    ((0, 0.25), (1.25, 2.25))
    """
    low = max(0, (x + j - 2) * basic_window_s)
    high = min(window_s, (x + j - 1) * basic_window_s)
    return low, max(low, high)


def mean_extent(j: int, window_s: float, basic_window_s: float) -> float:
    """Mean over x of the length that B_{i,j} covers; exact, as the integrand is piecewise linear.

    >>> mean_extent(21, 20, 1), mean_extent(2, 20, 1)
    (0.5, 1.0)
    """
    ratio = window_s / basic_window_s
    kinks = sorted({0.0, 1.0, *(k for k in (ratio - j + 1, ratio - j + 2) if 0 < k < 1)})
    total = 0.0
    for a, b in zip(kinks[:-1], kinks[1:], strict=True):
        ends = [coverage(j, x, window_s, basic_window_s) for x in (a, b)]
        total += (b - a) * sum(high - low for low, high in ends) / 2
    return total


def combine_utilities(utilities: ArrayLike, combine: Combine = "max") -> FloatArray:
    """Return the utility of a match for every pair of types (Section 5.3).

    >>> combine_utilities([1, 0.5]).tolist()
    [[1.0, 1.0], [1.0, 0.5]]
    """
    v = np.asarray(utilities, dtype=np.float64)
    a, b = v[:, None], v[None, :]
    table = {
        "max": np.maximum(a, b),
        "min": np.minimum(a, b),
        "mean": 0.5 * (a + b),
        "sum": a + b,
        "product": a * b,
    }
    if combine not in table:
        raise InvalidInput(f"combine must be one of {', '.join(COMBINES)}, got {combine!r}")
    return frozen(table[combine])


def types_in_range(kind: IntArray, types: int, unknown: int) -> IntArray:
    """Return ``kind`` with values outside 0 … types − 1 replaced by ``unknown``.

    >>> types_in_range(np.array([0, 5, -1]), 2, 1).tolist()
    [0, 1, 1]
    """
    return np.where((kind >= 0) & (kind < types), kind, unknown)


def merge(left: Tuples, right: Tuples) -> tuple[IntArray, IntArray, Tuples]:
    """Both streams in order of time: stream, row within the stream, and the tuples.

    At equal times stream 0 comes first.

    >>> s, rows, _ = merge(tuples([0.0, 2.0], [{1}, {1}]), tuples([1.0], [{1}]))
    >>> s.tolist(), rows.tolist()
    ([0, 1, 0], [0, 0, 1])
    """
    both = concatenate([left, right])
    stream = np.repeat([0, 1], [len(left), len(right)])
    rows = np.concatenate([np.arange(len(left)), np.arange(len(right))])
    order = np.argsort(both.time, kind="stable")
    return stream[order], rows[order], both.take(order)
