"""The paper's nouns and equations: smoothing, ranking, how much and what to shed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import FloatArray
from planning.errors import InvalidInput


def exponential_moving_average(values: ArrayLike, span: float) -> FloatArray:
    """Smooth values with weight 2/(span + 1) on the newest (paper IV-B).

    The average starts at the first value; a null repeats the average so far.

    >>> exponential_moving_average([1.0, 3.0, 3.0], span=3).tolist()
    [1.0, 2.0, 2.5]
    """
    if not span >= 1:
        raise InvalidInput(f"ema_span must lie in [1, inf), got {span:g}; 1 means no smoothing")
    series = np.asarray(values, dtype=np.float64)
    weight = 2.0 / (span + 1.0)
    smooth = np.empty_like(series)
    average = math.nan
    for i, value in enumerate(series):
        if math.isnan(average):
            average = float(value)
        elif not math.isnan(value):
            average += weight * (float(value) - average)
        smooth[i] = average
    return smooth


def standard_deviation(values: ArrayLike) -> float:
    """Return the population standard deviation of the values that are there (paper IV-C2).

    Example 3 of the paper:

    >>> [standard_deviation(v) for v in ([0, 0, 14, 14], [0, 6, 8, 14], [6, 6, 8, 8])]
    [7.0, 5.0, 1.0]
    """
    series = np.asarray(values, dtype=np.float64)
    series = series[~np.isnan(series)]
    return float(series.std()) if len(series) else 0.0


def category_deviation(codes: ArrayLike) -> float:
    """Return the deviation of the indicator "is not the most frequent value".

    The paper ranks numbers only; this gives categories and text a place in the same ranking.

    >>> category_deviation([1, 1, 2, 2])
    0.5
    """
    series = np.asarray(codes, dtype=np.float64)
    if not len(series):
        return 0.0
    counts = np.unique(np.nan_to_num(series, nan=-1.0), return_counts=True)[1]
    share = float(counts.max()) / len(series)
    return math.sqrt(share * (1.0 - share))


def amount_to_shed(rate: float, capacity: float) -> float:
    """Return r = R − C, or nothing while the channel suffices (paper IV-C1).

    >>> amount_to_shed(100.0, 80.0), amount_to_shed(60.0, 80.0)
    (20.0, 0.0)
    """
    return max(0.0, rate - capacity)


def shedding_order(deviations: ArrayLike) -> tuple[int, ...]:
    """Return attributes from least to most informative; ties by index (paper IV-C2).

    >>> shedding_order([7, 5, 1])
    (2, 1, 0)
    """
    return tuple(int(j) for j in np.argsort(np.asarray(deviations), kind="stable"))


def intra_stream_scheme(
    deviations: ArrayLike, sizes: ArrayLike, amount: float, keep: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return the attributes to shed: the least informative ones until ``amount`` is met.

    Paper IV-C. Attributes in ``keep`` (the CID and must-keep ones) are passed over.

    >>> intra_stream_scheme([7, 5, 1], [4, 4, 4], amount=5)
    (1, 2)
    """
    size = np.asarray(sizes, dtype=np.float64)
    shed: list[int] = []
    for j in shedding_order(deviations):
        if amount <= 0:
            break
        if j in keep or size[j] <= 0:
            continue
        shed.append(j)
        amount -= float(size[j])
    return tuple(sorted(shed))


def drop_rate(rate: float, capacity: float) -> float:
    """Return (R − C)/R, what the central load shedder tells every stream (paper V).

    >>> drop_rate(200.0, 150.0)
    0.25
    """
    return amount_to_shed(rate, capacity) / rate if rate > 0 else 0.0


@dataclass(frozen=True, slots=True)
class CentralShedder:
    """The paper's central load shedder of one multiplexed channel (Section V).

    >>> CentralShedder(capacity=150.0).amounts([120.0, 80.0])
    (30.0, 20.0)
    """

    capacity: float

    def amounts(self, rates: Sequence[float]) -> tuple[float, ...]:
        """Return R'_n = ((R − C)/R)·R_n for every stream n."""
        rate = drop_rate(math.fsum(rates), self.capacity)
        return tuple(rate * r for r in rates)


def product_of_lengths(lengths: Sequence[int]) -> int:
    """Combine cycle lengths as the paper does, by multiplication (Example 1)."""
    return math.prod(lengths)


def combined_length(lengths: Sequence[int]) -> int:
    """Combine cycle lengths by least common multiple.

    Deviation: the paper multiplies, which is wrong unless the lengths are coprime.

    >>> combined_length([4, 6]), product_of_lengths([4, 6])
    (12, 24)
    """
    return math.lcm(*lengths) if lengths else 1
