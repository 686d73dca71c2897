"""The plan's two encodings: the JSON document and the compact bytes.

What stations and nodes send each other is in :mod:`planning.lira.codec.messages`; trees are
range-coded (:mod:`planning.lira.codec.treecode`, :mod:`planning.lira.codec.rangecoder`).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from planning.arrays import frozen
from planning.errors import InvalidInput
from planning.guarantees import Guarantee
from planning.lira.codec import rangecoder
from planning.lira.codec.messages import LEVEL_BITS, frame_bytes, read_frame
from planning.lira.codec.treecode import TreeReader, context_count, tree_decisions
from planning.lira.model import Frame
from planning.lira.partition.regions import Partition
from planning.lira.path import GuaranteedPath
from planning.packing import Reader, bits, converted, damaged, inflated, message, packed, table

if TYPE_CHECKING:
    from planning.lira.plan import Plan

WHAT = "lira plan"
FORMAT = 1
SYMBOLS = "LXY"  # a leaf, x halved, y halved
MAGIC, GUARANTEED = b"HLP1", b"HLP2"  # without, and with guarantees
NUMBERS = struct.Struct("<HI4d")  # levels, rectangles, departure, F, z, reports per position
PATH = struct.Struct("<HIId")  # loads, bytes of the guarantees and of the tables, error


class GuaranteedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Guarantees, and throttlers that keep them, at loads to interpolate between.

    ``places`` has a row per load: of every level, its throttler, plus the departure if it is above
    Δmin. ``looks`` lists the levels that each guarantee is about.
    """

    guarantees: list[Guarantee]
    looks: list[list[int]]
    loads: list[float]
    places: list[list[float]]
    error: float


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
    guaranteed: GuaranteedDocument | None = None


ARRAYS = ("ratio", "weight", "inside", "reduction", "errors")
"""Fields of a plan that are arrays: three per level, two per threshold."""
SCALARS = ("departure", "fairness_threshold", "throttle_fraction", "reports_per_position")


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the JSON form, as :class:`PlanDocument` describes it."""
    kept: dict[str, Any] = {}
    if plan.guaranteed is not None:
        path = plan.guaranteed
        kept["guaranteed"] = {
            "guarantees": [asdict(guarantee) for guarantee in path.guarantees],
            "looks": [np.flatnonzero(row).tolist() for row in path.looks],
            "loads": path.loads.tolist(),
            "places": path.places.tolist(),
            "error": path.error,
        }
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
        **kept,
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
        if read.guaranteed is not None:
            fields["guaranteed"] = _path(read.guaranteed, len(read.ratio))
        return kind(frame, Partition.of(read.side, symbols), level, **fields)
    except InvalidInput as error:
        raise damaged(WHAT, "fit together", error) from None


def _path(read: GuaranteedDocument, levels: int) -> GuaranteedPath:
    looks = np.zeros((len(read.looks), levels), dtype=np.bool_)
    for row, some in zip(looks, read.looks, strict=True):
        if some and not 0 <= min(some) <= max(some) < levels:
            raise damaged(WHAT, f"have guarantees about levels below {levels}", max(some))
        row[some] = True
    places = table(read.places, (len(read.loads), levels), WHAT, "places")
    return GuaranteedPath(
        frozen(read.loads), frozen(places), tuple(read.guarantees), looks, read.error
    )


def to_bytes(plan: Plan) -> bytes:
    """Return the whole plan: frame, curves, tables of levels, and the tree with levels.

    Guarantees and their throttlers come between the two.
    """
    contexts, decisions = tree_decisions(plan.partition, plan.level, LEVEL_BITS)
    numbers = (getattr(plan, name) for name in SCALARS)
    return b"".join(
        [
            MAGIC if plan.guaranteed is None else GUARANTEED,
            NUMBERS.pack(plan.ratio.size, plan.partition.symbols.size, *numbers),
            frame_bytes(plan.frame),
            *(packed(getattr(plan, name), "<f4") for name in ARRAYS),
            b"" if plan.guaranteed is None else _path_bytes(plan.guaranteed),
            rangecoder.encode(contexts, decisions, context_count(LEVEL_BITS)),
        ]
    )


def _path_bytes(path: GuaranteedPath) -> bytes:
    kept = message([asdict(guarantee) for guarantee in path.guarantees])
    tables = zlib.compress(packed(path.places, "<f8") + bits(path.looks.ravel()), 9)
    head = PATH.pack(path.loads.size, len(kept), len(tables), path.error)
    return head + kept + packed(path.loads, "<f8") + tables


def _read_path(reader: Reader, levels: int) -> GuaranteedPath:
    count, kept, size, error = reader.unpack(PATH)
    guarantees: list[Guarantee] = reader.message(list[Guarantee], kept)
    loads, cells = reader.floats("<f8", count), len(guarantees) * levels
    raw = inflated(bytes(reader.take(size)), 8 * count * levels + (cells + 7) // 8, WHAT)
    tables = Reader(raw, WHAT)
    places, looks = tables.floats("<f8", count, levels), tables.bits(cells)
    return GuaranteedPath(loads, places, tuple(guarantees), looks.reshape(-1, levels), error)


def from_bytes(kind: type[Plan], payload: bytes) -> Plan:
    """Read what :func:`to_bytes` wrote; refuse anything else."""
    reader = Reader(payload, WHAT)
    promised = payload[: len(GUARANTEED)] == GUARANTEED
    reader.magic(GUARANTEED if promised else MAGIC)
    levels, rectangles, *numbers = reader.unpack(NUMBERS)
    fields: dict[str, Any] = dict(zip(SCALARS, numbers, strict=True))
    try:
        frame = read_frame(reader)
        points = frame.segments + 1
        sizes = (levels, levels, levels, points, points)
        fields |= {n: reader.floats("<f4", k) for n, k in zip(ARRAYS, sizes, strict=True)}
        if promised:
            fields["guaranteed"] = _read_path(reader, levels)
        tree = TreeReader(reader.rest(), context_count(LEVEL_BITS))
        symbols, level = tree.tree(frame.side, LEVEL_BITS, 0, whole=True)
        if symbols.size != rectangles:
            raise damaged(WHAT, f"hold {rectangles} rectangles", symbols.size)
        return kind(frame, Partition.of(frame.side, symbols), level.astype(np.uint8), **fields)
    except InvalidInput as error:
        raise damaged(WHAT, "fit together", error) from None
