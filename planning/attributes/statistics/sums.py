"""What one entity's reports say about each attribute: lag errors and dead-band behaviour.

Holding a value for k reports costs, averaged over the phase, H(k) = (D(0) + … + D(k − 1))/k, where
D(l) is the mean distance of reports l apart; so a short table of D serves every sending period.

Distances are scale-free: 1 is the distance of an unrelated value of the same entity. A number's
squared difference is divided by twice its variance within entities, a category's mismatch by the
probability that two of its values differ. Null against a value counts 1.

Partial sums are made per block of an entity's reports and added in one order, so the NumPy builder
and the Spark app give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.attributes.statistics import loops

BLOCK_REPORTS = 65_536
LAGS = (*range(1, 25), 30, 36, 48, 72, 96, 120, 168)
BANDS = (0.0, *(round(float(b), 6) for b in np.geomspace(0.005, 2.0, 25)))


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Partial sums of one block: rows of the matrices are lags, columns attributes."""

    reports: int
    values: IntArray  # reports that are not null
    squares: FloatArray  # sum of squared deviations from the block's mean
    differing: FloatArray  # ordered pairs of reports that differ, for categories
    lag_squares: FloatArray
    lag_mismatches: FloatArray
    lag_pairs: FloatArray  # per lag

    def flat(self) -> FloatArray:
        """Return all sums as one vector, the form in which Spark ships them."""
        return np.concatenate([
            [float(self.reports)], self.values, self.squares, self.differing,
            self.lag_squares.ravel(), self.lag_mismatches.ravel(), self.lag_pairs,
        ])  # fmt: skip

    @classmethod
    def of_flat(cls, vector: FloatArray, attributes: int, lags: int) -> Spread:
        """Read the vector form back."""
        edges = np.cumsum([1, attributes, attributes, attributes, lags * attributes,
                           lags * attributes])  # fmt: skip
        head, values, squares, differing, s, m, pairs = np.split(vector, edges)
        shape = (lags, attributes)
        return cls(int(head[0]), values.astype(np.int64), squares, differing, s.reshape(shape),
                   m.reshape(shape), pairs)  # fmt: skip


def spread(values: FloatArray, numeric: BoolArray, lags: Sequence[int]) -> Spread:
    """Return the partial sums of one block of one entity's reports, in order."""
    n, m = values.shape
    lag_squares, lag_mismatches = loops.lag_sums(values, numeric, np.array(lags, dtype=np.int64))
    differing = np.zeros(m)
    squares = np.zeros(m)
    present = (~np.isnan(values)).sum(axis=0)
    for j in range(m):
        if numeric[j]:
            column = values[~np.isnan(values[:, j]), j]
            if len(column):
                squares[j] = float(((column - column.mean()) ** 2).sum())
            continue
        counts = np.unique(np.nan_to_num(values[:, j], nan=-1.0), return_counts=True)[1]
        differing[j] = float(n) * n - float((counts.astype(np.float64) ** 2).sum())
    pairs = np.array([max(0, n - lag) for lag in lags], dtype=np.float64)
    return Spread(n, present, squares, differing, lag_squares, lag_mismatches, pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """What distances are divided by, and the normalised lag errors D."""

    scale: FloatArray  # of a number: sqrt(2 variance); of a category: sqrt(P(two values differ))
    lag_error: FloatArray  # (lags, attributes)
    present: FloatArray  # fraction of reports that are not null


def combine(blocks: Sequence[Spread], numeric: BoolArray) -> Scales:
    """Add the blocks' sums, in the given order, and normalise."""
    reports = sum(b.reports for b in blocks)
    values = np.sum([b.values for b in blocks], axis=0)
    freedom = np.sum([np.maximum(b.values - 1, 0) for b in blocks], axis=0)
    squares = np.sum([b.squares for b in blocks], axis=0)
    differing = np.sum([b.differing for b in blocks], axis=0)
    possible = float(sum(b.reports * (b.reports - 1) for b in blocks))
    variance = np.divide(squares, freedom, out=np.zeros(len(numeric)), where=freedom > 0)
    impurity = differing / possible if possible else np.zeros(len(numeric))
    unit = np.where(numeric, 2.0 * variance, impurity)
    pairs = np.sum([b.lag_pairs for b in blocks], axis=0)
    lag_squares = np.sum([b.lag_squares for b in blocks], axis=0)
    mismatches = np.sum([b.lag_mismatches for b in blocks], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.where(unit > 0, lag_squares / unit, 0.0) + mismatches
        categories = np.where(unit > 0, mismatches / unit, 0.0)
        error = np.where(numeric, numbers, categories) / pairs[:, None]
    for row in range(len(error)):
        if pairs[row] == 0:  # too few reports: as bad as the lag before it, or as unrelated
            error[row] = error[row - 1] if row else np.where(unit > 0, 1.0, 0.0)
    return Scales(np.sqrt(unit), error, values / reports if reports else values * 0.0)


def band_sums(
    block: FloatArray, numeric: BoolArray, role: IntArray, scale: FloatArray, refresh: int
) -> FloatArray:
    """Return (values sent, error) per dead band and attribute, and tuples sent, of one block.

    The last column of a matrix with one row per band is the tuples.
    """
    sent, error, tuples = loops.dead_band_sums(
        block, numeric, role, scale, np.array(BANDS), refresh
    )
    return np.column_stack([sent, error, tuples])


def hold_error(lags: Sequence[int], lag_error: FloatArray, period: int) -> float:
    """Return H(k): the error of holding one attribute's value for ``period`` reports.

    Lags between the measured ones are interpolated; beyond them the last one counts. A period of
    0 (never sent) counts as an unrelated value, 1.

    >>> hold_error((1, 2), np.array([0.2, 0.4]), 3)
    0.2
    """
    if period == 0:
        return 1.0 if lag_error.max(initial=0.0) > 0 else 0.0
    distance = np.interp(np.arange(period), (0, *lags), (0.0, *lag_error))
    return float(round(distance.sum() / period, 12))
