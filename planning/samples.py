"""Samples in memory: from Parquet or JSON-lines files to columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from upath import UPath

from planning.arrays import BoolArray, Columns
from planning.errors import StatisticsError
from planning.streams import StreamDefinition


def read_columns(path: UPath, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the named columns of a Parquet file, or of all Parquet files in a folder.

    Numbers arrive as float64 (null becomes NaN), times as seconds since 1970 UTC, texts as they
    are. Files are read in the order of their names.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"), key=str)
    if not files:
        raise StatisticsError(f"{path} holds no Parquet file; run the stage that writes it first")
    tables = []
    for file in files:
        with file.open("rb") as stream:
            tables.append(pq.read_table(stream, columns=list(names)))
    return columns_of(pa.concat_tables(tables, promote_options="permissive"), names)


def read_json_lines(path: UPath, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the named columns of a file of JSON lines; absent fields become NaN."""
    with path.open("rb") as stream:
        return columns_of(pj.read_json(stream), names)


def columns_of(table: pa.Table, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the named columns of an Arrow table as NumPy arrays."""
    missing = sorted(set(names) - set(table.column_names))
    if missing:
        raise StatisticsError(f"the samples lack the columns {', '.join(missing)}")
    return {name: _array(table.column(name)) for name in names}


def _array(column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        micros = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        return _array(micros.cast(pa.int64())) / 1e6
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def in_domain(columns: Columns, definition: StreamDefinition) -> BoolArray:
    """Return which rows have every attribute finite and inside its domain."""
    keep = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for attribute in definition.attributes:
        values = columns[attribute.name]
        if attribute.type == "category":
            keep &= np.isin(values.astype(str), attribute.values)
            continue
        low, high = attribute.bounds
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            keep &= (numbers >= low) & (numbers <= high)
    return keep


def take(columns: Columns, keep: BoolArray) -> dict[str, np.ndarray]:
    """Return the chosen rows of every column."""
    return {name: values[keep] for name, values in columns.items()}
