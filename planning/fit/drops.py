"""From dropped rates to drop fractions, compiled; shared by all that answer for a rate vector."""

from __future__ import annotations

from numba import njit

from planning.arrays import FloatArray, IntArray

NOTHING = 1e-15
ROUNDING = 1e-12


@njit(cache=True)
def fractions(
    arrive_rates: FloatArray,
    arrive_drops: FloatArray,
    port: IntArray,
    rates: FloatArray,
    dropped: FloatArray,
    out: FloatArray,
) -> None:
    """Turn dropped rates into drop fractions; what does not arrive is kept (0/0 keeps all)."""
    count = arrive_rates.shape[0]
    for a in range(count):
        out[a] = 0.0
        if dropped[a] <= NOTHING:
            continue
        arriving = 0.0
        for k in range(rates.shape[0]):
            arriving += arrive_rates[a, k] * rates[k]
        for b in range(count):
            arriving -= arrive_drops[a, b] * dropped[b]
        if arriving > NOTHING:
            out[a] = min(dropped[a] / arriving, 1.0)
    for a in range(count):
        if port[a] >= 0:
            out[a] = 1.0 - (1.0 - out[port[a]]) * (1.0 - out[a])


@njit(cache=True)
def all_fit(use: FloatArray, rates: FloatArray) -> bool:
    """Whether rates need no shedding at any server or link.

    >>> import numpy as np
    >>> use = np.array([[0.5, 1.0]])
    >>> all_fit(use, np.array([1.0, 0.5])), all_fit(use, np.array([1.0, 0.6]))
    (True, False)
    """
    for n in range(use.shape[0]):
        total = 0.0
        for k in range(rates.shape[0]):
            total += use[n, k] * rates[k]
        if total > 1.0 + ROUNDING:
            return False
    return True
