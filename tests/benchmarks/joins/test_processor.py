"""The cost model of random dropping: what it keeps costs exactly the time that is given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.joins.processor import kept_for


@given(st.floats(0.001, 1.0), st.floats(0.0, 1.0))
def test_what_is_kept_costs_the_time_given(time: float, per_tuple: float) -> None:
    kept = kept_for(time, per_tuple)
    assert 0.0 < kept <= 1.0 + 1e-9
    assert per_tuple * kept + (1.0 - per_tuple) * kept**2 == pytest.approx(time, rel=1e-6)
