"""Shedding inside Spark: a streaming or batch DataFrame in, the rows that are kept out.

>>> kept = shed(rows, stream="ticks", store="/srv/headgate/plans", trusted="/etc/headgate/keys",
...             key=["id"], control="/checkpoints/ticks/headgate")  # doctest: +SKIP

``docs/streaming.md`` explains what is fixed when, and why repetitions are equal bit by bit.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from planning import families
from planning.artifacts import Reader, TrustedKeys, Unverified, files
from planning.artifacts.files import Location
from planning.artifacts.remote import Remote, Token, is_url
from planning.errors import InvalidInput
from spark_apps.session import map_in_arrow
from spark_apps.streaming.control import Control, Terms
from spark_apps.streaming.pace import Law, Pace, law_for
from spark_apps.streaming.worker import (
    Columns,
    Fixed,
    Settings,
    kernel,
    trust_of,
    trusted_by,
    worker,
)

__all__ = ["Control", "Law", "Pace", "Terms", "follow", "shed"]

MASKED = ("joins", "attributes")
BY_ENTITY = ("lira", "attributes")
Store: TypeAlias = "Reader | Location"
_listeners: dict[tuple[str, str], Pace] = {}


def shed(
    rows: DataFrame,
    *,
    stream: str,
    store: Store,
    key: str | Sequence[str],
    trusted: TrustedKeys | Unverified | Location | None = None,
    token: Token | None = None,
    family: str | None = None,
    control: Location | None = None,
    load: float | None = None,
    capacity_per_s: float | None = None,
    batch_s: float | None = None,
    weight_column: str | None = None,
    version_column: str | None = None,
    mask_column: str | None = None,
    landing: Location | None = None,
    sampling_fraction: float = 0.01,
    salt: int | None = None,
    order_by: str | Sequence[str] = (),
    buckets: int = 8,
    node: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Shed a DataFrame by a stream's published plan.

    Version and load are fixed once per micro-batch, by the first task that needs them, and kept in
    the control folder; whatever repeats the micro-batch sheds alike. A DataFrame that is no stream
    is shed by the version that is newest now. Without a plan, rows are thinned by key to the load.

    Parameters
    ----------
    rows
        With the columns that the plan reads; of a stream, or of a micro-batch in ``foreachBatch``.
    stream, store, trusted, token
        As for a :class:`~planning.runtime.PlanClient`; workers must reach the store too.
        ``trusted`` may be a folder of keys.
    key, salt
        Columns whose hash decides (:mod:`planning.keys`); one value of the key shares one fate.
    family
        The family of the stream's plans; by default that of the newest one in the store.
    control
        A folder that driver and workers share, best inside the query's checkpoint; needed for
        streams, and for ``foreachBatch`` if its repetitions are to be equal.
    load
        A fixed load.
    capacity_per_s
        Rows per second that can be processed; the load follows from the rate of arrival.
    batch_s
        Seconds that a micro-batch may take, 1 by default; the load follows from the query's own
        progress if neither of the others is given.
    weight_column, version_column
        Columns to add: 1 / (probability of being kept), null where there is none; the version.
    mask_column
        For joins: the column of masks that say which basic windows a row is compared with, newest
        first; all rows stay. For attributes: the names of the attributes that are sent of a row;
        the others are null.
    landing, sampling_fraction
        Where marked rows are written as samples, and how many are marked.
    order_by, buckets
        For lira and attributes, where what is kept of a row depends on the rows of its entity
        before: the columns that give them their order, and into how many groups entities are
        dealt. ``key`` must name the entity; a query keeps the number of buckets for its lifetime.
    node
        The query's name in its status.
    options
        Further arguments of the family's shedder.
    """
    reader = reader_of(store, trusted, token)
    family = families.family(family or reader.latest(stream).family).name
    settings = Settings(
        store=str(reader.root),
        trust=trust_of(reader.trusted),
        stream=stream,
        family=family,
        key=_present(rows, (key,) if isinstance(key, str) else tuple(key)),
        salt=salt,
        load=load,
        control=_anywhere(control),
        landing=_anywhere(landing),
        sampling_fraction=sampling_fraction,
        options=dict(options or {}),
        token=token,
    )
    law = law_for(load, capacity_per_s, batch_s)
    added = Columns(weight_column, version_column, mask_column)
    _check(rows, settings, added)
    fixed = None
    if rows.isStreaming:
        assert settings.control is not None
        follow(rows.sparkSession, stream=stream, store=reader, control=settings.control, law=law,
               node=node)  # fmt: skip
    elif settings.control is None:
        terms, published = worker(settings).propose(None, None)
        fixed = Fixed.of(secrets.token_hex(8), terms, published)
    if family in BY_ENTITY:
        from spark_apps.streaming.entities import shed_by_bucket

        ordered = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        return shed_by_bucket(rows, settings, ordered, buckets, added)
    schema = _schema(rows, added)
    return map_in_arrow(rows, kernel(settings, fixed, added, schema.names), schema)


def follow(
    spark: SparkSession,
    *,
    stream: str,
    store: Store,
    control: Location,
    trusted: TrustedKeys | Unverified | Location | None = None,
    law: Law | None = None,
    node: str | None = None,
) -> Pace:
    """Let the load of queries follow their progress, add up their counters, report their status.

    ``shed`` does this for streams. Call it yourself if ``shed`` is used inside ``foreachBatch``.
    """
    pace = Pace(str(files.folder(control)), stream, reader_of(store, trusted), law, node)
    before = _listeners.pop((pace.control, stream), None)
    if before is not None:
        spark.streams.removeListener(before)
    spark.streams.addListener(pace)
    _listeners[pace.control, stream] = pace
    return pace


def reader_of(
    store: Store,
    trusted: TrustedKeys | Unverified | Location | None = None,
    token: Token | None = None,
) -> Reader:
    """Return where plans are read from; its trusted keys are the given ones, if any."""
    if trusted is not None and not isinstance(trusted, TrustedKeys | Unverified):
        trusted = trusted_by(str(trusted))
    if isinstance(store, Reader):
        return store if trusted is None else Reader(store.root, trusted)
    return Remote(str(store), trusted, token=token) if is_url(store) else Reader(store, trusted)


def _anywhere(location: Location | None) -> str | None:
    """Return a folder as one that does not depend on where a process runs."""
    return None if location is None else str(files.folder(location))


def _present(rows: DataFrame, key: tuple[str, ...]) -> tuple[str, ...]:
    absent = [name for name in key if name not in rows.columns]
    if absent or not key:
        raise InvalidInput(
            f"key must name columns of {', '.join(rows.columns)}, got {', '.join(absent) or 'none'}"
        )
    return key


def _check(rows: DataFrame, settings: Settings, added: Columns) -> None:
    if settings.store.startswith("memory:"):
        raise InvalidInput(f"store must be within reach of the workers, got {settings.store}")
    if settings.family in BY_ENTITY and (not rows.isStreaming or added.weight is not None):
        raise InvalidInput(
            f"rows must be a stream, and without weight_column, for {settings.family}: what is "
            "kept of a row depends on the rows before, and has no probability; read files as a "
            "stream with trigger(availableNow=True)"
        )
    if (settings.family in MASKED) != (added.mask is not None):
        raise InvalidInput(
            f"mask_column must be given for {', '.join(MASKED)} and for no other family, got "
            f"{added.mask!r} for {settings.family}"
        )
    if rows.isStreaming and settings.control is None:
        raise InvalidInput(
            "control must be a folder beside the query's checkpoint, got none; pass for example "
            "control=f'{checkpoint}/headgate'"
        )
    names = [name for name in (added.weight, added.version, added.mask) if name is not None]
    taken = [name for name in names if name in rows.columns or names.count(name) > 1]
    if taken:
        raise InvalidInput(f"columns to add must be new, got {', '.join(taken)}; rename them")


def _schema(rows: DataFrame, added: Columns) -> T.StructType:
    fields = list(rows.schema.fields)
    if added.weight is not None:
        fields.append(T.StructField(added.weight, T.DoubleType()))
    if added.version is not None:
        fields.append(T.StructField(added.version, T.IntegerType()))
    if added.mask is not None:
        fields.append(T.StructField(added.mask, T.ArrayType(T.BooleanType())))
    return T.StructType(fields)
