"""The demo stream: a web site's requests, spread over four servers, with generated counts.

Rates have the shape of a real trace: means and burstiness of the six kinds of requests in the NASA
data set, a slow daily swing, and bursts that last a few periods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from upath import UPath

from planning.arrays import FloatArray
from planning.demos import land_batch
from planning.fit.examples import WEB_PEAKS, WEB_RATES
from planning.fit.network import QueryNetwork

SCENARIO = 11
PERIODS = 720
RATE_FACTOR = 100.0
BAD_EVERY = 977


def land(folder: UPath, batch: int, definition: Any) -> UPath:
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


def counts(batch: int, definition: Any, periods: int = PERIODS) -> dict[str, Any]:
    """Return one batch as columns: every element of the network, counted in every period."""
    network = definition.parameters.query_network
    period_s = definition.parameters.period_s
    rng = np.random.default_rng([SCENARIO, batch, 1])
    means = np.array([RATE_FACTOR * WEB_RATES.get(i, 0.1) for i in network.input_ids])
    vectors = rates(batch, periods, means)
    arrivals = rng.poisson(vectors * period_s)
    flows = network.evaluate_many(
        arrivals / period_s, np.zeros((periods, len(network.arcs)))
    ).arcs
    rows: dict[str, list[Any]] = {
        name: []
        for name in ("period", "element", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")
    }

    def add(element: str, first: Any, second: Any, out: Any, cpu: Any) -> None:
        rows["period"].append(np.arange(periods) + batch * periods)
        rows["element"].append(np.full(periods, element, dtype=object))
        for name, value in (
            ("tuples_in", first), ("tuples_in_1", second), ("tuples_out", out), ("cpu_us", cpu)
        ):
            rows[name].append(np.rint(value).astype(np.int64))

    nothing = np.zeros(periods)
    for k, name in enumerate(network.input_ids):
        add(name, nothing, nothing, arrivals[:, k], nothing)
    for operator in network.operators:
        arcs = network.arcs_into[operator.id]
        ports = [flows[:, a] * period_s for a in arcs]
        # A union counts all its ports together; only a join tells two apart.
        first = ports[0] if operator.type == "join" else np.sum(ports, axis=0)
        second = ports[1] if operator.type == "join" else nothing
        expected = np.sum([operator.gain(p) * n for p, n in enumerate(ports)], axis=0)
        out = rng.poisson(expected)
        if operator.type != "join":
            out = np.minimum(out, np.rint(first))
        if operator.selectivity >= 1.0:
            out = np.rint(first)
        cpu = operator.cost * 1e6 * (first + second) * rng.normal(1.0, 0.03, periods)
        add(operator.id, first, second, out, np.maximum(cpu, 0.0))
    columns: dict[str, Any] = {name: np.concatenate(parts) for name, parts in rows.items()}
    order = np.lexsort((np.arange(len(columns["period"])), columns["period"]))
    columns = {name: values[order] for name, values in columns.items()}
    columns["tuples_out"] = _spoiled(columns["tuples_out"])
    columns["element"] = columns["element"].tolist()
    return columns


def _spoiled(values: Any) -> Any:
    """Make a few counts negative, as a broken monitor would."""
    spoiled = values.copy()
    spoiled[BAD_EVERY::BAD_EVERY] = -1
    return spoiled


def network() -> QueryNetwork:
    """Return the demo network: six inputs, four servers, splits, a union and a join."""

    def operator(name: str, node: str, kind: str, cost: float, selectivity: float, *streams: str,
                 **more: Any) -> dict[str, Any]:
        return {"id": name, "node": node, "type": kind, "cost": cost, "selectivity": selectivity,
                "inputs": list(streams), **more}

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
