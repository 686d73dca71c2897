"""The paper's scheme at one capacity: how much to shed (IV-C1), what (IV-C2), and where (V).

The plan's frontier answers for every capacity; these equations are what its figures draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planning.attributes.printed.ranking import shedding_order


def amount_to_shed(rate: float, capacity: float) -> float:
    """Return r = R − C, or nothing while the channel suffices (paper IV-C1).

    >>> amount_to_shed(100.0, 80.0), amount_to_shed(60.0, 80.0)
    (20.0, 0.0)
    """
    return max(0.0, rate - capacity)


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
