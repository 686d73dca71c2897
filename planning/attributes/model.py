"""The paper's equations: smoothing, and the deviation by which it ranks attributes."""

from __future__ import annotations

import math

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
