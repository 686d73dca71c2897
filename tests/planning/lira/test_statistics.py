"""The statistics grid against brute force, and what is measured from recorded tracks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.errors import InvalidInput, StatisticsError
from planning.lira.statistics import (
    build,
    cell_ids,
    grid,
    levels_between,
    query_counts,
    replay,
)

UNIT = (0.0, 0.0, 1.0, 1.0)


def overlap(low: float, high: float, a: float, b: float) -> float:
    return max(0.0, min(high, b) - max(low, a))


def brute_force(queries: np.ndarray, cells: int, bounds: tuple[float, ...]) -> np.ndarray:
    """Area of every query in every cell over its area in the space, one by one."""
    x_low, y_low, x_high, y_high = bounds
    width, height = (x_high - x_low) / cells, (y_high - y_low) / cells
    counts = np.zeros((cells, cells))
    for a, b, c, d in queries:
        area = overlap(a, c, x_low, x_high) * overlap(b, d, y_low, y_high)
        for iy in range(cells):
            for ix in range(cells):
                left, bottom = x_low + ix * width, y_low + iy * height
                part = overlap(a, c, left, left + width) * overlap(b, d, bottom, bottom + height)
                counts[iy, ix] += part / area if area else 0.0
    return counts


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_query_counts_equal_brute_force(seed, cells):
    rng = np.random.default_rng(seed)
    bounds = (-3.0, 2.0, 5.0, 4.0)
    corner = rng.uniform([-4, 1], [5, 4], (12, 2))
    queries = np.hstack([corner, corner + rng.uniform(0.01, 3, (12, 2))])
    counts = query_counts(queries, cells, bounds)
    np.testing.assert_allclose(counts, brute_force(queries, cells, bounds), atol=1e-10)


def test_a_query_in_the_space_counts_once_and_cells_it_misses_stay_zero():
    counts = query_counts([[0.1, 0.1, 0.3, 0.4]], 4, UNIT)
    assert counts.sum() == pytest.approx(1.0, abs=1e-11)
    assert (counts[:, 2:] == 0).all()
    assert (counts[2:] == 0).all()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ([0.5, 0.5, 0.5, 0.5], [[0, 0], [0, 1]]),  # a point on the border: the upper cell
        ([1.0, 0.0, 1.0, 1.0], [[0, 0.5], [0, 0.5]]),  # a line along the upper border
        ([-1.0, 0.0, 0.0, 1.0], [[0, 0], [0, 0]]),  # touches the space from outside
        ([2.0, 2.0, 3.0, 3.0], [[0, 0], [0, 0]]),
        ([-9.0, -9.0, 9.0, 9.0], [[0.25, 0.25], [0.25, 0.25]]),
    ],
)
def test_degenerate_queries(query, expected):
    assert query_counts([query], 2, UNIT).tolist() == expected


def test_no_queries():
    assert query_counts(np.empty((0, 4)), 3, UNIT).tolist() == [[0.0] * 3] * 3


def test_borders_belong_to_the_upper_cell_and_the_last_one():
    edge = np.array([0.0, 0.25, 0.5, 0.75, 1.0, np.nextafter(1.0, 2), -1e-300, np.nan])
    flat = np.zeros(len(edge))
    assert cell_ids(edge, flat, 4, UNIT).tolist() == [0, 1, 2, 3, 3, -1, -1, -1]
    assert cell_ids(flat, edge, 4, UNIT).tolist() == [0, 4, 8, 12, 12, -1, -1, -1]


def test_order_of_positions_leaves_no_trace():
    rng = np.random.default_rng(0)
    x, y, speed = rng.random((3, 5000))
    order = rng.permutation(5000)
    one = grid(x, y, speed * 30, np.empty((0, 4)), 8, UNIT)
    two = grid(x[order], y[order], speed[order] * 30, np.empty((0, 4)), 8, UNIT)
    for name in ("nodes", "mean_speed", "queries"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    cell = cell_ids(x, y, 8, UNIT)
    for k in (0, 17, 63):
        mean = np.mean(speed[cell == k] * 30)
        assert one.mean_speed.ravel()[k] == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("bounds", [(0, 0, 0, 1), (0, 1, 1, 0), (0, 0, np.inf, 1)])
def test_impossible_bounds_are_named(bounds):
    with pytest.raises(InvalidInput, match="bounds must be finite"):
        cell_ids(np.zeros(1), np.zeros(1), 4, bounds)


def test_replay_survives_bad_rows():
    levels = levels_between(5.0, 100.0)
    ids = np.array([1.0, 1, 1, 1, 1, np.nan])
    times = np.array([0.0, 1, 1, 0.5, 3, 4])
    x = np.array([0.0, 0, 50, 0, 1e6, 0])
    seen = replay(ids, times, x, np.zeros(6), levels, 100.0)
    assert seen.objects == 1
    assert seen.rows == 3  # 0.5, 1 and 3; the second row at 1 does not advance
    assert seen.reports[0] >= 1


def test_order_of_samples_leaves_no_trace(samples, statistics, define):
    order = np.random.default_rng(0).permutation(len(samples["x"]))
    shuffled = build({n: v[order] for n, v in samples.items()}, define())
    assert shuffled.to_document() == statistics.to_document()


def test_samples_without_use_are_refused(samples, define):
    nowhere = samples | {"x": samples["x"] + 1e5}
    with pytest.raises(StatisticsError, match="inside the space"):
        build(nowhere, define())
    one_each = {n: v[::400] for n, v in samples.items()}
    with pytest.raises(StatisticsError, match="objects that move"):
        build(one_each, define())
    still = samples | {"x": np.full_like(samples["x"], 7.0), "y": np.full_like(samples["y"], 7.0)}
    with pytest.raises(StatisticsError, match="objects that move"):
        build(still, define())
