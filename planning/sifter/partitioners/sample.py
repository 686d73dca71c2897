"""What a partitioner sees: the sample U, the queries, and the bounds of the space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.sifter.queries import Queries


@dataclass(frozen=True, eq=False)
class Sample:
    """The sample set U in a space [low, high); ``discrete`` axes are cut at whole numbers."""

    points: FloatArray  # (|U|, d)
    queries: Queries
    low: FloatArray
    high: FloatArray
    discrete: BoolArray

    @cached_property
    def query_centers(self) -> FloatArray:
        """Centers of the query boxes, whole numbers on discrete axes."""
        centers = (self.queries.low + self.queries.high) / 2.0
        return np.asarray(np.where(self.discrete, np.floor(centers), centers))
