"""What stations and nodes are sent: the map at one z, a station's part of it, a change of z.

========  ===================================================================================
form      content
========  ===================================================================================
map       frame, tree with throttlers at one z, or with levels: for a node that roams freely
part      the tree inside one station's coverage, with throttlers at one z, or with levels
change    throttlers per level at one z: for nodes that hold levels
========  ===================================================================================

Trees are range-coded (:mod:`planning.lira.codec.treecode`). Throttlers are indices into a table,
sent first, of the values in use: breakpoints Δmin + k·c exactly, and the few others in units of
(Δmax − Δmin)/65535, so that a decoded throttler differs from the plan's by at most half that; with
guarantees they are rounded down, so that none is exceeded. A ``part`` or ``change`` names its frame
by a tag of two bytes; nodes get the frame once.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, frozen
from planning.errors import ArtifactError, InvalidInput
from planning.lira.codec import rangecoder
from planning.lira.codec.treecode import TreeReader, context_count, tree_decisions
from planning.lira.model import Frame
from planning.lira.partition.regions import Symbols
from planning.packing import Reader, packed

if TYPE_CHECKING:
    from planning.lira.plan import Plan

MAP, PART, CHANGE = 0x10, 0x20, 0x30  # kinds
LEVELS, ROUND = 0x01, 0x01  # flags: of maps and parts; of changes, whose steps go round the table
HEADER = struct.Struct("<BH")  # kind, frame's tag
FRAME = struct.Struct("<BHH")  # whether numbers are doubles, side, segments; then six numbers
FRACTIONS = 65535
RAW_BITS = 16
LEVEL_BITS = 8
MOST_EXTRAS = 256
BITMAP_CONTEXT, MORE_CONTEXT, RAW_CONTEXT = 0, 1, 2
TABLE_CONTEXTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A decoded map or part.

    ``symbols`` may contain NOT_SENT; ``values`` has, per region sent, a throttler in metres or, if
    ``has_levels``, a level.
    """

    symbols: Symbols
    values: FloatArray
    has_levels: bool


def frame_bytes(frame: Frame) -> bytes:
    """Return a frame in 29 bytes if single precision is exact for it, else in 53."""
    numbers = np.array((*frame.bounds, frame.low, frame.high))
    wide = bool((numbers.astype(np.float32) != numbers).any())
    return FRAME.pack(wide, frame.side, frame.segments) + packed(numbers, "<f8" if wide else "<f4")


def read_frame(reader: Reader) -> Frame:
    """Read what :func:`frame_bytes` wrote."""
    wide, side, segments = reader.unpack(FRAME)
    a, b, c, d, low, high = reader.floats("<f8" if wide == 1 else "<f4", 6).tolist()
    return Frame((a, b, c, d), side, low, high, segments)


def frame_tag(frame: Frame) -> int:
    """Return sixteen bits by which a message names the frame it belongs to."""
    return zlib.crc32(frame_bytes(frame)) & 0xFFFF


def encode_map(plan: Plan, load: float | None = None) -> bytes:
    """Return the whole map: throttlers at ``load``, or levels if there is none."""
    flags, body = _body(plan, load, None)
    return HEADER.pack(MAP | flags, frame_tag(plan.frame)) + frame_bytes(plan.frame) + body


def decode_map(data: bytes) -> tuple[Frame, Decoded]:
    """Read a whole map."""
    reader = Reader(data, "lira map")
    flags = _flags(reader, MAP)
    try:
        frame = read_frame(reader)
    except InvalidInput as error:
        raise ArtifactError(f"a map must carry its frame, got {error}; receive it again") from None
    return frame, _read_body(reader.rest(), frame, flags, whole=True)


def encode_part(plan: Plan, load: float | None, sent: NDArray[np.bool_]) -> bytes:
    """Return the rectangles (in preorder) marked in ``sent``, for one station.

    Whatever contains a marked rectangle is marked too.
    """
    flags, body = _body(plan, load, sent)
    return HEADER.pack(PART | flags, frame_tag(plan.frame)) + body


def decode_part(data: bytes, frame: Frame) -> Decoded:
    """Read a station's part, made in the same frame."""
    reader = Reader(data, "part of a lira map")
    flags = _flags(reader, PART, frame)
    return _read_body(reader.rest(), frame, flags, whole=False)


def encode_change(plan: Plan, load: float) -> bytes:
    """Return what turns levels into throttlers at a new z.

    Without guarantees they never rise with the level.
    """
    by_level = plan.at(load).by_level
    table, index = _table(plan, by_level)
    contexts, bits = _table_decisions(plan.frame, table)
    # From the lowest level on: step down the table, or stay. Levels of a guarantee begin anew.
    position = table.size - 1
    steps: list[int] = []
    for wanted in index.tolist():
        steps += [1] * ((position - wanted) % table.size) + [0]
        position = wanted
    contexts += [TABLE_CONTEXTS] * len(steps)
    body = rangecoder.encode(
        np.array(contexts, np.int32), np.array(bits + steps, np.uint8), TABLE_CONTEXTS + 1
    )
    kind = CHANGE if plan.guaranteed is None else CHANGE | ROUND
    return HEADER.pack(kind, frame_tag(plan.frame)) + bytes([by_level.size - 1]) + body


def decode_change(data: bytes, frame: Frame) -> FloatArray:
    """Return the throttler of every level."""
    reader = Reader(data, "change of a lira map")
    flags = _flags(reader, CHANGE, frame)
    out = np.empty(reader.take(1)[0] + 1)
    steps = TreeReader(reader.rest(), TABLE_CONTEXTS + 1)
    table = _read_table(steps, frame)
    position = table.size - 1
    for level in range(out.size):
        last = position - table.size if flags else -1
        while steps.bit(TABLE_CONTEXTS):
            position -= 1
            if position <= last:
                raise ArtifactError("a change must stay inside its table; receive it again")
        position %= table.size
        out[level] = table[position]
    return frozen(out)


def _flags(reader: Reader, wanted: int, frame: Frame | None = None) -> int:
    """Return the flags of a message of the wanted kind, made in the node's frame if it has one."""
    kind, tag = reader.unpack(HEADER)
    if kind & 0xF0 != wanted or kind & 0x0F not in (0, LEVELS):
        raise ArtifactError(
            f"a message must be of kind {wanted:#04x}, got kind {kind:#04x}; receive it again"
        )
    if frame is not None and tag != frame_tag(frame):
        raise ArtifactError(
            f"the message belongs to frame {tag:#06x}, this node holds {frame_tag(frame):#06x}; "
            "fetch the stream's frame again"
        )
    return int(kind & 0x0F)


def _body(plan: Plan, load: float | None, sent: NDArray[np.bool_] | None) -> tuple[int, bytes]:
    """Return flags and the range-coded table and tree."""
    if load is None:
        values, bits = plan.level, LEVEL_BITS
        contexts: list[int] = []
        decisions: list[int] = []
    else:
        used = plan.at(load).throttlers
        table, _ = _table(plan, used if sent is None else used[sent[plan.partition.places]])
        contexts, decisions = _table_decisions(plan.frame, table)
        values = np.searchsorted(table, _quantised(plan, used)).astype(np.int64)
        values, bits = np.minimum(values, table.size - 1), _value_bits(table.size)
    where, what = tree_decisions(plan.partition, values, bits, sent)
    body = rangecoder.encode(
        np.concatenate([np.array(contexts, np.int32), where + np.int32(TABLE_CONTEXTS)]),
        np.concatenate([np.array(decisions, np.uint8), what]),
        TABLE_CONTEXTS + context_count(bits),
    )
    return (LEVELS if load is None else 0), body


def _read_body(data: bytes, frame: Frame, flags: int, *, whole: bool) -> Decoded:
    most = _value_bits(frame.segments + 1 + MOST_EXTRAS) if not flags else LEVEL_BITS
    reader = TreeReader(data, TABLE_CONTEXTS + context_count(most))
    if flags:
        symbols, values = reader.tree(frame.side, LEVEL_BITS, TABLE_CONTEXTS, whole=whole)
        return Decoded(symbols, frozen(values), True)
    table = _read_table(reader, frame)
    bits = _value_bits(table.size)
    symbols, values = reader.tree(frame.side, bits, TABLE_CONTEXTS, whole=whole)
    if values.size and values.max() >= table.size:
        raise ArtifactError("a region must use a throttler of the table; receive the map again")
    return Decoded(symbols, frozen(table[values]), False)


def _quantised(plan: Plan, values: FloatArray) -> FloatArray:
    """Return breakpoints as they are, anything else in whole units of (Δmax − Δmin)/65535."""
    frame, whole = plan.frame, np.rint if plan.guaranteed is None else np.floor
    points = frame.thresholds
    nearest = points[np.abs(values[:, None] - points[None, :]).argmin(axis=1)]
    unit = (frame.high - frame.low) / FRACTIONS
    rounded = frame.low + whole((values - frame.low) / unit) * unit
    return np.where(np.abs(nearest - values) <= 1e-9 * frame.high, nearest, rounded)


def _table(plan: Plan, values: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    table, index = np.unique(_quantised(plan, values), return_inverse=True)
    if table.size > plan.frame.segments + 1 + MOST_EXTRAS:
        raise ArtifactError(f"at most {MOST_EXTRAS} throttlers may lie off the breakpoints")
    return table, index.astype(np.int64)


def _value_bits(values: int) -> int:
    return max(int(values) - 1, 0).bit_length()


def _table_decisions(frame: Frame, table: FloatArray) -> tuple[list[int], list[int]]:
    points = frame.thresholds
    used = np.isin(points, table)
    unit = (frame.high - frame.low) / FRACTIONS
    extras = np.rint((table[~np.isin(table, points)] - frame.low) / unit).astype(np.int64)
    bits = used.astype(int).tolist()
    contexts = [BITMAP_CONTEXT] * len(bits)
    for extra in extras.tolist():
        bits += [1, *((extra >> k) & 1 for k in range(RAW_BITS - 1, -1, -1))]
        contexts += [MORE_CONTEXT] + [RAW_CONTEXT] * RAW_BITS
    return [*contexts, MORE_CONTEXT], [*bits, 0]


def _read_table(reader: TreeReader, frame: Frame) -> FloatArray:
    points = frame.thresholds
    used = np.array([reader.bit(BITMAP_CONTEXT) for _ in points], dtype=np.bool_)
    extras: list[int] = []
    while reader.bit(MORE_CONTEXT):
        code = 0
        for _ in range(RAW_BITS):
            code = 2 * code + reader.bit(RAW_CONTEXT)
        extras.append(code)
        if len(extras) > MOST_EXTRAS:
            raise ArtifactError("a map must have a short table; receive it again")
    unit = (frame.high - frame.low) / FRACTIONS
    table = np.sort(np.concatenate([points[used], frame.low + np.array(extras) * unit]))
    if not table.size:
        raise ArtifactError("a map must use at least one throttler, got none; receive it again")
    return table
