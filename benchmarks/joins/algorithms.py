"""The paper's Algorithms 1 to 5, as printed and as corrected.

``printed=True`` selects the published form, errors included, so that both can be compared; the
default is the corrected one. Of Algorithm 3 (processing a tuple), only the choice of what to
compare is here: the operator does the rest.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, IntArray
from planning.joins.model import Windows

SMALLEST_FRACTION = 1e-3


def rate_adapt(
    fraction: float,
    fetched: float,
    arrived: float,
    *,
    boost: float = 1.2,
    printed: bool = False,
) -> float:
    """Algorithm 1: the next fraction r from tuples fetched and arrived in the last period.

    As printed, r = 0 is absorbing (nothing fetched gives beta = 0, and 0 * 1.2 = 0) and a period
    without arrivals divides by zero. Corrected: r has a floor, and silence counts as beta = 1.

    >>> rate_adapt(1.0, 500, 1000), rate_adapt(0.5, 1000, 1000)
    (0.5, 0.6)
    >>> rate_adapt(0.5, 0, 1000, printed=True), rate_adapt(0.5, 0, 1000)
    (0.0, 0.001)
    """
    if printed:
        beta = fetched / arrived
        return beta * fraction if beta < 1 else min(1.0, boost * fraction)
    beta = fetched / arrived if arrived > 0 else 1.0
    new = beta * fraction if beta < 1 else boost * fraction
    return min(1.0, max(new, SMALLEST_FRACTION))


def sampling_probability(fraction: float, gamma: float, floor: float = 0.0) -> float:
    """Chance that a tuple is compared with the whole window: gamma * r, at least ``floor``.

    Without a floor r_i = 0 ends all sampling, so window i can never be seen to be worth anything.

    >>> sampling_probability(0.5, 0.1), sampling_probability(0.0, 0.1, floor=0.001)
    (0.05, 0.001)
    """
    return max(gamma * fraction, floor)


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """Outcome of Algorithm 2 for one window: o_{i,j} and the order s_i^j (0-based)."""

    expected: FloatArray
    order: IntArray


def time_correlation_adapt(
    hits: ArrayLike,
    comparisons: ArrayLike,
    previous: Correlation | None = None,
) -> Correlation:
    """Algorithm 2, corrected: o_{i,j} = sampled hits over sampled comparisons.

    The printed line 5 divides by gamma * r * b * lambda_1 * lambda_2 * T_c, which is zero when
    r_i = 0 and twice the truth for the first and last basic windows, which are half full on
    average. Basic windows without a comparison keep their previous value.

    >>> c = time_correlation_adapt([1, 6, 2], [100, 100, 50])
    >>> c.expected.tolist(), c.order.tolist()
    ([0.01, 0.06, 0.04], [1, 2, 0])
    """
    counts = np.asarray(hits, dtype=np.float64)
    made = np.asarray(comparisons, dtype=np.float64)
    before = np.zeros(counts.size) if previous is None else previous.expected
    expected = np.where(made > 0, counts / np.maximum(made, 1.0), before)
    return Correlation(expected, np.argsort(-expected, kind="stable"))


def printed_time_correlation_adapt(
    hits: ArrayLike,
    gamma: float,
    fraction: float,
    basic_window_s: float,
    rates: tuple[float, float],
    period_s: float,
) -> Correlation:
    """Algorithm 2 as printed; fails with ZeroDivisionError when ``fraction`` is 0.

    >>> printed_time_correlation_adapt([1, 6], 0.1, 0.5, 1, (10, 10), 5).expected.round(3).tolist()
    [0.04, 0.24]
    """
    counts = np.asarray(hits, dtype=np.float64)
    volume = gamma * fraction * basic_window_s * rates[0] * rates[1] * period_s
    if volume == 0:
        raise ZeroDivisionError("Algorithm 2, line 5: gamma * r * b * lambda_1 * lambda_2 * T_c")
    return Correlation(counts / volume, np.argsort(-counts, kind="stable"))


@njit(cache=True, nogil=True)
def comparisons_in_order(
    order: IntArray,
    fraction: float,
    owed: float,
    begin: IntArray,
    end: IntArray,
    wanted: IntArray,
) -> float:
    """Algorithm 3, lines 7-15: r * |W_i| tuples, basic windows in order of priority.

    ``begin`` and ``end`` bound the tuples of each basic window, newest first; ``wanted[j]`` becomes
    the number of its newest tuples to compare with. Returns what rounding leaves owed to the next
    tuple.
    """
    n = begin.size
    exact = fraction * (end[0] - begin[n - 1]) + owed
    left = int(exact)
    owed = exact - left
    wanted[:] = 0
    for k in range(n):
        if left <= 0:
            break
        j = order[k]
        wanted[j] = min(left, end[j] - begin[j])
        left -= wanted[j]
    return owed


def direction_adapt(
    fraction: float,
    windows: Windows,
    expected: tuple[float, float],
    *,
    printed: bool = False,
) -> tuple[float, float]:
    """Algorithm 4: r_1 and r_2 with r (w_1 + w_2) = r_1 w_1 + r_2 w_2, the better window first.

    ``expected`` holds o_1 and o_2, outputs per comparison. The printed line 7 divides the budget by
    w_1 instead of w_2, so that with unequal windows the constraint fails.

    >>> direction_adapt(0.4, Windows((10, 30), 1), (2.0, 1.0))
    (1.0, 0.2)
    >>> direction_adapt(0.4, Windows((10, 30), 1), (2.0, 1.0), printed=True)[1].__round__(3)
    1.267
    """
    w1, w2 = windows.window_s
    if expected[0] >= expected[1]:
        first = min(1.0, fraction * (w1 + w2) / w1)
    else:
        first = max(0.0, fraction * (w1 + w2) / w1 - w2 / w1)
    if printed:
        return first, fraction * (w1 + w2) / w1 - first * w1 / w2
    first = min(first, 1.0)  # rounding
    return first, min(1.0, max(0.0, fraction * (w1 + w2) / w2 - first * w1 / w2))


def value_join_adapt(
    fraction: float,
    densities: FloatArray,
    volumes: FloatArray,
) -> FloatArray:
    """Algorithm 5, corrected: r_{i,z,j} by a heap over the best open item of each (window, type).

    ``densities[i, z, j]`` is the utility expected per comparison and ``volumes[i, z, j]`` the
    comparisons per second of comparing tuples of type z with B_{i,j}; zero volumes are absent
    basic windows. Four corrections: the type frequency inside a volume is that of the probing
    stream; volumes are real (the first and last basic windows are half full), so r = 1 takes
    everything; items are ranked by value per comparison; r_{i,z} grows by volume, not by 1/n_i.

    >>> d = np.array([[[3.0, 1.0]], [[2.0, 0.0]]]); v = np.ones((2, 1, 2))
    >>> value_join_adapt(0.375, d, v).tolist()
    [[[1.0, 0.0]], [[0.5, 0.0]]]
    """
    take = np.zeros(densities.shape)
    order = np.argsort(-densities, axis=2, kind="stable")
    left = fraction * float(np.sort(volumes, axis=None).sum())
    heap: list[tuple[float, int, int, int]] = []

    def offer(i: int, z: int, rank: int) -> None:
        if rank < order.shape[2]:
            heapq.heappush(heap, (-float(densities[i, z, order[i, z, rank]]), i, z, rank))

    for i in range(densities.shape[0]):
        for z in range(densities.shape[1]):
            offer(i, z, 0)
    while heap and left > 0:
        _, i, z, rank = heapq.heappop(heap)
        j = int(order[i, z, rank])
        volume = float(volumes[i, z, j])
        if volume > 0:
            take[i, z, j] = min(1.0, left / volume)
            left -= volume
        offer(i, z, rank + 1)
    return take


def printed_value_join_adapt(
    fraction: float,
    windows: Windows,
    rates: tuple[float, float],
    frequencies: FloatArray,
    utilities: FloatArray,
    expected: FloatArray,
) -> FloatArray:
    """Algorithm 5 as printed: r_{i,z}, with omega of the wrong stream and all basic windows full.

    ``expected[i, j]`` is o_{i,j}, ``utilities[i, z]`` is u_{i,z}, ``frequencies[i, z]`` is
    omega_{i,z}. At r = 1 it stops before everything is taken:

    >>> full = printed_value_join_adapt(1.0, Windows((2, 2), 1), (1, 1), np.ones((2, 1)),
    ...                                 np.ones((2, 1)), np.ones((2, 3)))
    >>> full.round(3).tolist()
    [[1.0], [0.333]]
    """
    types = frequencies.shape[1]
    r = np.zeros((2, types))
    orders = [np.argsort(-expected[i, : windows.counts[i]], kind="stable") for i in range(2)]
    heap: list[tuple[float, int, int, int]] = []

    def offer(i: int, z: int, rank: int) -> None:
        n = windows.counts[i]
        o = expected[i, :n]
        worth = float(utilities[i, z] * n * o[orders[i][rank]] / o.sum())
        heapq.heappush(heap, (-worth, i, z, rank))

    for i in range(2):
        for z in range(types):
            offer(i, z, 0)
    product = rates[0] * rates[1]
    left = product * fraction * sum(windows.window_s)
    while heap:
        _, i, z, rank = heapq.heappop(heap)
        n = windows.counts[i]
        volume = float(frequencies[i, z]) * product * windows.basic_window_s
        left -= volume
        if left > 0:
            r[i, z] += 1 / n
        else:
            r[i, z] += (1 + left / volume) / n
            return r
        if rank + 1 < n:
            offer(i, z, rank + 1)
    return r
