"""Simulation, workload generator, demo and figures."""

import numpy as np
import pytest
from upath import UPath

from planning import query_files
from planning.demos import write_queries
from planning.errors import StatisticsError
from planning.sifter import demo, figures, queries, simulate
from planning.sifter.shedder import Shedder
from planning.sifter.simulate import Bench
from planning.sifter.workload import Settings, Workload


def test_measured_quality_equals_counting_every_pair(scene):
    plan, asked = scene.plan(), queries.of(scene.definition)
    points = scene.fresh[:3000]
    keep = Shedder(plan, 0.4).offer(points)
    pairs = ((asked.low[:, None] <= points) & (points < asked.high[:, None])).all(axis=2)
    matches, kept = pairs.sum(axis=1), (pairs & keep).sum(axis=1)
    left = min(1.0, 0.4 / keep.mean())
    completeness = np.where(matches > 0, kept * left / np.maximum(matches, 1), 1.0)
    qos = 1 - asked.slope * (1 - completeness)
    measured = Bench(points, asked).measure(keep, 0.4)
    assert measured.quality == pytest.approx(float(asked.weight @ qos))
    assert measured.clipped_quality == pytest.approx(float(asked.weight @ np.maximum(qos, 0)))


def test_the_server_drops_blindly_what_passes_above_z(scene):
    bench = Bench(scene.fresh, queries.of(scene.definition))
    everything = np.ones(len(scene.fresh), dtype=bool)
    asked_with_matches = bench.queries.coefficient[bench.matches > 0].sum()
    assert bench.measure(everything, 0.3).quality == pytest.approx(1 - 0.7 * asked_with_matches)


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


def test_a_slope_above_one_can_make_a_quality_negative_and_the_clipped_one_not(make, rng):
    from planning.sifter import planner, statistics

    definition = make([{"ranges": {"x": [0, 1]}, "qos_slope": 2.0}], {"regions": 4})
    columns = {"x": rng.random(1000), "y": rng.random(1000)}
    plan = planner.plan(statistics.build(columns, definition), definition)
    points = np.column_stack([columns["x"], columns["y"]])
    bench = Bench(points, queries.of(definition))
    measured = bench.measure(Shedder(plan, 0.1).offer(points), 0.1)
    assert measured.quality == pytest.approx(-0.8, abs=0.02)
    assert measured.clipped_quality == 0.0
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


@pytest.mark.parametrize("data", ["UNIF", "SKEW"])
def test_workload_keeps_to_table_one(data):
    workload = Workload(Settings(data=data, query="UNIF"), 3)
    points = workload.tuples(5000)
    assert ((points >= 0) & (points < 1)).all()
    sides = workload.queries.high - workload.queries.low
    assert sides.max() <= 0.01 + 1e-12
    assert workload.queries.count == 1000
    assert 1.0 <= workload.queries.slope.min()
    assert workload.queries.slope.max() <= 2.0
    assert (workload.high - workload.low).max() <= 0.25 + 1e-12
    again = Workload(Settings(data=data, query="UNIF"), 3)
    assert again.tuples(5000).tolist() == points.tolist()


@pytest.mark.parametrize(("border", "all_whole", "all_within"),
                         [("cut", False, True), ("inside", True, True), ("leave", False, False)])
def test_workload_borders(border, all_whole, all_within):
    whole, within = [], []
    for seed in range(10):
        workload = Workload(Settings("SKEW", "SKEW", border=border), seed)
        points = workload.tuples(1000)
        assert ((points >= 0) & (points < 1)).all()
        whole.append((workload.high - workload.low).min() >= 0.5 / 4 - 1e-12)
        spot = (workload.low[:, None] <= points) & (points <= workload.high[:, None])
        within.append(spot.all(axis=2).any(axis=0).all())
    assert all(whole) == all_whole
    assert all(within) == all_within


def test_demo_lands_the_same_batch_twice_and_spoils_some_rows(tmp_path, make):
    import pyarrow.parquet as parquet

    attributes = [
        {"name": "price", "domain": [0, 100]},
        {"name": "volume", "domain": [0, 1000]},
    ]
    definition = make(attributes=attributes)
    one = demo.land(UPath(tmp_path / "a"), 4, definition)
    two = demo.land(UPath(tmp_path / "b"), 4, definition)
    assert one.read_bytes() == two.read_bytes()
    table = parquet.read_table(str(one))
    price = table.column("price").to_numpy()
    assert len(price) == demo.ROWS
    assert 1 <= np.isnan(price).sum() <= 20
    assert 1 <= (price > 100).sum() <= 20


def test_demo_queries_can_be_read_and_pay_off(tmp_path, make):
    from planning.sifter import planner, statistics

    attributes = [
        {"name": "price", "domain": [0, 100]},
        {"name": "volume", "domain": [0, 1000]},
    ]
    path = tmp_path / "q.jsonl"
    write_queries(path, demo.queries(make(attributes=attributes), 300))
    entries = query_files.read(UPath(path))
    definition = make(entries, attributes=attributes)
    assert len(definition.queries.inline) == 300
    plan = planner.plan(statistics.build(demo.tuples(1, definition), definition), definition)
    clean = {k: v[np.isfinite(v)][:19_000] for k, v in demo.tuples(2, definition).items()}
    (outcome,) = simulate.evaluate(plan, clean, definition, (0.5,))
    assert outcome.loss_ratio < 0.8


def test_figures_draw_something(scene):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    figures.draw(scene.plan(), left)
    figures.draw_quality(scene.plan(), right)
    assert len(left.collections[0].get_paths()) == scene.plan().regions
    assert len(right.lines) == 2
    pyplot.close(figure)
