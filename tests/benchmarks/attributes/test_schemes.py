"""The paper's scheme at one capacity, and its central load shedder."""

from __future__ import annotations

import pytest

from benchmarks.attributes import schemes


def test_attributes_are_shed_until_the_amount_is_met() -> None:
    deviations, sizes = [3.0, 1.0, 2.0, 0.5], [8, 4, 2, 1]
    assert schemes.intra_stream_scheme(deviations, sizes, 0) == ()
    assert schemes.intra_stream_scheme(deviations, sizes, 1) == (3,)
    assert schemes.intra_stream_scheme(deviations, sizes, 2) == (1, 3)
    assert schemes.intra_stream_scheme(deviations, sizes, 6) == (1, 2, 3)
    assert schemes.intra_stream_scheme(deviations, sizes, 6, keep=(1,)) == (0, 2, 3)


def test_the_central_shedder_gives_every_stream_the_same_drop_rate() -> None:
    rates = [120.0, 60.0, 20.0]
    amounts = schemes.CentralShedder(capacity=150.0).amounts(rates)
    assert sum(amounts) == pytest.approx(200 - 150)
    assert [a / r for a, r in zip(amounts, rates, strict=True)] == pytest.approx([0.25] * 3)
    assert schemes.CentralShedder(capacity=500.0).amounts(rates) == (0.0, 0.0, 0.0)
