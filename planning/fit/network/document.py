"""Read and write network documents; every error names the element that is wrong.

The fields are those of :mod:`planning.fit.model`; the classes here give them the names and
descriptions under which the plan's JSON Schema publishes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import structs

from planning.errors import Mistake
from planning.fit.model import (
    IDENTIFIER,
    OPERATOR_TYPES,
    AggregateWindow,
    Element,
    Input,
    Interval,
    Link,
    Node,
    Operator,
    Output,
    Terse,
)

Place = tuple[str | int, ...]
"""Where something is in the document."""
AnyElement = TypeVar("AnyElement", bound=Element)
LEAST = {"nodes": 1, "inputs": 1, "outputs": 1}
OWNERS = {"windows": "join", "window": "aggregate"}
"""Fields that only one type of operator has."""
SHARE = Interval(high=1.0, remedy="only a join may emit more tuples than arrive")
KEPT = Interval(high=1.0)


class NodeDocument(Node, frozen=True):
    """A server."""


class InputDocument(Input, frozen=True):
    """An input stream."""


class WindowDocument(AggregateWindow, frozen=True):
    """An aggregate's window."""


class OperatorDocument(Operator, frozen=True):
    """An operator on a server."""

    window: WindowDocument | None = None


class OutputDocument(Output, frozen=True):
    """A weighted output."""


class LinkDocument(Link, frozen=True):
    """A link with its bandwidth."""


class NetworkDocument(Terse, frozen=True):
    """A query network; every drop location keeps the share ``min_keep`` as far as CPU allows."""

    name: str
    nodes: tuple[NodeDocument, ...]
    inputs: tuple[InputDocument, ...]
    operators: tuple[OperatorDocument, ...]
    outputs: tuple[OutputDocument, ...]
    links: tuple[LinkDocument, ...] = ()
    min_keep: Annotated[float, KEPT] = 0.0


def fields_of(document: Any) -> dict[str, Any]:
    """Read a whole network document into the fields of :class:`NetworkDocument`."""
    document = _mapping("a network", document, NetworkDocument, ())
    name = document.get("name", "")
    if not isinstance(name, str):
        raise Mistake("name of the network", "a text", repr(name), at=("name",))
    min_keep = number("min_keep", document.get("min_keep", 0.0), KEPT, ("min_keep",))
    read: dict[str, Any] = {"name": name, "min_keep": min_keep}
    for field in _fields(NetworkDocument)[1:-1]:
        kind, least = get_args(field.plain)[0], LEAST.get(field.name, 0)
        items = document.get(field.name, [])
        if not isinstance(items, Sequence) or isinstance(items, str) or len(items) < least:
            allowed = f"a list of at least {least} item(s)"
            raise Mistake(field.name, allowed, repr(items), at=(field.name,))
        read[field.name] = tuple(
            element(kind, item, (field.name, index)) for index, item in enumerate(items)
        )
    return read


def document_of(element: Element) -> dict[str, Any]:
    """Write a network or an element of one; reading it back gives an equal one.

    >>> document_of(Input("i", 8.0)), document_of(Node("A", 1.0))
    ({'id': 'i', 'max_rate': 8.0}, {'id': 'A', 'capacity': 1.0, 'parent': None})
    """
    terse = isinstance(element, Terse)
    values = ((field, getattr(element, field.name)) for field in _fields(type(element)))
    return {
        field.key: _plain(value)
        for field, value in values
        if not (terse and value == field.default)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Element):
        return document_of(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def element(kind: type[AnyElement], document: Any, at: Place = ()) -> AnyElement:
    """Read one element.

    >>> element(Input, {"id": "i", "max_rate": 0})
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: max_rate of input i must be a number in (0, inf), got 0
    """
    noun = kind.__name__.removesuffix("Document").lower()
    article = "an" if noun[0] in "aeiou" else "a"
    document = _filled(kind, _mapping(f"{article} {noun}", document, kind, at))
    names = ("from", "to") if issubclass(kind, Link) else ("id",)
    name = "->".join(
        _value(str, IDENTIFIER, document.get(key), f"{key} of {article} {noun}", (*at, key))
        for key in names
    )
    made = _read(kind, document, noun, name, at)
    if isinstance(made, Operator):
        _check_operator(made, at)
    return made


def _read(
    kind: type[AnyElement], document: Mapping[str, Any], noun: str, name: str, at: Place
) -> AnyElement:
    """Read every field; ``noun`` and ``name`` say whose it is in errors."""
    values = {}
    for field in _fields(kind):
        given = document.get(field.key, field.default)
        owner, here = OWNERS.get(field.key, noun), (*at, field.key)
        whose = f"{field.key} of {owner} {name}"
        if field.inner is not None and given is not None:
            given = _filled(field.inner, _mapping(whose, given, field.inner, here))
            given = _read(field.inner, given, f"the {field.key} of {owner}", name, here)
        elif field.allowed is not None:
            given = _value(field.plain, field.allowed, given, whose, here)
        values[field.name] = given
    return kind(**values)


class _Field(NamedTuple):
    """A field as its type describes it; ``inner`` is the element in it, if any."""

    name: str
    key: str
    default: Any  # None where a value is required
    plain: Any
    allowed: Interval | str | None
    inner: type[Element] | None


@cache
def _fields(kind: type[Element]) -> tuple[_Field, ...]:
    described = []
    for field in structs.fields(kind):
        annotated = get_origin(field.type) is Annotated
        plain, allowed = get_args(field.type) if annotated else (field.type, None)
        default = None if field.default is msgspec.NODEFAULT else field.default
        inner = [part for part in get_args(plain) if part in (AggregateWindow, WindowDocument)]
        held = inner[0] if inner else None
        described.append(_Field(field.name, field.encode_name, default, plain, allowed, held))
    return tuple(described)


def _value(plain: Any, allowed: Interval | str, given: Any, field: str, at: Place) -> Any:
    """Return a value of the type; ``allowed`` comes with it in the description."""
    if isinstance(allowed, Interval):
        return number(field, given, allowed, at)
    try:
        value = msgspec.convert(given, plain)
    except msgspec.ValidationError:
        raise Mistake(field, allowed, repr(given), at=at) from None
    if allowed == IDENTIFIER and (not value or "->" in value or ":" in value):
        raise Mistake(field, allowed, repr(given), at=at)
    return value


def number(field: str, value: Any, interval: Interval, at: Place = ()) -> float:
    """Return ``value`` as a float within its interval; ``field`` names it in the error.

    >>> number("cost of operator f", None, Interval())
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: cost of operator f must be a number in [0, inf), got None
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or value not in interval:
        raise Mistake(field, f"a number in {interval}", repr(value), interval.remedy, at=at)
    return float(value)


def _filled(kind: type[Element], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add what people may leave out but plans always state."""
    if issubclass(kind, Output):
        return {"weight": 1.0, **document}
    if issubclass(kind, Operator) and document.get("type") == "union":
        return {"selectivity": 1.0, **document}
    if issubclass(kind, AggregateWindow):
        return {"slide": document.get("size"), **document}
    return document


def _check_operator(operator: Operator, at: Place) -> None:
    """Check what depends on the operator's type."""
    name, kind = operator.id, operator.type
    if kind not in OPERATOR_TYPES:
        raise Mistake(
            f"type of operator {name}",
            f"one of {', '.join(OPERATOR_TYPES)}",
            repr(kind),
            at=(*at, "type"),
        )
    wanted = 2 if kind == "join" else 1
    if len(operator.inputs) < wanted or (kind != "union" and len(operator.inputs) != wanted):
        raise Mistake(
            f"inputs of operator {name} ({kind})",
            "at least 1 stream" if kind == "union" else f"exactly {wanted} stream(s)",
            repr(list(operator.inputs)),
            "an operator that no input reaches is not part of the network",
            verb="name",
            at=(*at, "inputs"),
        )
    if kind != "join":
        number(f"selectivity of operator {name}", operator.selectivity, SHARE, (*at, "selectivity"))
    elif operator.windows is None:
        raise Mistake(f"windows of join {name}", "[w0, w1]", "None", at=(*at, "windows"))
    for key, owner in OWNERS.items():
        given = getattr(operator, key)
        if given is not None and kind != owner:
            raise Mistake(
                f"{key} of operator {name}",
                f"left out of a {kind}",
                repr(_plain(given)),
                f"only {owner}s have it",
                at=(*at, key),
            )
    for place, size in enumerate(operator.windows or ()):
        number(f"window {place} of join {name}", size, Interval(), (*at, "windows", place))
    if operator.window is not None and operator.window.batch < 1:
        raise Mistake(
            f"batch of the window of aggregate {name}",
            "an int >= 1",
            repr(operator.window.batch),
            at=(*at, "window", "batch"),
        )


def _mapping(what: str, document: Any, kind: type[Element], at: Place) -> Mapping[str, Any]:
    """Return the document if it is a mapping without unknown keys."""
    if not isinstance(document, Mapping):
        raise Mistake(what, "a mapping", repr(document), at=at)
    keys = {field.key for field in _fields(kind)}
    unknown = sorted(set(map(str, document)) - keys)
    if unknown:
        allowed = f"keys of {', '.join(sorted(keys))}"
        raise Mistake(what, allowed, ", ".join(unknown), verb="have", at=at)
    return document
