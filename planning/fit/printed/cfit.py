"""C-FIT: all feasible input tables built in one place, and the plans of the input server."""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.fit.dfit import point_quadtree
from planning.fit.dfit.chains import chain_bound, is_chain, root_of
from planning.fit.dfit.merging import merge_tables
from planning.fit.dfit.sampling import Sampling, plan_sampling
from planning.fit.dfit.servers import servers_of
from planning.fit.dfit.tables import Table, leaf_table
from planning.fit.network import QueryNetwork
from planning.fit.path import FitPlans
from planning.fit.simplex.shedding import shedding_program


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
        valued=shedding_program(network).valued_inputs,
    )
