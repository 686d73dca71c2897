"""Many regions on real data: expected loss of the planner's partitions and of a reference tree.

Streams of four attributes, a thousand queries each: the flights of 2013 and, where the folder of
real data sets has them, earthquakes (``sifter/earthquakes.csv``: latitude, longitude, depth,
magnitude) and diamonds (``sifter/diamonds.csv``: carat, depth, table, price). Both sides see the
same tuples; the loss is 1 - V* on others, in expectation, when exactly z of them pass: that is what
the shedder's correction sees to. ``python -m benchmarks.sifter.many_regions`` prints every cell.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.rows import Row
from benchmarks.rows import row as bar
from benchmarks.sifter import recorded
from benchmarks.sifter.reference_tree import Grower, point_masses
from benchmarks.sifter.scene import definition_for
from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput
from planning.sections import Attribute
from planning.sifter import planner, statistics
from planning.sifter.model import Space
from planning.sifter.queries import Queries, boxes

REGIONS = (16, 48, 81, 200)
LOADS = (0.3, 0.5, 0.75, 0.9)
DELTA = 0.5
QUERIES = 1000


@dataclass(frozen=True)
class Catalogue:
    """A stream of points: its file, its attributes, and the one that queries favour."""

    file: str
    domains: dict[str, tuple[float, float]]
    favoured: str

    def read(self) -> FloatArray:
        """Return the points in an order that has nothing to do with time."""
        with datasets.find(self.file).open(newline="", encoding="utf-8") as file:
            rows = [[line[name] for name in self.domains] for line in csv.DictReader(file)]
        points = np.array([row for row in rows if all(row)], dtype=np.float64)
        return np.random.default_rng(0).permutation(points)

    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes, as numbers."""
        return tuple(Attribute(name=n, domain=bounds) for n, bounds in self.domains.items())

    def queries(self, points: FloatArray) -> Queries:
        """Draw queries around points, more where the favoured attribute is large, on two axes."""
        rng = np.random.default_rng(1)
        low, high = np.array(list(self.domains.values())).T
        column = list(self.domains).index(self.favoured)
        weight = (points[:, column] - points[:, column].min()) / np.ptp(points[:, column]) + 0.02
        centers = points[rng.choice(len(points), QUERIES, p=weight / weight.sum())]
        half = rng.uniform(0.02, 0.10, centers.shape) * (high - low) / 2
        asked_low, asked_high = np.maximum(low, centers - half), np.minimum(high, centers + half)
        for query in range(QUERIES):
            open_axes = rng.choice(len(low), 2, replace=False)
            asked_low[query, open_axes], asked_high[query, open_axes] = (
                low[open_axes], np.nextafter(high[open_axes], np.inf))  # fmt: skip
        return boxes(asked_low, asked_high)


EARTHQUAKES = Catalogue(
    "sifter/earthquakes.csv",
    {"latitude": (-90, 90), "longitude": (-180, 180), "depth": (-10, 750), "magnitude": (0, 10)},
    "magnitude",
)
DIAMONDS = Catalogue(
    "sifter/diamonds.csv",
    {"carat": (0, 6), "depth": (40, 80), "table": (40, 100), "price": (0, 20_000)},
    "price",
)


def streams() -> dict[str, Any]:
    """Return points, queries and attributes of every stream that is there."""
    found: dict[str, Any] = {}
    try:
        flights = recorded.read()
        found["flights"] = flights, recorded.queries(flights, 1), recorded.attributes()
    except InvalidInput as error:
        found["flights"] = str(error)
    for name, catalogue in (("earthquakes", EARTHQUAKES), ("diamonds", DIAMONDS)):
        try:
            points = catalogue.read()
            found[name] = points, catalogue.queries(points), catalogue.attributes()
        except InvalidInput as error:
            found[name] = str(error)
    return found


def expected_loss(region: IntArray, mass: FloatArray, thresholds: Any, z: float) -> float:
    """Return the loss when exactly z of these tuples passes.

    Frequencies of fresh tuples differ a little from the plan's, so the thresholds are read where z
    of them passes, as the shedder's correction does.
    """
    count = len(thresholds(z))
    f = np.bincount(region, minlength=count) / len(region)
    worth = np.bincount(region, weights=mass, minlength=count)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if np.dot(f, 1.0 - thresholds(middle)) < z:
            low = middle
        else:
            high = middle
    return float(np.dot(worth, thresholds(high)))


@dataclass(frozen=True)
class Cell:
    """Losses of one stream, l and z, all on fresh tuples when exactly z of them passes."""

    stream: str
    regions: int
    z: float
    random: float
    ours: float
    predicted: float
    reference: float


def cells(name: str, stream: Any, splits: int) -> list[Cell]:
    """Measure every cell, as the mean over several divisions into seen and fresh tuples."""
    points, asked, attributes = stream
    space = Space.of(definition_for(attributes, "cost_tree", 16, 2))
    size = min(20_000, len(points) // 2)
    found: dict[tuple[int, float], list[tuple[float, ...]]] = {}
    for split in range(splits):
        mixed = np.random.default_rng(split).permutation(points)
        seen, fresh = mixed[:size], mixed[size : size + 50_000]
        grower, mass = Grower(seen, asked, space.low, space.high), point_masses(fresh, asked)
        for regions in REGIONS:
            for z in LOADS:
                definition = definition_for(
                    attributes, "cost_tree", regions, size, throttle_fraction=z
                )
                plan = planner.plan(statistics.of_points(seen, definition, asked), definition)
                other = grower.tree(regions, z, DELTA)

                def at(load: float, plan: Any = plan) -> FloatArray:
                    return np.asarray(plan.at(load).drop_thresholds)

                ours = expected_loss(plan.partition.lookup(fresh), mass, at, z)
                theirs = expected_loss(other.lookup(fresh), mass, other.thresholds, z)
                row = (1 - z) * mass.sum(), ours, 1 - plan.predicted_quality(z), theirs
                found.setdefault((regions, z), []).append(row)
    return [Cell(name, *key, *np.mean(rows, axis=0).tolist()) for key, rows in found.items()]


def many_regions(quick: bool) -> list[Row]:
    """Compare with the reference tree, cell by cell."""
    rows = []
    for name, stream in streams().items():
        if isinstance(stream, str):
            rows.append(bar(f"many regions: {name}", "reported", f"skipped: {stream}", None))
            continue
        measured = cells(name, stream, 1 if quick else 3)
        ratio = [cell.ours / cell.reference for cell in measured]
        away = max(abs(cell.ours - cell.predicted) for cell in measured)
        better = sum(r <= 1.0 for r in ratio)
        rows += [
            bar(f"loss over a reference tree's, {name}, l = 16 to 200, z = 0.3 to 0.9",
                "<= 1 in every cell", f"mean {np.mean(ratio):.3f}, largest {max(ratio):.3f}, "
                f"{better} of {len(ratio)} cells", max(ratio) <= 1.0),
            bar(f"predicted quality on fresh tuples, {name}", "within 0.05", f"{away:.4f}",
                away <= 0.05),
        ]  # fmt: skip
    return rows


def main() -> None:
    """Print every cell of every stream."""
    for name, stream in streams().items():
        if isinstance(stream, str):
            print(f"{name} skipped: {stream}")
            continue
        for c in cells(name, stream, 3):
            print(
                f"{c.stream:12} l = {c.regions:3} z = {c.z:4}: random {c.random:.4f} ours "
                f"{c.ours:.4f} predicted {c.predicted:.4f} reference {c.reference:.4f} ratio "
                f"{c.ours / c.reference:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
