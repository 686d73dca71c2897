"""Generated samples and queries for the demo stream: a town's cars, a few minutes per batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from upath import UPath

from planning.arrays import FloatArray
from planning.demos import land_batch
from planning.lira.demo.roads import generate_roads
from planning.lira.demo.trace import drive
from planning.lira.model import Bounds

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

SCENARIO = 7  # the roads and the queries are the same in every batch
CARS = 300
SECONDS = 360
EVERY_S = 2
BAD_EVERY = 2_500


def land(folder: UPath, batch: int, definition: Definition[Parameters]) -> UPath:
    """Write one Parquet file of positions to the landing folder; some rows are bad on purpose."""
    return land_batch(folder, batch, positions(batch, definition))


def positions(batch: int, definition: Definition[Parameters]) -> dict[str, Any]:
    """Return one batch as columns, by time; every 2,500th row is out of domain or not a number."""
    tracks = _tracks(batch, _side(definition))
    here = tracks[:, ::EVERY_S].astype(np.float64)
    before = tracks[:, [0, *range(EVERY_S - 1, SECONDS - 1, EVERY_S)]]
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


def queries(
    definition: Definition[Parameters], count: int = 12, side_m: float = 800.0
) -> list[dict[str, Any]]:
    """Return generated queries, around the cars, as they are written to a queries file."""
    side = _side(definition)
    crowd = _tracks(0, side)[:, 0].astype(np.float64)
    rng = np.random.default_rng(SCENARIO)
    centres = crowd[rng.integers(len(crowd), size=count)]
    rows = squares_around(rng, centres, side_m, (0.0, 0.0, side, side))
    return [
        {"name": f"watch-{i + 1}", "ranges": {"x": [a, c], "y": [b, d]}, "weight": 1.0}
        for i, (a, b, c, d) in enumerate(rows.round(1).tolist())
    ]


def squares_around(
    rng: np.random.Generator, centres: FloatArray, side_m: float, bounds: Bounds
) -> FloatArray:
    """Return queries (x_low, y_low, x_high, y_high) around points, with sides in [w/2, w].

    They are moved to lie inside the space where they fit.
    """
    side = rng.uniform(side_m / 2, side_m, size=len(centres))[:, None]
    low, high = np.array(bounds[:2]), np.array(bounds[2:])
    corner = np.maximum(np.minimum(centres - side / 2, high - side), low)
    return np.hstack([corner, corner + side])


def _side(definition: Definition[Parameters]) -> float:
    return float(next(a for a in definition.attributes if a.name == "x").bounds[1])


def _tracks(batch: int, side: float) -> NDArray[np.float32]:
    roads = generate_roads(np.random.default_rng(SCENARIO), side)
    return drive(roads, np.random.default_rng([SCENARIO, batch]), CARS, SECONDS)
