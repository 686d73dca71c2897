"""Arrow columns as numbers, and shed tables; imported only when Arrow data arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planning.attributes.encoding import Encoded, encode


def encode_arrow(column: Any) -> Encoded:
    """Return an Arrow array or chunked array as numbers.

    A dictionary column hashes its dictionary once and gathers: the fast form for text.
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [encode_arrow(chunk) for chunk in column.chunks]
        return _joined(parts)
    if pa.types.is_dictionary(column.type):
        words = _values(column.dictionary)
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        values = np.append(words.values, np.nan)[codes]
        length = None if words.length is None else np.append(words.length, 0)[codes]
        return Encoded(values, words.numeric, length)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return encode_arrow(column.dictionary_encode()) if len(column) else _empty_text()
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        values = column.to_numpy(zero_copy_only=False)
        return Encoded(np.asarray(values, dtype=np.float64), True)
    if pa.types.is_temporal(column.type):
        return encode(column.to_numpy(zero_copy_only=False))
    return _values(column)


def _values(column: Any) -> Encoded:
    array = np.empty(len(column), dtype=object)
    array[:] = column.to_pylist()
    return encode(array)


def _empty_text() -> Encoded:
    return Encoded(np.empty(0), False, np.empty(0, dtype=np.int64))


def _joined(parts: list[Encoded]) -> Encoded:
    if not parts:
        return Encoded(np.empty(0), True)
    values = np.concatenate([part.values for part in parts])
    lengths = [part.length for part in parts if part.length is not None]
    whole = len(lengths) == len(parts)
    return Encoded(
        values, all(part.numeric for part in parts), np.concatenate(lengths) if whole else None
    )


def masked_table(table: Any, names: tuple[str, ...], keep: Any, tuples: Any) -> Any:
    """Return the rows that are sent, with null where an attribute is not sent.

    ``_present`` tells a value that was sent as null from one that was not sent: bit j is
    attribute j of the plan.
    """
    columns = []
    for j, name in enumerate(names):
        if name not in table.column_names:
            continue
        column = table.column(name)
        absent = pa.array(~keep[:, j])
        columns.append((name, pc.if_else(absent, pa.scalar(None, column.type), column)))
    words = [
        np.packbits(keep[:, at : at + 64], axis=1, bitorder="little")
        for at in range(0, keep.shape[1], 64)
    ]
    bits = np.concatenate(words, axis=1) if words else np.empty((len(keep), 0), dtype=np.uint8)
    present = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(bits.shape[1]), len(bits), [None, pa.py_buffer(np.ascontiguousarray(bits))]
    )
    sent = pa.table(dict(columns)).append_column("_present", present)
    return sent.filter(pa.array(tuples))


def present_bits(column: Any, attributes: int) -> Any:
    """Return the boolean matrix behind a ``_present`` column."""
    rows = [np.frombuffer(value, dtype=np.uint8) for value in column.to_pylist()]
    if not rows:
        return np.zeros((0, attributes), dtype=bool)
    return np.unpackbits(np.array(rows), axis=1, bitorder="little")[:, :attributes].astype(bool)


def table_of(columns: Any) -> Any:
    """Return columns of any kind as an Arrow table."""
    arrays = {
        name: c if type(c).__module__.partition(".")[0] == "pyarrow" else pa.array(c)
        for name, c in columns.items()
    }
    return pa.table(arrays)
