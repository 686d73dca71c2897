"""Generated workloads: queries over the plane (Section 4.2), and small throttler problems."""

from __future__ import annotations

from typing import Literal

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.lira.demo import squares_around
from planning.lira.model import Bounds

Distribution = Literal["proportional", "inverse", "random"]
DENSITY_CELLS = 32  # cells per side of the coarse raster that "inverse" is the inverse of

Instance = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float, float]
"""m, w, breakpoints d, convex f at them, fairness threshold, z."""


def generate_queries(
    rng: np.random.Generator,
    distribution: Distribution,
    count: int,
    side_m: float,
    bounds: Bounds,
    positions: FloatArray,
) -> FloatArray:
    """Return ``count`` rows (x_low, y_low, x_high, y_high), sides in [w/2, w].

    Proportional: centres are node positions. Inverse: a cell of a coarse raster is drawn with
    probability inverse to its number of nodes plus one, the centre evenly inside. Random: evenly.
    Queries are moved to lie inside the space where they fit.
    """
    x_low, y_low, x_high, y_high = bounds
    if count < 0 or not 0 < side_m:
        raise InvalidInput(
            f"queries need count >= 0 and a side above 0, got {count} and {side_m:g}"
        )
    width, height = x_high - x_low, y_high - y_low
    if distribution == "proportional":
        if len(positions) == 0:
            raise InvalidInput("proportional queries follow the nodes, got no node positions")
        centre = np.asarray(positions, dtype=np.float64)[rng.integers(len(positions), size=count)]
    elif distribution == "inverse":
        k = DENSITY_CELLS
        counts, _, _ = np.histogram2d(
            positions[:, 0], positions[:, 1], bins=k, range=[[x_low, x_high], [y_low, y_high]]
        )
        chance = 1.0 / (1.0 + counts.ravel())
        cell = rng.choice(k * k, size=count, p=chance / chance.sum())
        inside = rng.random((count, 2))
        centre = np.column_stack(
            [
                x_low + (cell // k + inside[:, 0]) / k * width,
                y_low + (cell % k + inside[:, 1]) / k * height,
            ]
        )
    elif distribution == "random":
        centre = np.array([x_low, y_low]) + rng.random((count, 2)) * [width, height]
    else:
        raise InvalidInput(
            f"distribution must be proportional, inverse or random, got {distribution!r}"
        )
    return squares_around(rng, centre, side_m, bounds)


def random_instance(rng: np.random.Generator) -> Instance:
    """Draw m, w, curve points, F and z; degenerate ones (zeros, ties, flat tails) included."""
    regions, segments = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    even = rng.random() < 0.5
    steps = np.full(segments, 2.0) if even else rng.uniform(0.5, 5, segments)
    d = 5.0 + np.concatenate([[0.0], np.cumsum(steps)])
    rates = np.sort(rng.exponential(1, segments))[::-1]
    if segments > 1 and rng.random() < 0.3:
        rates[-int(rng.integers(1, segments)) :] = 0.0
    fall = np.concatenate([[0.0], np.cumsum(rates * np.diff(d))])
    f = 1.0 - fall / fall[-1] * rng.uniform(0.3, 0.95)
    if rng.random() < 0.3:
        m, w = rng.integers(0, 3, (2, regions)).astype(float)
    else:
        m = rng.exponential(1, regions) * (rng.random(regions) < 0.7)
        w = rng.exponential(1, regions) * (rng.random(regions) < 0.8)
    if w.sum() == 0:
        w[0] = 1.0
    fairness = float(rng.choice([0.0, rng.uniform(0, d[-1] - d[0]), 2.0, 4.0, 100.0]))
    return m, w, d, f, fairness, float(rng.uniform(0, 1))
