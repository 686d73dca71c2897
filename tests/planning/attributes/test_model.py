"""The paper's worked examples and equations."""

from __future__ import annotations

import numpy as np
import pytest

from planning.attributes import model
from planning.errors import InvalidInput


def test_example_3_ranks_a_b_c() -> None:
    table = {"A": [0, 0, 14, 14], "B": [0, 6, 8, 14], "C": [6, 6, 8, 8]}
    deviations = [model.standard_deviation(v) for v in table.values()]
    assert deviations == [7.0, 5.0, 1.0]
    assert model.shedding_order(deviations) == (2, 1, 0)


def test_attributes_are_shed_until_the_amount_is_met() -> None:
    deviations, sizes = [3.0, 1.0, 2.0, 0.5], [8, 4, 2, 1]
    assert model.intra_stream_scheme(deviations, sizes, 0) == ()
    assert model.intra_stream_scheme(deviations, sizes, 1) == (3,)
    assert model.intra_stream_scheme(deviations, sizes, 2) == (1, 3)
    assert model.intra_stream_scheme(deviations, sizes, 6) == (1, 2, 3)
    assert model.intra_stream_scheme(deviations, sizes, 6, keep=(1,)) == (0, 2, 3)


def test_the_central_shedder_gives_every_stream_the_same_drop_rate() -> None:
    rates = [120.0, 60.0, 20.0]
    amounts = model.CentralShedder(capacity=150.0).amounts(rates)
    assert sum(amounts) == pytest.approx(200 - 150)
    assert [a / r for a, r in zip(amounts, rates, strict=True)] == pytest.approx([0.25] * 3)
    assert model.CentralShedder(capacity=500.0).amounts(rates) == (0.0, 0.0, 0.0)


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


def test_lengths_combine_by_least_common_multiple() -> None:
    assert model.combined_length([3, 4]) == model.product_of_lengths([3, 4]) == 12
    assert model.combined_length([4, 6]) == 12
    assert model.product_of_lengths([4, 6]) == 24
