"""Statistics: f, A and B against direct sums, calibration, order of arrival, pins, categories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import InvalidInput, StatisticsError
from planning.sifter import planner, queries, statistics
from planning.sifter.demo import Settings, Workload
from planning.sifter.model import Partition
from planning.sifter.partitioners import divide
from planning.sifter.queries import boxes
from planning.sifter.queries.matching import hit_counts
from planning.sifter.shedder import Shedder
from planning.sifter.simulate import Bench
from planning.sifter.statistics import RegionCounts, Statistics, calibrated, consolidate


def direct(partition, frequency, asked):
    """A, B and queried by the textbook: every query with every region (Equations 5 to 8)."""
    low, high = partition.bounds(np.zeros(2), np.ones(2))
    volume = np.prod(high - low, axis=1)
    qos, base, queried = np.zeros(partition.regions), 0.0, np.zeros(partition.regions, bool)
    for q in range(asked.count):
        data = np.zeros(partition.regions)
        for b in np.flatnonzero(asked.owner == q):
            overlap = np.minimum(high, asked.high[b]) - np.maximum(low, asked.low[b])
            inside = np.where((overlap > 0).all(axis=1), np.prod(overlap, axis=1), 0.0)
            data += frequency * inside / volume
            queried |= inside > 0
        base += asked.weight[q] * (1 - asked.slope[q])
        if data.sum() > 0:
            qos += asked.coefficient[q] * data / data.sum()
        else:
            base += asked.coefficient[q]
    return qos, base, queried


@pytest.mark.parametrize("seed", range(5))
def test_consolidation_equals_the_direct_sums(seed):
    rng = np.random.default_rng(seed)
    tree = (0, 0.4, (1, 0.7, None, None), (1, 0.2, None, (0, 0.8, None, None)))
    partition = Partition.from_nested(tree)
    frequency = rng.dirichlet(np.ones(5))
    frequency[2] = 0.0
    low = rng.random((30, 2)) * 0.9
    asked = boxes(
        low, np.minimum(1.0, low + rng.random((30, 2)) * 0.3),
        slope=rng.uniform(0.5, 2, 20), owner=np.sort(rng.integers(0, 20, 30)),
        weight=rng.random(20),
    )  # fmt: skip
    found = consolidate(partition, frequency, asked, np.zeros(2), np.ones(2))
    region_qos, seen, base_qos, _ = found
    qos, base, queried = direct(partition, frequency, asked)
    assert region_qos == pytest.approx(qos, abs=1e-12)
    assert base_qos == pytest.approx(base, abs=1e-12)
    assert seen.tolist() == queried.tolist()


def test_shares_of_sampled_tuples_equal_direct_counts(rng):
    partition = Partition.from_nested((0, 0.4, (1, 0.7, None, None), (1, 0.2, None, None)))
    low = rng.random((20, 2)) * 0.7
    asked = boxes(low, low + 0.3)
    frequency, sample = np.array([0.1, 0.2, 0.3, 0.4]), rng.random((300, 2)) ** 3
    got, _, _, _ = consolidate(partition, frequency, asked, np.zeros(2), np.ones(2), sample)
    region_low, region_high = partition.bounds(np.zeros(2), np.ones(2))
    prior, qos = statistics.PRIOR_PER_SHARE, np.zeros(4)
    for a, b in zip(asked.low, asked.high, strict=True):
        data = np.zeros(4)
        for i in range(4):
            mine = sample[((region_low[i] <= sample) & (sample < region_high[i])).all(axis=1)]
            overlap = np.minimum(b, region_high[i]) - np.maximum(a, region_low[i])
            even = np.prod(np.maximum(overlap, 0.0) / (region_high[i] - region_low[i]))
            inside = ((a <= mine) & (mine < b)).all(axis=1).sum()
            data[i] = frequency[i] * (inside + prior * even) / (len(mine) + prior)
        qos += data / data.sum() / 20
    assert got == pytest.approx(qos, abs=1e-12)


def test_equal_tuples_lie_on_both_sides_of_the_calibration(make, rng):
    # 24 distinct tuples, 40 copies each: the partitioner sees half of the copies of every one.
    corners = rng.random((24, 2))
    points = np.repeat(corners, 40, axis=0)
    definition = make([{"ranges": {"x": [0.0, 0.5]}}], {"regions": 24})
    sample = statistics.draw(points, len(points))
    partition = divide(sample, definition, queries.of(definition))
    counts = partition.count(points)
    assert partition.seen.tolist() == (counts // 2).tolist()


def test_predicted_quality_holds_on_other_tuples(make):
    # Skewed data inside large regions: taking it as even predicted a loss a third too low.
    attributes = [{"name": n, "domain": [0, 1]} for n in "xyuv"]
    rng = np.random.default_rng(3)
    points = rng.random((24_000, 4)) ** [4.0, 1.0, 2.0, 3.0]
    entries = []
    for center in points[rng.choice(24_000, 150, p=points[:, 1] / points[:, 1].sum())]:
        axes = rng.choice(4, 2, replace=False)
        ranges = {"xyuv"[k]: [max(0, center[k] - 0.1), min(1, center[k] + 0.1)] for k in axes}
        entries.append({"ranges": ranges})
    for regions in (16, 100):
        definition = make(entries, {"regions": regions}, attributes)
        asked = queries.of(definition)
        plan = planner.plan(statistics.of_points(points[:8000], definition, asked), definition)
        bench = Bench(points[8000:], asked)
        for z in (0.3, 0.5, 0.75, 0.9):
            keep = Shedder(plan, z).offer(points[8000:])
            assert plan.predicted_quality(z) == pytest.approx(bench.quality(keep, z), abs=0.02)


def test_with_nothing_dropped_quality_is_one(scene):
    plan = scene.plan()
    assert plan.predicted_quality(1.0) == pytest.approx(1.0, abs=1e-6)


def test_a_query_without_data_loses_nothing(make):
    # All data is left, the second query right: it keeps completeness 1 whatever is dropped.
    definition = make(
        [{"ranges": {"x": [0.0, 0.4]}}, {"ranges": {"x": [0.8, 0.9]}}],
        {"partitioner": "uniform_grid", "regions": 4, "calibrate": False},
    )
    columns = {"x": np.linspace(0.01, 0.4, 100), "y": np.linspace(0, 1, 100)}
    built = statistics.build(columns, definition)
    plan = planner.plan(built, definition)
    assert built.base_qos == pytest.approx(0.5)
    assert plan.predicted_quality(0.0) == pytest.approx(0.5)


def test_a_query_given_twice_counts_like_one_of_double_weight(make, rng):
    one, two = {"ranges": {"x": [0.1, 0.4]}}, {"ranges": {"x": [0.3, 0.8], "y": [0.2, 0.5]}}
    columns = {"x": rng.random(500), "y": rng.random(500)}
    grid = {"partitioner": "uniform_grid", "regions": 9}
    twice = statistics.build(columns, make([one, one, two], grid))
    heavy = statistics.build(columns, make([{**one, "weight": 2.0}, two], grid))
    assert twice.region_qos == pytest.approx(heavy.region_qos)
    assert twice.frequency == pytest.approx(heavy.frequency)
    assert twice.base_qos == pytest.approx(heavy.base_qos)


def test_a_query_of_weight_zero_is_worth_nothing_but_fairness_covers_it(make, rng):
    # It adds nothing to A; its regions still belong to those whose thresholds must stay close.
    asked = [{"ranges": {"x": [0.0, 0.4]}}, {"ranges": {"x": [0.6, 1.0]}, "weight": 0.0}]
    columns = {"x": rng.random(1000), "y": rng.random(1000)}
    halves = {"partitioner": "flexible_uniform_grid", "regions": 2, "fairness_threshold": 0.2}
    plan = planner.plan(statistics.build(columns, make(asked, halves)), make(asked, halves))
    assert plan.region_qos.tolist() == pytest.approx([1.0, 0.0])
    assert plan.queried.tolist() == [True, True]
    low, high = plan.at(0.5).drop_thresholds
    assert high - low == pytest.approx(0.2)


@pytest.mark.parametrize(
    "samples", [{"x": np.zeros(3)}, np.zeros((3, 5))], ids=["missing", "too many"]
)
def test_samples_of_another_dimension_are_refused(make, samples):
    with pytest.raises(InvalidInput, match="x, y"):
        statistics.build(samples, make())


def test_order_of_arrival_does_not_matter(scene, rng):
    shuffled = rng.permutation(len(scene.samples["x"]))
    columns = {name: column[shuffled] for name, column in scene.samples.items()}
    one = statistics.build(scene.samples, scene.definition).to_document()
    two = statistics.build(columns, scene.definition).to_document()
    assert one == two


def test_document_round_trip(scene):
    built = statistics.build(scene.samples, scene.definition)
    document = built.to_document()
    assert Statistics.from_document(document).to_document() == document
    assert built.samples == 2000
    assert built.sample_size == 2000  # where there are more samples they are used
    assert built.frequency.sum() == pytest.approx(1.0)


def test_counting_in_parts_gives_the_same_statistics(scene):
    # What the Spark app does: draw, divide, count part by part, assemble.
    definition, asked = scene.definition, queries.of(scene.definition)
    points = np.column_stack([scene.samples["x"], scene.samples["y"]])
    sample = statistics.draw(points, definition.parameters.sample_size)
    partition = divide(sample, definition, asked)
    pins = queries.pins_of(definition)
    by_part = [RegionCounts.of(part, partition, pins) for part in np.array_split(points, 7)]
    counts = RegionCounts(sum(c.tuples for c in by_part), sum(c.pinned for c in by_part))
    parts = statistics.assemble(partition, counts, definition, sample, asked)
    assert parts.to_document() == statistics.build(scene.samples, definition).to_document()


def test_rows_without_a_place_count_nowhere(make):
    definition = make([{"ranges": {"x": [0, 0.5]}}], {"regions": 4})
    columns = {"x": np.array([0.1, np.nan, 0.9, 7.0]), "y": np.array([0.1, 0.5, np.nan, 0.2])}
    assert statistics.build(columns, definition).samples == 2


@pytest.mark.parametrize("values", [[], [np.nan]])
def test_no_usable_tuple_is_an_error(make, values):
    definition = make([{"ranges": {"x": [0, 0.5]}}])
    with pytest.raises(StatisticsError, match="at least one tuple"):
        statistics.build({"x": np.array(values), "y": np.array(values)}, definition)


def test_without_queries_dropping_is_free(make, rng):
    definition = make()
    columns = {"x": rng.random(100), "y": rng.random(100)}
    plan = planner.plan(statistics.build(columns, definition), definition)
    assert plan.predicted_quality(0.2) == 1.0
    assert plan.passed_fraction(0.2) == pytest.approx(0.2, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.floats(0, 1)), min_size=1))
def test_calibrated_frequencies_are_a_distribution(rows):
    unseen, seen, qos = (np.array(column) for column in zip(*rows, strict=True))
    if unseen.sum() + seen.sum() == 0:
        unseen = unseen + 1
    frequency = calibrated(unseen + seen, seen, qos.astype(float))
    assert (frequency >= 0).all()
    assert frequency.sum() == pytest.approx(1.0)


def passed(make, entries_of, calibrate):
    """Mean fraction of fresh tuples that plans for z = 0.5 pass when nothing corrects them."""
    fractions = []
    for seed in range(5):
        workload = Workload(Settings(data="UNIF", query="SKEW", queries=300), seed)
        definition = make(entries_of(workload.queries), {"regions": 100, "calibrate": calibrate})
        points = workload.tuples(1000)
        columns = {"x": points[:, 0], "y": points[:, 1]}
        plan = planner.plan(statistics.build(columns, definition), definition)
        kept = Shedder(plan, 0.5, correct=False).offer(workload.tuples(20_000))
        fractions.append(kept.mean())
    return np.mean(fractions)


def test_calibration_brings_the_passed_fraction_nearer_to_z(make, entries_of):
    with_it, without = (passed(make, entries_of, calibrate) for calibrate in (True, False))
    assert without > 0.52
    assert abs(with_it - 0.5) < 0.75 * abs(without - 0.5)


def test_pinned_tuples_are_charged_first(make, rng):
    definition = make(
        [{"ranges": {"x": [0.0, 1.0]}}],
        {"pins": ["x > 0.75"], "regions": 4, "calibrate": False},
    )
    columns = {"x": rng.random(4000), "y": rng.random(4000)}
    built = statistics.build(columns, definition)
    plan = planner.plan(built, definition)
    assert built.pinned_fraction == pytest.approx((columns["x"] > 0.75).mean())  # all are counted
    assert built.frequency.sum() + built.pinned_fraction == pytest.approx(1.0)
    # Below the pinned fraction everything else goes, and the pins still pass.
    assert plan.at(0.1).drop_thresholds.tolist() == [1.0] * plan.regions
    assert plan.passed_fraction(0.5) == pytest.approx(0.5, abs=1e-6)


def test_categories_are_cut_by_ratio_of_queries_to_data(make, rng):
    attributes = [
        {"name": "x", "domain": [0, 1]},
        {"name": "c", "type": "category", "values": list("abcdef")},
    ]
    # Queries name b, d and f alone: no run of codes, but one cut once they are rearranged.
    definition = make(
        [{"where": "c IN ('b', 'd', 'f')"}],
        {"regions": 2, "calibrate": False},
        attributes=attributes,
    )
    codes = rng.integers(0, 6, 3000)
    columns = {"x": rng.random(3000), "c": np.array(list("abcdef"))[codes]}
    plan = planner.plan(statistics.build(columns, definition), definition)
    assert plan.predicted_quality(0.5) == pytest.approx(1.0, abs=0.03)
    wanted = plan.partition.lookup(np.column_stack([np.zeros(6), np.arange(6)]))
    assert wanted[[1, 3, 5]].tolist() != wanted[[0, 2, 4]].tolist()
    assert len(set(wanted[[1, 3, 5]])) == len(set(wanted[[0, 2, 4]])) == 1


def test_hits_are_the_paper_s_hit_values(scene):
    asked = queries.of(scene.definition)
    points = scene.fresh[:200]
    pairs = ((asked.low[:, None] <= points) & (points < asked.high[:, None])).all(axis=2)
    assert hit_counts(points, asked).tolist() == pairs.sum(axis=0).tolist()
