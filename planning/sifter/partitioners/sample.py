"""What a partitioner sees: the sample U, the queries, and the bounds of the space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.sifter.queries import Queries
from planning.sifter.queries.matching import hit_counts


@dataclass(frozen=True, eq=False)
class Sample:
    """The sample set U in a space [low, high); ``discrete`` axes are cut at whole numbers."""

    points: FloatArray  # (|U|, d)
    queries: Queries
    low: FloatArray
    high: FloatArray
    discrete: BoolArray

    @property
    def dimensions(self) -> int:
        """Return n, the number of attributes."""
        return int(self.low.size)

    @cached_property
    def hits(self) -> IntArray:
        """Number of queries that each point satisfies (Section V-B)."""
        return hit_counts(self.points, self.queries)

    @cached_property
    def query_centers(self) -> FloatArray:
        """Centers of the query boxes, whole numbers on discrete axes."""
        centers = (self.queries.low + self.queries.high) / 2.0
        return np.asarray(np.where(self.discrete, np.floor(centers), centers))
