"""The paper's nouns: servers, input streams, operators, outputs, links and arcs.

The elements of a network are described here and nowhere else: reading and writing network documents
and the published JSON Schema (:mod:`planning.fit.network.document`) follow these fields. Next to
a field's type is what a document may have there: an interval of numbers, or a few words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec

from planning.errors import InfeasiblePlan

OPERATOR_TYPES = ("map", "filter", "aggregate", "union", "join")
MERGES = ("union", "join")


@dataclass(frozen=True, slots=True)
class Interval:
    """Finite numbers from ``low`` to ``high``; ``remedy`` says what to do about others.

    >>> str(Interval()), str(Interval(high=1.0)), 0.0 in Interval(open_low=True)
    ('[0, inf)', '[0, 1]', False)
    """

    low: float = 0.0
    high: float = math.inf
    open_low: bool = False
    remedy: str = ""

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return math.isfinite(value) and above and value <= self.high

    def __str__(self) -> str:
        closing = ")" if math.isinf(self.high) else "]"
        return f"{'(' if self.open_low else '['}{self.low:g}, {self.high:g}{closing}"


IDENTIFIER = "a text without '->' and ':'"
Identifier = Annotated[str, IDENTIFIER]
Amount = Annotated[float, Interval()]
Positive = Annotated[float, Interval(open_low=True)]


class MethodLimit(InfeasiblePlan):
    """A method of the paper would break its error bound, or its size limit, on this network."""


class Element(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a network; a document has all its fields."""


class Terse(Element, frozen=True, omit_defaults=True):
    """A part of a network whose document leaves out what is at its default."""


class Node(Element, frozen=True):
    """A server with its CPU capacity (the paper's zeta); tuples flow from parent to child."""

    id: Identifier
    capacity: Annotated[
        float,
        Interval(open_low=True, remedy="a server without CPU cannot hold operators: remove it"),
    ]
    parent: Annotated[str | None, "a node id or null"] = None


class Input(Terse, frozen=True):
    """An input stream; ``max_rate`` (tuples/s) bounds the planned rate space."""

    id: Identifier
    max_rate: Positive
    size: Amount = 1.0


class AggregateWindow(Element, frozen=True):
    """A windowed aggregate's window and slide (tuples) and the batch of windows kept together.

    Keeping B consecutive sliding windows needs B·d + (w − d) tuples, so a kept share of the windows
    costs ``tuples_per_window_share`` times that share of the tuples (Window Drop, paper [23]).

    >>> AggregateWindow(size=40, slide=10, batch=30).tuples_per_window_share
    1.1
    """

    size: Positive
    slide: Positive
    batch: Annotated[int, "an int"] = 1

    @property
    def tuples_per_window_share(self) -> float:
        """1 + (w/d − 1)/B; 1 for tumbling windows."""
        return 1.0 + max(self.size / self.slide - 1.0, 0.0) / self.batch


class Operator(Terse, frozen=True):
    """A query operator on a server; its id also names the stream that it emits.

    ``cost`` is CPU per tuple arriving on any port, in the unit of the server's capacity.
    """

    id: Identifier
    node: Identifier
    type: Annotated[str, f"one of {', '.join(OPERATOR_TYPES)}"]
    cost: Amount
    selectivity: Amount
    inputs: Annotated[tuple[str, ...], "a list of streams"]
    size: Amount = 1.0
    windows: Annotated[tuple[float, float] | None, "[w0, w1]"] = None
    window: AggregateWindow | None = None

    @property
    def is_merge(self) -> bool:
        """Whether the operator's arcs carry port numbers."""
        return self.type in MERGES

    def gain(self, port: int) -> float:
        """Tuples emitted per tuple arriving on ``port`` (Section 3.3).

        >>> Operator("j", "A", "join", 1, 0.1, ("a", "b"), windows=(20, 5)).gain(0)
        0.5
        """
        if self.windows is None:
            return self.selectivity
        return self.selectivity * self.windows[1 - port]


class Output(Terse, frozen=True):
    """A query output: throughput weight, priority class, and a throughput it must not fall below.

    Minimums (tuples/s) come before all throughputs, as far as the input rates bring them: those of
    a higher ``priority`` first, and those of one priority lack the same part at most. Then the
    throughput of a higher priority is served first, whatever the weights.
    """

    id: Identifier
    stream: Identifier
    weight: Amount
    priority: Annotated[int, "an int"] = 0
    minimum: Amount = 0.0


class Link(Element, frozen=True):
    """A directed network link between two servers with its bandwidth (size units per second)."""

    source: Identifier = msgspec.field(name="from")
    target: Identifier = msgspec.field(name="to")
    capacity: Positive = 0.0  # as published; a link without bandwidth is refused

    @property
    def id(self) -> str:
        """The link as errors and evaluations name it."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Arc:
    """One stream into one port of one consumer; ``port`` is given only for unions and joins."""

    stream: str
    consumer: str
    port: int | None
    to_output: bool

    @property
    def name(self) -> str:
        """The arc as plans name it.

        >>> Arc("a", "u", 1, False).name, Arc("a", "f", None, False).name
        ('a->u:1', 'a->f')
        """
        suffix = "" if self.port is None else f":{self.port}"
        return f"{self.stream}->{self.consumer}{suffix}"


def arc_name(stream: str, operator: Operator, port: int) -> str:
    """Return the name of the arc that carries ``stream`` into a port of an operator."""
    return Arc(stream, operator.id, port if operator.is_merge else None, False).name
