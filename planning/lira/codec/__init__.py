"""The plan's two encodings: the JSON document and the compact bytes.

What stations and nodes send each other is in :mod:`planning.lira.codec.messages`; trees are
range-coded (:mod:`planning.lira.codec.treecode`, :mod:`planning.lira.codec.rangecoder`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from planning.arrays import frozen
from planning.errors import InvalidInput
from planning.lira.codec import rangecoder
from planning.lira.codec.messages import LEVEL_BITS, frame_bytes, read_frame
from planning.lira.codec.treecode import TreeReader, context_count, tree_decisions
from planning.lira.model import Frame
from planning.lira.partition.regions import Partition
from planning.packing import Reader, converted, damaged, packed

if TYPE_CHECKING:
    from planning.lira.plan import Plan

WHAT = "lira plan"
FORMAT = 1
SYMBOLS = "LXY"  # a leaf, x halved, y halved
MAGIC = b"HLP1"
NUMBERS = struct.Struct("<HI4d")  # levels, rectangles, departure, F, z, reports per position


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A LIRA plan as published.

    ``tree`` is the preorder of halvings: L a region, X halved across, Y halved upright, lower half
    first, starting from the grid padded to a power of two. ``level`` has one entry per region;
    the lists of levels have one entry per level, the curves one per threshold Δmin + k·c.
    """

    format: int
    bounds: list[float]
    side: int
    lowest_threshold: float
    highest_threshold: float
    segments: int
    tree: str
    level: list[int]
    ratio: list[float]
    weight: list[float]
    inside: list[float]
    reduction: list[float]
    errors: list[float]
    departure: float
    fairness_threshold: float
    throttle_fraction: float
    reports_per_position: float


ARRAYS = ("ratio", "weight", "inside", "reduction", "errors")
"""Fields of a plan that are arrays: three per level, two per threshold."""
SCALARS = ("departure", "fairness_threshold", "throttle_fraction", "reports_per_position")


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the JSON form, as :class:`PlanDocument` describes it."""
    return {
        "format": FORMAT,
        "bounds": list(plan.frame.bounds),
        "side": plan.frame.side,
        "lowest_threshold": plan.frame.low,
        "highest_threshold": plan.frame.high,
        "segments": plan.frame.segments,
        "tree": "".join(SYMBOLS[s] for s in plan.partition.symbols.tolist()),
        "level": plan.level.tolist(),
        **{name: getattr(plan, name).tolist() for name in ARRAYS},
        **{name: getattr(plan, name) for name in SCALARS},
    }


def from_document(kind: type[Plan], document: dict[str, Any]) -> Plan:
    """Read the JSON form back; refuse what does not fit together."""
    read = converted(document, PlanDocument, WHAT)
    if read.format != FORMAT or len(read.bounds) != 4 or set(read.tree) - set(SYMBOLS):
        got = f"format {read.format} and {len(read.bounds)} bounds"
        raise damaged(WHAT, f"have format {FORMAT}, four bounds and a tree of {SYMBOLS}", got)
    if read.level and not (0 <= min(read.level) and max(read.level) < 256):
        raise damaged(WHAT, "have levels in [0, 255]", f"{min(read.level)} … {max(read.level)}")
    a, b, c, d = read.bounds
    symbols = np.array([SYMBOLS.index(s) for s in read.tree], dtype=np.uint8)
    fields: dict[str, Any] = {name: frozen(getattr(read, name)) for name in ARRAYS}
    fields |= {name: getattr(read, name) for name in SCALARS}
    try:
        frame = Frame(
            (a, b, c, d), read.side, read.lowest_threshold, read.highest_threshold, read.segments
        )
        level = np.array(read.level, dtype=np.uint8)
        return kind(frame, Partition.of(read.side, symbols), level, **fields)
    except InvalidInput as error:
        raise damaged(WHAT, "fit together", error) from None


def to_bytes(plan: Plan) -> bytes:
    """Return the whole plan: frame, curves, tables of levels, and the tree with levels."""
    contexts, decisions = tree_decisions(plan.partition, plan.level, LEVEL_BITS)
    numbers = (getattr(plan, name) for name in SCALARS)
    return b"".join(
        [
            MAGIC,
            NUMBERS.pack(plan.ratio.size, plan.partition.symbols.size, *numbers),
            frame_bytes(plan.frame),
            *(packed(getattr(plan, name), "<f4") for name in ARRAYS),
            rangecoder.encode(contexts, decisions, context_count(LEVEL_BITS)),
        ]
    )


def from_bytes(kind: type[Plan], payload: bytes) -> Plan:
    """Read what :func:`to_bytes` wrote; refuse anything else."""
    reader = Reader(payload, WHAT)
    reader.magic(MAGIC)
    levels, rectangles, *numbers = reader.unpack(NUMBERS)
    fields: dict[str, Any] = dict(zip(SCALARS, numbers, strict=True))
    try:
        frame = read_frame(reader)
        points = frame.segments + 1
        sizes = (levels, levels, levels, points, points)
        fields |= {n: reader.floats("<f4", k) for n, k in zip(ARRAYS, sizes, strict=True)}
        tree = TreeReader(reader.rest(), context_count(LEVEL_BITS))
        symbols, level = tree.tree(frame.side, LEVEL_BITS, 0, whole=True)
        if symbols.size != rectangles:
            raise damaged(WHAT, f"hold {rectangles} rectangles", symbols.size)
        return kind(frame, Partition.of(frame.side, symbols), level.astype(np.uint8), **fields)
    except InvalidInput as error:
        raise damaged(WHAT, "fit together", error) from None
