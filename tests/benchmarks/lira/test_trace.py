"""Traces of generated cars."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.trace import generate_trace
from planning.errors import InvalidInput


def test_a_part_of_a_trace_has_its_ticks():
    trace = generate_trace(9, cars=20, seconds=60, side_m=6000)
    part = trace.part(10, 40)
    assert (part.nodes, part.ticks) == (20, 30)
    assert part.bounds == trace.bounds == (0.0, 0.0, 6000, 6000)
    np.testing.assert_array_equal(part.positions, trace.positions[:, 10:40])


def test_a_trace_needs_cars_and_time():
    with pytest.raises(InvalidInput, match="at least 1 car"):
        generate_trace(1, cars=0)
    with pytest.raises(InvalidInput, match="2 seconds"):
        generate_trace(1, cars=5, seconds=1)
