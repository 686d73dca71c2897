"""Distributions of the workload over the rate space, for expected errors (Section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planning.arrays import FloatArray
from planning.errors import check_between

SPREAD = 0.2
"""Share of an observed rate by which others like it may differ."""


class Distribution(Protocol):
    """Probability of boxes of the rate space; rates are in units of ``max_rate``."""

    def probability(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the probability of each box ``low[i]`` … ``high[i]``."""
        ...

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw rate vectors."""
        ...

    def marginal(self, inputs: Sequence[int]) -> Distribution:
        """Return the distribution of some of the inputs."""
        ...

    def folds(self) -> tuple[Distribution, Distribution]:
        """Return one distribution to fit to, and an independent one to judge the fit by."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """Independent exponential rates with one mean (share of ``max_rate``), cut off at the maximum.

    The paper's lambda moves the mass *up* as it grows (Figure 12), so it acts as a scale; ``mean``
    says so plainly.

    >>> box = np.zeros((1, 2)), np.ones((1, 2))
    >>> Exponential(0.2, 2).probability(*box)
    array([1.])
    """

    mean: float
    inputs: int

    def __post_init__(self) -> None:
        check_between("mean of the exponential workload", self.mean, 0, 1e6, open_low=True)

    def _cumulative(self, rates: FloatArray) -> FloatArray:
        total = -np.expm1(-1.0 / self.mean)
        return np.asarray(-np.expm1(-np.clip(rates, 0.0, 1.0) / self.mean) / total)

    def probability(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the probability of each box."""
        return np.asarray(np.prod(self._cumulative(high) - self._cumulative(low), axis=1))

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw rate vectors by inverting the cumulative distribution."""
        total = -np.expm1(-1.0 / self.mean)
        return np.asarray(-self.mean * np.log1p(-total * rng.random((count, self.inputs))))

    def marginal(self, inputs: Sequence[int]) -> Exponential:
        """Return the same distribution over fewer inputs."""
        return Exponential(self.mean, len(inputs))

    def folds(self) -> tuple[Exponential, Exponential]:
        """Return the distribution twice: it is known, not observed."""
        return self, self


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """Observed rate vectors, each standing for all rates within :data:`SPREAD` of it.

    Fresh rates are near observed ones, never equal to them. A share of uniform weight keeps rates
    that are far from all of them from being ignored.
    """

    observed: FloatArray
    uniform_share: float = 0.05

    def probability(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the probability of each box."""
        points = np.clip(self.observed, 0.0, 1.0)
        first, width = points * (1.0 - SPREAD), np.maximum(2.0 * SPREAD * points, 1e-12)
        volume = np.prod(high - low, axis=1)
        inside = np.empty(len(low))
        for k in range(len(low)):
            top = np.where(high[k] >= 1.0, np.inf, high[k])
            share = (np.minimum(first + width, top) - np.maximum(first, low[k])) / width
            inside[k] = np.clip(share, 0.0, 1.0).prod(axis=1).mean()
        return np.asarray(self.uniform_share * volume + (1.0 - self.uniform_share) * inside)

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw observed vectors, and uniform ones for the uniform share."""
        drawn = self.observed[rng.integers(len(self.observed), size=count)].copy()
        uniform = rng.random(count) < self.uniform_share
        drawn[uniform] = rng.random((int(uniform.sum()), drawn.shape[1]))
        return np.clip(drawn, 0.0, 1.0)

    def marginal(self, inputs: Sequence[int]) -> Empirical:
        """Return the observed rates of the given inputs."""
        return Empirical(self.observed[:, list(inputs)], self.uniform_share)

    def folds(self) -> tuple[Empirical, Empirical]:
        """Return every other observed vector, and those between."""
        if len(self.observed) < 2:
            return self, self
        return (
            Empirical(self.observed[::2], self.uniform_share),
            Empirical(self.observed[1::2], self.uniform_share),
        )
