"""What Section 6 varies of the workload: rates over time, single values, how often types occur."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput
from planning.joins import demo
from planning.joins.model import Tuples, from_arrays

Rates = Sequence[tuple[float, float]]
"""Rates as (from second, tuples per second), in order of time."""
BURST: Rates = ((0.0, 100.0), (60.0, 500.0), (75.0, 300.0), (105.0, 100.0))
"""Figures 8 and 11: quiet, a burst of 15 seconds, 30 seconds of elevated rate, quiet again."""


def inverse_frequencies(utilities: FloatArray) -> tuple[float, ...]:
    """Type frequencies inversely proportional to utilities (Section 6.5)."""
    odds = 1.0 / np.asarray(utilities, dtype=np.float64)
    return tuple((odds / odds.sum()).tolist())


def direct_frequencies(utilities: FloatArray) -> tuple[float, ...]:
    """Type frequencies proportional to utilities (Section 6.5)."""
    odds = np.asarray(utilities, dtype=np.float64)
    return tuple((odds / odds.sum()).tolist())


def uniform_frequencies(utilities: FloatArray) -> tuple[float, ...]:
    """Equal type frequencies (Section 6.5)."""
    return (1.0 / len(utilities),) * len(utilities)


FREQUENCIES: dict[str, Callable[[FloatArray], tuple[float, ...]]] = {
    "uniform": uniform_frequencies,
    "inverse": inverse_frequencies,
    "direct": direct_frequencies,
}


@dataclass(frozen=True)
class Workload(demo.Workload):
    """The demo's two correlated streams, also with weights, single values and changing rates."""

    weighted: bool = False

    def __post_init__(self) -> None:
        if self.vocabulary < 1:
            raise InvalidInput(f"vocabulary must be at least 1, got {self.vocabulary}")
        if not self.cycle_s > 0:
            raise InvalidInput(f"cycle_s must be positive, got {self.cycle_s:g}")
        if not sum(self.type_frequencies) > 0 or min(self.type_frequencies) < 0:
            raise InvalidInput(
                "type_frequencies must be non-negative with a positive sum, "
                f"got {self.type_frequencies}"
            )

    def single_valued(self, values: int = 5000) -> Workload:
        """Return the same correlation with one of ``values`` values per tuple (L, 1, 0)."""
        return replace(self, vocabulary=values, mean_items=1.0, items_deviation=0.0)

    def stream(
        self, which: int, duration_s: float, rate_per_s: float | Rates, rng: np.random.Generator
    ) -> Tuples:
        """Generate one of the two streams (0 or 1) from second 0 to ``duration_s``."""
        made = super().stream(which, duration_s, rate_per_s, rng)
        if not self.weighted:
            return made
        return replace(made, weights=rng.uniform(0.1, 1.0, made.items.size))

    def arrivals(
        self, duration_s: float, rate_per_s: float | Rates, rng: np.random.Generator
    ) -> FloatArray:
        """Arrival times: one tuple at a random instant of each slot of length 1 / rate.

        >>> Workload().arrivals(3, ((0, 1), (2, 4)), np.random.default_rng(0)).size
        6
        """
        constant = isinstance(rate_per_s, int | float)
        profile = ((0.0, float(rate_per_s)),) if constant else tuple(rate_per_s)
        ends = [start for start, _ in profile[1:]] + [duration_s]
        parts = []
        for (start, rate), end in zip(profile, ends, strict=True):
            length = min(end, duration_s) - start
            if length > 0 and rate > 0:
                parts.append(start + super().arrivals(length, rate, rng))
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0)

    def ranks(self, sizes: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw distinct ranks per tuple with Zipf odds; single ones from their distribution."""
        if not sizes.size or sizes.max() > 1:
            return super().ranks(sizes, rng)
        log_odds = -self.skew * np.log(np.arange(1, self.vocabulary + 1))
        odds = np.exp(log_odds - log_odds.max())
        cumulative = np.cumsum(odds) / odds.sum()
        drawn = np.searchsorted(cumulative, rng.random(sizes.size), side="right")
        return np.minimum(drawn, self.vocabulary - 1).astype(np.int64)


def single_values(time: ArrayLike, values: ArrayLike, *, kind: ArrayLike | None = None) -> Tuples:
    """Build tuples of a single-valued attribute.

    >>> single_values([0.0, 1.0], [7, 9]).items.tolist()
    [7, 9]
    """
    array = np.asarray(values, dtype=np.int64)
    return from_arrays(time, np.arange(array.size + 1), array, kind=kind)
