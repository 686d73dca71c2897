"""The greedy path equals the linear program's optimum, for every load from one list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.joins import algorithms
from benchmarks.joins.knapsack import optimum
from planning.joins import path

INSTANCES = 1200
LOADS = (0.0, 0.05, 0.3, 0.77, 1.0)


def instance(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return densities and volumes [window, type, basic window]; every third one degenerate."""
    rng = np.random.default_rng(seed)
    shape = (2, int(rng.integers(1, 4)), int(rng.integers(2, 9)))
    density = rng.random(shape) * rng.choice([1e-6, 1.0, 1e3])
    volumes = rng.random(shape)
    if seed % 3 == 0:
        density = rng.choice([0.0, 0.5, 0.5, 1.0], shape)
        volumes = rng.choice([0.0, 1.0, 1.0, 2.0], shape)
    if seed % 30 == 0:
        density = np.zeros(shape)
    if seed % 60 == 0:
        volumes = np.zeros(shape)
    volumes[1, :, -1] = 0.0 if seed % 2 else volumes[1, :, -1]  # the shorter window
    return density, volumes


def test_greedy_equals_the_linear_program() -> None:
    for seed in range(INSTANCES):
        density, volumes = instance(seed)
        order = path.rank(density)  # one list for all loads
        load = LOADS[seed % len(LOADS)]
        budget = load * volumes.sum()
        take = path.fill(order, volumes, budget)
        assert take.min() >= 0.0
        assert take.max() <= 1.0
        assert (take * volumes).sum() <= budget + 1e-9
        scale = max(1.0, float((density * volumes).sum()))
        value = float((take * density * volumes).sum())
        assert value == pytest.approx(optimum(density, volumes, budget), abs=1e-9 * scale), seed
        sorted_take = np.take_along_axis(take, np.argsort(-density, axis=2, kind="stable"), axis=2)
        assert np.all(np.diff(sorted_take, axis=2) <= 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1))
def test_the_heap_of_algorithm_5_takes_the_same_value(seed: int, load: float) -> None:
    density, volumes = instance(seed)
    heap = algorithms.value_join_adapt(load, density, volumes)
    take = path.fill(path.rank(density), volumes, load * volumes.sum())
    worth = density * volumes
    assert (heap * worth).sum() == pytest.approx((take * worth).sum(), rel=1e-9, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1))
def test_more_load_never_takes_less_of_anything(seed: int, a: float, b: float) -> None:
    density, volumes = instance(seed)
    order = path.rank(density)
    low, high = (path.fill(order, volumes, r * volumes.sum()) for r in sorted((a, b)))
    assert np.all(high >= low - 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1), st.booleans())
def test_a_cut_finds_what_filling_takes(seed: int, load: float, at_an_end: bool) -> None:
    density, volumes = instance(seed)
    order = path.rank(density)
    in_turn = volumes.ravel()[order]
    before = np.concatenate(([0.0], np.cumsum(in_turn)[:-1]))
    budget = float(before[int(load * (before.size - 1))] if at_an_end else load * in_turn.sum())
    whole, shares = path.cut(in_turn, before, budget)
    take = np.concatenate([np.ones(whole), shares, np.zeros(order.size - whole - shares.size)])
    np.testing.assert_array_equal(take, path.fill(order, volumes, budget).ravel()[order])


def test_shrinkage_keeps_a_single_type_as_measured_and_pulls_rare_types_together() -> None:
    hits = np.array([[[1e4, 1e6], [0.0, 3.0]]] * 2)
    made = np.array([[[1e7, 1e7], [10.0, 10.0]]] * 2)
    density = path.shrunk_density(hits, hits, made, 30.0)
    assert density[0, 0] == pytest.approx([1e-3, 0.1], rel=0.05)
    assert 0.0 < density[0, 1, 0] < density[0, 1, 1]  # no hit is no proof
    assert density[0, 1, 1] < 0.3
    one = path.shrunk_density(hits[:, :1], hits[:, :1], made[:, :1], 30.0)
    assert one == pytest.approx(hits[:, :1] / made[:, :1], rel=0.01)


def test_nothing_measured_gives_finite_equal_densities() -> None:
    zero = np.zeros((2, 2, 3))
    assert np.ptp(path.shrunk_density(zero, zero, zero, 30.0)) == 0.0
