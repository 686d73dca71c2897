"""Statistics of a stream for a sifter: regions, f(S_i), A(S_i) and B.

``build`` is the NumPy reference; the Spark app composes the same steps over samples of any size:
``draw`` the bounded sample U, ``divide`` the space with it, count every tuple's region in parallel
(:class:`RegionCounts`), ``assemble``. Counts are integers, so both give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planning import sampling
from planning.arrays import (
    BoolArray,
    Columns,
    FloatArray,
    IntArray,
    frozen,
    frozen_ints,
    sorted_sum,
)
from planning.errors import StatisticsError
from planning.sifter import queries
from planning.sifter.calibration import calibrated
from planning.sifter.consolidation import consolidate
from planning.sifter.kernels import mark_pinned
from planning.sifter.partition import Partition
from planning.sifter.partitioners.division import divide
from planning.sifter.queries import Queries
from planning.sifter.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Row i of every array is region S_i.

    Examples
    --------
    >>> from planning.examples import demo_definition, demo_samples
    >>> statistics = build(demo_samples("sifter"), demo_definition("sifter"))
    >>> statistics.partition.regions, statistics.samples, statistics.query_count
    (16, 19984, 1000)
    >>> again = Statistics.from_document(statistics.to_document())
    >>> (again.region_qos == statistics.region_qos).all().item()
    True
    """

    partition: Partition
    counts: IntArray  # tuples seen per region
    frequency: FloatArray  # f(S_i) of tuples that may be dropped; sums to 1 - pinned
    region_qos: FloatArray  # A(S_i)
    queried: BoolArray  # Q(S_i) is not empty
    base_qos: float  # B
    samples: int  # tuples counted
    sample_size: int  # |U|
    query_count: int  # |Q|
    pinned_fraction: float = 0.0  # of the stream, never dropped

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "partition": self.partition.to_document(),
            "counts": self.counts.tolist(),
            "frequency": self.frequency.tolist(),
            "region_qos": self.region_qos.tolist(),
            "queried": self.queried.tolist(),
            "base_qos": self.base_qos,
            "samples": self.samples,
            "sample_size": self.sample_size,
            "query_count": self.query_count,
            "pinned_fraction": self.pinned_fraction,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Statistics:
        """Read the JSON form back."""
        return cls(
            partition=Partition.from_document(document["partition"]),
            counts=frozen_ints(document["counts"]),
            frequency=frozen(document["frequency"]),
            region_qos=frozen(document["region_qos"]),
            queried=np.array(document["queried"], dtype=np.bool_),
            base_qos=float(document["base_qos"]),
            samples=int(document["samples"]),
            sample_size=int(document["sample_size"]),
            query_count=int(document["query_count"]),
            pinned_fraction=float(document.get("pinned_fraction", 0.0)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class RegionCounts:
    """Row i is region S_i: tuples counted in it, and how many of them are pinned."""

    tuples: IntArray
    pinned: IntArray

    @classmethod
    def of(cls, points: FloatArray, partition: Partition, pins: Queries) -> RegionCounts:
        """Count points region by region; NaN counts nowhere.

        >>> from planning.sifter.queries import boxes
        >>> halves = Partition.from_nested((0, 0.5, None, None))
        >>> pin = boxes(np.array([[0.7]]), np.array([[1.0]]))
        >>> counts = RegionCounts.of(np.array([[0.1], [0.6], [0.8]]), halves, pin)
        >>> counts.tuples.tolist(), counts.pinned.tolist()
        ([1, 2], [0, 1])
        """
        must_keep = np.zeros(len(points), dtype=np.bool_)
        columns = tuple(np.ascontiguousarray(column) for column in points.T)
        mark_pinned(columns, pins.low, pins.high, must_keep)
        return cls(partition.count(points), partition.count(points[must_keep]))


def build(samples: Columns, definition: Any) -> Statistics:
    """Build the statistics of samples that fit in memory."""
    return of_points(Space.of(definition).matrix(samples), definition, queries.of(definition))


def of_points(points: FloatArray, definition: Any, asked: Queries) -> Statistics:
    """Build the statistics of points of the data space, with the queries as boxes in it."""
    sample = draw(points, definition.parameters.sample_size)
    divided = divide(sample, definition, asked)
    counts = RegionCounts.of(points, divided, queries.pins_of(definition))
    return assemble(divided, counts, definition, len(sample), asked)


def draw(points: FloatArray, size: int) -> FloatArray:
    """Return the bounded sample U: ``size`` of the points, whatever their order."""
    points = points[~np.isnan(points).any(axis=1)]
    if not len(points):
        raise StatisticsError(
            "samples must hold at least one tuple with a number in every attribute, got none; "
            "check the landing folder and the quarantine"
        )
    return np.asarray(points[sampling.draw(list(points.T), size)])


def assemble(
    partition: Partition,
    counts: RegionCounts,
    definition: Any,
    sample_size: int,
    asked: Queries,
) -> Statistics:
    """Turn region counts into f, A and B.

    Pinned tuples always pass: what they are worth to the queries moves from A to B, and only the
    rest of each region's frequency can be shed.
    """
    space = Space.of(definition)
    total = int(counts.tuples.sum())
    if total <= 0:
        raise StatisticsError("counts must hold at least one tuple, got none in any region")
    asked = queries.arranged(asked, partition.orders)
    frequency = counts.tuples / total
    if definition.parameters.calibrate:
        first = consolidate(partition, frequency, asked, space.low, space.high)
        frequency = calibrated(counts.tuples, partition.seen, first.region_qos)
    consolidated = consolidate(partition, frequency, asked, space.low, space.high)
    pinned = counts.pinned / np.maximum(counts.tuples, 1)  # share of each region's tuples
    qos = consolidated.region_qos
    return Statistics(
        partition=partition,
        counts=frozen_ints(counts.tuples),
        frequency=frozen(frequency * (1.0 - pinned)),
        region_qos=frozen(qos * (1.0 - pinned)),
        queried=consolidated.queried,
        base_qos=consolidated.base_qos + sorted_sum(qos * pinned),
        samples=total,
        sample_size=sample_size,
        query_count=asked.count,
        pinned_fraction=sorted_sum(frequency * pinned),
    )
