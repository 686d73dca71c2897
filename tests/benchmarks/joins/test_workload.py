"""What Section 6 varies of the workload."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.joins.workload import BURST, FREQUENCIES, Workload
from planning.errors import InvalidInput


def test_rates_follow_the_profile() -> None:
    times = Workload().arrivals(130, BURST, np.random.default_rng(4))
    for begin, end, rate in ((0, 60, 100), (60, 75, 500), (75, 105, 300), (105, 130, 100)):
        assert np.sum((times >= begin) & (times < end)) == rate * (end - begin)
    assert Workload().arrivals(10, 0.0, np.random.default_rng(4)).size == 0


def test_type_frequencies() -> None:
    utilities = np.array([1.0, 0.5, 0.25])
    assert FREQUENCIES["inverse"](utilities) == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert FREQUENCIES["direct"](utilities) == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert FREQUENCIES["uniform"](utilities) == pytest.approx([1 / 3] * 3)
    workload = Workload(type_frequencies=FREQUENCIES["inverse"](utilities))
    left, _ = workload.pair(40, 500, np.random.default_rng(5))
    assert np.bincount(left.kind) / len(left) == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.01)


def test_single_values_and_weights() -> None:
    single = Workload(skew=0.6).single_valued(5000)
    left, _ = single.pair(10, 100, np.random.default_rng(3))
    assert np.all(np.diff(left.first) == 1)
    assert left.items.max() < 5000
    weighted, _ = Workload(weighted=True).pair(2, 50, np.random.default_rng(3))
    assert 0.1 <= weighted.weights.min() < weighted.weights.max() <= 1.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocabulary": 0}, "vocabulary must be at least 1"),
        ({"cycle_s": 0.0}, "cycle_s must be positive"),
        ({"type_frequencies": (0.0,)}, "positive sum"),
    ],
)
def test_nonsense_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Workload(**fields)
