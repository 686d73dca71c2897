"""Monitoring samples as they landed, turned into rows of the declared types.

Nothing is lost on the way: a value that cannot be read becomes null and stays in the struct column
``RAW`` as text; a line that is not a JSON object stays whole in ``LINE``. ``FILE`` and ``ROW`` say
where a row came from: its place among the file's rows, or its lines that are not blank. Columns
that the suite does not name are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type
from upath import UPath

from planning.errors import PlanningError
from spark_apps.session import quoted, spark_path

RAW = "_raw"
LINE = "_line"
FILE = "_file"
ROW = "_row"
BLOCK = "_block"
TYPES: dict[str, T.DataType] = {
    "float": T.DoubleType(),
    "int": T.DoubleType(),
    "category": T.StringType(),
    "text": T.StringType(),
    "time": T.DoubleType(),
}
UNSIGNED: dict[pa.DataType, T.DataType] = {
    pa.uint8(): T.ShortType(),
    pa.uint16(): T.IntegerType(),
    pa.uint32(): T.LongType(),
    pa.uint64(): T.DecimalType(20, 0),
}
FileTypes = tuple[tuple[str, pa.DataType], ...]


def read_samples(
    spark: SparkSession, files: Sequence[Mapping[str, Any]], columns: Mapping[str, str]
) -> tuple[DataFrame, list[str]]:
    """Read landed files; return the rows and the columns that no file has.

    In JSON lines an absent field and a null look alike; see :func:`never_filled`.

    Parameters
    ----------
    files
        ``{"path", "format"}`` per file, format ``parquet`` or ``jsonl``.
    columns
        Name and type (float, int, category, text, time) of the columns to read.
    """
    lines = [UPath(f["path"]) for f in files if f["format"] == "jsonl"]
    parts = [_read_json_lines(spark, lines, columns)] if lines else []
    groups = _by_types([UPath(f["path"]) for f in files if f["format"] == "parquet"], columns)
    parts += [_read_parquet(spark, paths, dict(types), columns) for types, paths in groups.items()]
    if not parts:
        return _no_rows(spark, columns), []
    seen = {name for types in groups for name, _ in types}
    missing = [] if lines else [c for c in columns if c not in seen]
    return reduce(DataFrame.unionByName, parts), missing


def never_filled(rows: DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns without any value in any row."""
    counts = [F.count(F.col(RAW).getField(c)).alias(str(i)) for i, c in enumerate(columns)]
    filled = rows.agg(*counts).collect()[0]
    return [c for c, count in zip(columns, filled, strict=True) if count == 0]


def _read_json_lines(
    spark: SparkSession, paths: Sequence[UPath], columns: Mapping[str, str]
) -> DataFrame:
    """Parse every field as text first, so that a wrong type costs the value, not the row."""
    schema = T.StructType([T.StructField(c, T.StringType()) for c in (*columns, LINE)])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": LINE}
    parsed = _numbered_lines(spark, paths).select(
        F.from_json("value", schema, options).alias(RAW), FILE, ROW
    )
    came = {c: F.col(RAW).getField(c) for c in columns}
    for column, kind in columns.items():
        if isinstance(TYPES[kind], T.DoubleType):
            # Spark keeps quotes around a bare NaN or Infinity.
            came[column] = F.btrim(came[column], F.lit('"'))
    return _typed(parsed, came, columns, F.col(RAW).getField(LINE))


def _numbered_lines(spark: SparkSession, paths: Sequence[UPath]) -> DataFrame:
    """Return the lines that are not blank, each with its number in its file.

    Spark numbers rows within a block of a file; one pass counts what the blocks before it hold.
    """
    texts = spark.read.text([spark_path(p) for p in paths])
    lines = texts.where(F.trim("value") != "").select(
        "value",
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.file_block_start").alias(BLOCK),
        F.monotonically_increasing_id().alias(ROW),
    )
    blocks = lines.groupBy(FILE, BLOCK).agg(F.min(ROW).alias("first"), F.count("*").alias("rows"))
    before: dict[str, int] = {}
    starts = []
    for file, block, first, rows in sorted(blocks.collect()):
        starts.append((file, block, first - before.get(file, 0)))
        before[file] = before.get(file, 0) + rows
    shift = spark.createDataFrame(starts, f"{FILE} string, {BLOCK} long, shift long")
    numbered = lines.join(F.broadcast(shift), [FILE, BLOCK])
    return numbered.select("value", FILE, (F.col(ROW) - F.col("shift")).alias(ROW))


def _read_parquet(
    spark: SparkSession,
    paths: Sequence[UPath],
    in_files: Mapping[str, pa.DataType],
    columns: Mapping[str, str],
) -> DataFrame:
    """Read files in which the wanted columns have the same types."""
    types = {c: _spark_type(t) for c, t in in_files.items()}
    schema = T.StructType([T.StructField(c, t) for c, t in types.items() if t is not None])
    rows = spark.read.schema(schema).parquet(*(spark_path(p) for p in paths))
    came: dict[str, Column] = {}
    for column in columns:
        if column not in in_files:
            came[column] = F.lit(None).cast("string")
        elif types[column] is None:
            came[column] = F.lit(f"<{in_files[column]}>")
        elif _is_nanoseconds(in_files[column]):
            # Integer division: nanoseconds do not fit into a double.
            came[column] = F.timestamp_micros(F.expr(f"{quoted(column)} div 1000"))
        else:
            came[column] = F.col(quoted(column))
    located = rows.select(
        "*", F.col("_metadata.file_path").alias(FILE), F.col("_metadata.row_index").alias(ROW)
    )
    return _typed(located, came, columns, F.lit(None).cast("string"))


def _typed(
    rows: DataFrame, came: Mapping[str, Column], columns: Mapping[str, str], line: Column
) -> DataFrame:
    """Return the declared columns in their types, with RAW, LINE, FILE and ROW."""
    values = rows.select(*(came[c].alias(c) for c in columns), line.alias(LINE), FILE, ROW)
    types = {field.name: field.dataType for field in values.schema}
    raw = F.struct(*(F.col(quoted(c)).cast("string").alias(c) for c in columns))
    return values.select(
        *(_value(kind, F.col(quoted(c)), types[c]).alias(c) for c, kind in columns.items()),
        raw.alias(RAW),
        LINE,
        FILE,
        ROW,
    )


def _value(kind: str, column: Column, came_as: T.DataType) -> Column:
    """Return the value in the declared type, or null if it has none."""
    if kind in ("category", "text"):
        return column.cast("string")
    text = column.cast("string")
    numeric = isinstance(came_as, T.NumericType)
    number = column.cast("double") if numeric else text.try_cast("double")
    if kind == "float":
        return number
    if kind == "int":
        return F.when(F.rint(number) == number, number)
    if isinstance(came_as, T.TimestampType | T.TimestampNTZType | T.DateType):
        return column.cast("timestamp").cast("double")
    return number if numeric else F.coalesce(number, text.try_cast("timestamp").cast("double"))


def _by_types(paths: Sequence[UPath], columns: Mapping[str, str]) -> dict[FileTypes, list[UPath]]:
    """Group Parquet files by the types that the columns have in them."""
    groups: dict[FileTypes, list[UPath]] = {}
    for path in paths:
        try:
            with path.open("rb") as stream:
                schema = pq.read_schema(stream)
        except (OSError, pa.ArrowException) as error:
            raise PlanningError(
                f"{path} cannot be read any more ({error}); it was whole when it was collected. "
                "Restore the file, or start a new run that collects again"
            ) from error
        types = tuple((c, schema.field(c).type) for c in columns if c in schema.names)
        groups.setdefault(types, []).append(path)
    return groups


def _spark_type(kind: pa.DataType) -> T.DataType | None:
    """Return the type in which Spark reads a Parquet column; None if it cannot."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if _is_nanoseconds(kind):
        return T.LongType()
    if kind in UNSIGNED:
        return UNSIGNED[kind]
    try:
        return from_arrow_type(kind)
    except PySparkTypeError:
        return None


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns"


def _no_rows(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    text = T.StringType()
    raw = T.StructType([T.StructField(c, text) for c in columns])
    fields = [T.StructField(c, TYPES[kind]) for c, kind in columns.items()]
    fields += [T.StructField(RAW, raw), T.StructField(LINE, text), T.StructField(FILE, text)]
    fields += [T.StructField(ROW, T.LongType())]
    return spark.createDataFrame([], T.StructType(fields))
