"""Real data: flights of 2013 and generated queries over them.

``nyc_flights_2013.parquet`` has 327,346 flights with two delays, air time and distance. A
thousand queries are drawn around flights that are late, each on two of the four attributes, with
sides of 2 to 10 % of the domain: people watch flights that go wrong, and most do not.
"""

from __future__ import annotations

import numpy as np

from benchmarks import datasets
from planning.arrays import FloatArray
from planning.sections import Attribute
from planning.sifter.queries import Queries, boxes

FILE = "sifter/nyc_flights_2013.parquet"
DOMAINS = {
    "dep_delay_min": (-100, 1400),
    "arr_delay_min": (-100, 1400),
    "air_time_min": (0, 700),
    "distance_mi": (0, 5000),
}


def read() -> FloatArray:
    """Return the flights as points, in an order that has nothing to do with time."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(datasets.find(FILE), columns=list(DOMAINS))
    points = np.column_stack([table.column(name).to_numpy() for name in DOMAINS])
    return np.asarray(np.random.default_rng(0).permutation(points), dtype=np.float64)


def attributes() -> tuple[Attribute, ...]:
    """Return the attributes, all of them whole numbers."""
    return tuple(Attribute(name=n, type="int", domain=bounds) for n, bounds in DOMAINS.items())


def queries(points: FloatArray, seed: int, count: int = 1000) -> Queries:
    """Draw queries around late flights."""
    rng = np.random.default_rng(seed)
    late = np.maximum(points[:, 0], 0.0) + 1.0
    centers = points[rng.choice(len(points), count, p=late / late.sum())]
    low, last = np.array(list(DOMAINS.values()), dtype=np.float64).T
    high = last + 1.0
    side = np.maximum(1.0, rng.uniform(0.02, 0.10, centers.shape) * (high - low))
    asked_low = np.maximum(low, np.floor(centers - side / 2))
    asked_high = np.minimum(high, np.floor(centers + side / 2) + 1.0)
    for row in range(count):
        free = rng.choice(4, 2, replace=False)
        asked_low[row, free], asked_high[row, free] = low[free], high[free]
    return boxes(asked_low, asked_high)
