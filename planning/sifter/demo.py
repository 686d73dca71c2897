"""Generated samples and queries: the demo stream, and the paper's workload generator behind it.

The generator has hot spots, global skew G and local skew L (Section VI-A). The demo stretches its
tuples and queries to the stream's domain, so that it shows what a sifter is good for: data and
queries crowd in different places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from upath import UPath

from planning.arrays import FloatArray
from planning.demos import land_batch
from planning.families import Definition
from planning.sifter.queries import Queries, boxes

if TYPE_CHECKING:
    from planning.sifter.parameters import Parameters

SCENARIO = 7  # hot spots and queries are the same in every batch
ROWS = 20_000
BAD_EVERY = 2_500

Distribution = Literal["UNIF", "SKEW"]
Border = Literal["cut", "inside", "leave"]
"""What the paper leaves open. ``cut``: hot spots are cut off at the border of the space.
``inside``: they lie wholly inside it. ``leave``: they are cut off, but skewed data and queries may
fall outside their hot spot.
"""


def land(folder: UPath, batch: int, definition: Definition[Parameters]) -> UPath:
    """Write one Parquet file of tuples to the landing folder; some rows are bad on purpose."""
    return land_batch(folder, batch, tuples(batch, definition))


def tuples(batch: int, definition: Definition[Parameters], rows: int = ROWS) -> dict[str, Any]:
    """Return one batch as columns; every 2,500th row is out of domain or not a number."""
    workload = _workload(definition)
    workload.rng = np.random.default_rng([SCENARIO, batch])
    points = workload.tuples(rows)
    columns: dict[str, Any] = {}
    for axis, attribute in enumerate(definition.attributes):
        low, high = attribute.bounds
        values = low + points[:, axis] * (high - low)
        if attribute.type == "category":
            names = np.array(attribute.values)
            columns[attribute.name] = names[values.astype(np.int64)].tolist()
        elif attribute.type == "int":
            columns[attribute.name] = np.floor(values).astype(np.int64)
        else:
            columns[attribute.name] = _spoiled(values, high, axis)
    return columns


def _spoiled(values: FloatArray, high: float, axis: int) -> FloatArray:
    values = values.copy()
    bad = np.arange(BAD_EVERY // 2 + 31 * axis, len(values), BAD_EVERY)
    values[bad[::2]] = np.nan
    values[bad[1::2]] = high * 10 + 1
    return values


def queries(definition: Definition[Parameters], count: int = 1000) -> list[dict[str, Any]]:
    """Return generated queries as they are written to a queries file."""
    asked = _workload(definition, count).queries
    entries = []
    for low, high, slope in zip(asked.low, asked.high, asked.slope, strict=True):
        ranges = {}
        for axis, attribute in enumerate(definition.attributes):
            first, last = attribute.bounds
            ends = (first + low[axis] * (last - first), first + high[axis] * (last - first))
            ranges[attribute.name] = [round(float(end), 6) for end in ends]
        entries.append({"ranges": ranges, "weight": 1.0, "qos_slope": round(float(slope), 6)})
    return entries


def _workload(definition: Definition[Parameters], queries: int = 1000) -> Workload:
    settings = Settings(
        data="SKEW",
        query="SKEW",
        dimensions=len(definition.attributes),
        queries=queries,
        side=(0.01, 0.03),
        slope=(0.5, 1.0),
    )
    return Workload(settings, SCENARIO)


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
    """One drawn scenario: hot spots, queries, and any number of tuples.

    Hot-spot regions have sides from [0.5, 1] / G and random centers in the space [0, 1]**n. Data
    and queries share the regions, each used equally often. A skewed distribution is a normal with a
    mean placed at random inside the region and deviations from [0.5, 1] / (L * G); data and queries
    have separate normals. What falls outside the region is drawn again.

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
