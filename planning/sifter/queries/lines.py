"""Concave QoS lines of several pieces, as the corners at which they bend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints

STRAIGHT = 1e-9
"""Slopes closer than this are one."""


@dataclass(frozen=True, slots=True, eq=False)
class Bends:
    """Corners inside QoS lines: line ``owner`` is steeper by ``drop`` below completeness ``at``.

    With c the completeness and alpha the mean slope, a line lies above its chord, alpha * c + 1 -
    alpha, by the sum over its corners of drop * (at * (1 - c) - max(0, at - c)).

    >>> line = Bends.of([(2, [(0.0, 0.0), (0.5, 0.9), (1.0, 1.0)])])
    >>> line.lift(np.array([0.0, 0.0, 0.5])).round(12).tolist()  # 0.9, where the chord has 0.5
    [0.4]
    >>> line.slopes(np.array([0.0, 0.0, 0.6]), np.ones(3)).round(12).tolist()
    [1.0, 1.0, 0.2]
    """

    owner: IntArray
    at: FloatArray
    drop: FloatArray

    @classmethod
    def of(cls, lines: Iterable[tuple[int, Sequence[tuple[float, float]]]]) -> Bends:
        """Return the corners of the lines of some queries."""
        found: list[tuple[int, float, float]] = []
        for owner, corners in lines:
            x, y = np.asarray(corners, dtype=np.float64).T
            falls = -np.diff(np.diff(y) / np.diff(x))
            found += [(owner, x[k + 1], falls[k]) for k in np.flatnonzero(falls > STRAIGHT)]
        owners, at, drop = np.reshape(found, (-1, 3)).T
        return cls(frozen_ints(owners), frozen(at), frozen(drop))

    def lift(self, completeness: FloatArray) -> FloatArray:
        """Return by how much each corner lifts its line, given the completeness of all queries."""
        c = completeness[..., self.owner]
        return np.asarray(self.drop * (self.at * (1.0 - c) - np.maximum(0.0, self.at - c)))

    def slopes(self, completeness: FloatArray, mean: FloatArray) -> FloatArray:
        """Return the slope of every query's line at its completeness, given the mean slopes."""
        steeper = self.drop * ((completeness[self.owner] < self.at) - self.at)
        return np.asarray(mean + np.bincount(self.owner, steeper, mean.size))
