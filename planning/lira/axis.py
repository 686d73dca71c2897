"""From thresholds to expected error: the axis on which throttlers are chosen.

Measured against the positions that Δmin would give, the mean error of a node with threshold Δ is
close to slope·(Δ − Δmin + departure) for every Δ > Δmin and 0 at Δmin: a node that leaves the
schedule of Δmin is out of step with it at once, whatever its Δ. So the objective Σ m_i·Δ_i, which
takes the first metre for the cheapest, is replaced by Σ m_i·(Δ_i + departure·[Δ_i > Δmin]). On the
axis a(Δ) = Δ + departure (and a(Δmin) = Δmin) that is linear again and everything exact stays
exact. A departure of 0 is the paper's objective. Fairness on this axis implies fairness in metres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import FloatArray, frozen
from planning.lira.reduction import ReductionCurve


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


def fit_errors(thresholds: FloatArray, errors: FloatArray) -> tuple[float, float]:
    """Return slope and departure of the line through the measured errors above Δmin.

    >>> fit_errors(np.array([5.0, 6.0, 10.0]), np.array([0.0, 1.5, 3.5]))
    (0.5, 2.0)
    """
    d = np.asarray(thresholds, dtype=np.float64) - thresholds[0]
    e = np.asarray(errors, dtype=np.float64)
    if d.size < 3 or not (e[1:] > 0).any():
        return (float(e[-1] / d[-1]) if d[-1] > 0 and e[-1] > 0 else 1.0), 0.0
    x, y = d[1:], e[1:]
    centre = x.mean()
    slope = float(((x - centre) * (y - y.mean())).sum() / ((x - centre) ** 2).sum())
    if not slope > 0:
        return max(float(y.mean() / x.mean()), 1e-12), 0.0
    departure = float(y.mean() / slope - centre)
    return round(slope, 12), round(min(max(departure, 0.0), float(d[-1])), 12)
