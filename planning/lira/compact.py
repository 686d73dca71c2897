"""Compact forms: the whole plan, the map at one z, a station's part of it, and a change of z.

========  ===================================================================================
form      content
========  ===================================================================================
plan      frame, curves, levels' tables, tree with levels: everything, for a server
map       frame, tree with throttlers at one z, or with levels: for a node that roams freely
part      the tree inside one station's coverage, with throttlers at one z, or with levels
change    throttlers per level at one z: for nodes that hold levels
========  ===================================================================================

Trees are range-coded (:mod:`planning.lira.treecode`). Throttlers are indices into a table, sent
first, of the values in use: breakpoints Δmin + k·c exactly, and the few others in units of
(Δmax − Δmin)/65535, so that a decoded throttler differs from the plan's by at most half that.
A ``part`` or ``change`` names its frame by a tag of two bytes; nodes get the frame once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, frozen
from planning.errors import ArtifactError, PlanningError
from planning.lira import rangecoder
from planning.lira.model import Frame
from planning.lira.partition import Partition, Symbols, padded
from planning.lira.treecode import TreeReader, context_count, sent_leaves, tree_decisions

if TYPE_CHECKING:
    from planning.lira.plan import Plan

PLAN_MAGIC = b"HLP1"
MAP, PART, CHANGE, LEVELS = 0x10, 0x20, 0x30, 0x01  # kinds; LEVELS is a flag
HEADER = struct.Struct("<BH")  # kind, frame's tag
NUMBERS = struct.Struct("<4sHI4d")
FRACTIONS = 65535
RAW_BITS = 16
LEVEL_BITS = 8
MOST_EXTRAS = 64
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


def encode_plan(plan: Plan) -> bytes:
    """Return the whole plan."""
    tree = _tree_bytes(plan.partition, plan.level.astype(np.int64), LEVEL_BITS)
    return b"".join(
        [
            NUMBERS.pack(
                PLAN_MAGIC, plan.ratio.size, plan.partition.symbols.size, plan.departure,
                plan.fairness_threshold, plan.throttle_fraction, plan.reports_per_position,
            ),
            plan.frame.to_bytes(),
            *(a.astype("<f4").tobytes() for a in (plan.ratio, plan.weight, plan.inside)),
            *(a.astype("<f4").tobytes() for a in (plan.reduction, plan.errors)),
            tree,
        ]
    )  # fmt: skip


def decode_plan(payload: bytes) -> Plan:
    """Read what :func:`encode_plan` wrote; refuse anything else."""
    from planning.lira.plan import Plan

    try:
        magic, levels, nodes, departure, fairness, z, rate = NUMBERS.unpack_from(payload)
        if magic != PLAN_MAGIC:
            raise ArtifactError(f"a lira plan must start with {PLAN_MAGIC!r}, got {magic!r}")
        frame, length = Frame.read(payload[NUMBERS.size :])
        head = NUMBERS.size + length
        sizes = [levels, levels, levels, frame.segments + 1, frame.segments + 1]
        numbers = []
        for size in sizes:
            part = np.frombuffer(payload, "<f4", size, head)
            numbers.append(frozen(part.astype(np.float64)))
            head += 4 * size
        reader = TreeReader(payload[head:], context_count(LEVEL_BITS))
        symbols, level = reader.tree(frame.side, LEVEL_BITS, 0, whole=True)
        if symbols.size != nodes:
            raise ArtifactError(f"a lira plan must hold {nodes} rectangles, got {symbols.size}")
        ratio, weight, inside, reduction, errors = numbers
        return Plan(
            frame, Partition.of(frame.side, symbols), level.astype(np.uint8), ratio, weight,
            inside, reduction, errors, departure, fairness, z, rate,
        )  # fmt: skip
    except ArtifactError:
        raise
    except (struct.error, ValueError, PlanningError) as error:
        raise ArtifactError(
            f"a lira plan cannot be read: {error}; take it from the store again"
        ) from None


def encode_map(plan: Plan, load: float | None = None) -> bytes:
    """Return the whole map: throttlers at ``load``, or levels if there is none."""
    kind, body = _body(plan, load, None)
    return HEADER.pack(MAP | kind, plan.frame.tag) + plan.frame.to_bytes() + body


def decode_map(data: bytes) -> tuple[Frame, Decoded]:
    """Read a whole map."""
    kind = _kind(data, MAP)
    try:
        frame, length = Frame.read(data[HEADER.size :])
    except PlanningError as error:
        raise ArtifactError(f"a map must carry its frame, got {error}; receive it again") from None
    return frame, _read_body(data[HEADER.size + length :], frame, kind, whole=True)


def encode_part(plan: Plan, load: float | None, sent: NDArray[np.bool_]) -> bytes:
    """Return the rectangles (in preorder) marked in ``sent``, for one station."""
    kind, body = _body(plan, load, sent)
    return HEADER.pack(PART | kind, plan.frame.tag) + body


def decode_part(data: bytes, frame: Frame) -> Decoded:
    """Read a station's part, made in the same frame."""
    kind = _kind(data, PART)
    _check_tag(data, frame)
    return _read_body(data[HEADER.size :], frame, kind, whole=False)


def encode_change(plan: Plan, load: float) -> bytes:
    """Return what turns levels into throttlers at a new z; they never rise with the level."""
    by_level = plan.at(load).by_level
    table, index = _table(plan.frame, by_level)
    contexts, bits = _table_decisions(plan.frame, table)
    # From the lowest level on: step down the table, or stay.
    position = table.size - 1
    steps: list[int] = []
    for wanted in index.tolist():
        steps += [1] * (position - wanted) + [0]
        position = wanted
    contexts += [TABLE_CONTEXTS] * len(steps)
    body = rangecoder.encode(
        np.array(contexts, np.int32), np.array(bits + steps, np.uint8), TABLE_CONTEXTS + 1
    )
    return HEADER.pack(CHANGE, plan.frame.tag) + bytes([by_level.size - 1]) + body


def decode_change(data: bytes, frame: Frame) -> FloatArray:
    """Return the throttler of every level."""
    _kind(data, CHANGE)
    _check_tag(data, frame)
    if len(data) < HEADER.size + 1:
        raise ArtifactError("a change must name its levels, got fewer bytes; receive it again")
    reader = TreeReader(data[HEADER.size + 1 :], TABLE_CONTEXTS + 1)
    table = _read_table(reader, frame)
    out = np.empty(data[HEADER.size] + 1)
    position = table.size - 1
    for level in range(out.size):
        while reader.bit(TABLE_CONTEXTS):
            position -= 1
            if position < 0:
                raise ArtifactError("a change must stay inside its table; receive it again")
        out[level] = table[position]
    return frozen(out)


def _kind(data: bytes, wanted: int) -> int:
    """Return the flags of a message of the wanted kind."""
    if len(data) < HEADER.size or data[0] & 0xF0 != wanted or data[0] & 0x0F not in (0, LEVELS):
        got = f"kind {data[0]:#04x}" if data else "nothing"
        raise ArtifactError(f"a message of kind {wanted:#04x} is due, got {got}; receive it again")
    return data[0] & 0x0F


def _check_tag(data: bytes, frame: Frame) -> None:
    tag = HEADER.unpack_from(data)[1]
    if tag != frame.tag:
        raise ArtifactError(
            f"the message belongs to frame {tag:#06x}, this node holds {frame.tag:#06x}; fetch the "
            "stream's frame again"
        )


def _body(plan: Plan, load: float | None, sent: NDArray[np.bool_] | None) -> tuple[int, bytes]:
    """Return flags and the range-coded table and tree."""
    if load is None:
        values, bits = plan.level.astype(np.int64), LEVEL_BITS
        contexts: list[int] = []
        decisions: list[int] = []
    else:
        used = plan.at(load).throttlers
        chosen = used if sent is None else used[_sent_regions(plan.partition, sent)]
        table, _ = _table(plan.frame, chosen)
        contexts, decisions = _table_decisions(plan.frame, table)
        values = np.searchsorted(table, _quantised(plan.frame, used)).astype(np.int64)
        values, bits = np.minimum(values, table.size - 1), _value_bits(table.size)
    where, what = tree_decisions(plan.partition.symbols, values, plan.frame.side, bits, sent)
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


def _sent_regions(partition: Partition, sent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which regions lie in the part that is sent."""
    return np.asarray(sent_leaves(partition.symbols, sent, padded(partition.side), partition.side))


def _quantised(frame: Frame, values: FloatArray) -> FloatArray:
    """Return breakpoints as they are, anything else in whole units of (Δmax − Δmin)/65535."""
    points = frame.thresholds
    nearest = points[np.abs(values[:, None] - points[None, :]).argmin(axis=1)]
    unit = (frame.high - frame.low) / FRACTIONS
    rounded = frame.low + np.rint((values - frame.low) / unit) * unit
    return np.where(np.abs(nearest - values) <= 1e-9 * frame.high, nearest, rounded)


def _table(frame: Frame, values: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    table, index = np.unique(_quantised(frame, values), return_inverse=True)
    if table.size > frame.segments + 1 + MOST_EXTRAS:
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


def _tree_bytes(
    partition: Partition,
    values: NDArray[np.int64],
    bits: int,
) -> bytes:
    contexts, decisions = tree_decisions(partition.symbols, values, partition.side, bits)
    return rangecoder.encode(contexts, decisions, context_count(bits))
