"""True errors on fresh positions: the plan against the baselines, generated and recorded."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.bench import Bench
from benchmarks.lira.fleet import ThresholdMap
from benchmarks.lira.recorded import dense_trace, load_tracks
from benchmarks.lira.trace import generate_trace
from planning.errors import StatisticsError


@pytest.mark.parametrize("z", [0.4, 0.6])
def test_the_plan_errs_less_than_every_baseline_at_equal_updates(scene, z):
    queries = scene.queries("proportional", 40)
    ours = scene.bench.plan(queries, z, scene.plan(queries, z))
    drop = scene.bench.random_drop(queries, z)
    uniform = scene.bench.uniform(queries, z, scene.curve)
    printed = scene.measure(queries, scene.printed(queries, z), z)
    assert ours.errors.position < printed.errors.position < uniform.errors.position
    assert uniform.errors.position < drop.errors.position
    for result in (ours, uniform, printed):
        assert result.updates == pytest.approx(z, rel=0.02)


def test_correction_brings_updates_to_z(scene):
    queries = scene.queries("inverse", 40)
    plan = scene.plan(queries, 0.5)
    without = scene.bench.plan(queries, 0.5, plan, correct=False)
    corrected = scene.bench.plan(queries, 0.5, plan)
    assert abs(corrected.updates - 0.5) <= 0.01
    assert abs(corrected.updates - 0.5) < abs(without.updates - 0.5)


def test_the_lowest_threshold_everywhere_has_no_error(scene):
    queries = scene.queries("random", 20)
    everywhere = ThresholdMap.uniform(scene.trace.bounds, 5.0)
    result = scene.measure(queries, lambda _: everywhere, 1.0)
    assert result.errors.position == pytest.approx(0.0, abs=1e-3)
    assert result.errors.containment == 0.0
    assert result.updates == 1.0


def test_the_speed_factor_can_be_switched_on(scene):
    queries = scene.queries("proportional", 40)
    plain = scene.plan(queries, 0.5, regions=60)
    by_speed = scene.plan(queries, 0.5, regions=60, speed_factor=True)
    assert plain.to_bytes() != by_speed.to_bytes()
    assert scene.bench.plan(queries, 0.5, by_speed).updates == pytest.approx(0.5, rel=0.02)


def test_a_bench_needs_time_to_measure():
    with pytest.raises(StatisticsError, match="more than 360 ticks"):
        Bench(generate_trace(1, cars=5, seconds=100, side_m=3000), 5.0)


def test_recorded_tracks_become_dense_where_they_are_known():
    ids = np.array([7.0, 7.0, 7.0, 9.0, np.nan])
    times = np.array([0.0, 10.0, 500.0, 5.0, 1.0])
    x = np.array([0.0, 100.0, 900.0, 50.0, 1.0])
    trace = dense_trace(ids, times, x, np.zeros(5), tick_s=5.0, longest_gap_s=60.0)
    assert trace.positions.shape == (2, 101, 2)
    np.testing.assert_allclose(trace.positions[0, :3, 0], [0.0, 50.0, 100.0])
    assert np.isnan(trace.positions[0, 3:100]).all()  # a gap of 490 s is not filled
    assert trace.positions[0, 100, 0] == 900.0
    assert np.isfinite(trace.positions[1, :, 0]).nonzero()[0].tolist() == [1]
    with pytest.raises(StatisticsError, match="at least one finite row"):
        dense_trace(ids[-1:], times[-1:], x[-1:], x[-1:], tick_s=1.0, longest_gap_s=1.0)


@pytest.mark.parametrize("number", [0, 1], ids=["buses", "vessels"])
def test_recorded_tracks_err_less_than_under_the_baselines(number, shared_data):
    tracks = load_tracks(shared_data)[number]
    scene = tracks.scene()
    queries = tracks.queries(scene)
    centres = (queries[:, :2] + queries[:, 2:]) / 2
    assert len(np.unique(centres.round(-3), axis=0)) > 15  # not the few objects of the first tick
    ours = scene.bench.plan(queries, 0.5, scene.plan(queries, 0.5))
    assert ours.errors.position < scene.bench.random_drop(queries, 0.5).errors.position
    uniform = scene.bench.uniform(queries, 0.5, scene.curve)
    assert ours.errors.position < uniform.errors.position
    assert ours.updates == pytest.approx(0.5, rel=0.05)
