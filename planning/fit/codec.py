"""Plans as JSON documents and as compact bytes: MessagePack with raw little-endian arrays.

Where short numbers make the JSON form smaller than that, the bytes are the JSON form, compressed:
``z``, its length in four bytes, and a zlib stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray
from planning.errors import ArtifactError
from planning.fit.model import Output
from planning.fit.network import QueryNetwork, graph
from planning.fit.network.document import NetworkDocument
from planning.fit.path import (
    INNER,
    CriticalRegions,
    FitPlans,
    Part,
    PointQuadtree,
    Quadtree,
    Stored,
)
from planning.guarantees import NOWHERE
from planning.packing import (
    ArrayDocument,
    PackedArray,
    Reader,
    converted,
    damaged,
    inflated,
    typed_arrays,
)

if TYPE_CHECKING:
    from planning.fit.plan import Plan

FORMAT = 1
WHAT = "fit plan"
COMPRESSED = b"z"
MOST_BYTES = 2**26
"""Longest JSON form that is read from a compressed one."""
METHODS = ("regions", "simplex", "solver", "solver_w", "c_fit")
ARRAYS: dict[str, dict[str, str]] = {
    "simplex": {},
    "regions": {"value": "f", "rule": "f", "facets": "f", "starts": "i"},
    "quadtree": {"valued": "b", "plan": "i", "child": "i", "fractions": "f", "bound": "f"},
    "rows": {
        "points": "f",
        "first": "i",
        "following": "i",
        "orthant": "i",
        "drops": "f",
        "valued": "b",
    },
}
"""The arrays of each kind of table, and what they contain: floats, integers or flags."""


class PartDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A fragment's table: ``regions``, ``quadtree``, ``rows`` or, without one, ``simplex``."""

    kind: str
    arrays: dict[str, ArrayDocument] = {}
    arcs: list[str] = []


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A FIT plan as published."""

    format: int
    network: NetworkDocument
    method: str
    error: float
    reference: list[float]
    parts: list[PartDocument]
    headroom: float = 1.0
    qualities: list[float] = []
    holds_from: list[float] = []


class _PackedPart(msgspec.Struct, array_like=True):
    kind: str
    arrays: dict[str, PackedArray]
    arcs: list[str]


class _PackedPlan(msgspec.Struct, array_like=True):
    format: int
    network: dict[str, Any]
    method: str
    error: float
    reference: list[float]
    parts: list[_PackedPart]


class _PackedMore(_PackedPlan, array_like=True):
    headroom: float = 1.0
    qualities: list[float] = []


class _PackedAll(_PackedMore, array_like=True):
    holds_from: list[float] = []


class Content(NamedTuple):
    """The fields of a plan."""

    network: QueryNetwork
    method: str
    error: float
    reference: FloatArray
    parts: tuple[Part, ...]
    headroom: float
    qualities: tuple[float, ...]
    holds_from: tuple[float, ...]


def asking(network: QueryNetwork) -> list[tuple[int, Output]]:
    """Return the places of the outputs with a minimum and the outputs, the most important first."""
    found = [(k, output) for k, output in enumerate(network.outputs) if output.minimum > 0.0]
    return sorted(found, key=lambda each: -each[1].priority)


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the JSON form, as :class:`PlanDocument` describes it."""
    contents = [_contents(part.table) for part in plan.parts]
    return {
        **_head(plan),
        "parts": [
            {"kind": kind, "arrays": typed_arrays(arrays), "arcs": list(arcs)}
            for kind, arrays, arcs in contents
        ],
        **_more(plan),
    }


def from_document(document: Mapping[str, Any]) -> Content:
    """Read the JSON form back; refuse what does not fit together."""
    read = converted(document, PlanDocument, WHAT)
    return _assembled(read, msgspec.to_builtins(read.network), read.parts)


def to_bytes(plan: Plan) -> bytes:
    """Return the compact form; mappings are sorted, so equal plans have equal bytes.

    It is never larger than the JSON form: where MessagePack is, that is compressed instead.
    """
    contents = [_contents(part.table) for part in plan.parts]
    parts = [
        _PackedPart(kind, {n: PackedArray.of(a) for n, a in arrays.items()}, list(arcs))
        for kind, arrays, arcs in contents
    ]
    more = _more(plan)
    kind = _PackedAll if plan.holds_from else _PackedMore if more else _PackedPlan
    content = kind(**_head(plan), parts=parts, **more)
    made = msgspec.msgpack.encode(content, order="deterministic")
    text = msgspec.json.encode(to_document(plan), order="sorted")
    if len(made) <= len(text) or len(text) > MOST_BYTES:
        return made
    return COMPRESSED + len(text).to_bytes(4, "little") + zlib.compress(text, 9)


def from_bytes(payload: bytes) -> Content:
    """Read the compact form back."""
    if payload[:1] == COMPRESSED:
        size = int.from_bytes(payload[1:5], "little")
        if size > MOST_BYTES:
            raise damaged(WHAT, f"hold at most {MOST_BYTES} bytes", size)
        text = inflated(payload[5:], size, WHAT)
        try:
            return from_document(msgspec.json.decode(text))
        except msgspec.DecodeError as error:
            raise damaged(WHAT, "hold JSON", error) from None
    read: _PackedAll = Reader(payload, WHAT).message(_PackedAll)
    return _assembled(read, read.network, read.parts)


def _head(plan: Plan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "network": plan.network.to_document(),
        "method": plan.method,
        "error": plan.error,
        "reference": plan.reference.tolist(),
    }


def _more(plan: Plan) -> dict[str, Any]:
    """Return what plans made without statistics, or of networks without minimums, do not have."""
    more = {"headroom": plan.headroom, "qualities": list(plan.qualities)}
    if plan.holds_from:
        return {**more, "holds_from": list(plan.holds_from)}
    return more if more != {"headroom": 1.0, "qualities": []} else {}


def _contents(table: Stored | None) -> tuple[str, dict[str, NDArray[Any]], tuple[str, ...]]:
    """Return a table's kind, arrays and arcs."""
    if table is None:
        return "simplex", {}, ()
    if isinstance(table, FitPlans):
        arrays = {**table.index._asdict(), "drops": table.drops, "valued": table.valued}
        return "rows", arrays, table.arcs
    return "regions" if isinstance(table, CriticalRegions) else "quadtree", table._asdict(), ()


def _table(part: PartDocument | _PackedPart) -> Stored | None:
    """Return the table of a part, not yet compared with its network."""
    if part.kind not in ARRAYS:
        raise damaged(WHAT, f"have parts of kind {', '.join(ARRAYS)}", repr(part.kind))
    wanted = ARRAYS[part.kind]
    arrays = {name: array.array(WHAT, name) for name, array in part.arrays.items()}
    if {name: array.dtype.kind for name, array in arrays.items()} != wanted:
        listed = ", ".join(wanted) or "none"
        raise damaged(WHAT, f"hold the arrays {listed} of {part.kind}", ", ".join(arrays))
    if part.kind == "regions":
        return CriticalRegions(**arrays)
    if part.kind == "quadtree":
        return Quadtree(**arrays)
    if part.kind == "rows":
        valued, drops = arrays.pop("valued"), arrays.pop("drops")
        return FitPlans(PointQuadtree(**arrays), tuple(part.arcs), drops, valued)
    return None


def _assembled(
    read: PlanDocument | _PackedAll,
    network_document: Any,
    parts: Iterable[PartDocument | _PackedPart],
) -> Content:
    """Put a plan together from what was read; refuse what does not fit together."""
    if read.format != FORMAT:
        raise damaged(WHAT, f"have format {FORMAT}", read.format)
    if read.method not in METHODS:
        raise damaged(WHAT, f"have a method of {', '.join(METHODS)}", repr(read.method))
    try:
        network = QueryNetwork.from_document(network_document)
    except ValueError as problem:
        raise damaged(WHAT, "hold a sound network", problem) from None
    tables = [_table(part) for part in parts]
    fragments = graph.fragments(network)
    if len(fragments) != len(tables) or len(read.reference) != len(network.inputs):
        raise damaged(
            WHAT,
            f"hold {len(fragments)} parts and {len(network.inputs)} reference rates",
            f"{len(tables)} and {len(read.reference)}",
        )
    made = tuple(Part(part, table) for part, table in zip(fragments, tables, strict=True))
    for part in made:
        if not _fits(part):
            raise ArtifactError("tables of a fit plan must fit its network; take it from the store")
    if not (1.0 <= read.headroom < np.inf and _are_shares(np.array(read.qualities))):
        raise damaged(WHAT, "have head room of at least 1 and qualities in [0, 1]", read.headroom)
    holds, minimums = np.array(read.holds_from), len(asking(network))
    if len(holds) not in (0, minimums) or not _are_shares(holds[holds != NOWHERE]):
        allowed = f"say from which loads in [0, 1] its {minimums} minimums hold"
        raise damaged(WHAT, allowed, read.holds_from)
    reference = np.array(read.reference)
    return Content(
        network,
        read.method,
        float(read.error),
        reference,
        made,
        float(read.headroom),
        tuple(read.qualities),
        tuple(read.holds_from),
    )


def _fits(part: Part) -> bool:
    """Whether a table's arrays fit the network and one another."""
    table, program = part.table, part.program
    inputs, count = len(program.max_rates), program.location_count
    if isinstance(table, CriticalRegions):
        regions = table.starts.size - 1
        return (
            table.starts.shape == (regions + 1,)
            and regions > 0
            and table.value.shape == (1 + inputs, regions)
            and table.rule.shape == (regions, count, 1 + inputs)
            and table.facets.ndim == 2
            and table.facets.shape[1] == 1 + inputs
            and bool((np.diff(table.starts) >= 0).all())
            and 0 <= int(table.starts[0])
            and int(table.starts[-1]) <= len(table.facets)
            and all(bool(np.isfinite(array).all()) for array in table)
        )
    if isinstance(table, Quadtree):
        cells, plans = table.plan.size, table.bound.size
        divided = np.flatnonzero(table.plan == INNER)
        return (
            table.plan.shape == table.child.shape == (cells,)
            and cells > 0
            and table.bound.shape == (plans,)
            and table.fractions.shape == (plans, count)
            and table.valued.shape == (inputs,)
            and bool(((table.plan >= INNER) & (table.plan < plans)).all())
            and bool((table.child[divided] <= cells - 2 ** int(table.valued.sum())).all())
            and bool((table.child[divided] > divided).all())
            and _are_shares(table.fractions)
        )
    if isinstance(table, FitPlans):
        index, rows = table.index, table.index.first.size
        return (
            index.first.shape == index.following.shape == index.orthant.shape == (rows,)
            and index.points.shape == (rows, inputs)
            and table.drops.shape == (rows, len(table.arcs))
            and table.valued.shape == (inputs,)
            and all(arc in program.network.arc_index for arc in table.arcs)
            and _is_forest(np.concatenate([index.first, index.following]), rows)
            and _are_shares(table.drops)
        )
    return True


def _are_shares(drops: FloatArray) -> bool:
    """Whether all drops are fractions; NaN is not."""
    return bool(((drops >= 0.0) & (drops <= 1.0)).all())


def _is_forest(links: IntArray, rows: int) -> bool:
    """Whether links name rows, and each row at most once: then no walk along them is endless."""
    named = links[links != -1]
    return bool(((named > 0) & (named < rows)).all()) and len(np.unique(named)) == len(named)
