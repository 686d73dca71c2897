"""Simulation: what queries really get, compared with random dropping."""

import numpy as np
import pytest

from planning.errors import StatisticsError
from planning.sifter import planner, queries, simulate, statistics
from planning.sifter.shedder import Shedder
from planning.sifter.simulate import Bench


def test_measured_quality_equals_counting_every_pair(scene):
    plan, asked = scene.plan(), queries.of(scene.definition)
    points = scene.fresh[:3000]
    keep = Shedder(plan, 0.4).offer(points)
    pairs = ((asked.low[:, None] <= points) & (points < asked.high[:, None])).all(axis=2)
    matches, kept = pairs.sum(axis=1), (pairs & keep).sum(axis=1)
    left = min(1.0, 0.4 / keep.mean())
    seen = matches > 0
    assert not seen.all()
    for elsewhere in (0.4, 1.0):
        completeness = np.where(seen, kept * left / np.maximum(matches, 1), elsewhere)
        qos = 1 - asked.slope * (1 - completeness)
        bench = Bench(points, asked)
        given = None if elsewhere == 0.4 else np.ones(int((~seen).sum()))
        assert bench.quality(keep, 0.4, given) == pytest.approx(float(asked.weight @ qos))


def test_the_server_drops_blindly_what_passes_above_z(scene):
    bench = Bench(scene.fresh, queries.of(scene.definition))
    everything = np.ones(len(scene.fresh), dtype=bool)
    total = bench.queries.coefficient.sum()
    assert bench.quality(everything, 0.3) == pytest.approx(1 - 0.7 * total)


def test_quality_does_not_depend_on_how_many_tuples_are_tried(scene):
    plan, asked = scene.plan(), queries.of(scene.definition)
    keep = Shedder(plan, 0.3).offer(scene.fresh)
    whole = Bench(scene.fresh, asked)
    assert (Bench(scene.fresh[:500], asked).matches == 0).mean() > 0.2
    parts = []
    for k in range(0, len(scene.fresh), 500):
        part = Bench(scene.fresh[k : k + 500], asked)
        parts.append(part.quality(keep[k : k + 500], 0.3, part.elsewhere(plan, 0.3)))
    assert np.mean(parts) == pytest.approx(
        whole.quality(keep, 0.3, whole.elsewhere(plan, 0.3)), abs=0.02
    )


def test_evaluate_beats_random_dropping_at_every_load(scene):
    plan = scene.plan()
    outcomes = simulate.evaluate(
        plan, scene.columns(scene.fresh), scene.definition, (0.1, 0.3, 0.5, 0.7)
    )
    for outcome in outcomes:
        assert outcome.loss_ratio < 1
        assert outcome.passed_fraction == pytest.approx(outcome.load, abs=0.005)
        assert outcome.offered == len(scene.fresh)
    again = simulate.evaluate(
        plan, scene.columns(scene.fresh), scene.definition, (0.1, 0.3, 0.5, 0.7)
    )
    assert outcomes == again


def test_queries_only_drops_what_nobody_wants_first(scene):
    asked, points = queries.of(scene.definition), scene.fresh[:4000]
    bench = Bench(points, asked)
    pairs = ((asked.low[:, None] <= points) & (points < asked.high[:, None])).all(axis=2)
    wanted = pairs.any(axis=0)
    assert 0.03 < wanted.mean() < 0.5
    for load in (0.02, 0.5, 0.97):
        keep, due = bench.thinned(load, wanted_first=True), round(load * 4000)
        assert keep.sum() == bench.thinned(load).sum() == due
        assert (keep & wanted).sum() == min(due, wanted.sum())
    complete = np.ones(len(bench.unseen))
    assert bench.quality(bench.thinned(0.97, True), 0.97, complete) == pytest.approx(1.0)


def test_a_load_that_changes_is_tried_stretch_by_stretch(scene):
    plan, schedule = scene.plan(), (0.2, 1.0, 0.6, 0.6)
    (outcome,) = simulate.evaluate(
        plan, scene.columns(scene.fresh), scene.definition, [schedule]
    )
    assert (outcome.load, outcome.schedule, outcome.by_size) == (0.6, schedule, {})
    assert outcome.passed_fraction == pytest.approx(0.6, abs=0.005)
    assert outcome.quality > outcome.random_quality + 4 * outcome.noise
    quarter = len(scene.fresh) // 4
    bench = Bench(scene.fresh, queries.of(scene.definition))
    shares = bench.thinned(schedule).reshape(4, quarter).mean(axis=1)
    assert shares.tolist() == pytest.approx([0.2, 1.0, 0.6, 0.6], abs=0.02)


def test_noise_is_the_standard_error_of_a_difference(scene):
    """Compare with the spread of the same difference over many independent streams."""
    asked, plan = queries.of(scene.definition), scene.plan()
    differences, stated = [], []
    for seed in range(60):
        scene.workload.rng = np.random.default_rng(seed)
        points = scene.workload.tuples(2000)
        bench = Bench(points, asked)
        keep, other = Shedder(plan, 0.4).offer(points), bench.thinned(0.4)
        differences.append(bench.quality(keep, 0.4) - bench.quality(other, 0.4))
        stated.append(bench.noise(keep, other, 0.4))
    assert 0.6 < np.mean(stated) / np.std(differences, ddof=1) < 1.6


def test_a_slope_above_one_can_make_a_quality_negative(make, rng):
    definition = make([{"ranges": {"x": [0, 1]}, "qos_slope": 2.0}], {"regions": 4})
    columns = {"x": rng.random(1000), "y": rng.random(1000)}
    plan = planner.plan(statistics.build(columns, definition), definition)
    points = np.column_stack([columns["x"], columns["y"]])
    bench = Bench(points, queries.of(definition))
    keep = Shedder(plan, 0.1).offer(points)
    assert bench.quality(keep, 0.1) == pytest.approx(-0.8, abs=0.02)
    assert plan.predicted_quality(0.1) == pytest.approx(-0.8, abs=0.02)


def test_a_plan_is_judged_by_the_names_of_its_attributes(scene):
    """A definition may since name its attributes in another order, or others."""
    plan, definition, samples = scene.plan(), scene.definition, scene.columns(scene.fresh)
    turned = definition.model_copy(update={"attributes": definition.attributes[::-1]})
    assert simulate.evaluate(plan, samples, turned, [0.4])[0].quality == pytest.approx(
        simulate.evaluate(plan, samples, definition, [0.4])[0].quality
    )
    other = dict(zip(("a", "b"), samples.values(), strict=True))
    with pytest.raises(StatisticsError, match="got none called x"):
        simulate.evaluate(plan, other, definition, [0.4])


def test_evaluating_nothing_is_an_error(scene):
    nothing = {"x": np.zeros(0), "y": np.zeros(0)}
    with pytest.raises(StatisticsError, match="at least one tuple"):
        simulate.evaluate(scene.plan(), nothing, scene.definition, (0.5,))
