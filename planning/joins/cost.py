"""Measured cost of a join: seconds per tuple and per comparison, told apart as they vary."""

from __future__ import annotations

import numpy as np

FORGET = 0.85
TINY = 1e-12


class MeasuredCost:
    """Least squares of seconds on tuples and comparisons, older batches weighing less.

    A tuple costs something even if it is compared with nothing, so the cost per comparison alone
    would promise too much at small r.

    Examples
    --------
    >>> cost = MeasuredCost(None)
    >>> for tuples, comparisons in ((10, 1000), (10, 3000), (20, 1000)):
    ...     cost.observe(tuples, comparisons, 2e-6 * tuples + 1e-9 * comparisons)
    >>> round(cost.affordable(1e-3, 100) / 1e5)
    8
    """

    def __init__(self, per_comparison_s: float | None) -> None:
        self.per_tuple_s = 0.0
        self.per_comparison_s = per_comparison_s
        self._moments = np.zeros((2, 2))
        self._products = np.zeros(2)

    def observe(self, tuples: int, comparisons: int, seconds: float) -> None:
        """Learn from one batch."""
        if tuples <= 0 or comparisons <= 0 or not seconds > 0:
            return
        row = np.array([float(tuples), float(comparisons)])
        self._moments = FORGET * self._moments + np.outer(row, row)
        self._products = FORGET * self._products + row * seconds
        (aa, ab), (_, bb) = self._moments
        scale = aa * bb - ab * ab
        if scale > 1e-6 * aa * bb:
            per_tuple = (self._products[0] * bb - self._products[1] * ab) / scale
            per_comparison = (self._products[1] * aa - self._products[0] * ab) / scale
            if per_tuple >= 0 and per_comparison > 0:
                self.per_tuple_s, self.per_comparison_s = per_tuple, per_comparison
                return
        # Both move together: all cost is put on comparisons.
        self.per_tuple_s, self.per_comparison_s = 0.0, max(self._products[1] / bb, TINY)

    def affordable(self, seconds: float, tuples: float) -> float:
        """Comparisons that fit into ``seconds`` of work on so many tuples; unlimited if unknown."""
        if not self.per_comparison_s:
            return float("inf")
        return max(seconds - self.per_tuple_s * tuples, 0.0) / self.per_comparison_s
