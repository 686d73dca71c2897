"""The paper's own networks: Figures 1, 7 and 9, fan-out (Figure 13) and more inputs (Figure 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planning.fit.demo import figure_1, operator, web
from planning.fit.network import QueryNetwork

__all__ = [
    "FIGURE_9",
    "chains",
    "fan_out",
    "figure_1",
    "figure_7",
    "figure_9",
    "many_servers",
    "web",
    "wide",
]


def figure_7() -> QueryNetwork:
    """Return the paper's split, where the lower branch saves most load per lost output."""
    return QueryNetwork.from_document({
        "name": "figure 7",
        "nodes": [{"id": "A", "capacity": 1, "parent": None}],
        "inputs": [{"id": "i", "max_rate": 1}],
        "operators": [
            operator("common", "A", "map", 1, 1, "i"),
            operator("top", "A", "map", 2, 1, "common"),
            operator("bottom", "A", "map", 5, 1, "common"),
        ],
        "outputs": [{"id": "o1", "stream": "top"}, {"id": "o2", "stream": "bottom"}],
    })  # fmt: skip


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
            operator(f"a{k}", "A", "map", upper, 1.0, f"i{k}"),
            operator(f"b{k}", "B", "map", lower, 1.0, f"a{k}"),
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

    Branch k costs (k + 1) ms per tuple: branches of unequal worth make the order of drops matter.
    """
    operators = [operator("shared", "A", "map", 0.001, 1.0, "i")]
    outputs = []
    for k in range(branches):
        cost = 0.001 * (k + 1) * 8 / branches
        operators.append(operator(f"q{k}", "A", "map", cost, 1.0, "shared"))
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


def many_servers(inputs: int = 8, servers: int = 10, *, seed: int = 0) -> QueryNetwork:
    """Build chain queries over a tree of servers: the first has all inputs, the others a part each.

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
            operators.append(
                operator(name, node, "map", float(cost), float(selectivity), stream)
            )
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
