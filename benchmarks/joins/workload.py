"""What Section 6 varies of the workload: rates over time, and how often each type comes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planning.arrays import FloatArray
from planning.joins.demo import Rates

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
