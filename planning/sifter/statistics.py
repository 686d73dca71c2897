"""Statistics of a stream for a sifter: regions, f(S_i), A(S_i) and B.

``build`` is the NumPy reference; the Spark app composes the same steps over samples of any size:
``draw`` the bounded sample U, ``divide`` the space with it, ``count`` every tuple's region in
parallel, ``assemble``. Counts are integers, so both give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planning import sampling
from planning.arrays import BoolArray, Columns, FloatArray, IntArray, frozen, frozen_ints
from planning.errors import StatisticsError
from planning.sifter import partitioners, queries
from planning.sifter.consolidation import consolidate
from planning.sifter.partition import Partition
from planning.sifter.partitioners.sample import Sample
from planning.sifter.queries import Queries
from planning.sifter.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Row i of every array is region S_i."""

    partition: Partition
    counts: IntArray  # tuples seen per region
    frequency: FloatArray  # f(S_i), sums to 1
    region_qos: FloatArray  # A(S_i)
    queried: BoolArray  # Q(S_i) is not empty
    base_qos: float  # B
    samples: int  # tuples counted
    sample_size: int  # |U|
    query_count: int  # |Q|

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
        )


def build(samples: Columns, definition: Any) -> Statistics:
    """Build the statistics of samples that fit in memory."""
    points = Space.of(definition).matrix(samples)
    sample = draw(points, definition.parameters.sample_size)
    asked = queries.of(definition)
    divided = divide(sample, definition, asked)
    return assemble(divided, count(points, divided), definition, len(sample), asked)


def draw(points: FloatArray, size: int) -> FloatArray:
    """Return the bounded sample U: ``size`` of the points, whatever their order."""
    points = points[~np.isnan(points).any(axis=1)]
    if not len(points):
        raise StatisticsError(
            "samples must hold at least one tuple with a number in every attribute, got none; "
            "check the landing folder and the quarantine"
        )
    return np.asarray(points[sampling.draw(list(points.T), size)])


def divide(sample: FloatArray, definition: Any, asked: Queries | None = None) -> Partition:
    """Divide the space into regions from the sample U and the queries."""
    space = Space.of(definition)
    asked = queries.of(definition) if asked is None else asked
    discrete = np.array([axis.kind != "float" for axis in space.axes])
    seen = Sample(np.clip(sample, space.low, space.high), asked, space.low, space.high, discrete)
    parameters = definition.parameters
    return partitioners.get(parameters.partitioner)(seen, parameters)


def count(points: FloatArray, partition: Partition) -> IntArray:
    """Return how many points each region holds; NaN counts nowhere."""
    regions = partition.lookup(points)
    return np.bincount(regions[regions >= 0], minlength=partition.regions).astype(np.int64)


def assemble(
    partition: Partition,
    counts: IntArray,
    definition: Any,
    sample_size: int,
    asked: Queries | None = None,
) -> Statistics:
    """Turn region counts into f, A and B."""
    asked = queries.of(definition) if asked is None else asked
    space = Space.of(definition)
    total = int(counts.sum())
    if total <= 0:
        raise StatisticsError("counts must hold at least one tuple, got none in any region")
    frequency = counts / total
    consolidated = consolidate(partition, frequency, asked, space.low, space.high)
    return Statistics(
        partition=partition,
        counts=frozen_ints(counts),
        frequency=frozen(frequency),
        region_qos=frozen(consolidated.region_qos),
        queried=consolidated.queried,
        base_qos=consolidated.base_qos,
        samples=total,
        sample_size=sample_size,
        query_count=asked.count,
    )
