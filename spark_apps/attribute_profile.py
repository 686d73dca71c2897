"""The profile of a stream for attribute shedding, from samples of any size.

Reads ``samples/train`` of the run and writes ``statistics.json``. Values become numbers, votes find
the cycle, then every entity's reports are profiled in blocks, in parallel: lag errors first, dead
bands once the scale is known. The sums are added in a fixed order on the driver, so the result has
the same bytes as :func:`planning.attributes.statistics.build`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from planning.arrays import FloatArray, IntArray
from planning.attributes.cycles import PAIR_ROWS, CycleIdentifier
from planning.attributes.parameters import Parameters
from planning.attributes.statistics import (
    Statistics,
    StreamProfile,
    TupleFormat,
    sums,
    window_of,
)
from planning.attributes.statistics.build import MAX_ENTITIES, assemble
from planning.columns import Encoded, encode, row_keys, value_codes
from planning.errors import StatisticsError
from planning.families import Definition
from planning.stages.holdout import ORDER
from spark_apps import attribute_votes
from spark_apps.session import StatisticsApp, map_in_arrow, quoted

CONTENT = "_content"
ENTITY = "_entity"
REPORT = "_report"
BLOCK = "_block"
ARRIVAL = "_arrival"
FILE = "_file"
Sums = Callable[[FloatArray], FloatArray]
"""From one block of an entity's reports to a vector of partial sums."""


def build(samples: DataFrame, definition: Definition[Parameters]) -> Statistics:
    """Build the profile from the clean rows in ``samples``."""
    schema = TupleFormat.of(definition)
    parameters = definition.parameters
    missing = sorted({*schema.names, *parameters.order_by} - set(samples.columns))
    if missing:
        raise StatisticsError(f"samples must hold every attribute, got none of {missing}")
    texts = [name for name, kind in samples.dtypes if kind == "string"]
    numbers = as_numbers(samples, schema, parameters.order_by).persist()
    try:
        rows = numbers.count()
        schema.check(rows, {n: n not in texts for n in schema.names})
        codes = _streams(samples, parameters.stream_attribute)
        streams = [
            _profile(name, _only(numbers, schema, parameters, code), schema, parameters)
            for name, code in sorted(codes.items())
        ]
    finally:
        numbers.unpersist()
    return Statistics(tuple(streams), parameters.refresh_reports)


def as_numbers(samples: DataFrame, schema: TupleFormat, order_by: Sequence[str]) -> DataFrame:
    """Return every column as a number, with where the row came from; equal rows once.

    Columns are ``a0``, ``a1`` … for the attributes, ``o0`` … for the order, and ``l0`` … for the
    bytes of text. Rows that agree in the order stay as they arrived: file by file.
    """
    names = [*schema.names, *(name for name in order_by if name not in schema.names)]
    columns = [f"a{j}" for j in range(len(schema.names))]
    sort = [f"o{k}" for k in range(len(order_by))]

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            encoded = {name: encode(batch.column(name)) for name in names}
            ordered = [encoded[name] for name in order_by]
            keys = row_keys([encoded[name] for name in (*schema.names, *order_by)], batch.num_rows)
            arrays = [pa.array(encoded[name].values + 0.0) for name in schema.names]
            arrays += [pa.array(column.values + 0.0) for column in ordered]
            arrays += [pa.array(_lengths(encoded[name])) for name in schema.names]
            yield pa.RecordBatch.from_arrays(
                [*arrays, pa.array(keys), batch.column(FILE), batch.column(ARRIVAL)],
                names=[*columns, *sort, *lengths, CONTENT, FILE, ARRIVAL],
            )

    lengths = [f"l{j}" for j in range(len(schema.names))]
    fields = [f"{c} double" for c in (*columns, *sort)] + [f"{c} long" for c in lengths]
    fields += [f"{CONTENT} long", f"{FILE} string", f"{ARRIVAL} long"]
    places = {FILE: F.input_file_name(), ARRIVAL: F.monotonically_increasing_id()}
    if ORDER in samples.columns:
        places = {FILE: F.lit(""), ARRIVAL: F.col(ORDER)}
    chosen = samples.select(
        *(quoted(n) for n in names), *(place.alias(n) for n, place in places.items())
    )
    numbers = map_in_arrow(chosen, kernel, ", ".join(fields))
    if not order_by:
        return numbers
    first = Window.partitionBy(CONTENT).orderBy(FILE, ARRIVAL)
    return numbers.withColumn(REPORT, F.row_number().over(first)).where(F.col(REPORT) == 1)


def _lengths(column: Encoded) -> IntArray:
    """Return the bytes of a column's text, or what is assumed of anything else."""
    if column.length is None:
        return np.full(len(column.values), 8, dtype=np.int64)
    return column.length.astype(np.int64)


def _order(rows: DataFrame) -> list[str]:
    given = sorted((c for c in rows.columns if c.startswith("o")), key=lambda c: int(c[1:]))
    return [*given, FILE, ARRIVAL]


def _streams(samples: DataFrame, attribute: str | None) -> dict[str, float | None]:
    """Return the streams of the channel: name to code."""
    if attribute is None:
        return {"": None}
    return dict(
        value_codes(samples.select(quoted(attribute)).dropna().distinct().toArrow().column(0))
    )


def _only(
    numbers: DataFrame, schema: TupleFormat, parameters: Parameters, code: float | None
) -> DataFrame:
    if code is None:
        return numbers
    column = f"a{schema.names.index(parameters.stream_attribute)}"
    return numbers.where(F.col(column) == code)


def _profile(
    name: str, rows: DataFrame, schema: TupleFormat, parameters: Parameters
) -> StreamProfile:
    """Profile one stream."""
    order = _order(rows)
    columns = [f"a{j}" for j in range(len(schema.names))]
    ordered = rows.repartitionByRange(*order).sortWithinPartitions(*order).persist()
    try:
        tuples = ordered.count()
        cycle = _cycle(ordered, order, schema, parameters, tuples)
        entities = _with_entities(ordered, schema, cycle)
        keys = entities.select(ENTITY).distinct().orderBy(ENTITY).limit(MAX_ENTITIES + 1).toArrow()
        count = entities.select(ENTITY).distinct().count()
        if count > MAX_ENTITIES:
            largest = keys.column(0)[MAX_ENTITIES - 1].as_py()
            entities = entities.where(F.col(ENTITY) <= largest)
        if parameters.cid:
            cycle = CycleIdentifier(tuple(parameters.cid), count)
        blocks = _blocks(entities, order)
        spreads = _spreads(blocks, columns, schema)
        scales = sums.combine(spreads, schema.numeric)
        role = schema.roles(cycle, parameters)
        bands = _bands(blocks, columns, schema, role, scales.scale, parameters.refresh_reports)
        window = _last_rows(ordered, columns, order, min(tuples, window_of(cycle, parameters)))
        [total] = ordered.select(*(F.sum(f"l{j}") for j in range(len(columns)))).collect()
        lengths = dict(zip(schema.names, total, strict=True))
        return assemble(
            name, tuples, count, cycle, schema, scales, bands, sum(s.reports for s in spreads),
            window, schema.measured_sizes(tuples, lengths), parameters,
        )  # fmt: skip
    finally:
        ordered.unpersist()


def _cycle(
    ordered: DataFrame,
    order: Sequence[str],
    schema: TupleFormat,
    parameters: Parameters,
    tuples: int,
) -> CycleIdentifier:
    if parameters.cid:
        return CycleIdentifier(tuple(parameters.cid))
    skip = {*parameters.order_by, parameters.stream_attribute}
    usable = [n for n in schema.names if n not in skip]
    coded = [f"a{schema.names.index(n)}" for n in usable]
    table = ordered.orderBy(*order).limit(PAIR_ROWS).select(*coded).toArrow()
    head = {c: Encoded(table.column(c).to_numpy().astype(np.float64), True) for c in coded}
    cycle = attribute_votes.detect(
        ordered.select(*coded), coded, tuples, head, parameters.detector
    )
    back = dict(zip(coded, usable, strict=True))
    return CycleIdentifier(
        tuple(back[c] for c in cycle.cid),
        cycle.length,
        tuple(r._replace(name=back[r.name]) for r in cycle.replicated),
        tuple(tuple(back[c] for c in group) for group in cycle.groups),
    )


def _with_entities(ordered: DataFrame, schema: TupleFormat, cycle: CycleIdentifier) -> DataFrame:
    """Add the key of every row's entity."""
    cid = [f"a{schema.names.index(n)}" for n in cycle.cid]
    names = ordered.columns

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = [encode(batch.column(c).to_numpy(zero_copy_only=False)) for c in cid]
            keys = row_keys(parts, batch.num_rows)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(keys)], names=[*names, ENTITY]
            )

    fields = [*ordered.schema.fields, T.StructField(ENTITY, T.LongType())]
    return map_in_arrow(ordered, kernel, T.StructType(fields))


def _blocks(entities: DataFrame, order: Sequence[str]) -> DataFrame:
    """Return the rows, each with its report number within its entity, and its block."""
    number = F.row_number().over(Window.partitionBy(ENTITY).orderBy(*order)) - 1
    return entities.withColumn(REPORT, number).withColumn(
        BLOCK, F.floor(F.col(REPORT) / sums.BLOCK_REPORTS)
    )


def _sums(blocks: DataFrame, columns: Sequence[str], of_block: Sums) -> list[FloatArray]:
    """Return every block's partial sums, by entity and block."""

    def kernel(table: pa.Table) -> pa.Table:
        table = table.sort_by(REPORT)
        values = np.stack([table.column(c).to_numpy() for c in columns], axis=1)
        vector = of_block(np.ascontiguousarray(values))
        return pa.table(
            {
                ENTITY: table.column(ENTITY)[:1],
                BLOCK: table.column(BLOCK)[:1],
                "sums": pa.array([vector.tolist()]),
            }
        )

    made = (
        blocks.select(*columns, ENTITY, BLOCK, REPORT)
        .groupBy(ENTITY, BLOCK)
        .applyInArrow(kernel, f"{ENTITY} long, {BLOCK} long, sums array<double>")
        .orderBy(ENTITY, BLOCK)
        .toArrow()
    )
    return [np.array(row) for row in made.column("sums").to_pylist()]


def _spreads(
    blocks: DataFrame, columns: Sequence[str], schema: TupleFormat
) -> list[sums.Spread]:
    numeric, lags = schema.numeric, sums.LAGS

    def spread(values: FloatArray) -> FloatArray:
        return sums.spread(values, numeric, lags).flat()

    vectors = _sums(blocks, columns, spread)
    return [sums.Spread.of_flat(vector, len(columns), len(lags)) for vector in vectors]


def _bands(
    blocks: DataFrame,
    columns: Sequence[str],
    schema: TupleFormat,
    role: IntArray,
    scale: FloatArray,
    refresh: int,
) -> list[FloatArray]:
    numeric = schema.numeric

    def bands(values: FloatArray) -> FloatArray:
        return sums.band_sums(values, numeric, role, scale, refresh).ravel()

    shape = (len(sums.BANDS), -1)
    return [vector.reshape(shape) for vector in _sums(blocks, columns, bands)]


def _last_rows(
    ordered: DataFrame, columns: Sequence[str], order: Sequence[str], count: int
) -> FloatArray:
    """Return the last rows in stream order: the window that the paper ranks by."""
    last = ordered.orderBy(*(F.col(c).desc() for c in order)).limit(count)
    table = last.select(*columns).toArrow()
    return np.stack([table.column(c).to_numpy() for c in columns], axis=1)[::-1]


def describe(statistics: Statistics) -> str:
    """Say what the samples of every stream contain."""
    return "; ".join(
        f"{stream.tuples} tuples of {stream.entities} entities, CID "
        f"{', '.join(stream.cycle.cid) or 'none'}, cycle of {stream.cycle.length}"
        for stream in statistics.streams
    )


APP = StatisticsApp("attribute_profile", __doc__, Parameters, build, describe, ordered=True)

if __name__ == "__main__":
    sys.exit(APP.main(sys.argv[1:]))
