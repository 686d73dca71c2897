"""The one hash behind keyed decisions: equal in every process, in Spark SQL and in JavaScript.

It is Spark's ``xxhash64``: XXH64 with seed 42, where each column's hash is the seed of the next and
null leaves the seed as it is. Before, values take one canonical form, so that the type of a column
does not matter: numbers that are whole are longs, text is UTF-8, time is microseconds since 1970
in UTC. ``docs/keys.md`` has the table, and the same hash in the other languages.

Kernels, and with them Numba, are loaded by :func:`warm`, or else by the first hash. Arrow, pandas
and polars are never imported: their columns arrive with them.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, IntArray
from planning.errors import InvalidInput, check_between
from planning.pacing import ONE, ONE_BITS

HashArray = NDArray[np.uint64]

SEED = 42
LONGS = 1 << 63
"""A long is in [-LONGS, LONGS)."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MICROSECONDS_PER_DAY = 86_400_000_000
ALL_VALID = np.zeros(0, dtype=np.bool_)
REPLACEMENT = "\ufffd"
PIECE = 1 << 16  # rows that are hashed at once, so that hashes stay in the processor's cache


@cache
def warm() -> ModuleType:
    """Compile the kernels, or load them from the cache; call it off the data path.

    >>> warm().hash_long(7, SEED) == hash_one([7])
    True
    """
    from planning import key_kernels

    return key_kernels


def hashes(columns: Sequence[Any], salt: int | None = None) -> HashArray:
    """Return the hash of every row of the key columns.

    Parameters
    ----------
    columns
        One or more of equal length, in the order of the key: NumPy arrays, lists, Arrow arrays or
        chunked arrays, pandas or polars Series.
    salt
        A long that is hashed before the columns. Other salts give independent decisions.

    Examples
    --------
    >>> hashes([[7, 8], np.array(["ab", "c"])]).tolist()
    [11909970955597205617, 9365103717462866626]
    >>> hashes([[7.0, 8.0], ["ab", "c"]])[0] == hash_one([7, "ab"])
    np.True_
    """
    if not columns:
        raise InvalidInput("a key must have at least one column, got none; name one in key=")
    plain = [_plain(column) for column in columns]
    lengths = {len(column) for column in plain}
    if len(lengths) > 1:
        raise InvalidInput(
            f"key columns must have one length, got {sorted(lengths)}; pad or cut them"
        )
    seed = hash_one((), salt)
    folded = np.full(lengths.pop(), seed, dtype=np.uint64)
    for place, column in enumerate(plain):
        _fold(column, folded, seed if place == 0 else None)
    return folded


def hash_one(values: Sequence[Any], salt: int | None = None) -> int:
    """Return the hash of one item's key: the same as in a batch.

    >>> hash_one(["user-17"]), hash_one(["user-17"], salt=1)
    (3696232749192350829, 4803721247440942143)
    >>> hash_one([None]) == 42
    True
    """
    kernels = warm()
    hashed = SEED
    for value in values if salt is None else (_salt(salt), *values):
        form = canonical(value)
        if isinstance(form, bytes):
            data = np.frombuffer(form, dtype=np.uint8)
            hashed = kernels.hash_bytes(data, 0, len(form), hashed)
        elif form is not None:
            bits = struct.unpack("<q", struct.pack("<d", form))[0] if type(form) is float else form
            hashed = kernels.hash_long(bits, hashed)
    return int(hashed)


def draws(hashed: HashArray) -> NDArray[np.uint32]:
    """Return the draw of each hash: its upper 32 bits, a number in [0, 2**32).

    >>> draws(np.array([5 << 32 | 7], dtype=np.uint64)).tolist()
    [5]
    """
    return (hashed >> np.uint64(ONE_BITS)).astype(np.uint32)


def draws_of(columns: Sequence[Any], salt: int | None = None) -> NDArray[np.uint32]:
    """Return the draw of every row: ``draws(hashes(columns, salt))``, without large temporaries.

    >>> draws_of([np.arange(3)]).tolist() == draws(hashes([[0, 1, 2]])).tolist()
    True
    """
    rows = len(columns[0]) if columns else 0
    plain = all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns)
    if rows <= PIECE or not plain or any(len(column) != rows for column in columns):
        return draws(hashes(columns, salt))
    drawn = np.empty(rows, dtype=np.uint32)
    for begin in range(0, rows, PIECE):
        end = begin + PIECE
        drawn[begin:end] = draws(hashes([column[begin:end] for column in columns], salt))
    return drawn


def drop_step(fraction: float) -> int:
    """Return ceil(fraction * 2**32): an item is dropped iff its draw is below.

    So at 0 nothing is dropped, at 1 everything, and what one fraction drops, a larger one does too.

    >>> drop_step(0.0), drop_step(2.0**-40), drop_step(0.25) == ONE // 4, drop_step(1.0) == ONE
    (0, 1, True, True)
    """
    return math.ceil(check_between("fraction", fraction, 0.0, 1.0) * ONE)


def canonical(value: Any) -> int | float | bytes | None:
    r"""Return one value as what is hashed: a long, a double, bytes, or None for null.

    >>> [canonical(x) for x in (True, -0.0, 2.5, float("nan"), "é", date(1970, 1, 2))]
    [1, 0, 2.5, None, b'\xc3\xa9', 86400000000]
    >>> canonical(2**64 - 1), canonical(2**64), canonical(Decimal("1.50")), canonical(Decimal(3))
    (-1, b'18446744073709551616', b'1.50', 3)
    """
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, np.generic):
        value = _plain_number(value)
    if value is None or type(value).__name__ == "NAType":
        return None
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if value.is_integer() and -LONGS <= value < LONGS else float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (date, timedelta)):
        return _time(value)
    if isinstance(value, Decimal):
        if value.is_nan():
            return None
        whole = value.is_finite() and value == value.to_integral_value()
        return _integer(int(value)) if whole else format(value, "f").encode()
    return canonical(value.as_py()) if hasattr(value, "as_py") else _utf8(str(value))


def _plain_number(value: np.generic) -> Any:
    """Return a NumPy scalar as Python's; texts and bytes are Python's already."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return None if np.isnat(value) else int(_microseconds(np.array(value)))
    if isinstance(value, (np.integer, np.bool_)):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value


def _integer(value: int) -> int | bytes:
    """Return a long; unsigned 64-bit numbers keep their bits, longer ones become digits."""
    if -LONGS <= value < LONGS:
        return value
    return value - 2 * LONGS if LONGS <= value < 2 * LONGS else str(value).encode()


def _salt(salt: int) -> int:
    if not -LONGS <= salt < LONGS:
        raise InvalidInput(f"salt must be a long, -2**63 <= salt < 2**63, got {salt}; shorten it")
    return salt


def _utf8(text: str) -> bytes:
    """Return UTF-8; half a surrogate pair, which has none, becomes U+FFFD, as in JavaScript."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        halves = ("\ud800", "\udfff")
        whole = (REPLACEMENT if halves[0] <= c <= halves[1] else c for c in text)
        return "".join(whole).encode()


def _time(value: date | timedelta) -> int | None:
    if value != value:  # NaT
        return None
    if isinstance(value, timedelta):
        return value // MICROSECOND
    if not isinstance(value, datetime):
        return (value.toordinal() - EPOCH.toordinal()) * MICROSECONDS_PER_DAY
    aware = value.replace(tzinfo=UTC) if value.utcoffset() is None else value
    return (aware - EPOCH) // MICROSECOND


def _microseconds(array: NDArray[Any]) -> IntArray:
    return array.astype(f"{array.dtype.kind}8[us]").view(np.int64)


def _plain(column: Any) -> Any:
    """Return a column as NumPy's or Arrow's, or as a list."""
    home = type(column).__module__.partition(".")[0]
    # pandas and polars give Arrow only where it is loaded; importing it would take too long here.
    arrow: Any = sys.modules.get("pyarrow")
    if home == "pandas":
        if isinstance(column.dtype, np.dtype):
            return column.to_numpy()
        if arrow is None:
            return column.tolist()
        try:
            return arrow.array(column)
        except arrow.ArrowException:
            return column.tolist()
    if home == "polars":
        if not column.null_count() and (column.dtype.is_integer() or column.dtype.is_float()):
            return column.to_numpy()
        return column.to_arrow() if arrow else column.to_list()
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise InvalidInput(f"a key column must be 1-D, got {column.ndim} dimensions; pass each one")
    return column if home in ("numpy", "pyarrow") else list(column)


def _fold(column: Any, folded: HashArray, seed: int | None) -> None:
    """Fold a column into the rows' hashes, which all equal ``seed`` unless it is None."""
    if isinstance(column, list):
        _fold_objects(column, folded)
    elif isinstance(column, np.ndarray):
        _fold_array(column, folded, ALL_VALID)
    else:
        _fold_arrow(column, folded, seed)


def _fold_array(array: NDArray[Any], folded: HashArray, valid: BoolArray) -> None:
    kind = array.dtype.kind
    if kind in "biu":
        warm().fold_longs(np.ascontiguousarray(array, dtype=np.int64), valid, folded)
    elif kind == "f":
        warm().fold_doubles(np.ascontiguousarray(array, dtype=np.float64), valid, folded)
    elif kind in "mM":
        present = ~np.isnat(array)
        _fold_array(_microseconds(array), folded, present & valid if valid.size else present)
    elif kind in "SU" and array.dtype.itemsize and array.size:
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        units = native.view(np.uint8 if kind == "S" else np.uint32)
        if kind == "U" and units.max() >= 128:
            return _fold_objects(array.tolist(), folded)
        starts = np.arange(0, len(units), len(units) // len(array), dtype=np.int64)
        stops = starts + np.strings.str_len(native)
        warm().fold_texts(units.astype(np.uint8, copy=False), starts, stops, valid, folded)
    else:
        _fold_objects(array.tolist(), folded)


def _fold_objects(values: list[Any], folded: HashArray) -> None:
    """Fold any objects: at once if all are of one simple type, and else value by value."""
    types = set(map(type, values))
    if types <= {float, type(None)}:
        return _fold_array(np.array(values, dtype=np.float64), folded, ALL_VALID)
    if types <= {int, bool}:
        try:
            return _fold_array(np.array(values, dtype=np.int64), folded, ALL_VALID)
        except OverflowError:
            pass
    if types == {str} and (joined := "".join(values)).isascii():
        return _fold_pieces(joined.encode(), values, ALL_VALID, folded)
    forms = [canonical(value) for value in values]
    kinds = set(map(type, forms))
    # A row has one of the three forms; for the others it is null, which changes nothing.
    for kind in kinds & {int, float, bytes}:
        rows: list[Any] = forms
        valid = ALL_VALID
        if len(kinds) > 1:
            rows = [x if type(x) is kind else kind() for x in forms]
            valid = np.fromiter((type(x) is kind for x in forms), np.bool_, count=len(forms))
        if kind is bytes:
            _fold_pieces(b"".join(rows), rows, valid, folded)
        else:
            _fold_array(np.array(rows, dtype=kind), folded, valid)


def _fold_pieces(data: bytes, pieces: list[Any], valid: BoolArray, folded: HashArray) -> None:
    ends = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces)), out=ends[1:])
    warm().fold_texts(np.frombuffer(data, dtype=np.uint8), ends[:-1], ends[1:], valid, folded)


def _fold_arrow(column: Any, folded: HashArray, seed: int | None) -> None:
    """Fold an Arrow array or chunked array, straight from its buffers."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        begin = 0
        for chunk in column.chunks:
            _fold_arrow(chunk, folded[begin : begin + len(chunk)], seed)
            begin += len(chunk)
        return
    kind, size = column.type, len(column)
    if pa.types.is_null(kind) or not size:
        return
    if pa.types.is_dictionary(kind):
        return _fold_dictionary(column, folded, seed)
    if pa.types.is_boolean(kind):
        return _fold_arrow(column.cast(pa.int8()), folded, seed)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _fold_arrow(column.cast(pa.large_binary()), folded, seed)
    valid = _valid(column)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = {pa.date32(): "D", pa.date64(): "ms"}.get(kind) or kind.unit
        ticks = _values(column, np.int32 if unit == "D" else np.int64).astype(np.int64, copy=False)
        letter = "m" if pa.types.is_duration(kind) else "M"
        _fold_array(ticks.view(f"{letter}8[{unit}]"), folded, valid)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        _fold_array(_values(column, kind.to_pandas_dtype()), folded, valid)
    elif offset := _OFFSETS.get(str(kind)):
        ends = _values(column, offset, more=1).astype(np.int64, copy=False)
        data = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)
        warm().fold_texts(data, ends[:-1], ends[1:], valid, folded)
    else:
        _fold_objects(column.to_pylist(), folded)


_OFFSETS = {
    "string": np.int32,
    "binary": np.int32,
    "large_string": np.int64,
    "large_binary": np.int64,
}
"""What the offsets of Arrow's texts are counted in."""


def _fold_dictionary(column: Any, folded: HashArray, seed: int | None) -> None:
    """Hash each entry once where all rows start from one seed, and else every row."""
    entries = column.dictionary
    if seed is None or len(entries) > len(column):
        return _fold_arrow(column.dictionary_decode(), folded, seed)
    table = np.full(len(entries) + 1, seed, dtype=np.uint64)
    _fold_arrow(entries, table[:-1], seed)
    codes, valid = column.indices, _valid(column)
    # What an index holds where it is null may lie outside the dictionary.
    table.take(_values(codes, codes.type.to_pandas_dtype()), out=folded, mode="clip")
    if valid.size:
        folded[~valid] = seed


def _values(column: Any, kind: Any, more: int = 0) -> NDArray[Any]:
    """Return an Arrow array's second buffer, from its first row on, without a copy."""
    width = np.dtype(kind).itemsize
    rows = len(column) + more
    return np.frombuffer(column.buffers()[1], kind, count=rows, offset=column.offset * width)


def _valid(column: Any) -> BoolArray:
    """Return which rows of an Arrow array are not null; empty if all are."""
    if not column.null_count:
        return ALL_VALID
    skipped, first = divmod(column.offset, 8)
    bits = np.frombuffer(column.buffers()[0], dtype=np.uint8, offset=skipped)
    flags = np.unpackbits(bits, count=first + len(column), bitorder="little")
    return flags[first:].view(np.bool_)
