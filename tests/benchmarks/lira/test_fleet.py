"""Fleets against a slow, plain version of a node."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.fleet import Fleet, ThresholdMap, reference_run
from benchmarks.lira.trace import Trace, generate_trace
from planning.errors import InvalidInput
from planning.lira.statistics import replay

SPACE = (0.0, 0.0, 1000.0, 1000.0)


def count_reports(trace, thresholds):
    """Return how many reports a fleet sends under each uniform threshold."""
    everywhere = (ThresholdMap.uniform(trace.bounds, level) for level in thresholds)
    return np.array([Fleet(trace).run(one, trace.ticks) for one in everywhere])


def plain_node(track, threshold_at, tick_s=1.0):
    """One node by the definition: report when prediction and truth differ by more than Δ."""
    reports, model, known = 0, None, []
    for tick, place in enumerate(track):
        if np.isnan(place[0]):
            model = None
            known.append((np.nan, np.nan))
            continue
        predicted = None
        if model is not None:
            predicted = model[0] + model[1] * (tick - model[2]) * tick_s
        if predicted is None or np.hypot(*(place - predicted)) > threshold_at(place):
            previous = track[tick - 1] if tick and not np.isnan(track[tick - 1][0]) else place
            model = (place, (place - previous) / tick_s, tick)
            reports += 1
            predicted = place
        known.append(tuple(predicted))
    return reports, np.array(known)


@pytest.fixture(scope="module")
def small_trace() -> Trace:
    return generate_trace(5, cars=40, seconds=240, side_m=3000)


def test_a_fleet_does_what_each_node_would(small_trace):
    rng = np.random.default_rng(0)
    cells = rng.uniform(5, 60, (8, 8))
    map_ = ThresholdMap(small_trace.bounds, cells)

    def at(place):
        column, row = (np.clip((place / 3000 * 8).astype(int), 0, 7))
        return cells[row, column]

    fleet = Fleet(small_trace)
    for until in (1, 60, 61, 240):
        fleet.run(map_, until)
    tracks = small_trace.positions.astype(np.float64)
    plain = [plain_node(track, at) for track in tracks]
    assert fleet.reports == sum(reports - 1 for reports, _ in plain)  # without registrations
    np.testing.assert_allclose(fleet.predicted(), [known[-1] for _, known in plain], atol=1e-6)


def test_absent_nodes_and_standing_still():
    positions = np.full((3, 6, 2), np.nan, dtype=np.float32)
    positions[0] = 10.0  # never moves: registers, and no more
    positions[1, 2:5] = 20.0  # appears later, then leaves
    fleet = Fleet(Trace(positions, 1.0, SPACE))
    fleet.run(ThresholdMap.uniform(SPACE, 5.0), 4)
    assert fleet.reports == 0
    np.testing.assert_allclose(fleet.predicted()[:2], [[10, 10], [20, 20]])
    assert np.isnan(fleet.predicted()[2]).all()
    fleet.run(ThresholdMap.uniform(SPACE, 5.0), 6)
    assert np.isnan(fleet.predicted()[1]).all()
    with pytest.raises(InvalidInput, match="time does not go backwards"):
        fleet.run(ThresholdMap.uniform(SPACE, 5.0), 3)


def test_the_server_is_never_off_by_more_than_the_threshold(small_trace):
    fleet = Fleet(small_trace)
    for until in range(10, 240, 10):
        fleet.run(ThresholdMap.uniform(small_trace.bounds, 25.0), until)
        gap = fleet.predicted() - small_trace.positions[:, until - 1]
        assert np.hypot(*gap.T).max() <= 25.0 + 1e-3


def test_random_drop_admits_its_fraction_and_errs_more(small_trace):
    ticks = np.arange(59, 240, 60)
    reference = reference_run(small_trace, 5.0, ticks)
    everywhere = ThresholdMap.uniform(small_trace.bounds, 5.0)
    fleet = Fleet(small_trace, admit=0.5, seed=1)
    fleet.run(everywhere, 240)
    assert fleet.reports / reference.reports.sum() == pytest.approx(0.5, abs=0.1)
    gap = np.hypot(*(fleet.predicted() - small_trace.positions[:, 239]).T)
    assert gap.mean() > 5.0


def test_updates_fall_with_the_threshold(small_trace):
    counts = count_reports(small_trace, [5.0, 10.0, 30.0, 100.0])
    assert (np.diff(counts) < 0).all()
    assert counts[-1] < 0.5 * counts[0]


def test_replay_counts_like_the_fleet(small_trace):
    """Rows of a dense trace, shuffled: reports (without the first) and errors as in fleets."""
    levels = np.array([5.0, 20.0, 80.0])
    nodes, ticks, _ = small_trace.positions.shape
    ids = np.repeat(np.arange(nodes, dtype=float), ticks)
    times = np.tile(np.arange(ticks, dtype=float), nodes)
    flat = small_trace.positions.reshape(-1, 2).astype(np.float64)
    order = np.random.default_rng(0).permutation(len(ids))
    seen = replay(ids[order], times[order], flat[order, 0], flat[order, 1], levels, 100.0)
    expected = count_reports(small_trace, levels)
    assert seen.objects == nodes
    assert seen.rows == nodes * (ticks - 1)
    # Both start from a registration with velocity 0 that is not counted: they agree exactly.
    assert seen.reports.tolist() == expected.tolist()
    assert seen.error_micro[0] == 0
    assert (np.diff(seen.error_micro) > 0).all()
