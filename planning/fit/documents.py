"""Read and write network documents; every error names the element that is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from planning.errors import InvalidInput
from planning.fit.model import (
    MERGES,
    OPERATOR_TYPES,
    AggregateWindow,
    Input,
    Link,
    Node,
    Operator,
    Output,
)

KEYS = {
    "network": {"name", "nodes", "inputs", "operators", "outputs", "links"},
    "node": {"id", "capacity", "parent"},
    "input": {"id", "max_rate", "size"},
    "operator": {
        "id",
        "node",
        "type",
        "cost",
        "selectivity",
        "inputs",
        "windows",
        "size",
        "window",
    },
    "output": {"id", "stream", "weight", "priority", "minimum"},
    "link": {"from", "to", "capacity"},
    "window": {"size", "slide", "batch"},
}


def _mapping(what: str, document: Any, keys: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{what} must be a mapping, got {document!r}")
    unknown = sorted(set(document) - KEYS[keys])
    if unknown:
        raise InvalidInput(
            f"{what} must have keys of {', '.join(sorted(KEYS[keys]))}, got {', '.join(unknown)}"
        )
    return document


def _items(document: Mapping[str, Any], key: str, least: int) -> Sequence[Any]:
    items = document.get(key, [])
    if not isinstance(items, Sequence) or isinstance(items, str) or len(items) < least:
        raise InvalidInput(f"{key} must be a list of at least {least} item(s), got {items!r}")
    return items


def _id(what: str, document: Mapping[str, Any], key: str = "id") -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value or "->" in value or ":" in value:
        raise InvalidInput(f"{key} of {what} must be a text without '->' and ':', got {value!r}")
    return value


def number(
    what: str,
    value: Any,
    *,
    low: float = 0.0,
    high: float = math.inf,
    open_low: bool = False,
    remedy: str = "",
) -> float:
    """Return ``value`` as a finite float within its range; ``what`` names it in the error.

    >>> number("cost of operator f", None)
    Traceback (most recent call last):
    ...
    planning.errors.InvalidInput: cost of operator f must be a number in [0, inf), got None
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if good:
        good = math.isfinite(value) and (value > low if open_low else value >= low)
        good = good and value <= high
    if not good:
        closing = ")" if math.isinf(high) else "]"
        message = (
            f"{what} must be a number in {'(' if open_low else '['}{low:g}, {high:g}{closing}, "
            f"got {value!r}"
        )
        raise InvalidInput(f"{message}; {remedy}" if remedy else message)
    return float(value)


def node_from(document: Any) -> Node:
    """Read one server."""
    document = _mapping("a node", document, "node")
    name = _id("a node", document)
    capacity = number(
        f"capacity of node {name}",
        document.get("capacity"),
        open_low=True,
        remedy="a server without CPU cannot hold operators: remove it",
    )
    parent = document.get("parent")
    if parent is not None and not isinstance(parent, str):
        raise InvalidInput(f"parent of node {name} must be a node id or null, got {parent!r}")
    return Node(name, capacity, parent)


def input_from(document: Any) -> Input:
    """Read one input stream."""
    document = _mapping("an input", document, "input")
    name = _id("an input", document)
    return Input(
        name,
        number(f"max_rate of input {name}", document.get("max_rate"), open_low=True),
        number(f"size of input {name}", document.get("size", 1.0)),
    )


def _windows(name: str, kind: str, document: Mapping[str, Any]) -> tuple[float, float] | None:
    windows = document.get("windows")
    if kind != "join":
        if windows is not None:
            raise InvalidInput(f"windows of operator {name} belong to joins only, it is a {kind}")
        return None
    if not isinstance(windows, Sequence) or len(windows) != 2:
        raise InvalidInput(f"windows of join {name} must be [w0, w1], got {windows!r}")
    w0, w1 = (number(f"window {i} of join {name}", w) for i, w in enumerate(windows))
    return w0, w1


def _aggregate_window(name: str, kind: str, document: Mapping[str, Any]) -> AggregateWindow | None:
    window = document.get("window")
    if window is None:
        return None
    if kind != "aggregate":
        raise InvalidInput(f"window of operator {name} belongs to aggregates only, it is a {kind}")
    window = _mapping(f"window of aggregate {name}", window, "window")
    size = number(f"window size of aggregate {name}", window.get("size"), open_low=True)
    slide = number(f"window slide of aggregate {name}", window.get("slide", size), open_low=True)
    batch = window.get("batch", 1)
    if not isinstance(batch, int) or batch < 1:
        raise InvalidInput(f"window batch of aggregate {name} must be an int >= 1, got {batch!r}")
    return AggregateWindow(size, slide, batch)


def operator_from(document: Any) -> Operator:
    """Read one operator."""
    document = _mapping("an operator", document, "operator")
    name = _id("an operator", document)
    kind = document.get("type")
    if kind not in OPERATOR_TYPES:
        raise InvalidInput(
            f"type of operator {name} must be one of {', '.join(OPERATOR_TYPES)}, got {kind!r}"
        )
    inputs = document.get("inputs")
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise InvalidInput(f"inputs of operator {name} must be a list of streams, got {inputs!r}")
    wanted = {"join": 2}.get(kind, 1)
    if len(inputs) < wanted or (kind != "union" and len(inputs) != wanted):
        raise InvalidInput(
            f"inputs of operator {name} ({kind}) must name "
            f"{'at least 1 stream' if kind == 'union' else f'exactly {wanted} stream(s)'}, "
            f"got {list(inputs)!r}; an operator that no input reaches is not part of the network"
        )
    default = 1.0 if kind == "union" else None
    return Operator(
        id=name,
        node=_id(f"operator {name}", document, "node"),
        type=kind,
        cost=number(f"cost of operator {name}", document.get("cost")),
        selectivity=number(
            f"selectivity of operator {name}",
            document.get("selectivity", default),
            high=math.inf if kind == "join" else 1.0,
            remedy="only a join may emit more tuples than arrive" if kind != "join" else "",
        ),
        inputs=tuple(str(stream) for stream in inputs),
        windows=_windows(name, kind, document),
        size=number(f"size of operator {name}", document.get("size", 1.0)),
        window=_aggregate_window(name, kind, document),
    )


def output_from(document: Any) -> Output:
    """Read one output."""
    document = _mapping("an output", document, "output")
    name = _id("an output", document)
    priority = document.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InvalidInput(f"priority of output {name} must be an int, got {priority!r}")
    return Output(
        name,
        _id(f"output {name}", document, "stream"),
        number(f"weight of output {name}", document.get("weight", 1.0)),
        priority,
        number(f"minimum of output {name}", document.get("minimum", 0.0)),
    )


def link_from(document: Any) -> Link:
    """Read one link."""
    document = _mapping("a link", document, "link")
    source, target = _id("a link", document, "from"), _id("a link", document, "to")
    capacity = number(
        f"capacity of link {source}->{target}", document.get("capacity"), open_low=True
    )
    return Link(source, target, capacity)


def parts_of(document: Any) -> dict[str, Any]:
    """Read a whole network document into the fields of ``QueryNetwork``."""
    document = _mapping("a network", document, "network")
    name = document.get("name", "")
    if not isinstance(name, str):
        raise InvalidInput(f"name of the network must be a text, got {name!r}")
    return {
        "name": name,
        "nodes": tuple(node_from(item) for item in _items(document, "nodes", 1)),
        "inputs": tuple(input_from(item) for item in _items(document, "inputs", 1)),
        "operators": tuple(operator_from(item) for item in _items(document, "operators", 0)),
        "outputs": tuple(output_from(item) for item in _items(document, "outputs", 1)),
        "links": tuple(link_from(item) for item in _items(document, "links", 0)),
    }


def _without_defaults(document: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in document.items() if k not in defaults or v != defaults[k]}


def operator_document(operator: Operator) -> dict[str, Any]:
    """Write one operator, leaving out what is at its default."""
    document: dict[str, Any] = {
        "id": operator.id,
        "node": operator.node,
        "type": operator.type,
        "cost": operator.cost,
        "selectivity": operator.selectivity,
        "inputs": list(operator.inputs),
        "size": operator.size,
    }
    if operator.windows is not None:
        document["windows"] = list(operator.windows)
    if operator.window is not None:
        window = operator.window
        document["window"] = {"size": window.size, "slide": window.slide, "batch": window.batch}
    return _without_defaults(document, {"size": 1.0})


def document_of(
    name: str,
    nodes: Sequence[Node],
    inputs: Sequence[Input],
    operators: Sequence[Operator],
    outputs: Sequence[Output],
    links: Sequence[Link],
) -> dict[str, Any]:
    """Write a network document; reading it back gives an equal network."""
    document: dict[str, Any] = {
        "name": name,
        "nodes": [{"id": n.id, "capacity": n.capacity, "parent": n.parent} for n in nodes],
        "inputs": [
            _without_defaults({"id": i.id, "max_rate": i.max_rate, "size": i.size}, {"size": 1.0})
            for i in inputs
        ],
        "operators": [operator_document(operator) for operator in operators],
        "outputs": [
            _without_defaults(
                {
                    "id": o.id,
                    "stream": o.stream,
                    "weight": o.weight,
                    "priority": o.priority,
                    "minimum": o.minimum,
                },
                {"priority": 0, "minimum": 0.0},
            )
            for o in outputs
        ],
    }
    if links:
        document["links"] = [
            {"from": link.source, "to": link.target, "capacity": link.capacity} for link in links
        ]
    return document


def is_merge(operator: Operator) -> bool:
    """Whether the operator's arcs carry port numbers."""
    return operator.type in MERGES
