"""Plans as JSON and as compact bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from planning.errors import ArtifactError
from planning.fit.program import Program
from planning.fit.stored import CriticalRegions, FitPlans, PointQuadtree, Quadtree, Stored

FORMAT = 1
DTYPES: dict[str, type[np.generic]] = {"float": np.float64, "int": np.int64, "bool": np.bool_}


class NodeDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A server."""

    id: str
    capacity: float
    parent: str | None = None


class InputDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An input stream."""

    id: str
    max_rate: float
    size: float = 1.0


class WindowDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An aggregate's window."""

    size: float
    slide: float
    batch: int = 1


class OperatorDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An operator on a server."""

    id: str
    node: str
    type: str
    cost: float
    selectivity: float
    inputs: list[str]
    size: float = 1.0
    windows: tuple[float, float] | None = None
    window: WindowDocument | None = None


class OutputDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A weighted output."""

    id: str
    stream: str
    weight: float
    priority: int = 0
    minimum: float = 0.0


class LinkDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A link with its bandwidth."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    capacity: float = 0.0


class NetworkDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A query network."""

    name: str
    nodes: list[NodeDocument]
    inputs: list[InputDocument]
    operators: list[OperatorDocument]
    outputs: list[OutputDocument]
    links: list[LinkDocument] = []


class ArrayDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An array of ``float``, ``int`` or ``bool`` (0 or 1) in row-major order."""

    type: str
    shape: list[int]
    values: list[float]


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


class _Checked(msgspec.Struct):
    network: dict[str, Any]
    method: str
    error: float
    reference: list[float]
    parts: list[PartDocument]


class _BinaryArray(msgspec.Struct, array_like=True):
    type: str
    shape: list[int]
    data: bytes


class _BinaryPart(msgspec.Struct, array_like=True):
    kind: str
    arrays: dict[str, _BinaryArray]
    arcs: list[str]


class _BinaryPlan(msgspec.Struct, array_like=True):
    format: int
    network: dict[str, Any]
    method: str
    error: float
    reference: list[float]
    parts: list[_BinaryPart]


def _arrays_of(table: Stored | None) -> tuple[str, dict[str, NDArray[Any]], tuple[str, ...]]:
    if table is None:
        return "simplex", {}, ()
    if isinstance(table, CriticalRegions):
        regions = ("value", "rule", "facets", "starts")
        return "regions", {name: getattr(table, name) for name in regions}, ()
    if isinstance(table, Quadtree):
        cells = ("valued", "plan", "child", "fractions", "bound")
        return "quadtree", {name: getattr(table, name) for name in cells}, ()
    index = {n: getattr(table.index, n) for n in ("points", "first", "following", "orthant")}
    return "rows", {**index, "drops": table.drops, "valued": table.valued}, table.arcs


def _made(kind: str, arrays: dict[str, NDArray[Any]], arcs: list[str]) -> Stored | None:
    try:
        if kind == "simplex":
            return None
        if kind == "regions":
            return CriticalRegions(**arrays)
        if kind == "quadtree":
            return Quadtree(**arrays)
        if kind == "rows":
            valued, drops = arrays.pop("valued"), arrays.pop("drops")
            return FitPlans(PointQuadtree(**arrays), tuple(arcs), drops, valued)
    except (TypeError, KeyError) as error:
        raise ArtifactError(f"part of a fit plan must hold the arrays of {kind}: {error}") from None
    raise ArtifactError(
        f"kind of a fit plan's part must be simplex, regions, quadtree or rows, got {kind!r}"
    )


def _kind(array: NDArray[Any]) -> str:
    return {"f": "float", "i": "int", "b": "bool"}[array.dtype.kind]


def _plain(array: NDArray[Any]) -> list[Any]:
    flat = array.ravel()
    values: list[Any] = (flat.astype(np.int64) if array.dtype.kind == "b" else flat).tolist()
    return values


def _shaped(kind: str, shape: list[int], flat: NDArray[Any]) -> NDArray[Any]:
    if flat.size != int(np.prod(shape)):
        raise ArtifactError(f"array of a fit plan must hold {shape} values, got {flat.size}")
    array = flat.astype(DTYPES[kind]).reshape(shape)
    array.flags.writeable = False
    return array


def part_document(table: Stored | None) -> dict[str, Any]:
    """Return a table's JSON form."""
    kind, arrays, arcs = _arrays_of(table)
    return {
        "kind": kind,
        "arrays": {
            name: {"type": _kind(a), "shape": list(a.shape), "values": _plain(a)}
            for name, a in arrays.items()
        },
        "arcs": list(arcs),
    }


def table_of(part: PartDocument) -> Stored | None:
    """Read a table's JSON form back."""
    arrays = {}
    for name, a in part.arrays.items():
        if a.type not in DTYPES:
            raise ArtifactError(f"type of array {name} must be float, int or bool, got {a.type!r}")
        try:
            values = np.array(a.values, dtype=DTYPES[a.type])
        except (OverflowError, ValueError) as error:
            message = f"array {name} must hold values of type {a.type}: {error}"
            raise ArtifactError(message) from None
        arrays[name] = _shaped(a.type, a.shape, values)
    return _made(part.kind, arrays, part.arcs)


def check_document(document: Mapping[str, Any]) -> _Checked:
    """Return the document's fields, checked against its schema."""
    try:
        read = msgspec.convert(document, PlanDocument)
    except msgspec.ValidationError as error:
        raise ArtifactError(f"fit plan must fit its schema, got: {error}") from None
    if read.format != FORMAT:
        raise ArtifactError(f"fit plan must have format {FORMAT}, got {read.format}")
    network = msgspec.to_builtins(read.network)
    return _Checked(network, read.method, read.error, read.reference, read.parts)


def to_bytes(
    network: dict[str, Any],
    method: str,
    error: float,
    reference: list[float],
    tables: list[Stored | None],
) -> bytes:
    """Return the compact form: MessagePack with raw little-endian arrays."""
    parts = []
    for table in tables:
        kind, arrays, arcs = _arrays_of(table)
        packed = {
            name: _BinaryArray(_kind(a), list(a.shape), np.ascontiguousarray(a).tobytes())
            for name, a in arrays.items()
        }
        parts.append(_BinaryPart(kind, packed, list(arcs)))
    plan = _BinaryPlan(FORMAT, network, method, error, reference, parts)
    return msgspec.msgpack.encode(plan, order="deterministic")


def from_bytes(
    payload: bytes,
) -> tuple[dict[str, Any], str, float, list[float], list[Stored | None]]:
    """Read the compact form back."""
    try:
        read = msgspec.msgpack.decode(payload, type=_BinaryPlan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArtifactError(f"fit plan's bytes are damaged ({error}); fetch it again") from None
    if read.format != FORMAT:
        raise ArtifactError(f"fit plan must have format {FORMAT}, got {read.format}")
    tables = []
    for part in read.parts:
        arrays = {}
        for name, a in part.arrays.items():
            if a.type not in DTYPES:
                raise ArtifactError(f"type of array {name} must be float, int or bool")
            if len(a.data) % np.dtype(DTYPES[a.type]).itemsize:
                raise ArtifactError(f"array {name} of a fit plan is cut off; fetch it again")
            arrays[name] = _shaped(a.type, a.shape, np.frombuffer(a.data, dtype=DTYPES[a.type]))
        tables.append(_made(part.kind, arrays, part.arcs))
    return read.network, read.method, read.error, read.reference, tables


def check_shapes(program: Program, table: Stored | None) -> None:
    """Refuse a table whose arrays do not fit the network."""
    inputs, count = len(program.max_rates), program.location_count
    good = True
    if isinstance(table, CriticalRegions):
        regions = table.value.shape[-1]
        good = (
            table.value.shape == (1 + inputs, regions)
            and table.rule.shape == (regions, count, 1 + inputs)
            and table.facets.ndim == 2
            and table.facets.shape[1] == 1 + inputs
            and table.starts.shape == (regions + 1,)
            and bool((np.diff(table.starts) >= 0).all())
            and 0 <= int(table.starts[0])
            and int(table.starts[-1]) <= len(table.facets)
        )
    elif isinstance(table, Quadtree):
        cells, plans = len(table.plan), len(table.fractions)
        children = table.child + 2 ** int(table.valued.sum())
        good = (
            table.valued.shape == (inputs,)
            and table.child.shape == (cells,)
            and table.fractions.shape == (plans, count)
            and bool((table.plan < plans).all())
            and bool((children[table.plan == -2] <= cells).all())
            and bool((table.child[table.plan == -2] > np.flatnonzero(table.plan == -2)).all())
        )
    elif isinstance(table, FitPlans):
        rows = len(table.drops)
        links = (table.index.first, table.index.following)
        good = (
            table.index.points.shape == (rows, inputs)
            and table.drops.shape == (rows, len(table.arcs))
            and table.valued.shape == (inputs,)
            and all(arc in program.network.arc_index for arc in table.arcs)
            and all(a.shape == (rows,) and bool(((a >= -1) & (a < rows)).all()) for a in links)
        )
    if not good:
        raise ArtifactError("tables of a fit plan must fit its network; take it from the store")
