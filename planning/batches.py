"""Batches in every form that a shedder accepts, read into one: columns by name.

A batch is a mapping of columns, an array of rows, a structured array, a list of items (mappings,
named tuples, or rows by position), an Arrow table or record batch, or a pandas or polars frame.
Rows by position have the columns of the schema, in its order. Nothing is imported to find out: a
frame's library is loaded already when its frames arrive.

What cannot be read is refused with its reason, and only if columns are missing or of no usable
type. A single value that is no number is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, FloatArray, IntArray, for_reading

UNREADABLE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
NO_ITEMS = (str, bytes, bytearray, memoryview, set, frozenset)
FEW_NAMES = 16


class Refusal(Exception):
    """A batch that cannot be read.

    ``rows`` is how many items it has, as far as that can be told, and ``missing`` the columns that
    are not there.
    """

    def __init__(self, reason: str, rows: int = 0, missing: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.rows = rows
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns that a shedder reads.

    Parameters
    ----------
    columns
        All of them, in the order of rows by position.
    required
        Those without which a batch is refused; all of them by default.
    any_of
        Names of which a batch needs only one; it is read under that name. For items that are
        labels: such a schema has no other columns.
    """

    columns: tuple[str, ...]
    required: tuple[str, ...] | None = None
    any_of: tuple[str, ...] = ()

    def also(self, names: Sequence[str]) -> Schema:
        """Return the schema with further columns that are required, such as a key's."""
        more = tuple(name for name in names if name not in self.columns)
        required = self.columns if self.required is None else self.required
        wanted = tuple(dict.fromkeys((*required, *names)))
        return Schema((*self.columns, *more), wanted, self.any_of)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Columns by name, each a NumPy array or an Arrow array with ``rows`` values.

    ``missing`` are the columns of the schema that are not there, ``unknown`` is how many others
    were.
    """

    columns: Mapping[str, Any]
    rows: int
    missing: tuple[str, ...] = ()
    unknown: int = 0

    def take(self, mask: BoolArray) -> Batch:
        """Return the items where ``mask`` is True."""
        chosen = {name: filtered(column, mask) for name, column in self.columns.items()}
        return Batch(chosen, int(np.count_nonzero(mask)), self.missing, self.unknown)

    def numbers(self, name: str) -> FloatArray:
        """Return a column as numbers for compiled code: float64, contiguous, read-only."""
        try:
            return for_reading(numbers(self.columns[name]))
        except UNREADABLE as error:
            raise Refusal(f"column {name} must be numbers: {error}", self.rows) from None


def read(batch: Any, schema: Schema) -> Batch:
    """Read a batch of any form; raise :class:`Refusal` if that cannot be done.

    >>> schema = Schema(("x", "y"))
    >>> forms = {"x": [1, 2], "y": [3, 4]}, [(1, 3), (2, 4)], np.array([[1, 3], [2, 4]])
    >>> [read(form, schema).numbers("y").tolist() for form in forms]
    [[3.0, 4.0], [3.0, 4.0], [3.0, 4.0]]
    >>> read({"x": [1, 2], "z": [3, 4]}, schema)
    Traceback (most recent call last):
    ...
    planning.batches.Refusal: columns y are missing; got x, z
    """
    if isinstance(batch, Batch):
        return batch
    try:
        named = batch if isinstance(batch, Mapping) else _named(batch, schema)
        if not len(named):
            return _empty(schema)
        return _of_columns(named, schema)
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"a batch of type {type(batch).__name__}: {error!r}", size(batch)) from None


def size(batch: Any) -> int:
    """Return the number of items in a batch of any form; 0 where that cannot be told.

    >>> size({"x": [1.0, 2.0], "y": [3.0, 4.0]}), size(np.zeros((3, 2))), size(None)
    (2, 3, 0)
    """
    try:
        if isinstance(batch, Batch):
            return batch.rows
        if isinstance(batch, Mapping):
            return max((len(c) for c in batch.values() if hasattr(c, "__len__")), default=0)
        return int(batch.num_rows) if hasattr(batch, "num_rows") else len(batch)
    except Exception:
        return 0


def numbers(column: Any) -> FloatArray:
    """Return a column as float64: NaN for what is no number, times in seconds since 1970 UTC.

    >>> numbers(["1.5", None, "?"]).tolist()
    [1.5, nan, nan]
    >>> numbers(np.array(["1970-01-01T00:01"], dtype="M8[m]")).tolist()
    [60.0]
    """
    if library(column) == "pyarrow":
        column = _from_arrow(column)
    array = np.asarray(column)
    kind = array.dtype.kind
    if kind in "fiub":
        return np.asarray(array, dtype=np.float64)
    if kind in "mM":
        seconds = array.astype(f"{kind}8[us]").astype(np.int64) / 1e6
        seconds[np.isnat(array)] = np.nan
        return np.asarray(seconds)
    if kind not in "OUST":
        raise TypeError(f"{array.dtype} is no kind of number")
    values = np.array([number_or_nan(x) for x in array.tolist()], dtype=np.float64)
    if len(values) and np.isnan(values).all() and any(x is not None for x in array.tolist()):
        given = next(x for x in array.tolist() if x is not None)
        if given == given:
            raise TypeError(f"{given!r:.40} is no number")
    return values


def codes(column: Any, names: Mapping[str, int]) -> IntArray:
    """Return the code of every label by its name, -1 for an unknown one.

    Labels are compared as text; whole numbers have no decimal point, so 7 and 7.0 are one label.

    >>> codes(["b", 7.0, None, "a"], {"a": 0, "b": 1, "7": 2}).tolist()
    [1, 2, -1, 0]
    """
    if library(column) == "pyarrow":
        words, column = _dictionary(column)
        table = codes(words, names) if len(words) else np.empty(0, dtype=np.int64)
        return np.asarray(np.append(table, -1)[column])
    array = np.asarray(column)
    if array.dtype.kind == "U" and len(names) <= FEW_NAMES:  # faster than sorting texts
        by_name = np.full(array.size, -1, dtype=np.int64)
        for name, code in names.items():
            by_name[array == name] = code
        return by_name
    if array.dtype.kind in "OU":
        get = names.get
        found = [get(x, -1) if type(x) is str else get(label(x), -1) for x in array.tolist()]
        return np.array(found, dtype=np.int64)
    distinct, places = np.unique(array, return_inverse=True)
    known = [names.get(label(x), -1) for x in distinct.tolist()]
    return np.array(known, dtype=np.int64)[places]


def label(value: Any) -> str:
    """Return a value as the text of a label.

    >>> [label(x) for x in (7, 7.0, 7.5, "7", b"7", None)]
    ['7', '7', '7.5', '7', '7', '']
    """
    if isinstance(value, (float, np.floating)):
        return str(int(value)) if value.is_integer() else str(value) if value == value else ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def library(data: Any) -> str:
    """Return the name of the package that a value's type comes from, without importing it."""
    return type(data).__module__.partition(".")[0]


def column_of(values: Any) -> Any:
    """Return one column as a 1-D NumPy array, or as the Arrow array that it is."""
    source = library(values)
    if source == "pyarrow":
        return _joined(values)
    if source == "pandas":
        values = _from_pandas(values)
    elif source == "polars":
        # With nulls, floats would make one number of two beyond 2**53.
        exact = values.null_count() and values.dtype.is_integer()
        values = values.to_list() if exact else values.to_numpy()
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(values)
        values = values.data.astype(object)
        values[hidden] = None
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.ndim != 1:
        raise TypeError(f"a column must be 1-D, got {array.ndim} dimensions")
    return array


def _of_columns(named: Mapping[str, Any], schema: Schema) -> Batch:
    names = schema.columns
    if schema.any_of:
        there = next((name for name in schema.any_of if name in named), None)
        if there is None:
            raise _lacking(named, (" or ".join(schema.any_of),))
        names = (there, *names)
    required = schema.columns if schema.required is None else schema.required
    missing = tuple(name for name in required if name not in named)
    if missing:
        raise _lacking(named, missing)
    columns = {}
    for name in names:
        if name in named:
            try:
                columns[name] = column_of(named[name])
            except UNREADABLE as error:
                raise Refusal(f"column {name} cannot be read: {error}", size(named)) from None
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        given = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise Refusal(f"columns must have one length, got {given}", size(named))
    if not columns:
        raise _lacking(named, schema.columns)
    absent = tuple(name for name in schema.columns if name not in columns)
    return Batch(columns, lengths.pop(), absent, len(named) - len(columns))


def _lacking(named: Mapping[str, Any], missing: tuple[str, ...]) -> Refusal:
    got = ", ".join(str(name) for name in list(named)[:20])
    return Refusal(f"columns {', '.join(missing)} are missing; got {got}", size(named), missing)


def _empty(schema: Schema) -> Batch:
    names = (*schema.any_of[:1], *schema.columns)
    return Batch({name: np.empty(0) for name in names}, 0)


def _named(batch: Any, schema: Schema) -> Mapping[str, Any]:
    """Return a batch of another form as a mapping of columns; an empty one has none."""
    source = library(batch)
    if source == "pyarrow":
        return dict(zip(batch.schema.names, batch.columns, strict=True)) if batch.num_rows else {}
    if source == "polars":
        return {name: batch.get_column(name) for name in batch.columns} if len(batch) else {}
    if source == "pandas":
        return {str(name): batch[name] for name in batch.columns} if len(batch) else {}
    if isinstance(batch, np.ndarray):
        return _of_array(batch, schema)
    if batch is None or isinstance(batch, NO_ITEMS) or not hasattr(batch, "__len__"):
        kind = type(batch).__name__
        raise Refusal(f"a batch must be columns, rows or items, got {kind}", size(batch))
    return _of_items(batch, schema) if len(batch) else {}


def _of_array(batch: NDArray[Any], schema: Schema) -> Mapping[str, Any]:
    if batch.ndim == 0:
        raise Refusal("a batch must be columns, rows or items, got a single value")
    if not len(batch):
        return {}
    if batch.dtype.names:
        return {name: batch[name] for name in batch.dtype.names}
    if batch.ndim == 1:
        return _of_items(batch.tolist(), schema)
    if batch.ndim > 2:
        raise Refusal(f"an array of rows must be 2-D, got {batch.ndim} dimensions", len(batch))
    return _by_position(batch.T, schema, len(batch))


def _of_items(items: Any, schema: Schema) -> Mapping[str, Any]:
    items = list(items)
    first = next((item for item in items if item is not None), None)
    if hasattr(first, "_asdict"):
        items = [item._asdict() if hasattr(item, "_asdict") else item for item in items]
        first = {}
    if isinstance(first, Mapping):
        rows = [item if isinstance(item, Mapping) else {} for item in items]
        names = dict.fromkeys(name for row in rows for name in row)
        if not names:
            raise Refusal("items must have columns, got empty ones", len(items), schema.columns)
        return {name: [row.get(name) for row in rows] for name in names}
    if isinstance(first, (Sequence, np.ndarray)) and not isinstance(first, NO_ITEMS):
        width = len(_positions(schema))
        fitting = [_fits(item, width) for item in items]
        if not any(fitting):
            due = ", ".join(_positions(schema))
            raise Refusal(f"rows must have {width} values ({due}), got {len(first)}", len(items))
        nothing = (None,) * width
        values = [tuple(x) if fits else nothing for x, fits in zip(items, fitting, strict=True)]
        return _by_position(list(zip(*values, strict=True)), schema, len(items))
    return _by_position([items], schema, len(items))


def _fits(item: Any, width: int) -> bool:
    usable = isinstance(item, (Sequence, np.ndarray)) and not isinstance(item, NO_ITEMS)
    return usable and len(item) == width


def _positions(schema: Schema) -> tuple[str, ...]:
    return (*schema.any_of[:1], *schema.columns)


def _by_position(columns: Any, schema: Schema, rows: int) -> Mapping[str, Any]:
    names = _positions(schema)
    if len(columns) != len(names):
        raise Refusal(
            f"rows must have {len(names)} values ({', '.join(names)}), got {len(columns)}", rows
        )
    return dict(zip(names, columns, strict=True))


def _array(values: Any) -> NDArray[Any]:
    """Return a sequence as an array that keeps its values apart: numbers, texts or objects."""
    values = list(values)
    try:
        array = np.asarray(values)
    except ValueError:  # items of different lengths
        array = np.empty(0)
    kinds = array.dtype.kind
    plain = array.ndim == 1 and len(array) == len(values)
    if plain and (kinds in "fiub" or (kinds == "U" and all(type(x) is str for x in values))):
        return array
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def number_or_nan(value: Any) -> float:
    """Return a value as a number, times in seconds since 1970 UTC; NaN where it is none."""
    if isinstance(value, (date, datetime)):
        moment = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except UNREADABLE:
        return float("nan")


def filtered(column: Any, mask: BoolArray) -> Any:
    """Return the values of a column where ``mask`` is True."""
    if library(column) == "pyarrow":
        import pyarrow

        return column.filter(pyarrow.array(mask))
    return column[mask]


def _joined(column: Any) -> Any:
    """Return an Arrow column as one array."""
    if column.type.num_fields:
        raise TypeError(f"{column.type} is no column of single values")
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    joined = column.combine_chunks()
    return joined if not hasattr(joined, "chunks") else joined.chunk(0)


def _from_arrow(column: Any) -> NDArray[Any]:
    import pyarrow

    column = _joined(column)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pyarrow.types.is_primitive(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return _array(column.to_pylist())


def _dictionary(column: Any) -> tuple[NDArray[Any], IntArray]:
    """Return an Arrow column as its distinct values and every row's place in them, -1 for null."""
    import pyarrow

    column = _joined(column)
    if pyarrow.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
        column = column.dictionary_decode()  # part of a table whose words are mostly elsewhere
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return _array(column.dictionary.to_pylist()), places


def _from_pandas(series: Any) -> NDArray[Any]:
    kind = getattr(series.dtype, "kind", "O")
    if isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy())
    if kind == "M":
        return np.asarray(series.to_numpy(dtype="datetime64[ns]"))
    if kind == "f":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind in "iu" and not series.isna().any():  # floats would make one number of two beyond 2**53
        return np.asarray(series.to_numpy(dtype=f"{kind}8"))
    return np.asarray(series.to_numpy(dtype=object, na_value=None))
