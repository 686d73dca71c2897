"""What Section 6 varies of the workload."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.joins.workload import BURST, FREQUENCIES
from planning.joins.demo import Workload, arrivals


def test_rates_follow_the_profile() -> None:
    times = arrivals(130, BURST, np.random.default_rng(4))
    for begin, end, rate in ((0, 60, 100), (60, 75, 500), (75, 105, 300), (105, 130, 100)):
        assert np.sum((times >= begin) & (times < end)) == rate * (end - begin)
    assert arrivals(10, 0.0, np.random.default_rng(4)).size == 0


def test_type_frequencies() -> None:
    utilities = np.array([1.0, 0.5, 0.25])
    assert FREQUENCIES["inverse"](utilities) == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert FREQUENCIES["direct"](utilities) == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert FREQUENCIES["uniform"](utilities) == pytest.approx([1 / 3] * 3)
    workload = Workload(type_frequencies=FREQUENCIES["inverse"](utilities))
    left, _ = workload.pair(40, 500, np.random.default_rng(5))
    assert np.bincount(left.kind) / len(left) == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.01)
