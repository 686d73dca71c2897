"""Columns of any kind as numbers that kernels can compare.

A numeric column becomes float64 with NaN for null. Every other column becomes a 53-bit hash of its
text, which float64 stores exactly: equal texts get equal numbers in every batch and process, and
different texts collide with probability 1e-16 per pair. Arrow is imported when Arrow data arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import InvalidInput
from planning.hashing import FIRST_MULTIPLIER, GOLDEN, SECOND_MULTIPLIER

NULL_LENGTH = 0


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """One column as numbers: ``length`` is each text value's size in UTF-8 bytes."""

    values: FloatArray
    numeric: bool
    length: IntArray | None = None

    def take(self, index: IntArray | BoolArray | slice) -> Encoded:
        """Return the chosen rows."""
        length = None if self.length is None else self.length[index]
        return Encoded(self.values[index], self.numeric, length)


def take(columns: Mapping[str, Encoded], index: IntArray | BoolArray | slice) -> dict[str, Encoded]:
    """Return the chosen rows of every column."""
    return {name: column.take(index) for name, column in columns.items()}


@numba.njit(cache=True)
def _hash_text(points: NDArray[np.uint32], hashes: FloatArray, length: IntArray) -> None:
    """FNV-1a over the code points up to the padding, mixed, and cut to 53 bits."""
    rows, width = points.shape
    for i in range(rows):
        code = np.uint64(0xCBF29CE484222325)
        size = 0
        for k in range(width):
            point = points[i, k]
            if point == 0:
                break
            code = (code ^ np.uint64(point)) * np.uint64(0x100000001B3)
            size += 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4
        code ^= code >> np.uint64(29)
        code *= FIRST_MULTIPLIER
        hashes[i] = np.float64(code >> np.uint64(11))
        length[i] = size


def encode(column: Any) -> Encoded:
    """Return a column (NumPy, Arrow, or a sequence) as numbers.

    >>> encode(np.array([1, 2])).values.tolist()
    [1.0, 2.0]
    >>> a, b = encode(np.array(["x", "longer"])), encode(["longer"])
    >>> bool(a.values[1] == b.values[0]), a.length.tolist()
    (True, [1, 6])
    """
    if isinstance(column, Encoded):
        return column
    if is_arrow(column):
        return _arrow(column)
    array = np.asarray(column) if isinstance(column, np.ndarray) else objects(column)
    if array.ndim != 1:
        raise InvalidInput(f"a column must be 1-D, got {array.ndim} dimensions; pass one by one")
    kind = array.dtype.kind
    if kind in "fiub":
        return Encoded(np.asarray(array, dtype=np.float64), True)
    if kind in "mM":
        values = array.astype(np.int64).astype(np.float64)
        values[np.isnat(array)] = np.nan
        return Encoded(values, True)
    if kind == "U":
        return _text(array)
    if kind == "S":
        return _text(np.char.decode(array, "utf-8", "replace"))
    return _mixed_kinds(np.asarray(array, dtype=object))


def _text(array: NDArray[Any], null: NDArray[np.bool_] | None = None) -> Encoded:
    texts = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    hashes = np.empty(len(texts))
    length = np.zeros(len(texts), dtype=np.int64)
    width = texts.dtype.itemsize // 4
    if width and len(texts):
        points = texts.view(np.uint32).reshape(len(texts), width)
        points.flags.writeable = False  # compiled code treats the two kinds as two types
        _hash_text(points, hashes, length)
    if null is not None:
        hashes[null] = np.nan
        length[null] = NULL_LENGTH
    return Encoded(hashes, False, length)


def _mixed_kinds(array: NDArray[Any]) -> Encoded:
    null = np.array([x is None or x != x for x in array], dtype=bool)
    present = [x for x, gone in zip(array, null, strict=True) if not gone]
    if all(isinstance(x, (int, float, np.number)) for x in present):
        values = np.full(len(array), np.nan)
        values[~null] = np.array(present, dtype=np.float64)
        return Encoded(values, True)
    texts = np.array(["" if gone else str(x) for x, gone in zip(array, null, strict=True)])
    return _text(texts, null)


def objects(column: Iterable[Any]) -> NDArray[Any]:
    """Return a sequence as a 1-D array of its objects, whatever they are.

    >>> objects([1, None, (2, 3)]).shape
    (3,)
    """
    array = np.empty(len(values := list(column)), dtype=object)
    array[:] = values
    return array


def is_arrow(column: Any) -> bool:
    """Whether a column is Arrow's, without importing Arrow."""
    return type(column).__module__.partition(".")[0] == "pyarrow"


def _arrow(column: Any) -> Encoded:
    """Return an Arrow array or chunked array as numbers.

    A dictionary column hashes its dictionary once and gathers: the fast form for text.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return _joined([_arrow(chunk) for chunk in column.chunks])
    if pa.types.is_dictionary(column.type):
        words = encode(objects(column.dictionary.to_pylist()))
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        values = np.append(words.values, np.nan)[codes]
        length = None if words.length is None else np.append(words.length, NULL_LENGTH)[codes]
        return Encoded(values, words.numeric, length)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _arrow(column.dictionary_encode()) if len(column) else _text(np.empty(0, "U1"))
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        values = column.to_numpy(zero_copy_only=False)
        return Encoded(np.asarray(values, dtype=np.float64), True)
    if pa.types.is_temporal(column.type):
        return encode(column.to_numpy(zero_copy_only=False))
    return encode(objects(column.to_pylist()))


def _joined(parts: list[Encoded]) -> Encoded:
    if not parts:
        return Encoded(np.empty(0), True)
    values = np.concatenate([part.values for part in parts])
    lengths = [part.length for part in parts if part.length is not None]
    whole = len(lengths) == len(parts)
    return Encoded(
        values, all(part.numeric for part in parts), np.concatenate(lengths) if whole else None
    )


def length_of(columns: Mapping[str, Any]) -> int:
    """Return the common number of rows; columns of different lengths are an error."""
    lengths = {name: len(c.values if isinstance(c, Encoded) else c) for name, c in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"all columns must have one length, got {lengths}; pad or cut them")
    return next(iter(lengths.values()), 0)


def row_keys(columns: Sequence[Encoded], rows: int) -> IntArray:
    """Return one 64-bit key per row over some columns: equal keys, equal values.

    The order of columns matters. Partial sums are added in the order of these keys, so a different
    hash would change the last bits of published statistics.
    """
    keys = np.full(rows, 17, dtype=np.uint64)
    for column in columns:
        keys *= GOLDEN
        keys += (column.values + 0.0).view(np.uint64)
        keys ^= keys >> np.uint64(31)
        keys *= SECOND_MULTIPLIER
        keys ^= keys >> np.uint64(29)
    return keys.view(np.int64)


def value_codes(column: Any) -> dict[str, float]:
    """Return the code of every value that occurs, by name.

    >>> value_codes([2.0, None, 10.0, 2.0])
    {'10': 10.0, '2': 2.0}
    """
    plain = column.to_pylist() if hasattr(column, "to_pylist") else np.asarray(column).tolist()
    names = sorted({value_name(x) for x in plain if x is not None and x == x})
    numeric = encode(column).numeric
    return {name: value_code(name, numeric) for name in names}


def value_name(value: Any) -> str:
    """Return a value as text; whole numbers lose their decimal point."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def value_code(name: str, numeric: bool) -> float:
    """Return the number that encodes a value of this name in a column."""
    return float(name) if numeric else float(encode([name]).values[0])
