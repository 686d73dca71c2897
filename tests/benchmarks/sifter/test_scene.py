"""Scenes: a small check of the quality bars."""

import numpy as np
import pytest

from benchmarks.sifter.scene import PAPER, WORKLOADS, drawn, loss_table
from planning.sifter.demo import Settings


@pytest.mark.slow
def test_the_cost_tree_beats_the_papers_partitioners_on_fresh_data():
    table = loss_table(
        (*PAPER, "cost_tree"), (16,), (0.1, 0.3, 0.5, 0.7), range(20), WORKLOADS, fresh=30_000
    )
    mean = {key: losses.mean(axis=0) for key, losses in table.items()}
    ratios = {}
    for data, query in WORKLOADS:
        best = np.min([mean[data, query, 16, name] for name in PAPER], axis=0)
        ratios[data, query] = mean[data, query, 16, "cost_tree"] / best
    assert np.mean([ratios[w][2] for w in WORKLOADS[:3]]) <= 0.85
    assert ratios["SKEW", "SKEW"][2] <= 0.70
    assert max(ratio.max() for ratio in ratios.values()) <= 1.03


def test_more_regions_lose_less_and_a_plan_beats_random_dropping():
    scene = drawn(Settings("SKEW", "SKEW"), 3, fresh=20_000)
    coarse = scene.losses(scene.plan("cost_tree", 8), (0.3, 0.5))
    fine = scene.losses(scene.plan("cost_tree", 64), (0.3, 0.5))
    assert (fine < coarse).all()
    assert (coarse < 1).all()
