"""Which part of its data every query has in every region, of what may be dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints

DIGITS = 1e9
"""Shares are rounded down to parts of 1 / DIGITS, so that no query loses more than it has."""


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What queries lose of their data when regions are dropped whole, query by query (CSR).

    Query q has the entries from ``start[q]`` on, before ``start[q + 1]``; without data, none.

    >>> half = Shares(frozen_ints([0, 2, 2]), frozen_ints([0, 1]), frozen([0.25, 0.75]))
    >>> half.completeness(np.array([0.5, 1.0])).tolist()
    [0.125, 1.0]
    """

    start: IntArray
    region: IntArray
    part: FloatArray

    @classmethod
    def of(
        cls, query: IntArray, region: IntArray, part: FloatArray, shape: tuple[int, int]
    ) -> Shares:
        """Add up the parts that several boxes of a query have of one region."""
        place, where = np.unique(query * shape[1] + region, return_inverse=True)
        parts = np.floor(np.bincount(where, part, place.size) * DIGITS) / DIGITS
        place, parts = place[parts > 0.0], parts[parts > 0.0]
        start = np.searchsorted(place, np.arange(shape[0] + 1) * shape[1])
        return cls(frozen_ints(start), frozen_ints(place % shape[1]), frozen(parts))

    def completeness(self, drop_thresholds: FloatArray) -> FloatArray:
        """Return the completeness of every query, 1 - sum of part * d."""
        count = len(self.start) - 1
        query = np.repeat(np.arange(count), np.diff(self.start))
        return np.asarray(1.0 - np.bincount(query, self.part * drop_thresholds[self.region], count))
