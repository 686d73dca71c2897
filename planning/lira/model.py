"""The paper's nouns and equations: the frame, the update-reduction function, the error axis.

**f(Δ)** (Section 2.1, Figure 1). A measured f is noisy and need not be convex, but Theorem 3.1 (and
every exact method here) needs a convex one. :class:`ReductionCurve` therefore keeps both: ``raw``,
what was measured, and ``hull``, its lower convex hull, which the planner works with. Budgets are
checked against ``raw``.

**The error axis**, on which throttlers are chosen. Measured against the positions that Δmin would
give, the mean error of a node with threshold Δ is close to slope·(Δ − Δmin + departure) for every
Δ > Δmin and 0 at Δmin: a node that leaves the schedule of Δmin is out of step with it at once,
whatever its Δ. So the objective Σ m_i·Δ_i, which treats the first metre as the cheapest, is
replaced by Σ m_i·(Δ_i + departure·[Δ_i > Δmin]). On the axis a(Δ) = Δ + departure (and a(Δmin) =
Δmin) that is linear again and everything exact stays exact. A departure of 0 is the paper's
objective. Fairness on this axis implies fairness in metres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, frozen
from planning.errors import InvalidInput, StatisticsError

Bounds = tuple[float, float, float, float]
"""x_low, y_low, x_high, y_high of the space, metres."""


def check_bounds(bounds: Bounds, cells: int = 1) -> Bounds:
    """Return the bounds if they span a space that can be divided into cells."""
    if cells < 1:
        raise InvalidInput(f"cells must be at least 1 a side, got {cells}")
    x_low, y_low, x_high, y_high = (float(b) for b in bounds)
    finite = bool(np.isfinite([x_low, y_low, x_high, y_high]).all())
    if not (finite and x_low < x_high and y_low < y_high):
        raise InvalidInput(
            "bounds must be finite with x_low < x_high and y_low < y_high, got "
            f"{x_low:g}, {y_low:g}, {x_high:g}, {y_high:g}"
        )
    return x_low, y_low, x_high, y_high


@dataclass(frozen=True, slots=True)
class Frame:
    """What plan, stations and nodes agree on before any plan exists.

    Attributes
    ----------
    bounds
        x_low, y_low, x_high, y_high of the space, metres.
    side
        α, cells on each side of the statistics grid.
    low, high, segments
        Δmin, Δmax and κ: all but a few throttlers are Δmin + k·(Δmax − Δmin)/κ.
    """

    bounds: Bounds
    side: int
    low: float
    high: float
    segments: int

    def __post_init__(self) -> None:
        check_bounds(self.bounds)
        if not (0 <= self.low < self.high < np.inf and 1 <= self.segments <= 4096):
            raise InvalidInput(
                "thresholds must satisfy 0 <= Δmin < Δmax with 1 to 4096 segments, got "
                f"{self.low:g}, {self.high:g} and {self.segments}"
            )
        if not 1 <= self.side <= 8192:
            raise InvalidInput(f"the grid must have 1 to 8192 cells a side, got {self.side}")

    @property
    def thresholds(self) -> FloatArray:
        """The breakpoints Δmin + k·c."""
        return self.low + (self.high - self.low) * np.arange(self.segments + 1) / self.segments

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell, metres."""
        x_low, y_low, x_high, y_high = self.bounds
        return (x_high - x_low) / self.side, (y_high - y_low) / self.side


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
        """Δmax, the lowest resolution that is still acceptable."""
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


@dataclass(frozen=True, slots=True, eq=False)
class ErrorAxis:
    """The map between thresholds and the planning axis, and f on that axis.

    >>> curve = ReductionCurve.of([5, 6, 10, 20], [1.0, 0.9, 0.6, 0.5])
    >>> axis = ErrorAxis.of(curve, departure=4.0)
    >>> axis.curve.thresholds.tolist(), axis.thresholds([5, 10, 14]).tolist()
    ([5.0, 10.0, 14.0, 24.0], [5.0, 6.0, 10.0])
    """

    curve: ReductionCurve  # f over the axis
    levels: FloatArray  # the thresholds at its breakpoints

    @classmethod
    def of(cls, curve: ReductionCurve, departure: float) -> ErrorAxis:
        """Shift all thresholds but Δmin by the departure."""
        shifted = curve.thresholds + departure
        shifted[0] = curve.low
        return cls(ReductionCurve.of(shifted, curve.raw), frozen(curve.thresholds))

    def thresholds(self, places: ArrayLike) -> FloatArray:
        """Return the thresholds at places on the axis."""
        return np.interp(
            np.asarray(places, dtype=np.float64), self.curve.thresholds, self.levels
        )


def fitted_departure(thresholds: FloatArray, errors: FloatArray) -> float:
    """Return the departure of the line through the measured errors above Δmin.

    >>> fitted_departure(np.array([5.0, 6.0, 10.0]), np.array([0.0, 1.5, 3.5]))
    2.0
    """
    if thresholds.size < 3 or not (errors[1:] > 0).any():
        return 0.0
    x, y = thresholds[1:] - thresholds[0], errors[1:]
    centre = x.mean()
    slope = float(((x - centre) * (y - y.mean())).sum() / ((x - centre) ** 2).sum())
    if not slope > 0:
        return 0.0
    departure = float(y.mean() / slope - centre)
    return round(min(max(departure, 0.0), float(x[-1])), 12)
