"""Families whose decisions depend on what an entity sent before: lira and attributes.

Entities are dealt into buckets by the hash of their key. Every bucket has a shedder of its own,
which Spark keeps in its state store: a repeated micro-batch begins with the state that it began
with the first time. Within a bucket rows are decided on in one go, so that the state costs time per
bucket and not per entity.

What lira decides on an object depends on the terms and on the object's own track, so that the
number of buckets changes nothing. The capacity of attributes, C bytes in W consecutive tuples, is
kept by every bucket for its own tuples, and therefore on average by all of them together.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from planning.arrays import BoolArray
from planning.errors import InvalidInput
from planning.runtime.preparing import Prepared
from spark_apps.keys import key_hash
from spark_apps.streaming.control import Control, Terms
from spark_apps.streaming.worker import Columns, Settings, Task, Worker, place, worker

STATE = "shedder binary, version int"
BUCKET = "hg_bucket"
Update = Callable[[Any, Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]


def shed_by_bucket(
    rows: DataFrame, settings: Settings, order_by: tuple[str, ...], buckets: int, added: Columns
) -> DataFrame:
    """Return what is kept of a stream; see :func:`spark_apps.streaming.shed`."""
    absent = [name for name in order_by if name not in rows.columns]
    if absent or not order_by:
        raise InvalidInput(
            f"order_by must name the columns of {', '.join(rows.columns)} that give an entity's "
            f"rows their order, got {', '.join(absent) or 'none'}"
        )
    if buckets < 1:
        raise InvalidInput(f"buckets must be at least 1, got {buckets}")
    fields = list(rows.schema.fields)
    if added.version is not None:
        fields.append(T.StructField(added.version, T.IntegerType()))
    if added.mask is not None:
        fields.append(T.StructField(added.mask, T.ArrayType(T.StringType())))
    dealt = F.pmod(key_hash(rows, *settings.key), F.lit(buckets))
    return (
        rows.withColumn(BUCKET, dealt.cast("int"))
        .groupBy(BUCKET)
        .applyInPandasWithState(
            updating(settings, list(order_by), added),
            T.StructType(fields),
            STATE,
            "append",
            "NoTimeout",
        )
    )


def updating(settings: Settings, order_by: list[str], added: Columns) -> Update:
    """Return what Spark runs on the rows of a bucket."""

    def update(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        (bucket,) = key
        frame = pd.concat(list(frames), ignore_index=True).drop(columns=BUCKET)
        frame = frame.sort_values(order_by, kind="stable", ignore_index=True)
        here = place()
        assert here.batch is not None
        assert settings.control is not None
        control = Control(settings.control, here.query, settings.stream)
        kept = worker(settings)
        terms = kept.terms(control, here.batch)
        known = state.get if state.exists else None
        prepared = taken_over(kept, control, terms, known)
        task = Task(settings, terms, prepared, here.batch)
        keep, _ = task.decide(pa.RecordBatch.from_pandas(frame, preserve_index=False), False)
        task.land(here.query, here.batch, bucket)
        control.count(here.batch, bucket, task.path.counters.snapshot())
        shedder = task.path.shedder
        if shedder is not None:
            state.update((pickle.dumps(shedder), terms.version))
        parts = shedder.parts if shedder is not None else ()
        yield _sent(frame, keep, parts, terms.version, added)

    return update


def taken_over(
    kept: Worker, control: Control, terms: Terms, known: tuple[bytes, int] | None
) -> Prepared | None:
    """Return a bucket's shedder: as it was, or that of a new version, which takes over from it."""
    if not terms.version:
        return None
    finished = kept.shedder(terms.version, lambda: control.plan(terms.version))
    if known is None:
        return Prepared(pickle.loads(pickle.dumps(finished.shedder)), finished.passed)
    shedder, version = pickle.loads(known[0]), known[1]
    if version != terms.version:
        old, shedder = shedder, pickle.loads(pickle.dumps(finished.shedder))
        shedder.adopt(old)
    return Prepared(shedder, finished.passed)


def _sent(
    frame: pd.DataFrame, keep: BoolArray, parts: Sequence[str], version: int, added: Columns
) -> pd.DataFrame:
    """Return the rows of which anything is kept; parts that are not become null."""
    some = keep if keep.ndim == 1 else keep.any(axis=1)
    sent = frame[some].copy()
    if keep.ndim > 1:
        for part, column in zip(parts, keep[some].T, strict=True):
            if part in sent and not column.all():
                sent[part] = sent[part].astype(object).where(column, None)
    if added.version is not None:
        sent[added.version] = np.int32(version)
    if added.mask is not None:
        names = np.array(parts or frame.columns, dtype=object)
        wide = keep[some] if keep.ndim > 1 else np.ones((len(sent), len(names)), dtype=np.bool_)
        sent[added.mask] = [names[row].tolist() for row in wide]
    return sent
