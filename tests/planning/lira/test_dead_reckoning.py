"""Fleets, the trace generator, replay and query errors, each against a slow, plain version."""

from __future__ import annotations

import numpy as np
import pytest

from planning.errors import InvalidInput
from planning.lira.dead_reckoning import Fleet, ThresholdMap, reference_run
from planning.lira.queries import generate_queries, query_errors
from planning.lira.replay import levels_between, replay
from planning.lira.trace import Trace, generate_trace

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


def test_a_trace_is_the_same_every_time_and_looks_like_traffic():
    first, second = (generate_trace(9, cars=200, seconds=120, side_m=6000) for _ in range(2))
    np.testing.assert_array_equal(first.positions, second.positions)
    other = generate_trace(10, cars=200, seconds=120, side_m=6000)
    assert not np.array_equal(first.positions, other.positions)
    step = np.hypot(*np.diff(first.positions, axis=1).transpose(2, 0, 1))
    assert step.max() < 45.0
    assert 5.0 < step.mean() < 25.0
    assert 0.0 <= first.positions.min()
    assert first.positions.max() <= 6000.0
    with pytest.raises(InvalidInput, match="at least 1 car"):
        generate_trace(1, cars=0)


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


def test_replay_survives_bad_rows():
    levels = levels_between(5.0, 100.0)
    ids = np.array([1.0, 1, 1, 1, 1, np.nan])
    times = np.array([0.0, 1, 1, 0.5, 3, 4])
    x = np.array([0.0, 0, 50, 0, 1e6, 0])
    seen = replay(ids, times, x, np.zeros(6), levels, 100.0)
    assert seen.objects == 1
    assert seen.rows == 3  # 0.5, 1 and 3; the second row at 1 does not advance
    assert seen.reports[0] >= 1


def test_query_errors_by_the_definition():
    rng = np.random.default_rng(4)
    queries = generate_queries(rng, "random", 12, 300.0, SPACE, np.zeros((0, 2)))
    correct = rng.uniform(0, 1000, (3, 80, 2))
    shed = correct + rng.normal(0, 30, correct.shape)
    correct[1, :5], shed[1, :5] = np.nan, np.nan
    containment, position = np.zeros(12), np.zeros(12)
    for k in range(3):
        for q, (x0, y0, x1, y1) in enumerate(queries):
            inside = [
                {i for i, (x, y) in enumerate(view[k]) if x0 <= x <= x1 and y0 <= y <= y1}
                for view in (correct, shed)
            ]
            containment[q] += len(inside[0] ^ inside[1]) / max(len(inside[0]), 1) / 3
            gaps = [np.hypot(*(shed[k, i] - correct[k, i])) for i in inside[1]]
            position[q] += np.mean(gaps) / 3 if gaps else 0.0
    found = query_errors(queries, correct, shed)
    assert found.containment == pytest.approx(containment.mean())
    assert found.position == pytest.approx(position.mean())
    assert found.containment_deviation == pytest.approx(containment.std())
    assert found.containment_variation == pytest.approx(containment.std() / containment.mean())


def test_empty_results_have_defined_errors():
    queries = np.array([[0.0, 0.0, 1.0, 1.0], [500.0, 500.0, 500.0, 500.0]])
    far = np.array([[[900.0, 900.0]]])
    near = np.array([[[0.5, 0.5]]])
    assert query_errors(queries, far, far).containment == 0.0
    assert query_errors(queries, far, near).containment == 0.5  # one extra item, over two queries
    assert query_errors(queries, near, far).position == 0.0
    assert query_errors(np.zeros((0, 4)), near, far).containment == 0.0


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
