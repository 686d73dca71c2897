"""C-FIT: all feasible input tables built in one place, and the plans of the input server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.fit import point_quadtree
from planning.fit import program as programs
from planning.fit.limits import MethodLimit, valued_inputs
from planning.fit.merging import merge_tables
from planning.fit.network import QueryNetwork
from planning.fit.point_quadtree import PointQuadtree
from planning.fit.sampling import Sampling, plan_sampling
from planning.fit.servers import Server, servers_of
from planning.fit.tables import Bound, Table, leaf_table

MATCH = 1e-9
"""A measured rate may be this share below a row's and still match it."""


@dataclass(frozen=True, slots=True, eq=False)
class FitPlans:
    """The input server's table, compiled into drop fractions for every arc of the network."""

    error: float
    index: PointQuadtree
    arcs: tuple[str, ...]
    drops: FloatArray  # (rows, arcs), before the inputs are scaled down
    valued: BoolArray
    rows_per_server: dict[str, int]

    @property
    def plan_count(self) -> int:
        """How many load shedding plans are stored."""
        return len(self.drops)

    @property
    def nbytes(self) -> int:
        """Memory of index and plans."""
        return self.index.nbytes + int(self.drops.nbytes)


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
    rate of each input over all servers; it holds for chains without local plans only. Otherwise
    the loads of all servers, which the coordinator knows, decide.
    """
    program = programs.build(network)
    use = program.raw_use / program.max_rates
    columns = []
    for stream in server.inputs:
        name, gain = input_gain(network, stream)
        columns.append(use[:, network.input_ids.index(name)] / gain)
    mapped = np.stack(columns, axis=1)
    return Bound(mapped.max(axis=0, keepdims=True) if triangle else mapped)


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
    program = programs.build(network)
    whole = Bound(program.raw_use / program.max_rates)
    chain = is_chain(network)
    tables: dict[str, Table] = {}

    def make(name: str) -> None:
        server = servers[name]
        for child in server.children:
            make(child)
        bound: Bound | None = None
        if name == root:
            order = [network.input_ids.index(s) for s in server.inputs]
            bound = Bound(whole.use[:, order])
        elif chain:
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
    return compile_plans(network, error, tables)


def compile_plans(network: QueryNetwork, error: float, tables: dict[str, Table]) -> FitPlans:
    """Follow every row of the input server's table down to all local plans."""
    root = tables[root_of(network)]
    names = tuple(a.name for a in network.arcs if not a.to_output)
    column = {name: k for k, name in enumerate(names)}
    keep = np.ones((root.count, len(names)))

    def follow(table: Table, rows: FloatArray, ports: dict[str, FloatArray]) -> None:
        local = table.keep[rows]
        kept = {arc: local[:, k] for k, arc in enumerate(table.arcs)}
        for arc, share in kept.items():
            if arc in column:
                keep[:, column[arc]] = share * ports.get(arc.split("->")[0], 1.0)
        for k, child in enumerate(table.children):
            streams = {s: kept[f"{s}@{child}"] for s in tables[child].inputs}
            follow(tables[child], table.rows[rows, k], streams)

    follow(root, np.arange(root.count), {})
    index, order = point_quadtree.build(root.rates, root.score)
    positions = [root.inputs.index(i) for i in network.input_ids]
    index = point_quadtree.build(root.rates[:, positions], root.score)[0]
    return FitPlans(
        error=error,
        index=index,
        arcs=names,
        drops=np.clip(1.0 - keep[order], 0.0, 1.0),
        valued=valued_inputs(programs.build(network)),
        rows_per_server={name: table.count for name, table in tables.items()},
    )


def select(
    plans: FitPlans, raw_use: FloatArray, rates: FloatArray, input_arcs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return drop fractions on ``plans.arcs`` and the chosen row for rows of rates.

    ``raw_use`` is per rate unit; ``input_arcs`` is the input of each arc, -1 for others.
    """
    scale = np.empty_like(rates)
    chosen = np.empty(len(rates), dtype=np.int64)
    tree = plans.index
    point_quadtree.select(
        tree.points,
        tree.first,
        tree.following,
        tree.orthant,
        plans.valued,
        raw_use,
        MATCH,
        rates,
        scale,
        chosen,
    )
    drops = np.zeros((len(rates), len(plans.arcs)))
    found = chosen >= 0
    drops[found] = plans.drops[chosen[found]]
    for k, position in enumerate(input_arcs):
        if position >= 0:
            drops[:, k] = 1.0 - (1.0 - drops[:, k]) * scale[:, position]
    return drops, chosen
