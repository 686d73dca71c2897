"""Query consolidation: from queries to one QoS value per region (Section IV-B).

A(S_i) = sum over queries of w * alpha * C(q, S_i) with nothing dropped, where C(q, S_i) is the
share of q's data that lies in S_i, data being uniform inside a region. Deviation: Equations 5 and
9 both contain (1 - d); here it appears once, in the objective. A query with no estimated data loses
nothing whatever is dropped, so its completeness is 1 and w * alpha goes to B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, sorted_sum
from planning.sifter.partition import LEAF, Partition
from planning.sifter.queries import Queries


@dataclass(frozen=True, slots=True, eq=False)
class Consolidated:
    """Row i is region i: A(S_i), and whether any query intersects it; and B."""

    region_qos: FloatArray
    queried: BoolArray
    base_qos: float


def consolidate(
    partition: Partition, frequency: FloatArray, queries: Queries, low: FloatArray, high: FloatArray
) -> Consolidated:
    """Return A, B and which regions have queries.

    The worked case: one query over the right half of [0, 1), two equal regions, alpha = 1.

    >>> from planning.sifter.queries import boxes
    >>> halves = Partition.from_nested((0, 0.5, None, None))
    >>> one = boxes(np.array([[0.4]]), np.array([[0.6]]))
    >>> c = consolidate(halves, np.array([0.25, 0.75]), one, np.zeros(1), np.ones(1))
    >>> c.region_qos.round(12).tolist(), c.base_qos
    ([0.25, 0.75], 0.0)
    """
    region_low, region_high = partition.bounds(low, high)
    qos = np.zeros(partition.regions)
    queried = np.zeros(partition.regions, dtype=np.bool_)
    expected = np.zeros(queries.count)
    _share_out(
        partition.dimension, partition.cut, partition.right, partition.leaf,
        region_low, region_high, np.ascontiguousarray(frequency, dtype=np.float64),
        queries.low, queries.high, queries.owner, queries.coefficient, expected, qos, queried,
    )  # fmt: skip
    without_data = sorted_sum(queries.coefficient[expected <= 0.0])
    return Consolidated(qos, queried, queries.base_qos + without_data)


@njit(cache=True)
def _share_out(
    dimension: Any, cut: Any, right: Any, leaf: Any, region_low: Any, region_high: Any,
    frequency: Any, box_low: Any, box_high: Any, owner: Any, coefficient: Any,
    expected: Any, qos: Any, queried: Any,
) -> None:  # fmt: skip
    """Estimate each query's data, then give each region its share; regions found by descent."""
    d = region_low.shape[1]
    stack = np.empty(dimension.size + 1, np.int64)
    for second in range(2):
        for box in range(box_low.shape[0]):
            query = owner[box]
            if second == 1 and expected[query] <= 0.0:
                continue
            stack[0] = 0
            depth = 1
            while depth > 0:
                depth -= 1
                node = stack[depth]
                axis = dimension[node]
                if axis != LEAF:
                    if box_high[box, axis] > cut[node]:
                        stack[depth] = right[node]
                        depth += 1
                    if box_low[box, axis] < cut[node]:
                        stack[depth] = node + 1
                        depth += 1
                    continue
                region = leaf[node]
                share = frequency[region]
                for k in range(d):
                    overlap = min(box_high[box, k], region_high[region, k]) - max(
                        box_low[box, k], region_low[region, k]
                    )
                    share *= max(0.0, overlap) / (region_high[region, k] - region_low[region, k])
                if second == 0:
                    expected[query] += share
                    queried[region] = True
                else:
                    qos[region] += coefficient[query] * (share / expected[query])
