"""What the operator learns while it runs: densities per item, with forgetting.

Selective processing does not bias this estimate, because hits are set against the comparisons made
with the very same basic window; only items outside the selection need tuples compared with the
whole window. Evidence is kept in two halves, so that a choice made on one can be judged on the
other.
"""

from __future__ import annotations

import math

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.joins import path

CLUSTERING = 2.0  # variance of the number of matches over that of a Poisson count


class OnlineEstimate:
    """Hits, values and comparisons per half and item [half, window, type, basic window]."""

    def __init__(self, values: FloatArray, basic_windows: int, memory_s: float) -> None:
        shape = (2, 2, values.shape[0], basic_windows)
        self.memory_s = memory_s
        self._utilities = values
        self.hits = np.zeros(shape)
        self.value = np.zeros(shape)
        self.square = np.zeros(shape)  # sum of squared utilities, for the error of the value
        self.comparisons = np.zeros(shape)

    def update(self, hits: IntArray, comparisons: IntArray, elapsed_s: float) -> None:
        """Add new counts, shaped as the operator's tally, and forget older ones."""
        kept = math.exp(-elapsed_s / self.memory_s)
        counts = hits.astype(np.float64)
        self.hits = kept * self.hits + np.moveaxis(counts.sum(axis=4), 2, 3)
        self.value = kept * self.value + np.einsum("hijab,ab->hiaj", counts, self._utilities)
        squares = np.einsum("hijab,ab->hiaj", counts, self._utilities**2)
        self.square = kept * self.square + squares
        self.comparisons = kept * self.comparisons + np.moveaxis(comparisons, 2, 3)

    @property
    def evidence(self) -> float:
        """Hits seen, less those forgotten."""
        return float(self.hits.sum())

    def density(self, half: int | None = None, prior_hits: float = 10.0) -> FloatArray:
        """Value per comparison of every item, from one half or both."""
        pick = slice(None) if half is None else slice(half, half + 1)
        value, hits, made = (a[pick].sum(axis=0) for a in (self.value, self.hits, self.comparisons))
        return path.shrunk_density(value, hits, made, prior_hits)

    def measured(self, half: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Value per comparison as measured, of one half or both, and its variance.

        Items never compared get their estimate. Matches come in clusters, so their number varies
        more than a Poisson count; one unseen hit keeps an empty item's variance from zero.
        """
        pick = slice(None) if half is None else slice(half, half + 1)
        value, square, hits, made = (
            a[pick].sum(axis=0) for a in (self.value, self.square, self.hits, self.comparisons)
        )
        usual = square.sum() / max(float(hits.sum()), 1e-12)
        seen = np.maximum(made, 1.0)
        worth = np.where(made > 0, value / seen, self.density(half))
        return worth, CLUSTERING * (square + usual) / seen**2
