"""C-FIT: all feasible input tables built in one place, and the plans of the input server."""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.fit import point_quadtree
from planning.fit import program as programs
from planning.fit.limits import MethodLimit, valued_inputs
from planning.fit.merging import merge_tables
from planning.fit.network import QueryNetwork
from planning.fit.sampling import Sampling, plan_sampling
from planning.fit.servers import Server, servers_of
from planning.fit.stored import FitPlans
from planning.fit.tables import Bound, Table, leaf_table

MARGIN = 1.5
"""How much costs may grow before a feasibility triangle has to be made smaller."""


def is_chain(network: QueryNetwork) -> bool:
    """Whether streams run side by side through one chain of servers, without splits or merges."""
    servers = servers_of(network)
    return (
        all(len(server.children) <= 1 for server in servers.values())
        and all(len(arcs) == 1 for arcs in network.arcs_from.values())
        and all(o.type not in ("union", "join") for o in network.operators)
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
    rate of each input over all servers; it holds for chains without local plans only. It is made
    smaller by ``MARGIN``, so that costs may grow that much before rows must be sent. Otherwise the
    loads of all servers, which the coordinator knows, decide, and rows that a server above could
    not deliver are left out.
    """
    program = programs.build(network)
    use = program.raw_use / program.max_rates
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
    entered = {
        network.operator[network.arcs[a].consumer].node
        for i in network.input_ids
        for a in network.arcs_from[i]
        if not network.arcs[a].to_output
    }
    if len(entered) != 1:
        raise MethodLimit(
            "inputs must enter at one server for feasible input tables, got "
            f"{', '.join(sorted(entered))}; plan fragments separately"
        )
    return entered.pop()


def build_tables(
    network: QueryNetwork, sampling: Sampling, max_rows: int = 5_000_000
) -> dict[str, Table]:
    """Build the table of every server, leaves first."""
    servers = servers_of(network)
    root = root_of(network)
    chain = is_chain(network)
    tables: dict[str, Table] = {}

    def make(name: str) -> None:
        server = servers[name]
        for child in server.children:
            make(child)
        bound = None
        if chain and name != root:
            bound = chain_bound(network, server, triangle=False)
        below = {child: tables[child] for child in server.children}
        tables[name] = (
            merge_tables(server, below, sampling, bound, max_rows)
            if below
            else leaf_table(server, sampling, bound, max_rows)
        )

    make(root)
    return tables


def build(network: QueryNetwork, error: float, *, max_rows: int = 5_000_000) -> FitPlans:
    """Build all tables and the plans of the input server."""
    sampling = plan_sampling(network, error)
    tables = build_tables(network, sampling, max_rows)
    return compile_plans(network, tables)


def compile_plans(network: QueryNetwork, tables: dict[str, Table]) -> FitPlans:
    """Follow every row of the input server's table down to all local plans."""
    root = tables[root_of(network)]
    names = tuple(a.name for a in network.arcs if not a.to_output)
    column = {name: k for k, name in enumerate(names)}
    keep = np.ones((root.count, len(names)))

    def follow(table: Table, rows: IntArray, ports: dict[str, FloatArray]) -> None:
        local = table.keep[rows]
        kept = {arc: local[:, k] for k, arc in enumerate(table.arcs)}
        for arc, share in kept.items():
            if arc in column:
                keep[:, column[arc]] = share * ports.get(arc.split("->")[0], 1.0)
        for k, child in enumerate(table.children):
            streams = {s: kept[f"{s}@{child}"] for s in tables[child].inputs}
            follow(tables[child], table.rows[rows, k], streams)

    follow(root, np.arange(root.count), {})
    positions = [root.inputs.index(i) for i in network.input_ids]
    index, order = point_quadtree.build(root.rates[:, positions], root.score)
    return FitPlans(
        index=index,
        arcs=names,
        drops=np.clip(1.0 - keep[order], 0.0, 1.0),
        valued=valued_inputs(programs.build(network)),
    )
