"""What one server knows about itself: its operators, ports and children."""

from __future__ import annotations

import msgspec
import numpy as np

from planning.arrays import FloatArray
from planning.fit.model import Operator, Output
from planning.fit.network import QueryNetwork
from planning.fit.network.document import document_of


class Server(msgspec.Struct, frozen=True, eq=False):
    """One server's part of the network; a server process is started with it.

    ``inputs`` are the streams that arrive (from the parent, or inputs of the network); ``children``
    the streams sent to each child; ``bandwidth`` the capacity of limited links to children.
    ``operators`` are in topological order.
    """

    id: str
    capacity: float
    parent: str | None
    inputs: tuple[str, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    children: dict[str, tuple[str, ...]]
    bandwidth: dict[str, float]

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
        """Return this server as a separate network; its ports are the inputs."""
        outputs = [{"id": o.id, "stream": o.stream, "weight": o.weight} for o in self.outputs]
        nothing = {"id": "nothing", "stream": self.inputs[0], "weight": 0.0}
        return QueryNetwork.from_document(
            {
                "name": self.id,
                "nodes": [{"id": self.id, "capacity": self.capacity, "parent": None}],
                "inputs": [
                    {"id": s, "max_rate": max(highest[f"{s}@{self.id}"], 1e-12)}
                    for s in self.inputs
                ],
                "operators": [document_of(o) for o in self.operators],
                "outputs": outputs or [nothing],
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
            for stream in operator.inputs:
                if operator.node != node.id and stream in streams:
                    sent = children.setdefault(operator.node, [])
                    sent += [stream] if stream not in sent else []
        made[node.id] = Server(
            node.id,
            node.capacity,
            node.parent,
            tuple(inputs),
            tuple(own),
            tuple(o for o in network.outputs if o.stream in streams),
            {child: tuple(sent) for child, sent in sorted(children.items())},
            {link.target: link.capacity for link in network.links if link.source == node.id},
        )
    return made
