"""The paper's worked examples and equations."""

from __future__ import annotations

import numpy as np
import pytest

from planning.attributes import model
from planning.attributes.printed.ranking import shedding_order
from planning.errors import InvalidInput


def test_example_3_ranks_a_b_c() -> None:
    table = {"A": [0, 0, 14, 14], "B": [0, 6, 8, 14], "C": [6, 6, 8, 8]}
    deviations = [model.standard_deviation(v) for v in table.values()]
    assert deviations == [7.0, 5.0, 1.0]
    assert shedding_order(deviations) == (2, 1, 0)


def test_smoothing_flattens_a_short_lived_change(rng: np.random.Generator) -> None:
    """Paper IV-B: a sudden rain must not make precipitation look informative."""
    rain = np.zeros(100)
    rain[50] = 10.0
    smooth = model.exponential_moving_average(rain, span=10)
    assert smooth.std() < 0.5 * rain.std()
    assert smooth[:50].max() == 0.0
    assert smooth[50] == pytest.approx(10.0 * 2 / 11)


def test_smoothing_passes_over_nulls() -> None:
    smooth = model.exponential_moving_average([np.nan, 1.0, np.nan, 3.0], span=3)
    assert np.isnan(smooth[0])
    assert smooth[1:].tolist() == [1.0, 1.0, 2.0]


def test_a_span_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ema_span must lie in"):
        model.exponential_moving_average([1.0], span=0.5)
