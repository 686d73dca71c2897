"""The join plan's two encodings: the JSON document, and a MessagePack head before packed tables.

The compact form leaves out the order of the items: it follows from the densities.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from planning.arrays import frozen, frozen_ints
from planning.errors import InvalidInput
from planning.guarantees import NOWHERE, Guarantee
from planning.joins import path
from planning.joins.layout import Layout
from planning.joins.model import COMBINES, Combine, Condition, ConditionKind, Windows
from planning.packing import Reader, converted, damaged, inflated, message, packed, table

if TYPE_CHECKING:
    from planning.joins.plan import Guaranteed, Plan

WHAT = "joins plan"
FORMAT = 1
LARGEST_THRESHOLD = 1 << 16  # the bitmaps count common items up to it
TINY = 1e-9
LENGTH = struct.Struct("<IB")  # bytes of the head, bytes per count
TABLES = ("type_frequency", "hits", "comparisons", "density", "order")
"""The fields that the bytes store apart from the head, or that follow from it."""


class WindowsDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Window sizes w_1 and w_2, basic window size b and a boundary of the grid, in seconds."""

    window_s: tuple[float, float]
    basic_window_s: float
    origin_s: float


class ConditionDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The join condition."""

    kind: str
    threshold: float
    vocabulary: int | None
    single_valued: bool


class LayoutDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of a row: stream and its two values, time, type, items and their weights.

    ``sizes`` cuts every type by the number of items; then ``PlanDocument.types`` are the classes.
    """

    stream: str
    streams: tuple[str, str]
    time: str
    type: str | None
    types: list[str]
    items: list[str]
    weights: list[str]
    sizes: list[int]
    text: bool = False


class GuaranteedDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Guarantees; what is taken of every item, and what each keeps, at some loads from 0 to 1."""

    guarantees: list[Guarantee]
    error: float
    loads: list[float]
    quality: list[float]
    kept: list[list[float]]
    levels: list[float]


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A join plan as published; tables are flat, over window, type and basic window."""

    format: int
    windows: WindowsDocument
    condition: ConditionDocument
    types: list[str]
    utilities: list[float]
    combine: str
    type_frequency: list[list[float]]
    rates_per_s: tuple[float, float]
    hits: list[int]
    comparisons: list[int]
    density: list[float]
    order: list[int]
    sample_size: int
    span_s: float
    unit_cost_s: float | None
    valid_for_s: float | None
    monitor_fraction: float
    load: float
    layout: LayoutDocument
    lasting: list[float] = []
    guaranteed: GuaranteedDocument | None = None


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the JSON form, as :class:`PlanDocument` describes it."""
    head = _head(plan)
    if plan.guaranteed is not None:
        head["guaranteed"]["levels"] = plan.guaranteed.levels.ravel().tolist()
    return {
        **head,
        "type_frequency": plan.type_frequency.tolist(),
        "hits": plan.hits.ravel().tolist(),
        "comparisons": plan.comparisons.ravel().tolist(),
        "density": plan.density.ravel().tolist(),
        "order": plan.order.tolist(),
    }


def from_document(kind: type[Plan], document: dict[str, Any]) -> Plan:
    """Read the JSON form back; refuse what does not fit together."""
    return _plan(kind, converted(document, PlanDocument, WHAT))


def _plan(kind: type[Plan], read: PlanDocument) -> Plan:
    """Return the plan if its parts fit one another."""
    _check(read)
    windows, condition = _nouns(read)
    types = len(read.types)
    shape = (2, types, windows.most)
    plan = kind(
        windows=windows,
        condition=condition,
        vocabulary=read.condition.vocabulary,
        single_valued=read.condition.single_valued,
        types=tuple(read.types),
        utilities=frozen(read.utilities),
        combine=cast(Combine, read.combine),
        type_frequency=frozen(table(read.type_frequency, (2, types), WHAT, "type_frequency")),
        rates_per_s=read.rates_per_s,
        hits=frozen_ints(table(read.hits, shape, WHAT, "hits")),
        comparisons=frozen_ints(table(read.comparisons, shape, WHAT, "comparisons")),
        density=frozen(table(read.density, shape, WHAT, "density")),
        sample_size=read.sample_size,
        span_s=read.span_s,
        unit_cost_s=read.unit_cost_s,
        valid_for_s=read.valid_for_s,
        monitor_fraction=read.monitor_fraction,
        load=read.load,
        layout=msgspec.convert(read.layout, Layout, from_attributes=True),
        lasting=tuple(read.lasting),
        guaranteed=_guaranteed(read.guaranteed, math.prod(shape)),
    )
    if read.order != plan.order.tolist():
        raise damaged(WHAT, "list its items by falling density", "another order")
    try:
        plan.at(read.load)
    except InvalidInput as error:
        raise damaged(WHAT, "have a setting", error) from None
    return plan


def to_bytes(plan: Plan) -> bytes:
    """Return the compact form."""
    head = message(_head(plan))
    largest = max(int(plan.hits.max()), int(plan.comparisons.max()))
    width = 4 if largest < 2**32 else 8
    shares = packed(plan.type_frequency, "<f4") + packed(plan.density, "<f4")
    counts = packed(plan.hits, f"<u{width}") + packed(plan.comparisons, f"<u{width}")
    some = plan.guaranteed
    levels = b"" if some is None else zlib.compress(packed(some.levels, "<f4"), 9)
    return LENGTH.pack(len(head), width) + head + shares + counts + levels


def from_bytes(kind: type[Plan], payload: bytes) -> Plan:
    """Read the compact form back."""
    reader = Reader(payload, WHAT)
    length, width = reader.unpack(LENGTH)
    if width not in (4, 8):
        raise damaged(WHAT, "have counts of 4 or 8 bytes", width)
    head: dict[str, Any] = reader.message(dict[str, Any], length)
    read = converted(head | dict.fromkeys(TABLES, []), PlanDocument, WHAT)
    windows, _ = _nouns(read)
    types = len(read.types)
    size = 2 * types * windows.most
    read.type_frequency = reader.floats("<f4", 2, types).tolist()
    density = reader.floats("<f4", size)
    read.density, read.order = density.tolist(), path.rank(density).tolist()
    read.hits = reader.ints(f"<u{width}", size).tolist()
    read.comparisons = reader.ints(f"<u{width}", size).tolist()
    if read.guaranteed is not None:
        stored = inflated(reader.rest(), 4 * len(read.guaranteed.loads) * size, WHAT)
        read.guaranteed.levels = np.frombuffer(stored, "<f4").tolist()
    reader.finish()
    return _plan(kind, read)


def _guaranteed(read: GuaranteedDocument | None, items: int) -> Guaranteed | None:
    """Return what keeps guarantees, if its parts fit one another."""
    if read is None:
        return None
    from planning.joins.plan import Guaranteed

    rows, loads, asked = len(read.loads), read.loads, read.guarantees
    levels = table(read.levels, (rows, items), WHAT, "levels").astype(np.float64)
    kept = table(read.kept, (rows, len(asked)), WHAT, "kept").astype(np.float64)
    quality = table(read.quality, (rows,), WHAT, "quality").astype(np.float64)
    shares = (levels, quality, kept, np.array([read.error, *(one.value for one in asked)]))
    rising = rows > 1 and (loads[0], loads[-1]) == (0.0, 1.0) and bool((np.diff(loads) > 0).all())
    within = all(bool(((t >= 0.0) & (t <= 1.0 + TINY)).all()) for t in shares)
    whole = rising and within and (levels[0].max(), levels[-1].min()) == (0.0, 1.0)
    if not (asked and whole and all(0.0 <= one.holds_from <= NOWHERE for one in asked)):
        raise damaged(WHAT, "keep guarantees by shares at loads from 0 to 1", "others")
    return Guaranteed(
        frozen(loads), frozen(levels), frozen(quality), frozen(kept), tuple(asked), read.error
    )


def _head(plan: Plan) -> dict[str, Any]:
    """Return everything but the tables."""
    return {
        "format": FORMAT,
        "windows": {
            "window_s": [float(w) for w in plan.windows.window_s],
            "basic_window_s": float(plan.windows.basic_window_s),
            "origin_s": float(plan.windows.origin_s),
        },
        "condition": {
            "kind": plan.condition.kind,
            "threshold": float(plan.condition.threshold),
            "vocabulary": plan.vocabulary,
            "single_valued": plan.single_valued,
        },
        "types": list(plan.types),
        "utilities": plan.utilities.tolist(),
        "combine": plan.combine,
        "rates_per_s": list(plan.rates_per_s),
        "sample_size": plan.sample_size,
        "span_s": plan.span_s,
        "unit_cost_s": plan.unit_cost_s,
        "valid_for_s": plan.valid_for_s,
        "monitor_fraction": plan.monitor_fraction,
        "load": plan.load,
        "layout": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(plan.layout).items()
            if name != "text" or value
        },
    } | ({"lasting": list(plan.lasting)} if plan.lasting else {}) | _kept(plan.guaranteed)


def _kept(some: Guaranteed | None) -> dict[str, Any]:
    """Return the guarantees without the table of what is taken."""
    if some is None:
        return {}
    head = {"guarantees": [asdict(one) for one in some.guarantees], "error": some.error}
    tables = {name: getattr(some, name).tolist() for name in ("loads", "quality", "kept")}
    return {"guaranteed": {**head, **tables, "levels": []}}


def _nouns(read: PlanDocument) -> tuple[Windows, Condition]:
    """Return the windows and the condition, which check themselves."""
    windows, condition = read.windows, read.condition
    try:
        return (
            Windows(windows.window_s, windows.basic_window_s, windows.origin_s),
            Condition(cast(ConditionKind, condition.kind), condition.threshold),
        )
    except InvalidInput as error:
        raise damaged(WHAT, "have windows and a condition", error) from None


def _check(read: PlanDocument) -> None:
    """Refuse fields that contradict one another."""
    types, condition, layout = len(read.types), read.condition, read.layout
    vocabulary, classes = condition.vocabulary, len(layout.types) * (len(layout.sizes) + 1)
    positive = [*read.utilities, *read.rates_per_s, read.monitor_fraction, read.span_s]
    positive += [share for row in read.type_frequency for share in row]
    items, weights = len(layout.items), len(layout.weights)
    countable = condition.kind != "overlap" or condition.threshold <= LARGEST_THRESHOLD
    for fits, must, given in (
        (read.format == FORMAT, f"have format {FORMAT}", read.format),
        (len(read.utilities) == types, f"have {types} utilities", len(read.utilities)),
        (classes == types, f"have a layout of {types} classes", classes),
        (read.combine in COMBINES, f"combine by {', '.join(COMBINES)}", read.combine),
        (bool(np.isfinite(read.density).all()), "have finite densities", "NaN or infinity"),
        (all(0 <= x < np.inf for x in positive), "have rates and shares of 0 or more", "others"),
        (len(read.lasting) in (0, len(path.LOADS)), "say what lasts at each load", read.lasting),
        (all(-1 <= x <= 1 for x in read.lasting), "have shares that last", read.lasting),
        (min(read.hits, default=0) >= 0, "have hits of 0 or more", "fewer"),
        (items > 0, "have a layout with items", items),
        (weights in (0, items), f"have no weights or {items}", weights),
        (sorted(set(layout.sizes)) == layout.sizes, "have rising sizes", layout.sizes),
        (vocabulary is None or vocabulary >= 0, "have a vocabulary of 0 or more", vocabulary),
        (countable, f"have a threshold <= {LARGEST_THRESHOLD}", condition.threshold),
    ):
        if not fits:
            raise damaged(WHAT, must, given)
