"""The plan's two encodings: a JSON document, and compact bytes for small devices.

The bytes are little-endian. Structure costs two bits per region, a cut its axis (in as few bits as
the space needs) and four bytes if all cuts are single-precision numbers, else eight.

``to_bytes`` (whole path): header, axes, structure, axes of the cuts, cuts, then per region f and A
as float32 and one bit for "has queries". ``setting_to_bytes`` (one z): f, A and the bits are
replaced by the drop threshold in 2 bytes, in units of 1/65535, rounded up so that the budget holds.
A plan ends with the ``OPTIONAL`` fields that flags announce, and last with what was traced: a
message of loads, quality and guarantees, and the thresholds as compressed float32.

Decoding returns the fields of a :class:`~planning.sifter.plan.Plan`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_ints
from planning.guarantees import NOWHERE, Guarantee
from planning.packing import Reader, bits, converted, damaged, inflated, message, packed, table
from planning.sifter.model import LEAF, Axis, Orders, Partition, Pins, Space, is_preorder

if TYPE_CHECKING:
    from planning.sifter.plan import Plan, Traced

WHAT = "sifter plan"
FORMAT = 1
PLAN_MAGIC, SETTING_MAGIC = b"HSP1", b"HSS1"
HEADER = struct.Struct("<BBHI")  # dimensions, flags, length of the axes, regions; after the magic
QOS = struct.Struct("<ddddH")  # B, Delta, z, pinned fraction, pinned boxes
NUMBER = struct.Struct("<d")
LENGTH = struct.Struct("<I")
WIDE_CUTS, TRACED = 1, 8
TOLERANCE = 0.01
OPTIONAL = {"min_keep": (2, 0.0), "budget_tolerance": (4, TOLERANCE)}  # flag, and value if absent
THRESHOLD_STEPS = 65535
MOST_THRESHOLDS = 1 << 24  # that a plan may have traced
TINY = 1e-6


class AxisDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An attribute: kind, bounds [low, high) and, for a category, its values in code order."""

    name: str
    kind: str
    low: float
    high: float
    values: list[str] = []


class PartitionDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A cut tree in preorder: ``dimension`` is -1 at a region; ``cut`` lists inner nodes only."""

    dimension: list[int]
    cut: list[float]
    orders: list[list[int]] = []


class PinsDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Boxes [low, high) whose tuples are never dropped."""

    low: list[list[float]] = []
    high: list[list[float]] = []


class TracedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Thresholds of all regions at some loads from 0 to 1, what they come to, and guarantees."""

    guarantees: list[Guarantee]
    error: float
    loads: list[float]
    quality: list[float]
    kept: list[list[float]]
    drop_thresholds: list[float] = []


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A sifter plan as published."""

    format: int
    axes: list[AxisDocument]
    partition: PartitionDocument
    frequency: list[float]
    region_qos: list[float]
    queried: list[bool]
    base_qos: float
    fairness_threshold: float
    throttle_fraction: float
    pinned_fraction: float = 0.0
    pins: PinsDocument = msgspec.field(default_factory=PinsDocument)
    min_keep: float = 0.0
    budget_tolerance: float = TOLERANCE
    traced: TracedDocument | None = None


class PackedAxis(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """An attribute in the compact bytes, with the positions of rearranged category codes."""

    name: str
    kind: str
    low: float
    high: float
    values: tuple[str, ...]
    order: tuple[int, ...]


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the JSON form, as :class:`PlanDocument` describes it."""
    axes = [AxisDocument(a.name, a.kind, a.low, a.high, list(a.values)) for a in plan.space.axes]
    document = {
        "format": FORMAT,
        "axes": msgspec.to_builtins(axes),
        "partition": partition_document(plan.partition),
        "frequency": plan.frequency.tolist(),
        "region_qos": plan.region_qos.tolist(),
        "queried": plan.queried.tolist(),
        "base_qos": plan.base_qos,
        "fairness_threshold": plan.fairness_threshold,
        "throttle_fraction": plan.throttle_fraction,
        "pinned_fraction": plan.pinned_fraction,
        "pins": {"low": plan.pins.low.tolist(), "high": plan.pins.high.tolist()},
    }
    if plan.traced is not None:
        flat = plan.traced.drop_thresholds.ravel().tolist()
        document["traced"] = _traced_head(plan.traced) | {"drop_thresholds": flat}
    return document | _written(plan)


def _traced_head(traced: Traced) -> dict[str, Any]:
    """Return what was traced without the thresholds."""
    return {
        "guarantees": [asdict(one) for one in traced.guarantees],
        "error": traced.error,
        "loads": traced.loads.tolist(),
        "quality": traced.quality.tolist(),
        "kept": traced.kept.tolist(),
    }


def _written(plan: Plan) -> dict[str, float]:
    """Return the optional fields that differ from what holds without them."""
    return {name: value for name, (_, usual) in OPTIONAL.items()
            if (value := getattr(plan, name)) != usual}  # fmt: skip


def from_document(document: dict[str, Any]) -> dict[str, Any]:
    """Read the JSON form; refuse what does not fit together."""
    read = converted(document, PlanDocument, WHAT)
    if read.format != FORMAT:
        raise damaged(WHAT, f"have format {FORMAT}", read.format)
    axes = len(read.axes)
    partition = _fits(read_partition(read.partition, WHAT), axes)
    space = tuple(Axis(a.name, a.kind, a.low, a.high, tuple(a.values)) for a in read.axes)
    regions = (partition.regions,)
    boxes = (len(read.pins.low), axes)
    low, high = ([x for row in rows for x in row] for rows in (read.pins.low, read.pins.high))
    fields = {
        "space": Space(space),
        "partition": partition,
        "frequency": frozen(table(read.frequency, regions, WHAT, "frequency")),
        "region_qos": frozen(table(read.region_qos, regions, WHAT, "region_qos")),
        "queried": table(read.queried, regions, WHAT, "queried").astype(np.bool_),
        "base_qos": read.base_qos,
        "fairness_threshold": read.fairness_threshold,
        "throttle_fraction": read.throttle_fraction,
        "pins": Pins(
            frozen(table(low, boxes, WHAT, "pins.low")),
            frozen(table(high, boxes, WHAT, "pins.high")),
        ),
        "pinned_fraction": read.pinned_fraction,
        **{name: getattr(read, name) for name in OPTIONAL},
        "traced": None if read.traced is None else _traced(read.traced, partition.regions),
    }
    return _sound(fields)


def _traced(read: TracedDocument, regions: int) -> Traced:
    """Return what was traced, if its parts fit one another."""
    from planning.sifter.plan import Traced

    rows, given = len(read.loads), len(read.guarantees)
    tables = (
        table(read.loads, (rows,), WHAT, "loads"),
        table(read.drop_thresholds, (rows, regions), WHAT, "drop_thresholds"),
        table(read.quality, (rows,), WHAT, "quality"),
        table(read.kept, (rows, given), WHAT, "kept"),
    )
    loads, thresholds, quality, kept = numbers = [frozen(values) for values in tables]
    terms = [(one.value, one.holds_from) for one in read.guarantees]
    for fits, must, got in (
        (all(bool(np.isfinite(values).all()) for values in numbers), "be finite", "NaN"),
        (rows > 1 and bool((np.diff(loads) > 0.0).all()), "have rising loads", rows),
        (rows > 1 and (loads[0], loads[-1]) == (0.0, 1.0), "have loads from 0 to 1", rows),
        (bool(((thresholds >= 0.0) & (thresholds <= 1.0)).all()), "drop shares", "others"),
        (not thresholds[-1:].any(), "drop nothing at load 1", "something"),
        (bool((np.abs(kept - 0.5) <= 0.5 + TINY).all()), "keep shares", "others"),
        (0.0 <= read.error < np.inf, "have an error of 0 or more", read.error),
        (all(0.0 <= v <= 1.0 and 0.0 <= z <= NOWHERE for v, z in terms), "guarantee", terms),
    ):
        if not fits:
            raise damaged(WHAT, must, got)
    return Traced(loads, thresholds, quality, kept, tuple(read.guarantees), read.error)


def to_bytes(plan: Plan) -> bytes:
    """Return the compact form of the whole plan."""
    axes = axes_bytes(plan.space, plan.partition)
    flags, structure = _structure(plan.partition, len(plan.space.axes))
    optional, traced = _written(plan), b""
    flags |= sum(OPTIONAL[name][0] for name in optional)
    if plan.traced is not None:
        flags |= TRACED
        head = message(_traced_head(plan.traced))
        traced = LENGTH.pack(len(head)) + head
        traced += zlib.compress(packed(plan.traced.drop_thresholds, "<f4"), 9)
    return b"".join(
        [
            PLAN_MAGIC,
            HEADER.pack(len(plan.space.axes), flags, len(axes), plan.regions),
            QOS.pack(
                plan.base_qos, plan.fairness_threshold, plan.throttle_fraction,
                plan.pinned_fraction, len(plan.pins.low),
            ),
            axes,
            structure,
            packed(plan.frequency, "<f4"),
            packed(plan.region_qos, "<f4"),
            bits(plan.queried),
            packed(plan.pins.low, "<f8"),
            packed(plan.pins.high, "<f8"),
            *map(NUMBER.pack, optional.values()),
            traced,
        ]
    )  # fmt: skip


def from_bytes(payload: bytes) -> dict[str, Any]:
    """Read what ``to_bytes`` wrote; refuse anything else."""
    reader = Reader(payload, WHAT)
    dimensions, flags, axes_length, regions = _header(reader, PLAN_MAGIC)
    base_qos, fairness_threshold, throttle_fraction, pinned, boxes = reader.unpack(QOS)
    axes: list[PackedAxis] = reader.message(list[PackedAxis], axes_length)
    if len(axes) != dimensions:
        raise damaged(WHAT, f"have {dimensions} axes", len(axes))
    orders = tuple(axis.order for axis in axes) if any(axis.order for axis in axes) else ()
    fields = {
        "space": Space(tuple(Axis(a.name, a.kind, a.low, a.high, a.values) for a in axes)),
        "partition": _read_structure(reader, regions, dimensions, flags, orders),
        "frequency": reader.floats("<f4", regions),
        "region_qos": reader.floats("<f4", regions),
        "queried": reader.bits(regions),
        "base_qos": base_qos,
        "fairness_threshold": fairness_threshold,
        "throttle_fraction": throttle_fraction,
        "pins": Pins(
            reader.floats("<f8", boxes, dimensions), reader.floats("<f8", boxes, dimensions)
        ),
        "pinned_fraction": pinned,
    }
    for name, (flag, usual) in OPTIONAL.items():
        fields[name] = reader.unpack(NUMBER)[0] if flags & flag else usual
    if flags & TRACED:
        read: TracedDocument = reader.message(TracedDocument, reader.unpack(LENGTH)[0])
        size = len(read.loads) * regions
        if size > MOST_THRESHOLDS:
            raise damaged(WHAT, f"have at most {MOST_THRESHOLDS} traced thresholds", size)
        stored = inflated(reader.rest(), 4 * size, WHAT)
        read.drop_thresholds = np.frombuffer(stored, "<f4").astype(np.float64).tolist()
        fields["traced"] = _traced(read, regions)
    reader.finish()
    return _sound(fields)


def _sound(fields: dict[str, Any]) -> dict[str, Any]:
    """Refuse fields from which no thresholds follow."""
    frequency = fields["frequency"]
    if not np.isfinite(frequency.sum()) or not (frequency >= 0.0).all():
        raise damaged(WHAT, "have frequencies of at least 0", "others")
    for name in OPTIONAL:
        if not 0.0 <= fields[name] <= 1.0:
            raise damaged(WHAT, f"have a {name} in [0, 1]", fields[name])
    return fields


def setting_to_bytes(plan: Plan, load: float) -> bytes:
    """Return structure and thresholds at one z; the device knows the attributes."""
    flags, structure = _structure(plan.partition, len(plan.space.axes))
    steps = np.ceil(plan.at(load).drop_thresholds * THRESHOLD_STEPS - 1e-9)
    header = HEADER.pack(len(plan.space.axes), flags, 0, plan.regions)
    return SETTING_MAGIC + header + structure + packed(steps, "<u2")


def setting_from_bytes(payload: bytes) -> tuple[Partition, FloatArray]:
    """Return the partition and the drop thresholds of ``setting_to_bytes``."""
    reader = Reader(payload, WHAT)
    dimensions, flags, _, regions = _header(reader, SETTING_MAGIC)
    partition = _read_structure(reader, regions, dimensions, flags, ())
    thresholds = frozen(reader.floats("<u2", regions) / THRESHOLD_STEPS)
    reader.finish()
    return partition, thresholds


def partition_document(partition: Partition) -> dict[str, Any]:
    """Return the JSON form of a partition, as :class:`PartitionDocument` describes it."""
    return {
        "dimension": partition.dimension.tolist(),
        "cut": partition.cut[partition.dimension != LEAF].tolist(),
        "orders": [list(order) for order in partition.orders],
    }


def read_partition(document: PartitionDocument | dict[str, Any], what: str) -> Partition:
    """Read the JSON form of a partition; refuse what is not a tree."""
    read = converted(document, PartitionDocument, what)
    try:
        dimension = np.array(read.dimension, dtype=np.int64)
    except OverflowError as error:
        raise damaged(what, "cut axes of the space", error) from None
    return _tree(dimension, read.cut, tuple(tuple(order) for order in read.orders), what)


def axes_bytes(space: Space, partition: Partition) -> bytes:
    """Return the attributes, with the order of category codes."""
    orders = partition.orders or ((),) * len(space.axes)
    return message(
        [
            PackedAxis(a.name, a.kind, a.low, a.high, a.values, order)
            for a, order in zip(space.axes, orders, strict=True)
        ]
    )


def _tree(
    dimension: IntArray, cuts: Sequence[float] | FloatArray, orders: Orders, what: str
) -> Partition:
    if not is_preorder(dimension):
        raise damaged(what, "hold the preorder of a whole cut tree", "one truncated or overlong")
    inner = dimension != LEAF
    if len(cuts) != inner.sum() or not np.isfinite(cuts).all():
        raise damaged(what, f"hold {inner.sum()} finite cuts", f"{len(cuts)}, or one infinite")
    cut = np.zeros(len(dimension))
    cut[inner] = cuts
    return Partition(frozen_ints(dimension), frozen(cut), orders)


def _fits(partition: Partition, axes: int) -> Partition:
    if partition.dimension.max() >= axes or len(partition.orders) not in (0, axes):
        given = f"axis {partition.dimension.max()} and orders of {len(partition.orders)}"
        raise damaged(WHAT, f"cut its {axes} axes", given)
    return partition


def _header(reader: Reader, magic: bytes) -> tuple[int, int, int, int]:
    reader.magic(magic)
    dimensions, flags, axes_length, regions = reader.unpack(HEADER)
    if dimensions < 1 or regions < 1:
        raise damaged(WHAT, "have axes and regions", f"{dimensions} and {regions}")
    return dimensions, flags, axes_length, regions


def _structure(partition: Partition, dimensions: int) -> tuple[int, bytes]:
    inner = partition.dimension != LEAF
    cuts = partition.cut[inner]
    narrow = bool((cuts.astype(np.float32).astype(np.float64) == cuts).all())
    axes: BoolArray = (partition.dimension[inner][:, None] >> _axis_shifts(dimensions)) & 1 > 0
    return (
        0 if narrow else WIDE_CUTS,
        bits(inner) + bits(axes) + packed(cuts, "<f4" if narrow else "<f8"),
    )


def _read_structure(
    reader: Reader, regions: int, dimensions: int, flags: int, orders: Orders
) -> Partition:
    inner = reader.bits(2 * regions - 1)
    shifts = _axis_shifts(dimensions)
    axes = reader.bits((regions - 1) * len(shifts)).reshape(regions - 1, len(shifts))
    if int(inner.sum()) != regions - 1:
        raise damaged(WHAT, f"have a tree of {regions} regions", f"{inner.sum()} cuts")
    dimension = np.full(len(inner), LEAF, dtype=np.int64)
    dimension[inner] = axes.astype(np.int64) @ (1 << shifts)
    cuts = reader.floats("<f8" if flags & WIDE_CUTS else "<f4", regions - 1)
    return _fits(_tree(dimension, cuts, orders, WHAT), dimensions)


def _axis_shifts(dimensions: int) -> IntArray:
    """Return the bits that name an axis, the highest first."""
    return np.arange((dimensions - 1).bit_length())[::-1]
