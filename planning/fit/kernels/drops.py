"""Drops, compiled: from dropped rates to drop fractions, and the drop operator that applies them.

The drop operator keeps a rank per arc: no random numbers, and whole windows where they count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.simplex.shedding import Arrivals
from planning.pacing import GOLDEN, ONE

if TYPE_CHECKING:
    from planning.fit.shedder import Operators, State

NOTHING = 1e-15
ROUNDING = 1e-12


@njit(cache=True)
def decide(codes: IntArray, operators: Operators, state: State, keep: BoolArray) -> None:
    """Decide on each item by the rank of its span on the arc of its name.

    Every ``span`` items (1, or a batch of windows) the rank moves on; a span that ranks below the
    name's step falls, except for the ``tail`` items that complete the windows of a kept span
    before it.
    """
    step, span, tail = operators
    rank, position, dropping, left, offered, dropped = state
    for k in range(codes.shape[0]):
        name = codes[k]
        offered[name] += 1
        if position[name] == 0:
            dropping[name] = rank[name] < step[name]
            rank[name] = (rank[name] + GOLDEN) % ONE
            if not dropping[name]:
                left[name] = tail[name]
        position[name] += 1
        if position[name] >= span[name]:
            position[name] = 0
        keep[k] = True
        if dropping[name]:
            if left[name] > 0:
                left[name] -= 1
            else:
                keep[k] = False
                dropped[name] += 1


WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = njit(**WITHOUT_WRAPPERS)
"""For what only compiled code calls: compiled in half the time, and kept with its caller."""


@njit(cache=True)
def affine(forms: FloatArray, row: int, rates: FloatArray) -> float:
    """Value of the form in ``row`` at ``rates``: its constant, then its coefficients.

    The row is not sliced off first: compiled code counts references to every slice, which takes
    longer than a short sum.

    >>> import numpy as np
    >>> affine(np.array([[1.0, 2.0, 3.0]]), 0, np.array([10.0, 100.0]))
    321.0
    """
    value: float = forms[row, 0]
    for k in range(rates.shape[0]):
        value += forms[row, k + 1] * rates[k]
    return value


@njit(cache=True)
def fractions(arrivals: Arrivals, rates: FloatArray, dropped: FloatArray, out: FloatArray) -> None:
    """Turn dropped rates into drop fractions; what does not arrive is kept (0/0 keeps all)."""
    per_rate, per_drop, port = arrivals
    count = per_rate.shape[0]
    for a in range(count):
        out[a] = 0.0
        if dropped[a] <= NOTHING:
            continue
        full = 0.0
        for k in range(rates.shape[0]):
            full += per_rate[a, k] * rates[k]
        arriving = full
        for b in range(count):
            arriving -= per_drop[a, b] * dropped[b]
        if arriving > max(NOTHING, ROUNDING * full):
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
