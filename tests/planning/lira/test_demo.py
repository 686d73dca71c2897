"""The generated cars look like traffic and are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from planning.errors import InvalidInput
from planning.lira.demo.trace import generate_trace


def test_a_trace_is_the_same_every_time_and_looks_like_traffic():
    first, second = (generate_trace(9, cars=200, seconds=120, side_m=6000) for _ in range(2))
    np.testing.assert_array_equal(first.positions, second.positions)
    other = generate_trace(10, cars=200, seconds=120, side_m=6000)
    assert not np.array_equal(first.positions, other.positions)
    step = np.hypot(*np.diff(first.positions, axis=1).transpose(2, 0, 1))
    assert step.max() < 45.0
    assert 5.0 < step.mean() < 25.0
    assert 0.0 <= first.positions.min()
    assert first.positions.max() <= 6000.0
    with pytest.raises(InvalidInput, match="at least 1 car"):
        generate_trace(1, cars=0)
