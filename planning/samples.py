"""Samples in memory: from Parquet or JSON-lines files to columns, and the rules for their rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from upath import UPath

from planning.arrays import BoolArray, Columns, FloatArray
from planning.errors import StatisticsError
from planning.sections import Attribute
from planning.streams import StreamDefinition

LARGEST = sys.float_info.max
SHOWN_VALUES = 8
WRONG_TYPE = {
    "float": "is not a number",
    "int": "is not a whole number",
    "category": "is not a text",
    "text": "is not a text",
    "time": "is not a time (seconds since 1970 or ISO 8601)",
}
"""Why a value that is not of the declared type sends its row to quarantine."""


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
    """Return the columns with numbers where the definition declares them, times as seconds.

    What is not of the declared type becomes infinite, which no domain contains; null becomes NaN.

    >>> from planning.examples import demo_definition
    >>> ticks = {"price": np.array(["5", "cheap"]), "volume": np.array([1.0, 2.0])}
    >>> typed(ticks, demo_definition("sifter"))
    {'price': array([ 5., inf]), 'volume': array([1., 2.])}
    """
    kinds: dict[str | None, str] = {time_column(definition): "time"}
    kinds |= {attribute.name: attribute.type for attribute in definition.attributes}
    numbers = {}
    for name, values in columns.items():
        if kinds.get(name, "category") in ("category", "text"):
            numbers[name] = values
        else:
            read, wrong = _numbers(values, kinds[name])
            numbers[name] = np.where(wrong, np.inf, read)
    return numbers


def time_column(definition: StreamDefinition) -> str | None:
    """Return the column that holds a row's time, if there is one; positions always have one.

    >>> from planning.examples import demo_definition
    >>> time_column(demo_definition("lira")), time_column(demo_definition("sifter"))
    ('time', None)
    """
    samples = definition.samples
    return samples.time_column or ("time" if samples.expectations == "positions" else None)


def broken_rules(
    columns: Columns, definition: StreamDefinition, latest_s: float = LARGEST
) -> dict[str, BoolArray]:
    """Return which rows break a rule, keyed by the reason that the quarantine gives.

    Every attribute must be present (unless nullable), of its type, and inside its domain; a time
    must not be after ``latest_s``. Spark applies the same rules (``expectations``); in memory, NaN
    counts as missing.

    >>> from planning.examples import demo_definition
    >>> ticks = {"price": np.array([5.0, np.nan, 101.0]), "volume": np.array([1.0, 2.0, 3.0])}
    >>> {reason: rows.tolist() for reason, rows in
    ...  broken_rules(ticks, demo_definition("sifter")).items()}
    {'price is missing': [False, True, False], 'price is outside [0, 100]': [False, False, True]}
    """
    broken: dict[str, BoolArray] = {}
    for attribute in definition.attributes:
        name, values = attribute.name, columns[attribute.name]
        if attribute.type in ("category", "text"):
            reasons = _broken_categories(values, attribute)
        else:
            reasons = _broken_numbers(values, name, attribute.type, *attribute.bounds)
        if name in definition.nullable:
            del reasons[f"{name} is missing"]
        broken |= reasons
    time = time_column(definition)
    own_rules = latest_s < LARGEST or time not in definition.attribute_names
    if time is not None and time in columns and own_rules:
        broken |= _broken_numbers(columns[time], time, "time", -LARGEST, latest_s)
    return {reason: rows for reason, rows in broken.items() if rows.any()}


def in_domain(columns: Columns, definition: StreamDefinition) -> BoolArray:
    """Return which rows break no rule.

    >>> from planning.examples import demo_definition
    >>> ticks = {"price": np.array([5.0, np.nan, 101.0]), "volume": np.array([1.0, 2.0, 3.0])}
    >>> in_domain(ticks, demo_definition("sifter")).tolist()
    [True, False, False]
    """
    keep = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for rows in broken_rules(columns, definition).values():
        keep &= ~rows
    return keep


def _broken_numbers(
    values: np.ndarray, name: str, kind: str, low: float, high: float
) -> dict[str, BoolArray]:
    numbers, wrong = _numbers(values, kind)
    missing, finite = np.isnan(numbers), np.isfinite(numbers)
    return {
        f"{name} is missing": missing & ~wrong,
        f"{name} {WRONG_TYPE[kind]}": wrong,
        f"{name} is not finite": ~missing & ~finite,
        f"{name} is outside {interval(low, high)}": finite & ((numbers < low) | (numbers > high)),
    }


def _broken_categories(values: np.ndarray, attribute: Attribute) -> dict[str, BoolArray]:
    null = np.array([value is None or value != value for value in values.tolist()], dtype=np.bool_)
    reasons = {f"{attribute.name} is missing": null}
    if not attribute.open:
        known = np.isin(values.astype(str), attribute.values)
        reasons[f"{attribute.name} is not one of {listed(attribute.values)}"] = ~null & ~known
    return reasons


def _numbers(values: np.ndarray, kind: str) -> tuple[FloatArray, BoolArray]:
    """Return values as numbers, NaN where there is none, and which of them are of another type."""
    if np.issubdtype(values.dtype, np.number):
        numbers = values.astype(np.float64)
        wrong = np.zeros(numbers.shape, dtype=np.bool_)
    else:
        read = [_number(value, kind) for value in values.tolist()]
        wrong = np.array([number is None for number in read], dtype=np.bool_)
        numbers = np.array([np.nan if n is None else n for n in read], dtype=np.float64)
    if kind == "int":
        wrong |= np.isfinite(numbers) & (np.rint(numbers) != numbers)
    return np.where(wrong, np.nan, numbers), wrong


def _number(value: Any, kind: str) -> float | None:
    """Return a value as a number, NaN if it is null; None if it is of another type."""
    if value is None:
        return math.nan
    with suppress(TypeError, ValueError):
        return float(value)
    if kind == "time":
        with suppress(TypeError, ValueError):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def interval(low: float, high: float) -> str:
    """Return an interval as people write it.

    >>> interval(0.0, 100.0), interval(0.0, LARGEST)
    ('[0, 100]', '[0, inf)')
    """
    left = "(-inf" if low <= -LARGEST else f"[{low:.15g}"
    right = "inf)" if high >= LARGEST else f"{high:.15g}]"
    return f"{left}, {right}"


def listed(values: Sequence[str]) -> str:
    """Return the first few values, and how many there are if that is not all of them.

    >>> listed(["buy", "sell"]), listed([str(i) for i in range(10)])
    ('buy, sell', '0, 1, 2, 3, 4, 5, 6, 7 … (10 values)')
    """
    shown = ", ".join(values[:SHOWN_VALUES])
    return shown if len(values) <= SHOWN_VALUES else f"{shown} … ({len(values)} values)"


def take(columns: Columns, keep: BoolArray) -> dict[str, np.ndarray]:
    """Return the chosen rows of every column.

    >>> take({"price": np.array([5.0, 7.0])}, np.array([False, True]))
    {'price': array([7.])}
    """
    return {name: values[keep] for name, values in columns.items()}
