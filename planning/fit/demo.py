"""The demo stream: a web site's requests, spread over four servers, with generated counts.

Rates have the shape of a real trace: means and burstiness of the six kinds of requests in the NASA
data set, a slow daily swing, and bursts that last a few periods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from upath import UPath

from planning.arrays import FloatArray
from planning.demos import land_batch
from planning.fit.network import QueryNetwork
from planning.fit.statistics import SUMS

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters

SCENARIO = 11
PERIODS = 720
RATE_FACTOR = 100.0
BAD_EVERY = 977
WEB_RATES = {
    "images": 0.284,
    "icons": 0.084,
    "shuttle": 0.174,
    "history": 0.023,
    "cgi": 0.013,
    "other": 0.105,
}
"""Mean requests per second of the six kinds in the NASA trace (docs/families/fit.md)."""
WEB_PEAKS = {"images": 1.9, "icons": 0.5, "shuttle": 0.8, "history": 0.45, "cgi": 0.2, "other": 0.9}
"""Their busiest minute, in requests per second, rounded up."""


def land(folder: UPath, batch: int, definition: Definition[Parameters]) -> UPath:
    """Write one Parquet file of counts to the landing folder; some rows are bad on purpose."""
    return land_batch(folder, batch, counts(batch, definition))


def rates(batch: int, periods: int, means: FloatArray) -> FloatArray:
    """Return rate vectors: an autoregressive level, a daily swing and common bursts."""
    rng = np.random.default_rng([SCENARIO, batch])
    level = np.zeros((periods, len(means)))
    state = rng.normal(size=len(means))
    for k in range(periods):
        state = 0.9 * state + np.sqrt(1 - 0.9**2) * rng.normal(size=len(means))
        level[k] = state
    day = 0.25 * np.sin(2 * np.pi * np.arange(periods) / periods)[:, None]
    burst = np.repeat(rng.random(periods // 6 + 1) < 0.08, 6)[:periods, None] * 1.1
    return np.asarray(means * np.exp(0.55 * level - 0.15 + day + burst))


def counts(
    batch: int,
    definition: Definition[Parameters],
    periods: int = PERIODS,
    vectors: FloatArray | None = None,
) -> dict[str, Any]:
    """Return one batch as columns: every element of the network, counted in every period.

    ``vectors`` are the rates of each period, if not generated ones.
    """
    network = definition.parameters.query_network
    period_s = definition.parameters.period_s
    rng = np.random.default_rng([SCENARIO, batch, 1])
    means = np.array([RATE_FACTOR * WEB_RATES.get(i, 0.1) for i in network.input_ids])
    vectors = rates(batch, periods, means) if vectors is None else vectors
    arrivals = rng.poisson(vectors * period_s)
    flows = network.evaluate_many(arrivals / period_s, np.zeros((periods, len(network.arcs)))).arcs
    nothing = np.zeros(periods)
    counted: dict[str, tuple[Any, ...]] = {
        name: (nothing, nothing, arrivals[:, k], nothing)
        for k, name in enumerate(network.input_ids)
    }
    for operator in network.operators:
        arcs = network.arcs_into[operator.id]
        ports = [flows[:, a] * period_s for a in arcs]
        # A union counts all its ports together; only a join distinguishes two.
        first = ports[0] if operator.type == "join" else np.sum(ports, axis=0)
        second = ports[1] if operator.type == "join" else nothing
        expected = np.sum([operator.gain(p) * n for p, n in enumerate(ports)], axis=0)
        out = rng.poisson(expected)
        if operator.type != "join":
            out = np.minimum(out, np.rint(first))
        if operator.selectivity >= 1.0:
            out = np.rint(first)
        cpu = operator.cost * 1e6 * (first + second) * rng.normal(1.0, 0.03, periods)
        counted[operator.id] = (first, second, out, np.maximum(cpu, 0.0))
    table = np.rint(np.array(list(counted.values()))).astype(np.int64)
    columns = dict(zip(SUMS, table.transpose(1, 2, 0).reshape(len(SUMS), -1), strict=True))
    columns["tuples_out"][BAD_EVERY::BAD_EVERY] = -1  # as a broken monitor would count
    return {
        "period": np.repeat(np.arange(periods) + batch * periods, len(counted)),
        "element": list(counted) * periods,
        **columns,
    }


def operator(
    name: str, node: str, kind: str, cost: float, selectivity: float, *streams: str, **more: Any
) -> dict[str, Any]:
    """Return an operator's document."""
    return {
        "id": name,
        "node": node,
        "type": kind,
        "cost": cost,
        "selectivity": selectivity,
        "inputs": list(streams),
        **more,
    }


def network() -> QueryNetwork:
    """Return the demo network: six inputs, four servers, splits, a union and a join."""
    return QueryNetwork.from_document({
        "name": "requests",
        "nodes": [
            {"id": "edge", "capacity": 0.42, "parent": None},
            {"id": "content", "capacity": 0.5, "parent": "edge"},
            {"id": "analytics", "capacity": 0.62, "parent": "edge"},
            {"id": "archive", "capacity": 0.12, "parent": "analytics"},
        ],
        "inputs": [
            {"id": name, "max_rate": round(3 * RATE_FACTOR * peak, 1)}
            for name, peak in WEB_PEAKS.items()
        ],
        "operators": [
            operator("parse_images", "edge", "map", 0.004, 1.0, "images"),
            operator("parse_icons", "edge", "map", 0.002, 1.0, "icons"),
            operator("parse_cgi", "edge", "map", 0.008, 1.0, "cgi"),
            operator("pages", "edge", "union", 0.005, 1.0, "shuttle", "history", "other"),
            operator("thumbnails", "content", "filter", 0.010, 0.5, "parse_images"),
            operator("sprites", "content", "aggregate", 0.006, 0.1, "parse_icons"),
            operator("crawl", "content", "filter", 0.004, 0.3, "pages"),
            operator("visits", "analytics", "aggregate", 0.012, 0.25, "pages"),
            operator("clicks", "analytics", "join", 0.008, 0.004, "pages", "parse_cgi",
                     windows=[60.0, 20.0]),
            operator("compress", "archive", "map", 0.015, 1.0, "visits"),
        ],
        "outputs": [
            {"id": "thumbnail views", "stream": "thumbnails", "weight": 1.0},
            {"id": "sprite use", "stream": "sprites", "weight": 2.0},
            {"id": "crawler", "stream": "crawl", "weight": 0.5},
            {"id": "visit board", "stream": "visits", "weight": 2.0},
            {"id": "click alarms", "stream": "clicks", "weight": 3.0},
            {"id": "archive", "stream": "compress", "weight": 1.0},
        ],
    })  # fmt: skip


def web(*, rate_factor: float = 100.0) -> QueryNetwork:
    """Build six web inputs on six servers in three fragments, each small enough for a quadtree.

    The paper deploys queries so that fragments have few inputs (Section 8.2.4). As in Figure 1,
    what is cheap on the first server is expensive on the second. Servers have nine tenths of the
    CPU that the mean rates need.
    """
    operators = [
        operator("parse_images", "edge_media", "map", 0.002, 1.0, "images"),
        operator("parse_icons", "edge_media", "map", 0.008, 1.0, "icons"),
        operator("thumbnails", "media", "map", 0.012, 0.5, "parse_images"),
        operator("sprites", "media", "map", 0.002, 0.6, "parse_icons"),
        operator("parse_shuttle", "edge_pages", "map", 0.003, 1.0, "shuttle"),
        operator("parse_history", "edge_pages", "map", 0.014, 0.8, "history"),
        operator("rank", "pages", "map", 0.009, 0.4, "parse_shuttle"),
        operator("index", "pages", "map", 0.004, 1.0, "parse_shuttle"),
        operator("timeline", "pages", "map", 0.003, 1.0, "parse_history"),
        operator("parse_cgi", "edge_forms", "map", 0.020, 1.0, "cgi"),
        operator("parse_other", "edge_forms", "map", 0.003, 0.9, "other"),
        operator(
            "sessions", "forms", "join", 0.008, 0.01, "parse_cgi", "parse_other", windows=[20, 300]
        ),
        operator("errors", "forms", "map", 0.002, 0.1, "parse_other"),
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


def figure_1() -> QueryNetwork:
    """Return the paper's motivating example: two queries on servers A and B."""
    return QueryNetwork.from_document({
        "name": "figure 1",
        "nodes": [
            {"id": "A", "capacity": 1, "parent": None},
            {"id": "B", "capacity": 1, "parent": "A"},
        ],
        "inputs": [{"id": "i1", "max_rate": 1}, {"id": "i2", "max_rate": 1}],
        "operators": [
            operator("a1", "A", "map", 1, 1, "i1"),
            operator("b1", "B", "map", 3, 1, "a1"),
            operator("a2", "A", "map", 2, 1, "i2"),
            operator("b2", "B", "map", 1, 1, "a2"),
        ],
        "outputs": [{"id": "o1", "stream": "b1"}, {"id": "o2", "stream": "b2"}],
    })  # fmt: skip
