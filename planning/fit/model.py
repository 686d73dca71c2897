"""The paper's nouns: servers, input streams, operators, outputs, links and arcs."""

from __future__ import annotations

from dataclasses import dataclass

OPERATOR_TYPES = ("map", "filter", "aggregate", "union", "join")
MERGES = ("union", "join")


@dataclass(frozen=True, slots=True)
class Node:
    """A server with its CPU capacity (the paper's zeta); tuples flow from parent to child."""

    id: str
    capacity: float
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """An input stream; ``max_rate`` (tuples/s) bounds the planned rate space."""

    id: str
    max_rate: float
    size: float = 1.0


@dataclass(frozen=True, slots=True)
class AggregateWindow:
    """A windowed aggregate's window and slide (tuples) and the batch of windows kept together.

    Keeping B consecutive sliding windows needs B·d + (w − d) tuples, so a kept share of the windows
    costs ``tuples_per_window_share`` times that share of the tuples (Window Drop, paper [23]).

    >>> AggregateWindow(size=40, slide=10, batch=30).tuples_per_window_share
    1.1
    """

    size: float
    slide: float
    batch: int = 1

    @property
    def tuples_per_window_share(self) -> float:
        """1 + (w/d − 1)/B; 1 for tumbling windows."""
        return 1.0 + max(self.size / self.slide - 1.0, 0.0) / self.batch


@dataclass(frozen=True, slots=True)
class Operator:
    """A query operator on a server; its id also names the stream that it emits.

    ``cost`` is CPU per tuple arriving on any port, in the unit of the server's capacity.
    """

    id: str
    node: str
    type: str
    cost: float
    selectivity: float
    inputs: tuple[str, ...]
    windows: tuple[float, float] | None = None
    size: float = 1.0
    window: AggregateWindow | None = None

    def gain(self, port: int) -> float:
        """Tuples emitted per tuple arriving on ``port`` (Section 3.3).

        >>> Operator("j", "A", "join", 1, 0.1, ("a", "b"), (20, 5)).gain(0)
        0.5
        """
        if self.windows is None:
            return self.selectivity
        return self.selectivity * self.windows[1 - port]


@dataclass(frozen=True, slots=True)
class Output:
    """A query output: throughput weight, priority class, and a throughput it shall not fall under.

    A higher ``priority`` is served first, whatever the weights; ``minimum`` (tuples/s) comes before
    every priority as far as the input rates allow it.
    """

    id: str
    stream: str
    weight: float = 1.0
    priority: int = 0
    minimum: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A directed network link between two servers with its bandwidth (size units per second)."""

    source: str
    target: str
    capacity: float


@dataclass(frozen=True, slots=True)
class Arc:
    """One stream into one port of one consumer; ``port`` is named for unions and joins only."""

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
