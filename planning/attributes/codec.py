"""An attribute plan's two encodings: the JSON document, and compact bytes.

The bytes are MessagePack with the frontier's columns packed. Options change slowly along the
frontier, so the choice matrix is stored column by column as differences and compressed.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from planning.errors import ArtifactError
from planning.guarantees import NOWHERE, Guarantee
from planning.packing import Reader, converted, damaged, inflated, message, packed

if TYPE_CHECKING:
    from planning.attributes.plan import Plan, Stream

FORMAT = 1
MAGIC = b"HGA1"
WHAT = "attribute plan"
KINDS = ("number", "category", "text")
PACKED: dict[str, list[Any]] = {"ratio": [], "loss": [], "choice": []}
"""The fields that the bytes store separately from the document."""
LONGEST_WINDOW = 10_000_000  # tuples; the shedder remembers each
MOST_POINTS = 4096
MOST_BYTES = 2**40  # of a tuple


class StreamDocument(msgspec.Struct, forbid_unknown_fields=True):
    """One stream of the channel: lists have one entry per attribute of the plan."""

    name: str
    cid: list[str]
    cycle_length: int
    share: float
    header_bytes: int
    sizes: list[int]
    present: list[bool]
    kept: list[bool]
    scale: list[float]
    score: list[float]


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An attribute plan as published.

    ``choice`` holds, per point of the frontier, one option index per sheddable attribute (stream by
    stream, in the order of the attributes); option 0 is sent with every tuple. ``thinning`` n means
    that every n-th tuple of an entity is sent, one number per stream. ``guarantees`` is absent if
    there are none.
    """

    format: int
    method: str
    attributes: list[str]
    kinds: list[str]
    weight: list[float]
    stream_attribute: str
    streams: list[StreamDocument]
    window: int
    tuple_bytes: float
    refresh: int
    capacity_ratio: float
    option_period: list[int]
    option_band: list[float]
    ratio: list[float]
    loss: list[float]
    choice: list[list[int]]
    thinning: list[list[int]]
    guarantees: list[Guarantee] = []


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the JSON form, as :class:`PlanDocument` describes it."""
    fields = {"format": FORMAT, **plain(plan)}
    if not plan.guarantees:
        del fields["guarantees"]
    return {name: fields[name] for name in PlanDocument.__struct_fields__ if name in fields}


def plain(content: Any) -> Any:
    """Return dataclasses as mappings, arrays and tuples as lists, as JSON has them.

    >>> plain((np.array([1.5, 2.0]), {"at": 3}))
    [[1.5, 2.0], {'at': 3}]
    """
    return msgspec.msgpack.decode(msgspec.msgpack.encode(content, enc_hook=lambda a: a.tolist()))


def from_document(document: dict[str, Any]) -> Plan:
    """Read the JSON form back; refuse what does not fit together."""
    return _checked(converted(document, PlanDocument, WHAT))


def to_bytes(plan: Plan) -> bytes:
    """Return the compact binary form; it decodes to an equal plan."""
    head = {name: part for name, part in to_document(plan).items() if name not in PACKED}
    steps = np.diff(plan.choice.T, axis=1, prepend=np.uint8(0))
    tables = packed(plan.ratio, "<f8") + packed(plan.loss, "<f8") + packed(steps, "u1")
    return MAGIC + message([head, len(plan.ratio), zlib.compress(tables, 9)])


def from_bytes(payload: bytes) -> Plan:
    """Read the compact binary form back; refuse anything else."""
    reader = Reader(payload, WHAT)
    reader.magic(MAGIC)
    body: tuple[dict[str, Any], int, bytes] = reader.message(tuple[dict[str, Any], int, bytes])
    head, points, data = body
    read = converted({**head, **PACKED}, PlanDocument, WHAT)
    if not 1 <= points <= MOST_POINTS:
        raise damaged(WHAT, f"have 1 to {MOST_POINTS} points", points)
    items = sum(
        there and not kept
        for stream in read.streams
        for there, kept in zip(stream.present, stream.kept, strict=False)
    )
    tables = Reader(inflated(data, points * (16 + items), WHAT), WHAT)
    read.ratio = tables.floats("<f8", points).tolist()
    read.loss = tables.floats("<f8", points).tolist()
    steps = tables.numbers("u1", items, points)
    read.choice = np.cumsum(steps, axis=1, dtype=np.uint8).T.tolist()
    return _checked(read)


def _checked(read: PlanDocument) -> Plan:
    """Return the plan if its parts fit one another."""
    try:
        plan = _plan(read)
        whole = read.format == FORMAT and _fits_together(plan)
    except (KeyError, OverflowError, ValueError) as error:
        raise damaged(WHAT, "fit its schema", error) from None
    if not whole:
        raise ArtifactError(
            f"attribute plan must have format {FORMAT} and arrays of one length per attribute and "
            f"frontier point, got format {read.format}, {len(plan.attributes)} attributes, "
            f"{len(plan.ratio)} points, choice {plan.choice.shape}; take it from the store again"
        )
    return plan


def _plan(read: PlanDocument) -> Plan:
    from planning.attributes.plan import Plan

    return msgspec.convert(read, Plan, from_attributes=True, dec_hook=_array)


def _array(kind: Any, values: list[Any]) -> NDArray[Any]:
    """Return a list as the read-only array that a field of the plan declares."""
    (element,) = get_args(get_args(kind)[1])
    array = np.array(values, dtype=element)
    array.flags.writeable = False
    return array


def _fits_together(plan: Plan) -> bool:
    """Whether every part of the plan fits every other."""
    attributes, points = len(plan.attributes), len(plan.ratio)
    options = len(plan.option_period)
    items = sum(len(s.items) for s in plan.streams)
    arrays = [a for s in plan.streams for a in (s.sizes, s.present, s.kept, s.scale, s.score)]
    return (
        points >= 1
        and len(plan.streams) >= 1
        and 1 <= plan.window <= LONGEST_WINDOW
        and 0 < plan.tuple_bytes * plan.window < 2**62
        and {len(a) for a in arrays} == {attributes}
        and len(plan.kinds) == len(plan.weight) == attributes
        and set(plan.kinds) <= set(KINDS)
        and len(plan.option_band) == options
        and len(plan.loss) == points
        and plan.thinning.shape == (points, len(plan.streams))
        and bool((plan.thinning >= 1).all())
        and plan.choice.shape == (points, items)
        and bool(plan.choice.max(initial=0) < options)
        and bool((np.diff(plan.ratio) >= 0).all())
        and all(set(s.cid) <= set(plan.attributes) for s in plan.streams)
        and len(set(plan.attributes)) == attributes
        and plan.stream_attribute in ("", *plan.attributes)
        and _counts(plan.weight, plan.ratio, plan.loss)
        and all(_sound(s) for s in plan.streams)
        and max(s.full_bytes for s in plan.streams) > 0
        and bool((plan.option_period >= 0).all() and plan.refresh >= 0)
        and not np.isnan(plan.option_band).any()
        and all(_kept(guarantee) for guarantee in plan.guarantees)
        and len(plan.protected) == len(plan.guarantees)
    )


def _kept(guarantee: Guarantee) -> bool:
    return (
        guarantee.limit in ("max_age", "max_error")
        and 0.0 < guarantee.value < math.inf
        and 0.0 <= guarantee.holds_from <= NOWHERE
    )


def _sound(stream: Stream) -> bool:
    """Whether a shedder can count the bytes and cycles of a stream."""
    return (
        stream.cycle_length >= 1
        and _counts(stream.sizes, stream.scale, stream.score)
        and 0 <= stream.header_bytes < MOST_BYTES
        and sum(stream.sizes.tolist()) < MOST_BYTES
    )


def _counts(*arrays: NDArray[Any]) -> bool:
    """Whether all numbers are finite and not negative."""
    return all(bool((np.isfinite(a) & (a >= 0)).all()) for a in arrays)
