"""Generated samples and queries for the demo stream: a town's cars, a few minutes per batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from upath import UPath

from planning.demos import land_batch
from planning.lira.queries import generate_queries
from planning.lira.roads import generate_roads
from planning.lira.trace import Trace, drive

SCENARIO = 7  # the roads and the queries are the same in every batch
CARS = 300
SECONDS = 360
EVERY_S = 2
BAD_EVERY = 2_500


def land(folder: UPath, batch: int, definition: Any) -> UPath:
    """Write one Parquet file of positions to the landing folder; some rows are bad on purpose."""
    return land_batch(folder, batch, positions(batch, definition))


def positions(batch: int, definition: Any) -> dict[str, Any]:
    """Return one batch as columns, by time; every 2,500th row is outside or not a number."""
    trace = _trace(batch, _side(definition))
    here = trace.positions[:, ::EVERY_S].astype(np.float64)
    before = trace.positions[:, [0, *range(EVERY_S - 1, trace.ticks - 1, EVERY_S)]]
    speed = np.hypot(*(here - before[:, : here.shape[1]]).transpose(2, 0, 1))
    cars, ticks, _ = here.shape
    moment = np.arange(ticks) * EVERY_S
    x, y = (here[:, :, axis].T.ravel() for axis in (0, 1))
    bad = np.arange(BAD_EVERY // 2, x.size, BAD_EVERY)
    x[bad[::2]], y[bad[1::2]] = np.nan, 1e7
    return {
        "object_id": np.tile(1000 * (batch % 1_000_000) + np.arange(cars), ticks).astype(np.int64),
        "time": np.repeat(3600.0 * (batch % 100_000) + moment, cars),
        "x": x,
        "y": y,
        "speed": speed.T.ravel(),
    }


def queries(definition: Any, count: int = 12, side_m: float = 800.0) -> list[dict[str, Any]]:
    """Return generated queries, around the cars, as they are written to a queries file."""
    side = _side(definition)
    crowd = _trace(0, side).positions[:, 0].astype(np.float64)
    rng = np.random.default_rng(SCENARIO)
    rows = generate_queries(rng, "proportional", count, side_m, (0.0, 0.0, side, side), crowd)
    return [
        {"name": f"watch-{i + 1}", "ranges": {"x": [a, c], "y": [b, d]}, "weight": 1.0}
        for i, (a, b, c, d) in enumerate(rows.round(1).tolist())
    ]


def _side(definition: Any) -> float:
    return float(next(a for a in definition.attributes if a.name == "x").bounds[1])


def _trace(batch: int, side: float) -> Trace:
    roads = generate_roads(np.random.default_rng(SCENARIO), side)
    return drive(roads, np.random.default_rng([SCENARIO, batch]), CARS, SECONDS)
