"""What one server knows about itself: its operators, ports and children."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planning.arrays import FloatArray
from planning.fit import documents
from planning.fit.graph import topological
from planning.fit.model import Operator, Output
from planning.fit.network import QueryNetwork


@dataclass(frozen=True, slots=True)
class Server:
    """One server's part of the network.

    ``inputs`` are the streams that arrive (from the parent, or inputs of the network); ``children``
    the streams sent to each child; ``bandwidth`` the capacity of limited links to children.
    """

    id: str
    capacity: float
    parent: str | None
    inputs: tuple[str, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    children: dict[str, tuple[str, ...]]
    bandwidth: dict[str, float]

    def to_document(self) -> dict[str, Any]:
        """Return what a server process is started with."""
        return {
            "id": self.id,
            "capacity": self.capacity,
            "parent": self.parent,
            "inputs": list(self.inputs),
            "operators": [documents.operator_document(o) for o in self.operators],
            "outputs": [
                {"id": o.id, "stream": o.stream, "weight": o.weight} for o in self.outputs
            ],
            "children": {child: list(streams) for child, streams in self.children.items()},
            "bandwidth": dict(self.bandwidth),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Server:
        """Read what ``to_document`` wrote."""
        return cls(
            document["id"],
            document["capacity"],
            document["parent"],
            tuple(document["inputs"]),
            topological([documents.operator_from(o) for o in document["operators"]]),
            tuple(documents.output_from(o) for o in document["outputs"]),
            {child: tuple(streams) for child, streams in document["children"].items()},
            dict(document["bandwidth"]),
        )

    def gains(self) -> dict[str, FloatArray]:
        """Rate of every stream per input rate, nothing dropped."""
        count = len(self.inputs)
        gains = {s: np.eye(1, count, k)[0] for k, s in enumerate(self.inputs)}
        for operator in self.operators:
            gains[operator.id] = np.sum(
                [operator.gain(p) * gains[s] for p, s in enumerate(operator.inputs)], axis=0
            )
        return gains

    def use(self) -> FloatArray:
        """Share of the server's own CPU per input rate, nothing dropped."""
        gains = self.gains()
        load = [o.cost * gains[s] for o in self.operators for s in o.inputs]
        return np.asarray(np.sum(load, axis=0) / self.capacity)

    def alone(self, highest: dict[str, float]) -> QueryNetwork:
        """Return this server as a network of its own; its ports are the inputs."""
        return QueryNetwork.from_document(
            {
                "name": self.id,
                "nodes": [{"id": self.id, "capacity": self.capacity, "parent": None}],
                "inputs": [
                    {"id": s, "max_rate": max(highest[f"{s}@{self.id}"], 1e-12)}
                    for s in self.inputs
                ],
                "operators": [documents.operator_document(o) for o in self.operators],
                "outputs": [
                    {"id": o.id, "stream": o.stream, "weight": o.weight} for o in self.outputs
                ]
                or [{"id": "nothing", "stream": self.inputs[0], "weight": 0.0}],
            }
        )


def servers_of(network: QueryNetwork) -> dict[str, Server]:
    """Cut a network into its servers; each knows only its own part. Idle servers are left out."""
    made: dict[str, Server] = {}
    for node in network.nodes:
        own = [o for o in network.order if o.node == node.id]
        if not own:
            continue
        streams = {o.id for o in own}
        inputs: list[str] = []
        for stream in (s for operator in own for s in operator.inputs):
            if stream not in streams and stream not in inputs:
                inputs.append(stream)
        children: dict[str, list[str]] = {}
        for operator in network.operators:
            if operator.node != node.id:
                for stream in operator.inputs:
                    sent = children.setdefault(operator.node, []) if stream in streams else None
                    if sent is not None and stream not in sent:
                        sent.append(stream)
        made[node.id] = Server(
            node.id,
            node.capacity,
            node.parent,
            tuple(inputs),
            tuple(own),
            tuple(o for o in network.outputs if o.stream in streams),
            {child: tuple(sent) for child, sent in sorted(children.items()) if sent},
            {link.target: link.capacity for link in network.links if link.source == node.id},
        )
    return made
