"""Algorithm 3 on the compiled operator: basic windows in order of priority, one fraction for all.

The operator knows only fractions of each basic window. Before a tuple is processed, the numbers of
comparisons that Algorithm 3 wants are written into the selection's carries, with fractions of zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from benchmarks.joins.algorithms import comparisons_in_order
from planning.arrays import FloatArray, IntArray
from planning.joins.engine import Selection, probe, storage
from planning.joins.engine.probe import Rules, Tally
from planning.joins.engine.storage import Scratch, State


class Ordered(NamedTuple):
    """An order of basic windows with r_{i,z}, instead of fractions of each."""

    order: IntArray  # [2, Z, n] s_i^j
    fraction: FloatArray  # [2, Z] r_{i,z}
    owed: FloatArray  # [2, Z] fractions of tuples, so that rounding does not add up

    @classmethod
    def of(cls, order: IntArray, fraction: FloatArray) -> Ordered:
        """Return Algorithm 3's selection: fraction r_{i,z} of the window, in order s_i^j."""
        shares = np.ascontiguousarray(np.clip(fraction, 0.0, 1.0))
        return cls(np.ascontiguousarray(order), shares, np.zeros(fraction.shape))

    @classmethod
    def none(cls, types: int) -> Ordered:
        """Return an order that leaves the choice to the operator's own selection."""
        return cls(np.zeros((2, types, 0), dtype=np.int64), np.zeros((2, types)), np.zeros((2, 0)))

    def selection(self) -> Selection:
        """Return the operator's selection that the order is written into, tuple by tuple."""
        granted = Selection.of_fractions(np.ones(self.order.shape))
        return granted._replace(take=np.zeros(self.order.shape))


@njit(cache=True, nogil=True)
def arrange(
    ordered: Ordered, state: State, time: float, stream: int, kind: int, rules: Rules,
    selection: Selection, scratch: Scratch, tally: Tally,
) -> float:
    """Write what Algorithm 3 wants of the tuple into the selection; return what is owed after it.

    Only tuples that are not compared with the whole window owe it.
    """
    i = 1 - stream
    n = rules.counts[i]
    late = time < tally.now[0]
    now = max(time, tally.now[0])
    epoch = int(np.floor((now - rules.origin_s) / rules.basic_window_s))
    storage.advance(
        state, i, epoch, now, rules.window_s[i], rules.basic_window_s, rules.access
    )
    head = probe.head_for(state.meta[i], state.time[i], time, late, rules.window_s[i])
    storage.cut(state.meta[i], state.starts[i], head, n, scratch.begin, scratch.end)
    wanted = scratch.window[:n]
    owed = comparisons_in_order(
        ordered.order[i, kind], ordered.fraction[i, kind], ordered.owed[i, kind],
        scratch.begin[:n], scratch.end[:n], wanted,
    )
    for j in range(n):
        selection.carry[i, kind, j] = wanted[j]
    return owed
