"""Random query networks (splits, merges, joins, several levels), and errors against the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.fit import QueryNetwork
from planning.fit.plan import Plan
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex

MEAN = 0.15  # of the exponential workload: lambda = 5 of the paper (docs/families/fit.md)


def networks(
    count: int, seed: int, most: tuple[int, int, int] = (6, 5, 17), **more: Any
) -> list[QueryNetwork]:
    """Return random networks: splits, merges, joins, several levels and outputs.

    ``most`` bounds their inputs, servers and operators.
    """
    rng = np.random.default_rng(seed)
    return [
        random_network(
            rng,
            inputs=int(rng.integers(1, most[0] + 1)),
            nodes=int(rng.integers(1, most[1] + 1)),
            operators=int(rng.integers(2, most[2] + 1)),
            tree=bool(k % 2),
            links=k % 3 == 0,
            **more,
        )
        for k in range(count)
    ]


def relative_errors(plan: Plan, points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return errors against the optimum at overloaded points, and the largest overload."""
    network, program = plan.network, shedding_program(plan.network)
    over = np.ascontiguousarray(points[~program.fits(points)])
    rates = over * network.max_rates
    done = network.evaluate_many(rates, plan.at_many(rates))
    best = program.throughput(over, WarmSimplex(program).dropped(over))
    overload = float((done.loads / network.capacities).max(initial=0.0) - 1)
    return np.asarray(1.0 - done.throughput / np.maximum(best, 1e-12)), overload


def random_network(
    rng: np.random.Generator,
    *,
    inputs: int = 3,
    nodes: int = 3,
    operators: int = 8,
    tree: bool = False,
    overload: float = 3.0,
    links: bool = False,
) -> QueryNetwork:
    """Draw a network whose servers hold 1/``overload`` of the load at the highest rates.

    With ``tree`` each server reads its parent's streams only and inputs enter at the first one.
    Streams that nothing consumes become outputs, and a few others too.
    """
    servers = [f"n{k}" for k in range(nodes)]
    parents: list[str | None] = [None, *(servers[rng.integers(k)] for k in range(1, nodes))]
    streams: list[tuple[str, str | None]] = [(f"i{k}", None) for k in range(inputs)]
    placed: list[dict[str, Any]] = []
    for k in range(max(operators, inputs)):
        server = int(rng.integers(nodes)) if k >= inputs else (0 if tree else k % nodes)
        first = [streams[k]] if k < inputs else []
        readable = _readable(streams, servers, parents, server, tree)
        if not first and not readable:
            server, readable = 0, _readable(streams, servers, parents, 0, tree)
        kinds = ["map", "filter", "aggregate", "union", "join"]
        kind = str(rng.choice(kinds, p=[0.2, 0.35, 0.1, 0.2, 0.15]))
        wanted = 2 if kind in ("union", "join") else 1
        while len(first) < wanted:
            other = readable[int(rng.integers(len(readable)))] if readable else first[0]
            first.append(other)
        document: dict[str, Any] = {
            "id": f"q{k}",
            "node": servers[server],
            "type": kind,
            "cost": float(rng.uniform(0.2, 3.0)),
            "selectivity": float(rng.uniform(0.2, 1.0)) if kind != "union" else 1.0,
            "inputs": [name for name, _ in first],
        }
        if kind == "join":
            document["windows"] = [float(w) for w in rng.uniform(1, 10, 2)]
            document["selectivity"] = float(rng.uniform(0.01, 0.2))
        placed.append(document)
        streams.append((f"q{k}", servers[server]))
    return _finish(rng, servers, parents, inputs, placed, overload, links)


def _readable(
    streams: list[tuple[str, str | None]],
    servers: list[str],
    parents: list[str | None],
    server: int,
    tree: bool,
) -> list[tuple[str, str | None]]:
    if not tree:
        return streams
    here = servers[server]
    allowed = {here, parents[server]} if server else {here, None}
    return [(name, node) for name, node in streams if node in allowed]


def _finish(
    rng: np.random.Generator,
    servers: list[str],
    parents: list[str | None],
    inputs: int,
    placed: list[dict[str, Any]],
    overload: float,
    links: bool,
) -> QueryNetwork:
    read = {stream for document in placed for stream in document["inputs"]}
    outputs = [
        {"id": f"o{k}", "stream": d["id"], "weight": float(rng.uniform(0.2, 3.0))}
        for k, d in enumerate(placed)
        if d["id"] not in read or rng.uniform() < 0.15
    ]
    document: dict[str, Any] = {
        "name": "random",
        "nodes": [
            {"id": name, "capacity": 1.0, "parent": parent}
            for name, parent in zip(servers, parents, strict=True)
        ],
        "inputs": [
            {"id": f"i{k}", "max_rate": float(rng.uniform(1, 100))} for k in range(inputs)
        ],
        "operators": placed,
        "outputs": outputs,
    }
    loads = QueryNetwork.from_document(document).evaluate(
        [i["max_rate"] for i in document["inputs"]]
    ).loads
    for node in document["nodes"]:
        share = overload * rng.uniform(0.5, 1.5)
        node["capacity"] = max(loads[node["id"]], 1.0) / share
    if links:
        document["links"] = link_documents(rng, document, overload)
    return QueryNetwork.from_document(document)


def link_documents(
    rng: np.random.Generator, document: dict[str, Any], overload: float
) -> list[dict[str, Any]]:
    """Return a link for every pair of servers that share a stream, with too little bandwidth."""
    home = {d["id"]: d["node"] for d in document["operators"]}
    pairs = sorted(
        {
            (home[stream], d["node"])
            for d in document["operators"]
            for stream in d["inputs"]
            if stream in home and home[stream] != d["node"]
        }
    )
    probe = {
        **document,
        "links": [{"from": a, "to": b, "capacity": 1.0} for a, b in pairs],
    }
    used = QueryNetwork.from_document(probe).evaluate(
        [i["max_rate"] for i in document["inputs"]]
    )
    return [
        {
            "from": a,
            "to": b,
            "capacity": max(used.links[f"{a}->{b}"], 1e-3) / (overload * rng.uniform(0.5, 1.5)),
        }
        for a, b in pairs
    ]
