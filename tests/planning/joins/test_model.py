"""Basic windows cover their window, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.joins.model import Windows, coverage, mean_extent


@given(st.floats(0.05, 30), st.floats(0.05, 10))
def test_extents_add_up_to_the_window(window_s: float, b: float) -> None:
    windows = Windows((window_s, window_s), b)
    assert windows.extents_s.sum(axis=1) == pytest.approx([window_s, window_s])


def test_extents_equal_the_mean_coverage() -> None:
    for window_s, b in ((20.0, 1.0), (2.5, 1.0), (0.4, 1.0), (3.0, 0.7)):
        xs = (np.arange(20_000) + 0.5) / 20_000
        for j in range(1, Windows((window_s, window_s), b).counts[0] + 1):
            lengths = [high - low for low, high in (coverage(j, x, window_s, b) for x in xs)]
            assert mean_extent(j, window_s, b) == pytest.approx(np.mean(lengths), abs=1e-3)
