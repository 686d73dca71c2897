"""The compact binary form of a plan, for small devices.

Little-endian. Structure costs two bits per region, a cut its axis (as few bits as the space needs)
and four bytes if all cuts are single-precision numbers, else eight.

``encode_plan`` (whole path): header, axes, structure, axes of the cuts, cuts, then per region f and
A as float32 and one bit for "has queries". ``encode_setting`` (one z): f, A and the bits are
replaced by the drop threshold in 2 bytes, in units of 1/65535, rounded up so that the budget holds.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints
from planning.errors import ArtifactError
from planning.sifter.partition import LEAF, Partition, check_preorder
from planning.sifter.space import Axis, Space

if TYPE_CHECKING:
    from planning.sifter.plan import Plan

PLAN_MAGIC = b"HSP1"
SETTING_MAGIC = b"HSS1"
HEADER = struct.Struct("<4sBBHI")  # magic, dimensions, flags, length of the axes, regions
QOS = struct.Struct("<ddddH")  # B, Delta, z, pinned fraction, pinned boxes
WIDE_CUTS = 1
THRESHOLD_STEPS = 65535


def encode_plan(plan: Plan) -> bytes:
    """Return the whole plan."""
    axes = axes_bytes(plan.space, plan.partition)
    flags, structure = _structure(plan.partition, len(plan.space.axes))
    return b"".join(
        [
            HEADER.pack(PLAN_MAGIC, len(plan.space.axes), flags, len(axes), plan.regions),
            QOS.pack(
                plan.base_qos, plan.fairness_threshold, plan.throttle_fraction,
                plan.pinned_fraction, len(plan.pins.low),
            ),
            axes,
            structure,
            plan.frequency.astype("<f4").tobytes(),
            plan.region_qos.astype("<f4").tobytes(),
            np.packbits(plan.queried).tobytes(),
            plan.pins.low.astype("<f8").tobytes(),
            plan.pins.high.astype("<f8").tobytes(),
        ]
    )


def decode_plan(payload: bytes) -> Plan:
    """Read what ``encode_plan`` wrote; refuse anything else."""
    from planning.sifter.plan import Pins, Plan

    reader = _Reader(payload)
    dimensions, flags, axes_length, regions = reader.header(PLAN_MAGIC)
    base_qos, fairness, throttle, pinned, boxes = QOS.unpack(reader.take(QOS.size))
    space, orders = _read_axes(reader.take(axes_length), dimensions)
    partition = reader.partition(regions, dimensions, flags, orders)
    frequency = reader.numbers("<f4", regions)
    region_qos = reader.numbers("<f4", regions)
    queried = reader.bits(regions).astype(np.bool_)
    pin_low = reader.numbers("<f8", boxes * dimensions)
    pin_high = reader.numbers("<f8", boxes * dimensions)
    reader.finish()
    return Plan(
        space, partition, frozen(frequency), frozen(region_qos), queried, base_qos, fairness,
        throttle, Pins.of(pin_low, pin_high, dimensions), pinned,
    )  # fmt: skip


def encode_setting(plan: Plan, load: float) -> bytes:
    """Return structure and thresholds at one z; the attributes are known to the device."""
    flags, structure = _structure(plan.partition, len(plan.space.axes))
    steps = np.ceil(plan.at(load).drop_thresholds * THRESHOLD_STEPS - 1e-9).astype("<u2")
    header = HEADER.pack(SETTING_MAGIC, len(plan.space.axes), flags, 0, plan.regions)
    return header + structure + steps.tobytes()


def decode_setting(payload: bytes) -> tuple[Partition, FloatArray]:
    """Return the partition and the drop thresholds of ``encode_setting``."""
    reader = _Reader(payload)
    dimensions, flags, _, regions = reader.header(SETTING_MAGIC)
    partition = reader.partition(regions, dimensions, flags, ())
    thresholds = reader.numbers("<u2", regions) / THRESHOLD_STEPS
    reader.finish()
    return partition, frozen(thresholds)


def _structure(partition: Partition, dimensions: int) -> tuple[int, bytes]:
    inner = partition.dimension != LEAF
    cuts = partition.cut[inner]
    narrow = bool((cuts.astype(np.float32).astype(np.float64) == cuts).all())
    axes = _to_bits(partition.dimension[inner], _axis_bits(dimensions))
    parts = [np.packbits(inner).tobytes(), axes, cuts.astype("<f4" if narrow else "<f8").tobytes()]
    return (0 if narrow else WIDE_CUTS), b"".join(parts)


def _axis_bits(dimensions: int) -> int:
    return max(0, (dimensions - 1).bit_length())


def _to_bits(values: IntArray, width: int) -> bytes:
    shifts = np.arange(width)[::-1]
    return np.packbits((values[:, None] >> shifts) & 1).tobytes() if width else b""


def axes_bytes(space: Space, partition: Partition) -> bytes:
    """Return the attributes, with the order of category codes."""
    orders = partition.orders or ((),) * len(space.axes)
    axes = [
        (a.name, a.kind, a.low, a.high, a.values, order)
        for a, order in zip(space.axes, orders, strict=True)
    ]
    return msgspec.msgpack.encode(axes)


def _read_axes(payload: bytes, dimensions: int) -> tuple[Space, tuple[tuple[int, ...], ...]]:
    kind = list[tuple[str, str, float, float, tuple[str, ...], tuple[int, ...]]]
    try:
        read = msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ArtifactError(f"sifter plan: axes cannot be read ({error})") from None
    if len(read) != dimensions:
        raise ArtifactError(f"sifter plan must have {dimensions} axes, got {len(read)}")
    orders = tuple(order for *_, order in read)
    space = Space(tuple(Axis(n, k, low, high, v) for n, k, low, high, v, _ in read))
    return space, orders if any(orders) else ()


class _Reader:
    """Reads a payload from front to back; never past its end."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.place = 0

    def take(self, size: int) -> bytes:
        if self.place + size > len(self.payload):
            raise ArtifactError(
                f"sifter plan is truncated: {self.place + size} bytes needed, "
                f"got {len(self.payload)}; take it from the store again"
            )
        self.place += size
        return self.payload[self.place - size : self.place]

    def header(self, magic: bytes) -> tuple[int, int, int, int]:
        given, dimensions, flags, axes_length, regions = HEADER.unpack(self.take(HEADER.size))
        if given != magic or dimensions < 1 or regions < 1:
            raise ArtifactError(f"sifter plan must start with {magic!r}, got {given!r}")
        return dimensions, flags, axes_length, regions

    def numbers(self, kind: str, count: int) -> FloatArray:
        size = np.dtype(kind).itemsize * count
        return np.frombuffer(self.take(size), dtype=kind).astype(np.float64)

    def bits(self, count: int) -> NDArray[np.uint8]:
        packed = np.frombuffer(self.take((count + 7) // 8), dtype=np.uint8)
        return np.unpackbits(packed, count=count)

    def partition(
        self, regions: int, dimensions: int, flags: int, orders: tuple[tuple[int, ...], ...]
    ) -> Partition:
        inner = self.bits(2 * regions - 1).astype(np.bool_)
        width = _axis_bits(dimensions)
        dimension = np.full(2 * regions - 1, LEAF, dtype=np.int64)
        axis_bits: Any = self.bits((regions - 1) * width).reshape(regions - 1, width)
        if int(inner.sum()) != regions - 1:
            raise ArtifactError(f"sifter plan must have {regions} regions, its tree has not")
        dimension[inner] = axis_bits.astype(np.int64) @ (1 << np.arange(width)[::-1])
        check_preorder(dimension)
        if dimension.max() >= dimensions:
            raise ArtifactError(f"sifter plan cuts axis {dimension.max()} of {dimensions}")
        cut = np.zeros(len(dimension))
        cut[inner] = self.numbers("<f8" if flags & WIDE_CUTS else "<f4", regions - 1)
        if not np.isfinite(cut).all():
            raise ArtifactError("sifter plan must cut at finite numbers; take it from the store")
        return Partition(frozen_ints(dimension), frozen(cut), orders)

    def finish(self) -> None:
        if self.place != len(self.payload):
            raise ArtifactError(
                f"sifter plan must end after {self.place} bytes, got {len(self.payload)}"
            )
