"""Frequencies that hold on fresh data.

Regions chosen to hold much data and few queries hold less of fresh data than of the sample they
were chosen on: a plan for z = 0.5 can pass 0.6 of the stream. So tuples the partitioner has seen
count half, and each region is drawn a little toward the neutral ratio of queries to data. With
many more tuples than the partitioner saw, both vanish.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray, IntArray

SEEN_WEIGHT = 0.5
PRIOR_PER_REGION = 0.4
"""Tuples of prior per region; both values were chosen on workloads of the paper's generator."""


def calibrated(counts: IntArray, seen: IntArray, region_qos: FloatArray) -> FloatArray:
    """Return f(S_i) from all counts, those the partitioner has seen, and A(S_i).

    >>> calibrated(np.array([60, 40]), np.array([40, 10]), np.zeros(2)).round(3).tolist()
    [0.533, 0.467]
    """
    seen = np.zeros_like(counts) if seen.size != counts.size else np.minimum(seen, counts)
    weighted = (counts - seen) + SEEN_WEIGHT * seen
    prior = PRIOR_PER_REGION * len(counts)
    neutral = region_qos / region_qos.sum() if region_qos.sum() > 0 else np.zeros(len(counts))
    mixed = weighted + prior * neutral
    return np.asarray(mixed / mixed.sum())
