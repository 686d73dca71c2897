"""Algorithm 3 on the operator: the share that was set, basic windows in order of priority."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.joins.algorithms import comparisons_in_order
from benchmarks.joins.ordered import Ordered
from benchmarks.joins.scene import Scene
from benchmarks.joins.strategies import Fixed
from benchmarks.joins.workload import Workload
from planning.joins.model import Condition, Windows

OLDEST_FIRST = np.tile(np.arange(11)[::-1], (2, 1, 1))


def test_basic_windows_are_compared_by_priority_and_rounding_is_owed() -> None:
    begin, end = np.array([8, 4, 0]), np.array([10, 8, 4])  # ten tuples, newest first
    order, wanted = np.array([2, 0, 1]), np.zeros(3, dtype=np.int64)
    assert comparisons_in_order(order, 0.55, 0.0, begin, end, wanted) == pytest.approx(0.5)
    assert wanted.tolist() == [1, 0, 4]
    assert comparisons_in_order(order, 0.55, 0.5, begin, end, wanted) == pytest.approx(0.0)
    assert wanted.tolist() == [2, 0, 4]


@pytest.mark.parametrize("share", [0.0, 0.13, 0.5, 1.0])
def test_the_share_of_comparisons_is_what_was_set(share: float) -> None:
    scene = Scene(
        Workload(vocabulary=20), Windows((10.0, 10.0), 1.0), Condition("overlap", 2), rates=50.0,
        budget=1e15, seconds=30.0, warm_up_s=12.0,
    )  # fmt: skip
    trace = scene.run(Fixed(Ordered.of(OLDEST_FIRST, np.full((2, 1), share))))
    hits, possible = scene.full
    assert trace.made.sum() / possible.sum() == pytest.approx(share, abs=5e-3)
    assert np.all(trace.hits <= hits)
    assert np.all(trace.fractions[1:] == share)
    if share == 0.13:
        assert trace.made[:, :8].sum() == 0  # an eighth of the window is its old end
