"""Samples in memory: from Parquet or JSON-lines files to columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from upath import UPath

from planning.arrays import BoolArray, Columns
from planning.errors import StatisticsError
from planning.sections import Attribute
from planning.streams import StreamDefinition


def read_columns(path: UPath, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the named columns of a Parquet file, or of all Parquet files in a folder.

    Numbers arrive as float64 (null becomes NaN), times as seconds since 1970 UTC, texts as they
    are. Files are read in the order of their names.

    >>> import tempfile
    >>> from planning.demos import land_batch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = land_batch(UPath(folder), 0, {"price": [12.5, None], "side": ["buy", "sell"]})
    ...     read_columns(UPath(folder), ["price", "side"])
    {'price': array([12.5,  nan]), 'side': array(['buy', 'sell'], dtype=object)}
    """
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"), key=str)
    if not files:
        raise StatisticsError(
            f"{path} holds no Parquet file; check the path, or run the stage that writes it first"
        )
    tables = [_table(file, names) for file in files]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise StatisticsError(
            f"the files in {path} must have the same type in every column, got others ({error}); "
            "write them alike, or pass one file"
        ) from None
    return columns_of(table, names)


def _table(file: UPath, names: Sequence[str]) -> pa.Table:
    try:
        with file.open("rb") as stream:
            whole = pq.ParquetFile(stream)
            _require(names, whole.schema_arrow.names, str(file))
            return whole.read(columns=list(names))
    except (pa.ArrowException, OSError) as error:
        raise StatisticsError(
            f"{file} is not a whole Parquet file ({error}); write it again, JSON lines as *.jsonl"
        ) from None


def _require(names: Sequence[str], present: Sequence[str], where: str) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise StatisticsError(
            f"{where} must hold the columns {', '.join(names)}, got none called "
            f"{', '.join(missing)}; rename columns there, or attributes in the definition"
        )


def read_json_lines(path: UPath, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the named columns of a file of JSON lines; absent fields become NaN.

    >>> import json, tempfile
    >>> rows = [{"price": 12.5, "volume": 700}, {"price": 80.0}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = UPath(folder) / "ticks.jsonl"
    ...     with path.open("w") as stream:
    ...         for row in rows:
    ...             print(json.dumps(row), file=stream)
    ...     read_json_lines(path, ["volume"])
    {'volume': array([700.,  nan])}
    """
    try:
        with path.open("rb") as stream:
            table = pj.read_json(stream)
    except (pa.ArrowException, OSError) as error:
        raise StatisticsError(
            f"{path} does not hold one JSON object per line, with the same type in every line "
            f"({error}); write it again"
        ) from None
    _require(names, table.column_names, str(path))
    return columns_of(table, names)


def columns_of(table: pa.Table, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the named columns of an Arrow table as NumPy arrays.

    >>> columns_of(pa.table({"price": [12, 80], "note": ["a", "b"]}), ["price"])
    {'price': array([12., 80.])}
    """
    _require(names, table.column_names, "the samples")
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


def typed(columns: Columns, definition: StreamDefinition) -> dict[str, np.ndarray]:
    """Return the columns with numbers where the definition has them.

    A text that spells no number becomes infinite, which no domain holds; null becomes NaN.

    >>> from planning.examples import demo_definition
    >>> ticks = {"price": np.array(["5", "cheap"]), "volume": np.array([1.0, 2.0])}
    >>> typed(ticks, demo_definition("sifter"))
    {'price': array([ 5., inf]), 'volume': array([1., 2.])}
    """
    numeric = {a.name for a in definition.attributes if a.type != "category"}
    return {n: _numbers(values) if n in numeric else values for n, values in columns.items()}


def _numbers(values: np.ndarray) -> np.ndarray:
    if np.issubdtype(values.dtype, np.number):
        return values
    return np.array([_number(value) for value in values.tolist()], dtype=np.float64)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.inf


def blamed(columns: Columns, definition: StreamDefinition) -> str:
    """Return which attributes put rows outside the domain, and how many; empty if none does.

    >>> from planning.examples import demo_definition
    >>> ticks = {"price": np.array([5.0, np.nan, 101.0]), "volume": np.array([1.0, 2.0, 3.0])}
    >>> blamed(ticks, demo_definition("sifter"))
    'missing, no number or outside its domain: price in 2 rows'
    """
    counts = {}
    for attribute in definition.attributes:
        alone = definition.model_copy(update={"attributes": (attribute,)})
        counts[attribute.name] = int((~in_domain(columns, alone)).sum())
    bad = ", ".join(f"{name} in {count}" for name, count in counts.items() if count)
    return f"missing, no number or outside its domain: {bad} rows" if bad else ""


def in_domain(columns: Columns, definition: StreamDefinition) -> BoolArray:
    """Return which rows have every attribute finite and inside its domain, or null if it may be.

    >>> from planning.examples import demo_definition
    >>> ticks = {"price": np.array([5.0, np.nan, 101.0]), "volume": np.array([1.0, 2.0, 3.0])}
    >>> in_domain(ticks, demo_definition("sifter")).tolist()
    [True, False, False]
    """
    keep = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for attribute in definition.attributes:
        values = columns[attribute.name]
        good = _inside(values, attribute)
        if attribute.name in definition.nullable:
            null = [value is None or value != value for value in values.tolist()]
            good |= np.array(null, dtype=np.bool_)
        keep &= good
    return keep


def _inside(values: np.ndarray, attribute: Attribute) -> BoolArray:
    if attribute.type == "category":
        return np.isin(values.astype(str), attribute.values)
    low, high = attribute.bounds
    numbers = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray((numbers >= low) & (numbers <= high))


def take(columns: Columns, keep: BoolArray) -> dict[str, np.ndarray]:
    """Return the chosen rows of every column.

    >>> take({"price": np.array([5.0, 7.0])}, np.array([False, True]))
    {'price': array([7.])}
    """
    return {name: values[keep] for name, values in columns.items()}
