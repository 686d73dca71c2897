"""The cost model keeps its accounts, and the bars hold in it on short streams."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.joins import costmodel, experiments
from benchmarks.joins.knapsack import optimum
from benchmarks.joins.scene import BUDGET, Scene, best_value, outputs
from benchmarks.joins.strategies import Fixed
from benchmarks.joins.workload import Workload
from planning.joins.engine import Selection
from planning.joins.model import Condition, Windows, tuples

SHORT = Scene(Workload(skew=0.8), seconds=30.0)


def test_every_tuple_is_fetched_dropped_or_waiting_and_the_budget_holds() -> None:
    for way in (SHORT.random(), SHORT.adaptive(time=True, direction=True), SHORT.planned()):
        trace = SHORT.run(way)
        assert trace.arrived.sum() == sum(len(part) for part in SHORT.streams)
        # Work is counted when it begins: a tick may hold the rest of the tick before.
        busiest = np.convolve(trace.cost, np.ones(8)).max()
        assert busiest <= BUDGET * (8 * 0.25) + 2 * 10_000
        assert trace.cost.sum() == trace.comparisons.sum()


def test_an_unlimited_processor_makes_the_complete_join() -> None:
    scene = SHORT.but(budget=1e15)
    trace = scene.run(scene.random())
    hits, made = scene.full
    np.testing.assert_array_equal(trace.hits, hits)
    np.testing.assert_array_equal(trace.made, made)
    assert trace.dropped.sum() == 0


def test_a_budget_of_zero_makes_no_comparison_and_no_crash() -> None:
    scene = SHORT.but(budget=0.0, warm_up_s=0.0, seconds=5.0)
    for way in (scene.random(), scene.adaptive(time=True, utility=True), scene.planned()):
        trace = scene.run(way)
        assert trace.total("matches", 2.0) == 0


def test_one_silent_stream_and_no_tuples_at_all() -> None:
    left, _ = SHORT.streams
    nothing = tuples([], [])
    trace = costmodel.run(
        left, nothing, SHORT.windows, SHORT.condition, SHORT.planned(), budget=BUDGET
    )
    assert trace.matches.sum() == 0
    assert trace.dropped.sum() == 0
    empty = costmodel.run(
        nothing, nothing, SHORT.windows, SHORT.condition, SHORT.online(), budget=BUDGET
    )
    assert empty.matches.sum() == 0


def test_the_same_run_gives_the_same_numbers() -> None:
    one, two = (SHORT.run(SHORT.online()) for _ in range(2))
    np.testing.assert_array_equal(one.matches, two.matches)
    np.testing.assert_array_equal(one.cost, two.cost)


def test_the_bound_is_the_linear_program() -> None:
    hits, made = SHORT.full
    volumes = np.moveaxis(made, 1, 2).astype(float)
    value = np.moveaxis(hits.sum(axis=3), 1, 2)
    density = value / np.maximum(volumes, 1.0)
    scale = volumes.sum()
    bound = best_value(hits, made, np.ones((1, 1)), 0.1 * scale)
    assert optimum(density, volumes / scale, 0.1) * scale == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(("skew", "gain"), [(0.6, 2.5), (0.8, 4.8)])
def test_plan_and_online_estimate_against_random_dropping(skew: float, gain: float) -> None:
    scene = Scene(Workload(skew=skew), seconds=60.0)
    out = outputs(
        scene, {"random": Scene.random, "plan": Scene.planned, "online": Scene.online}
    )
    assert out["plan"] >= gain * out["random"]
    assert out["plan"] >= 0.97 * scene.bound()
    assert out["online"] >= 0.90 * scene.bound()
    assert out["plan"] <= 1.02 * scene.bound()


def test_waiting_tuples_lose_nothing_at_the_old_end_of_the_window() -> None:
    """A tuple that has waited is compared with its own window, which ends later than the clock's.

    The streams match best at an age of w, so that much of the budget goes there.
    """
    scene = Scene(Workload(skew=0.2, shift_s=20.0), seconds=40.0)
    plan = scene.plan()
    trace = scene.run(scene.planned(plan, watch=False))
    assert (trace.made[:, -1, 0] / trace.made.sum()).min() > 0.1
    density = trace.hits[:, -1, 0, 0] / trace.made[:, -1, 0]
    assert density == pytest.approx(plan.hits[:, 0, -1] / plan.comparisons[:, 0, -1], rel=0.15)
    assert trace.total("matches", 40.0) > 1.04 * scene.output(scene.random()) * scene.seconds


def test_without_correlation_plan_and_random_dropping_tie() -> None:
    scene = Scene(Workload(skew=0.0), seconds=30.0)
    beside = experiments.beside_random("κ=0", scene, most_seeds=2)
    assert beside.planned.mean() == pytest.approx(1.0, abs=4 * beside.error(1.5))
    assert beside.online.mean() == pytest.approx(1.0, abs=4 * beside.error(1.5))
    assert beside.planned.size == 2
    assert beside.flat


def test_the_clustering_of_matches_is_measured() -> None:
    rng = np.random.default_rng(1)
    ratios = [rng.normal(1.0, 3.0 * np.sqrt(2.0 / 1e4), (2, 6)) for _ in range(200)]
    settings = [experiments.Beside("x", True, a, b, 1e4) for a, b in ratios]
    assert experiments.clustering(settings) == pytest.approx(3.0, rel=0.1)
    assert settings[0].error(3.0) == pytest.approx(3.0 * np.sqrt(2.0 / 6e4))
    assert experiments.clustering([]) == 2.0


def test_feed_forward_beats_algorithm_1_in_the_burst() -> None:
    scene = experiments.burst_scene(0.8)
    bursts = {b.name: b for b in experiments.burst_outputs(scene)}
    ours = bursts["feed-forward with the plan"]
    bound = experiments.burst_bound(scene)
    assert 0.95 * bound <= ours.burst <= 1.01 * bound
    assert ours.burst >= 1.25 * bursts["Algorithm 1"].burst
    assert ours.burst >= 1.25 * bursts["Algorithm 1 with the plan"].burst
    assert ours.burst >= 1.25 * bursts["Algorithms 1-4"].burst
    assert ours.trace.total("dropped") == 0


def test_algorithm_5_beats_algorithm_4_where_both_directions_are_valuable() -> None:
    for r, fourth, fifth, ratio, _ in experiments.directions((0.1,)):
        assert ratio >= 1.3, r
        assert fifth == pytest.approx(ratio * fourth)


def test_utility_based_shedding_gains_where_rare_tuples_matter() -> None:
    scene = experiments.utility_scene(np.array([1.0, 2.0**-4, 3.0**-4]), "inverse")
    gain = experiments.utility_improvement(scene.but(seconds=30.0), 2, seconds=60.0)
    assert gain >= 1.5  # the bar of 1.8 is measured over 30 seeds, in the benchmark
    flat = experiments.utility_scene(np.ones(3), "uniform").but(seconds=30.0)
    assert experiments.utility_improvement(flat, seconds=60.0) == pytest.approx(1.0, abs=0.05)


def test_types_cut_by_set_size_gain_even_without_correlation() -> None:
    scene = Scene(Workload(skew=0.0), seconds=20.0)
    cut = scene.but(sizes=(3, 4, 5, 6))
    assert cut.output(cut.planned()) > 2.0 * scene.output(scene.random())


def test_indexed_joins_cost_less_and_identifier_order_costs_more() -> None:
    costs = {}
    for method in ("scan", "time_sorted", "id_sorted"):
        scene = Scene(budget=1e15, seconds=5.0, warm_up_s=20.0, method=method)
        take = np.zeros((2, 1, 21))
        take[1, 0, 14:17] = (1.0, 0.3, 0.0)
        costs[method] = scene.run(Fixed(Selection.of_fractions(take))).total("cost", 20.0)
    assert costs["time_sorted"] < costs["id_sorted"] < costs["scan"]


def test_a_hash_index_leaves_nothing_to_shed() -> None:
    single = Workload().single_valued()
    scene = Scene(
        single, Windows((20.0, 20.0), 1.0), Condition("equality"), seconds=10.0, method="hash"
    )
    assert scene.output(scene.planned(scene.plan(60.0))) == scene.output(scene.random())
