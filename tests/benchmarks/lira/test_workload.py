"""Generated queries lie where their distribution puts them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.workload import generate_queries
from planning.errors import InvalidInput

SPACE = (0.0, 0.0, 1000.0, 1000.0)


@pytest.mark.parametrize("distribution", ["proportional", "inverse", "random"])
def test_generated_queries_lie_inside_and_have_their_side(distribution):
    rng = np.random.default_rng(2)
    crowd = rng.normal(200, 40, (500, 2)).clip(0, 1000)
    made = generate_queries(rng, distribution, 200, 100.0, SPACE, crowd)
    side = made[:, 2] - made[:, 0]
    np.testing.assert_allclose(side, made[:, 3] - made[:, 1])
    assert 50.0 <= side.min()
    assert side.max() <= 100.0
    assert made.min() >= 0
    assert made.max() <= 1000.0
    near = (np.hypot(*(made[:, :2] - 150).T) < 200).mean()
    if distribution == "proportional":
        assert near > 0.8
    elif distribution == "inverse":
        assert near < 0.2


def test_queries_that_cannot_be_drawn():
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="no node positions"):
        generate_queries(rng, "proportional", 3, 10.0, SPACE, np.zeros((0, 2)))
    with pytest.raises(InvalidInput, match="distribution must be"):
        generate_queries(rng, "even", 3, 10.0, SPACE, np.zeros((0, 2)))
    with pytest.raises(InvalidInput, match="side above 0"):
        generate_queries(rng, "random", 3, 0.0, SPACE, np.zeros((0, 2)))
