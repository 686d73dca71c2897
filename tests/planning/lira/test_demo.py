"""The generated cars look like traffic and are the same every time."""

from __future__ import annotations

import numpy as np

from planning.lira.demo.roads import generate_roads
from planning.lira.demo.trace import drive


def driven(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return drive(generate_roads(rng, 6000), rng, cars=200, seconds=120)


def test_tracks_are_the_same_every_time_and_look_like_traffic():
    first, second = (driven(9) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, driven(10))
    step = np.hypot(*np.diff(first, axis=1).transpose(2, 0, 1))
    assert step.max() < 45.0
    assert 5.0 < step.mean() < 25.0
    assert 0.0 <= first.min()
    assert first.max() <= 6000.0
