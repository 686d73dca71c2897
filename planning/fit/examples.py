"""The paper's own networks: Figures 1, 7 and 9, fan-out (Figure 13) and more inputs (Figure 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planning.fit.network import QueryNetwork


def _operator(name: str, node: str, cost: float, stream: str, selectivity: float = 1.0) -> Any:
    return {
        "id": name,
        "node": node,
        "type": "map",
        "cost": cost,
        "selectivity": selectivity,
        "inputs": [stream],
    }


def chains(
    name: str,
    parent: Sequence[float],
    child: Sequence[float],
    *,
    capacity: float = 1.0,
    max_rates: Sequence[float] | None = None,
) -> QueryNetwork:
    """Build chain queries over two servers A and B; costs per query on each.

    >>> [o.cost for o in chains("two", [1, 2], [3, 1]).operators]
    [1.0, 3.0, 2.0, 1.0]
    """
    operators, outputs = [], []
    for k, (upper, lower) in enumerate(zip(parent, child, strict=True), start=1):
        operators += [
            _operator(f"a{k}", "A", upper, f"i{k}"),
            _operator(f"b{k}", "B", lower, f"a{k}"),
        ]
        outputs.append({"id": f"o{k}", "stream": f"b{k}", "weight": 1.0})
    rates = [1.0] * len(parent) if max_rates is None else list(max_rates)
    return QueryNetwork.from_document(
        {
            "name": name,
            "nodes": [
                {"id": "A", "capacity": capacity, "parent": None},
                {"id": "B", "capacity": capacity, "parent": "A"},
            ],
            "inputs": [
                {"id": f"i{k}", "max_rate": rate} for k, rate in enumerate(rates, start=1)
            ],
            "operators": operators,
            "outputs": outputs,
        }
    )


def figure_1() -> QueryNetwork:
    """Build the motivating example: two queries on servers A and B."""
    return chains("figure 1", [1, 2], [3, 1])


def figure_7() -> QueryNetwork:
    """Build a split where the lower branch saves most load per lost output."""
    return QueryNetwork.from_document(
        {
            "name": "figure 7",
            "nodes": [{"id": "A", "capacity": 1, "parent": None}],
            "inputs": [{"id": "i", "max_rate": 1}],
            "operators": [
                _operator("common", "A", 1, "i"),
                _operator("top", "A", 2, "common"),
                _operator("bottom", "A", 5, "common"),
            ],
            "outputs": [
                {"id": "o1", "stream": "top", "weight": 1},
                {"id": "o2", "stream": "bottom", "weight": 1},
            ],
        }
    )


FIGURE_9 = {
    "a": (48, 48),
    "b": (64, 32),
    "c": (72, 24),
    "d": (80, 16),
    "e": (88, 8),
}
"""Costs in ms of the two queries on the first server; mirrored on the second (total 96 each)."""


def figure_9(letter: str, *, cost_factor: float = 1.0, max_rate: float = 100.0) -> QueryNetwork:
    """Build one of the five networks of growing imbalance.

    The text names (64, 32) for (b) and equal totals on both servers; the other splits of 96 ms are
    ours.
    """
    high, low = (cost_factor * cost / 1000 for cost in FIGURE_9[letter])
    return chains(f"figure 9{letter}", [high, low], [low, high], max_rates=[max_rate, max_rate])


def wide(inputs: int, *, max_rate: float = 100.0, high: float = 64.0) -> QueryNetwork:
    """Build the networks of Section 8.2.4: (64, 32), (32, 16, 32, 16), (16, 8, …) on two servers.

    >>> [o.cost for o in wide(4).operators][::2]
    [0.032, 0.016, 0.032, 0.016]
    """
    pairs = inputs // 2
    costs = [high / pairs / 1000, high / 2 / pairs / 1000] * pairs
    swapped = [costs[k ^ 1] for k in range(inputs)]
    return chains(f"{inputs} inputs", costs, swapped, max_rates=[max_rate] * inputs)


def fan_out(branches: int, *, max_rate: float = 100.0) -> QueryNetwork:
    """Build the single-server query tree of Section 8.2.3: one shared operator, many branches.

    Branch k costs (k + 1) ms per tuple: branches of unlike worth make the order of drops matter.
    """
    operators = [_operator("shared", "A", 0.001, "i")]
    outputs = []
    for k in range(branches):
        operators.append(_operator(f"q{k}", "A", 0.001 * (k + 1) * 8 / branches, "shared"))
        outputs.append({"id": f"o{k}", "stream": f"q{k}", "weight": 1.0})
    return QueryNetwork.from_document(
        {
            "name": f"fan-out {branches}",
            "nodes": [{"id": "A", "capacity": 1, "parent": None}],
            "inputs": [{"id": "i", "max_rate": max_rate}],
            "operators": operators,
            "outputs": outputs,
        }
    )


WEB_RATES = {
    "images": 0.284,
    "icons": 0.084,
    "shuttle": 0.174,
    "history": 0.023,
    "cgi": 0.013,
    "other": 0.105,
}
"""Mean requests per second of the six kinds in the NASA trace (docs/families/fit.md)."""

WEB_PEAKS = {
    "images": 1.9,
    "icons": 0.5,
    "shuttle": 0.8,
    "history": 0.45,
    "cgi": 0.2,
    "other": 0.9,
}
"""Their busiest minute, in requests per second, rounded up."""


def web(*, rate_factor: float = 100.0) -> QueryNetwork:
    """Build six web inputs on six servers in three fragments, each small enough for a quadtree.

    The paper deploys queries so that fragments have few inputs (Section 8.2.4). As in Figure 1,
    what is cheap on the first server is dear on the second. Servers have nine tenths of the CPU
    that the mean rates need.
    """
    operators = [
        _operator("parse_images", "edge_media", 0.002, "images"),
        _operator("parse_icons", "edge_media", 0.008, "icons"),
        _operator("thumbnails", "media", 0.012, "parse_images", 0.5),
        _operator("sprites", "media", 0.002, "parse_icons", 0.6),
        _operator("parse_shuttle", "edge_pages", 0.003, "shuttle"),
        _operator("parse_history", "edge_pages", 0.014, "history", 0.8),
        _operator("rank", "pages", 0.009, "parse_shuttle", 0.4),
        _operator("index", "pages", 0.004, "parse_shuttle"),
        _operator("timeline", "pages", 0.003, "parse_history"),
        _operator("parse_cgi", "edge_forms", 0.020, "cgi"),
        _operator("parse_other", "edge_forms", 0.003, "other", 0.9),
        {
            "id": "sessions",
            "node": "forms",
            "type": "join",
            "cost": 0.008,
            "selectivity": 0.01,
            "windows": [20, 300],
            "inputs": ["parse_cgi", "parse_other"],
        },
        _operator("errors", "forms", 0.002, "parse_other", 0.1),
    ]
    outputs = {"thumbnails": 1, "sprites": 1, "rank": 1, "index": 1, "timeline": 12}
    outputs |= {"sessions": 4, "errors": 4}
    rates = {name: rate * rate_factor for name, rate in WEB_RATES.items()}
    document: dict[str, Any] = {
        "name": "web",
        "nodes": [
            {"id": f"{side}{name}", "capacity": 1.0, "parent": None if side else f"edge_{name}"}
            for name in ("media", "pages", "forms")
            for side in ("edge_", "")
        ],
        "inputs": [
            {"id": name, "max_rate": rate_factor * peak} for name, peak in WEB_PEAKS.items()
        ],
        "operators": operators,
        "outputs": [
            {"id": f"to {name}", "stream": name, "weight": weight}
            for name, weight in outputs.items()
        ],
    }
    loads = QueryNetwork.from_document(document).evaluate(rates).loads
    for node in document["nodes"]:
        node["capacity"] = round(0.9 * loads[node["id"]], 4)
    return QueryNetwork.from_document(document)


def many_servers(inputs: int = 8, servers: int = 10, *, seed: int = 0) -> QueryNetwork:
    """Build chain queries over a tree of servers: the first holds all inputs, each other a part.

    Query k visits the root, one of its children and one of that child's children.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    middle = max(1, (servers - 1) // 3)
    parents: dict[str, str | None] = {"n0": None}
    for k in range(1, servers):
        parents[f"n{k}"] = "n0" if k <= middle else f"n{1 + (k - middle - 1) % middle}"
    leaves = [f"n{k}" for k in range(middle + 1, servers)]
    operators, outputs = [], []
    for k in range(inputs):
        leaf = leaves[k % len(leaves)]
        path = ["n0", parents[leaf] or "n0", leaf]
        stream = f"i{k}"
        for depth, node in enumerate(path):
            name = f"q{k}{'abc'[depth]}"
            cost, selectivity = rng.uniform(0.5, 2.0), rng.uniform(0.5, 1.0)
            operators.append(_operator(name, node, float(cost), stream, float(selectivity)))
            stream = name
        outputs.append({"id": f"o{k}", "stream": stream, "weight": float(rng.uniform(0.5, 2.0))})
    document: dict[str, Any] = {
        "name": f"{inputs} inputs on {servers} servers",
        "nodes": [{"id": n, "capacity": 1.0, "parent": parents[n]} for n in parents],
        "inputs": [{"id": f"i{k}", "max_rate": 1.0} for k in range(inputs)],
        "operators": operators,
        "outputs": outputs,
    }
    loads = QueryNetwork.from_document(document).evaluate([1.0] * inputs).loads
    for node in document["nodes"]:
        node["capacity"] = max(loads[node["id"]], 0.1) / float(rng.uniform(1.2, 2.5))
    return QueryNetwork.from_document(document)
