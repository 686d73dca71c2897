"""The frame, the update-reduction function and the error axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.errors import InvalidInput, StatisticsError
from planning.lira.model import ErrorAxis, Frame, ReductionCurve, lower_hull


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_hull_is_convex_below_and_touches(values):
    x = np.arange(len(values), dtype=float)
    y = np.array(values)
    hull = lower_hull(x, y)
    assert (hull <= y + 1e-12).all()
    assert (np.diff(hull, 2) >= -1e-9).all()
    # The largest convex function below: at every corner it meets a point.
    corner = np.flatnonzero(np.abs(np.diff(hull, 2)) > 1e-9) + 1
    np.testing.assert_allclose(hull[corner], y[corner], atol=1e-9)
    assert hull[0] == y[0]
    assert hull[-1] == y[-1]


@pytest.mark.parametrize(
    ("thresholds", "values", "message"),
    [
        ([5, 10], [1.0, 1.0], "must fall"),
        ([5, 10], [1.0, 2.0], "must fall"),
        ([5, 5], [1.0, 0.5], "increasing"),
        ([5, 10], [0.0, 0.0], "positive at"),
        ([5, 10], [1.0, np.nan], "finite"),
        ([5], [1.0], "two or more"),
    ],
)
def test_a_curve_that_cannot_be_planned_with_is_refused(thresholds, values, message):
    with pytest.raises(StatisticsError, match=message):
        ReductionCurve.of(thresholds, values)


def test_a_bump_is_convexified_and_kept_as_measured():
    curve = ReductionCurve.of([5, 10, 15, 20], [1.0, 0.9, 0.3, 0.35])
    assert curve.raw.tolist() == [1.0, 0.9, 0.3, 0.35]
    np.testing.assert_allclose(curve.hull, [1.0, 0.65, 0.3, 0.3])
    assert curve(10.0) == pytest.approx(0.9)
    assert curve.convex(10.0) == pytest.approx(0.65)


def test_fairness_on_the_axis_is_fairness_in_metres(curve):
    axis = ErrorAxis.of(curve, 7.3)
    for low in np.linspace(5, 60, 200):
        pair = axis.thresholds([low, low + 40.0])
        assert pair[1] - pair[0] <= 40.0 + 1e-9


def test_a_frame_that_spans_nothing_is_refused():
    with pytest.raises(InvalidInput, match="bounds"):
        Frame((0.0, 0.0, 0.0, 1.0), 10, 5.0, 100.0, 95)
    with pytest.raises(InvalidInput, match="Δmin < Δmax"):
        Frame((0.0, 0.0, 1.0, 1.0), 10, 5.0, 5.0, 95)
    with pytest.raises(InvalidInput, match="cells a side"):
        Frame((0.0, 0.0, 1.0, 1.0), 0, 5.0, 100.0, 95)
