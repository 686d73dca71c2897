"""Which rows of a table can matter: the feasibility triangle of a chain, and the input server."""

from __future__ import annotations

import numpy as np

from planning.fit.dfit.servers import Server, servers_of
from planning.fit.dfit.tables import Bound
from planning.fit.model import MethodLimit
from planning.fit.network import QueryNetwork
from planning.fit.simplex.shedding import shedding_program

MARGIN = 1.5
"""How much costs may grow before a feasibility triangle has to be made smaller."""


def is_chain(network: QueryNetwork) -> bool:
    """Whether streams run side by side through one chain of servers, without splits or merges."""
    servers = servers_of(network)
    return (
        all(len(server.children) <= 1 for server in servers.values())
        and all(len(arcs) == 1 for arcs in network.arcs_from.values())
        and not any(o.is_merge for o in network.operators)
        and all(o.selectivity > 0 for o in network.operators)
        and not network.links
    )


def input_gain(network: QueryNetwork, stream: str) -> tuple[str, float]:
    """Return the input that a chain's stream comes from and the selectivity on the way."""
    gain = 1.0
    while network.node_of[stream] is not None:
        operator = network.operator[stream]
        gain *= operator.selectivity
        stream = operator.inputs[0]
    return stream, gain


def chain_bound(network: QueryNetwork, server: Server, *, triangle: bool) -> Bound:
    """Return which rows of a chain's server can matter.

    With ``triangle`` it is the paper's feasibility triangle, from the smallest maximum feasible
    rate of each input over all servers; it is valid only for chains without local plans. It is made
    smaller by ``MARGIN``, so that costs may grow that much before rows must be sent. Otherwise the
    loads of all servers, which the coordinator knows, decide, and rows that a server above could
    not deliver are left out.
    """
    use = shedding_program(network).use_per_tuple
    columns = []
    for stream in server.inputs:
        name, gain = input_gain(network, stream)
        columns.append(use[:, network.input_ids.index(name)] / gain)
    mapped = np.stack(columns, axis=1)
    if triangle:
        return Bound(MARGIN * mapped.max(axis=0, keepdims=True))
    parents = {node.id: node.parent for node in network.nodes}
    above, at = set(), parents[server.id]
    while at is not None:
        above.add(at)
        at = parents[at]
    return Bound(mapped, mapped[[k for k, node in enumerate(network.nodes) if node.id in above]])


def root_of(network: QueryNetwork) -> str:
    """Return the one server where the inputs enter."""
    entered = {o.node for o in network.operators if set(o.inputs) & set(network.input_ids)}
    if len(entered) != 1:
        raise MethodLimit(
            "inputs must enter at one server for feasible input tables, got "
            f"{', '.join(sorted(entered))}; plan fragments separately"
        )
    return entered.pop()
