"""The update-reduction function f(Δ), Section 2.1 and Figure 1, as measured and as planned with.

A measured f is noisy and need not be convex, but Theorem 3.1 (and every exact method here) needs a
convex one. :class:`ReductionCurve` therefore keeps both: ``raw``, what was measured, and ``hull``,
its lower convex hull, which the planner works with. Budgets are checked against ``raw``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, frozen
from planning.errors import StatisticsError, check_between


@dataclass(frozen=True, slots=True, eq=False)
class ReductionCurve:
    """The function f at the breakpoints Δmin = d_0 < … < d_κ = Δmax, with f(Δmin) = 1.

    Attributes
    ----------
    thresholds
        Breakpoints d_k in metres; Δmin + k·c for evenly spaced ones.
    raw
        Measured f(d_k).
    hull
        Largest convex, non-increasing function below ``raw``, at the same breakpoints.
    """

    thresholds: FloatArray
    raw: FloatArray
    hull: FloatArray

    @classmethod
    def of(cls, thresholds: ArrayLike, values: ArrayLike) -> ReductionCurve:
        """Check a measured curve, scale it to f(Δmin) = 1 and add its hull.

        >>> curve = ReductionCurve.of([5, 10, 15], [2.0, 1.5, 0.4])
        >>> curve.raw.tolist(), curve.hull.tolist()
        ([1.0, 0.75, 0.2], [1.0, 0.6, 0.2])
        """
        d = np.asarray(thresholds, dtype=np.float64)
        f = np.asarray(values, dtype=np.float64)
        if d.ndim != 1 or d.shape != f.shape or d.size < 2:
            raise StatisticsError(
                "the update-reduction function must have two or more thresholds, one value each, "
                f"got {d.size} thresholds and {f.size} values; measure f at Δmin and Δmax at least"
            )
        if not (np.isfinite(d).all() and (np.diff(d) > 0).all() and d[0] >= 0):
            raise StatisticsError(
                "thresholds of the update-reduction function must be finite, at least 0 and "
                f"increasing, got {d.tolist()}"
            )
        if not (np.isfinite(f).all() and (f >= 0).all() and f[0] > 0):
            raise StatisticsError(
                "values of the update-reduction function must be finite, at least 0, and positive "
                f"at Δmin, got {f.tolist()}; a trace without updates cannot be measured"
            )
        raw = f / f[0]
        hull = np.minimum.accumulate(lower_hull(d, raw))
        if not hull[-1] < 1.0:
            raise StatisticsError(
                f"the update-reduction function must fall between Δmin and Δmax, got f(Δmin) = 1 "
                f"and at least {raw.min():g} everywhere; raise Δmax or check the trace"
            )
        return cls(frozen(d), frozen(raw), frozen(hull))

    @classmethod
    def even(
        cls, low: float, high: float, segments: int, thresholds: ArrayLike, values: ArrayLike
    ) -> ReductionCurve:
        """Return the curve on κ equal segments of [Δmin, Δmax] (Section 3.3.3), interpolated.

        ``thresholds`` and ``values`` are the points that were measured; they must reach both ends.

        >>> ReductionCurve.even(5, 15, 4, [5, 10, 15], [1, 0.5, 0.3]).thresholds.tolist()
        [5.0, 7.5, 10.0, 12.5, 15.0]
        """
        if segments < 1:
            raise StatisticsError(f"segments must be at least 1, got {segments}")
        d = np.asarray(thresholds, dtype=np.float64)
        if not (d.size and d[0] <= low < high <= d[-1]):
            raise StatisticsError(
                f"the measured thresholds must cover [Δmin, Δmax] = [{low:g}, {high:g}], got "
                f"{d.tolist()}"
            )
        points = low + (high - low) * np.arange(segments + 1) / segments
        return cls.of(points, np.interp(points, d, np.asarray(values, dtype=np.float64)))

    @property
    def low(self) -> float:
        """Δmin, the ideal resolution."""
        return float(self.thresholds[0])

    @property
    def high(self) -> float:
        """Δmax, the lowest resolution that still serves."""
        return float(self.thresholds[-1])

    @property
    def floor(self) -> float:
        """The fraction of updates that remains at Δmax: no budget below it can be met."""
        return float(self.raw[-1])

    def __call__(self, threshold: ArrayLike) -> FloatArray:
        """Return the measured f, linear between breakpoints, constant beyond them."""
        return np.interp(np.asarray(threshold, dtype=np.float64), self.thresholds, self.raw)

    def convex(self, threshold: ArrayLike) -> FloatArray:
        """Return the convexified f."""
        return np.interp(np.asarray(threshold, dtype=np.float64), self.thresholds, self.hull)

    def inverse(self, fraction: float) -> float:
        """Return the smallest Δ whose measured f is at most ``fraction`` (Uniform Δ); else Δmax.

        >>> ReductionCurve.of([5, 10, 15], [1, 0.5, 0.3]).inverse(0.75)
        7.5
        """
        check_between("throttle_fraction", fraction, 0, 1, remedy="pass a fraction")
        met = self.raw <= fraction
        if not met.any():
            return self.high
        k = int(met.argmax())
        if k == 0:
            return self.low
        above, below = self.raw[k - 1], self.raw[k]
        share = (above - fraction) / (above - below)
        return float(self.thresholds[k - 1] + share * (self.thresholds[k] - self.thresholds[k - 1]))


def lower_hull(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the lower convex hull of the points (x_k, y_k), evaluated at every x_k.

    >>> lower_hull(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.9, 0.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    corners: list[int] = []
    for k in range(x.size):
        while len(corners) > 1:
            i, j = corners[-2], corners[-1]
            if (y[j] - y[i]) * (x[k] - x[j]) < (y[k] - y[j]) * (x[j] - x[i]):
                break
            corners.pop()
        corners.append(k)
    return np.asarray(np.interp(x, x[corners], y[corners]), dtype=np.float64)
