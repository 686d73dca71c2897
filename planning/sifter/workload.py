"""The paper's workload generator: hot spots, global skew G, local skew L (Section VI-A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from planning.arrays import FloatArray
from planning.sifter.queries import Queries, boxes

Distribution = Literal["UNIF", "SKEW"]
Border = Literal["cut", "inside", "leave"]
"""What the paper leaves open. ``cut``: hot spots are cut off at the border of the space.
``inside``: they lie wholly inside it. ``leave``: they are cut off, but skewed data and queries may
leave their hot spot.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Table I: the defaults of the experiments."""

    data: Distribution = "SKEW"
    query: Distribution = "UNIF"
    hot_spots: int = 5
    global_skew: float = 4.0
    local_skew: float = 4.0
    dimensions: int = 2
    queries: int = 1000
    side: tuple[float, float] = (0.005, 0.01)
    slope: tuple[float, float] = (1.0, 2.0)
    border: Border = "cut"


class Workload:
    """One drawn scenario: hot spots, queries, and as many tuples as one asks for.

    Hot-spot regions have sides from [0.5, 1] / G and random centers in the space [0, 1]**n. Data
    and queries share the regions, each used equally often. A skewed distribution is a normal with a
    mean placed at random inside the region and deviations from [0.5, 1] / (L * G); data and queries
    have normals of their own. What falls outside the region is drawn again.

    >>> workload = Workload(Settings(), seed=0)
    >>> tuples = workload.tuples(1000)
    >>> spot = (workload.low[:, None] <= tuples) & (tuples <= workload.high[:, None])
    >>> bool(spot.all(axis=2).any(axis=0).all())
    True
    """

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings = settings
        self.rng = np.random.default_rng(seed)
        shape = (settings.hot_spots, settings.dimensions)
        side = self.rng.uniform(0.5, 1.0, shape) / settings.global_skew
        margin = side / 2 if settings.border == "inside" else np.zeros(shape)
        center = self.rng.uniform(margin, 1.0 - margin)
        self.low = np.clip(center - side / 2, 0.0, 1.0)
        self.high = np.clip(center + side / 2, 0.0, 1.0)
        self._data = self._normals()
        self._query = self._normals()
        self.queries = self._draw_queries()

    def tuples(self, count: int) -> FloatArray:
        """Draw ``count`` fresh tuples in [0, 1)**n."""
        return self._draw(count, self.settings.data, self._data)

    def _normals(self) -> tuple[FloatArray, FloatArray]:
        scale = self.settings.local_skew * self.settings.global_skew
        deviation = self.rng.uniform(0.5, 1.0, self.low.shape) / scale
        return self.rng.uniform(self.low, self.high), deviation

    def _draw(
        self, count: int, kind: Distribution, normals: tuple[FloatArray, FloatArray]
    ) -> FloatArray:
        spot = self.rng.integers(0, len(self.low), count)
        if kind == "UNIF":
            points = self.rng.uniform(self.low[spot], self.high[spot])
            return np.minimum(points, np.nextafter(1.0, 0.0))
        points = self.rng.normal(normals[0][spot], normals[1][spot])
        leave = self.settings.border == "leave"
        low, high = (0.0, 1.0) if leave else (self.low[spot], self.high[spot])
        while True:
            inside = (low <= points) & (points < high)
            outside = np.flatnonzero(~inside.all(axis=1))
            if not outside.size:
                return points
            again = spot[outside]
            points[outside] = self.rng.normal(normals[0][again], normals[1][again])

    def _draw_queries(self) -> Queries:
        s = self.settings
        center = self._draw(s.queries, s.query, self._query)
        side = self.rng.uniform(*s.side, center.shape)
        low = np.clip(center - side / 2, 0.0, 1.0)
        high = np.clip(center + side / 2, 0.0, 1.0)
        return boxes(low, high, slope=self.rng.uniform(*s.slope, s.queries))
