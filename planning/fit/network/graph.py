"""Graph work on query networks: order, trees, fragments, and flows along the arcs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from planning.arrays import FloatArray
from planning.errors import Mistake
from planning.fit.model import AggregateWindow, Node, Operator

if TYPE_CHECKING:
    from planning.fit.network import QueryNetwork


def topological(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Order operators so that each follows those it reads; document order breaks ties."""
    names = {o.id for o in operators}
    ordered: list[Operator] = []
    done: set[str] = set()
    waiting = list(operators)
    while waiting:
        ready = [o for o in waiting if all(s in done or s not in names for s in o.inputs)]
        if not ready:
            through = f"one through {', '.join(_on_cycle(waiting))}"
            raise Mistake("operators", "no cycle", through, verb="form", at=("operators",))
        ordered += ready
        done |= {o.id for o in ready}
        waiting = [o for o in waiting if o.id not in done]
    return tuple(ordered)


def _on_cycle(waiting: list[Operator]) -> list[str]:
    """Return the operators that wait for each other, without those that only follow them."""
    while True:
        read = {stream for o in waiting for stream in o.inputs}
        left = [o for o in waiting if o.id in read]
        if len(left) == len(waiting):
            return sorted(o.id for o in left)
        waiting = left


def check_parents(nodes: Sequence[Node]) -> None:
    """Refuse unknown parents and parent cycles."""
    parents = {n.id: n.parent for n in nodes}
    for k, node in enumerate(nodes):
        at = ("nodes", k, "parent")
        if node.parent is not None and node.parent not in parents:
            raise Mistake(f"parent of node {node.id}", "a node", repr(node.parent), at=at)
        seen = {node.id}
        above = node.parent
        while above is not None:
            if above in seen:
                here = f"one at {node.id}"
                raise Mistake("parents of nodes", "no cycle", here, verb="form", at=at)
            seen.add(above)
            above = parents[above]


def tree_problem(network: QueryNetwork) -> str:
    """Return why streams do not flow along the tree of parents; empty if they do.

    The tables of Section 6 need each server to receive streams from its parent only, and inputs to
    enter at servers without a parent.
    """
    parent = {n.id: n.parent for n in network.nodes}
    for operator in network.operators:
        for stream in operator.inputs:
            source = network.node_of[stream]
            if source is None:
                if parent[operator.node] is not None:
                    return (
                        f"input {stream} enters at server {operator.node}, which has the parent "
                        f"{parent[operator.node]}"
                    )
            elif source != operator.node and parent[operator.node] != source:
                return (
                    f"stream {stream} flows from server {source} to {operator.node}, whose parent "
                    f"is {parent[operator.node]}"
                )
    return ""


def arc_windows(network: QueryNetwork) -> tuple[AggregateWindow | None, ...]:
    """Return the window that drops on each arc must respect, in tuples of that arc.

    It is that of the next aggregate downstream; of several, the one with the largest overhead.
    """
    entering: dict[str, AggregateWindow | None] = {}
    for operator in reversed(network.order):
        if operator.type == "aggregate":
            entering[operator.id] = operator.window
            continue
        consumers = [network.arcs[a] for a in network.arcs_from[operator.id]]
        below = [entering[arc.consumer] for arc in consumers if not arc.to_output]
        windows = [window for window in below if window is not None]
        gain = max(operator.gain(p) for p in range(len(operator.inputs)))
        entering[operator.id] = None
        if windows and gain > 0:
            widest = max(windows, key=lambda w: (w.tuples_per_window_share, w.size))
            entering[operator.id] = structs.replace(
                widest, size=widest.size / gain, slide=widest.slide / gain
            )
    return tuple(None if arc.to_output else entering[arc.consumer] for arc in network.arcs)


def window_overhead(network: QueryNetwork) -> FloatArray:
    """Return, per arc, tuples per kept share of windows (1 where no sliding window follows)."""
    return np.array([w.tuples_per_window_share if w else 1.0 for w in network.arc_windows])


@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Row i of every array belongs to rate vector i."""

    arcs: FloatArray  # tuples/s after the drop, per arc
    loads: FloatArray  # CPU per server
    links: FloatArray  # bandwidth used per link
    outputs: FloatArray  # tuples/s per output
    throughput: FloatArray  # weighted sum of the outputs

    def use(self, network: QueryNetwork) -> FloatArray:
        """Return the share of every server's and every link's capacity."""
        bandwidths = np.array([link.capacity for link in network.links])
        return np.hstack([self.loads / network.capacities, self.links / bandwidths])


def flows(network: QueryNetwork, rates: FloatArray, drops: FloatArray) -> Flows:
    """Push rates through the network with drop fractions per arc.

    On an arc before a windowed aggregate a fraction counts whole windows; the tuples that pass are
    those the kept windows need.
    """
    count = len(rates)
    overhead = network.window_overhead
    streams = {i: (rates[:, k], rates[:, k]) for k, i in enumerate(network.input_ids)}
    passed: list[tuple[FloatArray, FloatArray]] = [(np.zeros(count),) * 2] * len(network.arcs)

    def push(arc: int) -> None:
        useful, tuples = streams[network.arcs[arc].stream]
        kept = 1.0 - drops[:, arc]
        share = np.where(kept < 1.0, np.minimum(1.0, kept * overhead[arc]), 1.0)
        passed[arc] = (useful * kept, tuples * share)

    loads = np.zeros((count, len(network.nodes)))
    position = {n.id: k for k, n in enumerate(network.nodes)}
    for operator in network.order:
        useful, tuples = np.zeros(count), np.zeros(count)
        for port, arc in enumerate(network.arcs_into[operator.id]):
            push(arc)
            gain = operator.gain(port)
            useful = useful + gain * passed[arc][0]
            tuples = tuples + gain * passed[arc][1]
            loads[:, position[operator.node]] += operator.cost * passed[arc][1]
        streams[operator.id] = (useful, useful if operator.type == "aggregate" else tuples)
    outputs = np.empty((count, len(network.outputs)))
    for k, output in enumerate(network.outputs):
        arc = network.arc_index[f"{output.stream}->{output.id}"]
        push(arc)
        outputs[:, k] = passed[arc][0]
    weights = np.array([o.weight for o in network.outputs])
    tuple_flows = np.stack([tuples for _, tuples in passed], axis=1)
    return Flows(tuple_flows, loads, _link_use(network, tuple_flows), outputs, outputs @ weights)


def arcs_between(network: QueryNetwork, source: str, target: str) -> dict[str, list[int]]:
    """Return the arcs from one server to another, grouped by the stream they carry."""
    between: dict[str, list[int]] = {}
    for index in arcs_into(network, target):
        stream = network.arcs[index].stream
        if network.node_of[stream] == source:
            between.setdefault(stream, []).append(index)
    return between


def arcs_into(network: QueryNetwork, server: str) -> list[int]:
    """Return the arcs into a server's operators."""
    return [
        index
        for index, arc in enumerate(network.arcs)
        if not arc.to_output and network.operator[arc.consumer].node == server
    ]


def _link_use(network: QueryNetwork, arcs: FloatArray) -> FloatArray:
    """Bandwidth per link: drops happen before sending, and a stream is sent once per server."""
    use = np.zeros((len(arcs), len(network.links)))
    for k, link in enumerate(network.links):
        for stream, indices in arcs_between(network, link.source, link.target).items():
            use[:, k] += network.operator[stream].size * arcs[:, indices].max(axis=1)
    return use


def values(network: QueryNetwork, drops: FloatArray) -> FloatArray:
    """Return what one item adds to the weighted throughput, given the drops it has yet to pass.

    One row per priority of outputs, the highest first. Columns are the arcs, where the item has
    passed the arc's own drop; the streams, where it has passed what all their arcs drop; and a 0.
    """
    kept = (1.0 - drops).tolist()
    rows = []
    for priority in sorted({o.priority for o in network.outputs}, reverse=True):
        arcs, streams = [0.0] * len(network.arcs), dict.fromkeys(network.streams, 0.0)
        for output in network.outputs:
            if output.priority == priority:
                arcs[network.arc_index[f"{output.stream}->{output.id}"]] = output.weight
        for operator in reversed(network.order):
            leaving = sum(arcs[a] * kept[a] for a in network.arcs_from[operator.id])
            for port, arc in enumerate(network.arcs_into[operator.id]):
                arcs[arc] = operator.gain(port) * leaving
        for stream, leaving in network.arcs_from.items():
            most = max((kept[a] for a in leaving), default=0.0)
            if most > 0.0:
                streams[stream] = sum(arcs[a] * kept[a] for a in leaving) / most
        rows.append([*arcs, *streams.values(), 0.0])
    return np.array(rows)


def fragments(network: QueryNetwork) -> list[QueryNetwork]:
    """Cut the network where neither a stream nor a server nor a link connects its parts.

    An input that feeds two fragments belongs to both: its arcs are dropped independently. Outputs
    that read an input directly cost nothing and are left out.
    """
    group = {o.id: o.id for o in network.operators}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    on_server: dict[str, str] = {}
    for operator in network.operators:
        first = on_server.setdefault(operator.node, operator.id)
        for other in (first, *(s for s in operator.inputs if s in group)):
            low, high = sorted((root(operator.id), root(other)))
            group[high] = low
    parts: dict[str, list[Operator]] = {}
    for operator in network.operators:
        parts.setdefault(root(operator.id), []).append(operator)
    return [_part(network, operators) for operators in parts.values()]


def _part(network: QueryNetwork, operators: Sequence[Operator]) -> QueryNetwork:
    names = {o.id for o in operators}
    servers = {o.node for o in operators}
    read = {stream for o in operators for stream in o.inputs}
    nodes = [n for n in network.nodes if n.id in servers]
    return structs.replace(
        network,
        nodes=tuple(
            structs.replace(n, parent=n.parent if n.parent in servers else None) for n in nodes
        ),
        inputs=tuple(i for i in network.inputs if i.id in read),
        operators=tuple(operators),
        outputs=tuple(o for o in network.outputs if o.stream in names),
        links=tuple(
            link for link in network.links if link.source in servers and link.target in servers
        ),
    )
