"""The workload generator does what Section 6.1 says."""

from __future__ import annotations

import numpy as np
import pytest

from planning.joins.demo import Workload


def test_sizes_popularity_and_rotation() -> None:
    workload = Workload(skew=0.8, shift_s=25.0, cycle_s=40.0)
    left, right = workload.pair(40, 500, np.random.default_rng(1))
    sizes = np.diff(left.first)
    assert sizes.mean() == pytest.approx(5.0, abs=0.05)
    assert sizes.std() == pytest.approx(np.sqrt(1 + 1 / 12), abs=0.05)
    for stream, shift in ((left, 0.0), (right, 25.0)):
        rows = np.repeat(stream.time, np.diff(stream.first))
        first = np.floor(100 * np.mod(rows - shift, 40.0) / 40.0)
        ranks = np.mod(stream.items - first, 100)
        counts = np.bincount(ranks.astype(int), minlength=100)
        assert counts.argmax() == 0
        assert counts[0] / counts[15] == pytest.approx(16**0.8, rel=0.35)


def test_items_of_a_tuple_are_sorted_and_distinct() -> None:
    left, _ = Workload(vocabulary=6).pair(20, 50, np.random.default_rng(2))
    for row in range(len(left)):
        items = left.items[left.first[row] : left.first[row + 1]]
        assert np.all(np.diff(items) > 0)


def test_the_same_seed_gives_the_same_streams() -> None:
    one, two = (Workload().pair(5, 100, np.random.default_rng(9)) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.items, b.items)
        np.testing.assert_array_equal(a.time, b.time)
