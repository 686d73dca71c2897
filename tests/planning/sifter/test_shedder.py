"""The shedder: the sequential rule bit by bit, budgets, odd tuples, pins, weights, fleets."""

import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from planning.sifter import kernels, planner, statistics
from planning.sifter.demo import Settings, Workload
from planning.sifter.plan import Plan
from planning.sifter.shedder import Shedder


@pytest.fixture(scope="module")
def plan(scene):
    return scene.plan()


def sequential(plan, load, points):
    """The counter rule as the paper has it, one tuple after another, in whole numbers."""
    thresholds = plan.at(load).drop_thresholds
    steps = [math.ceil(d * 2**32 - 1e-6) for d in thresholds]
    produced, keep = [0] * plan.regions, []
    for region in plan.partition.lookup(points):
        m, d = produced[region], steps[region]
        produced[region] += 1
        before, after = -(-d * m // 2**32), -(-d * (m + 1) // 2**32)
        keep.append(after == before)
    return keep


@pytest.mark.parametrize("load", [0.0, 0.1, 0.37, 0.5, 0.9, 1.0])
def test_batches_are_bit_identical_to_the_sequential_rule(scene, plan, load):
    points = scene.fresh[:5000]
    shedder = Shedder(plan, load, correct=False, start="full")
    keep = np.concatenate([shedder.offer(part) for part in np.array_split(points, 13)])
    assert keep.tolist() == sequential(plan, load, points)


def test_rule_is_the_ceiling_formula(plan, scene):
    # The m-th tuple of a region is dropped iff ceil(d m) > ceil(d (m - 1)).
    region_of = plan.partition.lookup(scene.fresh)
    shedder = Shedder(plan, 0.5, correct=False, start="full")
    keep = shedder.offer(scene.fresh)
    for region, d in enumerate(plan.at(0.5).drop_thresholds):
        kept = keep[region_of == region]
        m = np.arange(1, len(kept) + 1)
        step = math.ceil(d * 2**32 - 1e-6)
        ceilings = -(-step * m.astype(object) // 2**32)
        assert (~kept).cumsum().tolist() == ceilings.tolist()


@pytest.mark.parametrize("correct", [False, True])
def test_cutting_the_stream_differently_changes_nothing(scene, plan, correct, rng):
    points = scene.fresh[:6000]
    whole = Shedder(plan, 0.4, correct=correct)
    expected = whole.offer(points)
    parts, place = Shedder(plan, 0.4, correct=correct), 0
    decided = []
    while place < len(points):
        size = int(rng.integers(1, 900))
        if rng.random() < 0.5:
            decided.append(parts.offer(points[place : place + size]))
        else:
            decided.append([parts.offer_one(p) for p in points[place : place + size].tolist()])
        place += size
    assert np.concatenate(decided).tolist() == expected.tolist()
    assert parts.counters.offered.tolist() == whole.counters.offered.tolist()
    assert parts.counters.dropped.tolist() == whole.counters.dropped.tolist()


def test_the_printed_rule_drops_first_tuples_and_ours_does_not_in_step(plan, scene):
    regions = plan.partition.lookup(scene.fresh)
    thresholds = plan.at(0.2).drop_thresholds
    partly = [r for r in np.unique(regions) if 0 < thresholds[r] < 1]
    firsts = [int(np.flatnonzero(regions == r)[0]) for r in partly]
    full = Shedder(plan, 0.2, correct=False, start="full").offer(scene.fresh)[firsts]
    spread = Shedder(plan, 0.2, correct=False).offer(scene.fresh)[firsts]
    assert len(partly) >= 5
    assert not full.any()
    assert 0 < spread.sum() < len(partly)


def test_columns_mappings_and_arrays_decide_alike(scene, plan):
    points = scene.fresh[:1000]
    one = Shedder(plan, 0.5).offer(points)
    two = Shedder(plan, 0.5).offer({"y": points[:, 1], "x": points[:, 0], "other": points[:, 0]})
    three = [Shedder(plan, 0.5).offer_one({"x": points[0, 0], "y": points[0, 1]})]
    assert one.tolist() == two.tolist()
    assert three == [bool(one[0])]


def test_columns_that_may_not_be_written_decide_alike(scene, plan):
    columns = {name: scene.fresh[:1000, k].copy() for k, name in enumerate(plan.space.names)}
    expected = Shedder(plan, 0.5).offer(columns)
    next(iter(columns.values())).flags.writeable = False  # as columns of Arrow are
    np.testing.assert_array_equal(Shedder(plan, 0.5).offer(columns), expected)


def test_trivial_filter_passes_everything(scene, plan):
    assert Shedder(plan).offer(scene.fresh).all()
    assert not Shedder(plan, 0.0).offer(scene.fresh).any()


def test_counters_add_up(scene, plan):
    shedder = Shedder(plan, 0.3)
    keep = shedder.offer(scene.fresh)
    counters = shedder.counters
    assert counters.offered.sum() == len(scene.fresh)
    assert counters.dropped.sum() == (~keep).sum()
    assert counters.passed_fraction == pytest.approx(keep.mean())
    regions = plan.partition.lookup(scene.fresh)
    assert counters.offered[:-1].tolist() == np.bincount(regions, minlength=16).tolist()


def test_tuples_without_region_are_shed_like_random_dropping(plan):
    shedder = Shedder(plan, 0.25, correct=False)
    points = np.full((400, 2), np.nan)
    assert shedder.offer(points).sum() == 100
    assert shedder.counters.offered[-1] == 400
    assert isinstance(shedder.offer_one((float("nan"), 0.2)), bool)


def test_tuples_outside_the_domain_belong_to_the_nearest_region(plan):
    outside = np.array([[-5.0, 0.3], [np.inf, 0.9], [0.5, -np.inf], [7.0, 7.0]])
    nearest = np.clip(outside, 0.0, 1.0)
    shedder = Shedder(plan, 0.5)
    shedder.offer(outside)
    expected = np.bincount(plan.partition.lookup(nearest), minlength=17)
    assert shedder.counters.offered.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "batch",
    [
        np.zeros((5, 3)),
        np.zeros((5, 1)),
        {"x": np.zeros(5)},
        {"x": np.zeros(5), "y": np.zeros(4)},
        [["a", "b"]] * 5,
        [None] * 5,
        {"x": ["?"] * 5, "y": [None] * 5},
    ],
)
def test_what_cannot_be_read_never_raises(plan, batch):
    keep = Shedder(plan, 0.5).offer(batch)
    assert keep.dtype == np.bool_
    assert len(keep) == 5


@pytest.mark.parametrize("item", [None, (1.0,), (1, 2, 3), ("a", "b"), {"x": 1.0}, "text"])
def test_a_single_tuple_that_cannot_be_read_never_raises(plan, item):
    assert Shedder(plan, 0.5).offer_one(item) in (True, False)


def test_an_empty_batch_is_fine(plan):
    assert Shedder(plan, 0.5).offer(np.zeros((0, 2))).tolist() == []


def windows(keep, size=10_000):
    total = np.concatenate([[0], np.cumsum(keep)])
    return (total[size:] - total[:-size]) / size


@pytest.mark.parametrize("z", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_budget_holds_over_any_window(z, make, entries_of):
    for seed in range(3):
        keep = drifted(z, seed, make, entries_of)
        assert windows(keep).max() <= 1.01 * z
        assert windows(keep).min() >= 0.96 * z
        assert keep.mean() == pytest.approx(z, rel=0.02)
        offered = np.arange(1, len(keep) + 1)
        assert (np.cumsum(keep) <= z * offered + 1e-3).all()  # never more than z since the start


def drifted(z, seed, make, entries_of):
    """Shed data whose frequencies the plan learned from only 200 samples."""
    workload = Workload(Settings(data="SKEW", query="SKEW", queries=200), seed)
    definition = make(entries_of(workload.queries), {"regions": 50})
    points = workload.tuples(200)
    built = statistics.build({"x": points[:, 0], "y": points[:, 1]}, definition)
    plan = planner.plan(built, definition)
    fresh = workload.tuples(60_000)
    return Shedder(plan, z).offer(fresh)


def test_budget_recovers_from_a_sudden_change(plan, scene, rng):
    shedder = Shedder(plan, 0.4)
    shedder.offer(scene.fresh)
    kept_region = int(np.argmin(plan.at(0.4).drop_thresholds))
    regions = plan.partition.lookup(scene.fresh)
    only = scene.fresh[regions == kept_region]
    flood = only[rng.integers(0, len(only), 30_000)]
    keep = shedder.offer(flood)
    # The one region that is hardly dropped becomes the whole stream: it is shed all the same.
    assert windows(keep).max() <= 1.01 * 0.4
    assert keep.mean() > 0.35


def test_load_and_plan_can_change_between_batches(scene, plan):
    shedder = Shedder(plan, 1.0)
    assert shedder.offer(scene.fresh).all()
    shedder.set_load(0.3)
    assert shedder.offer(scene.fresh).mean() == pytest.approx(0.3, abs=0.003)
    after = Shedder(scene.plan(regions=9), 0.3)
    after.adopt(shedder)
    assert after.offer(scene.fresh).mean() == pytest.approx(0.3, abs=0.003)
    assert after.counters.offered.sum() == len(scene.fresh)


def test_fairness_can_change_at_run_time(scene, plan):
    shedder = Shedder(plan, 0.3, correct=False)
    shedder.set_load(0.3, fairness_threshold=1.0)
    shedder.offer(scene.fresh)
    counters = shedder.counters
    busy = (counters.offered[:-1] > 200) & plan.queried
    share = counters.dropped[:-1][busy] / counters.offered[:-1][busy]
    assert share.max() - share.min() > 0.9


def test_pins_always_pass_and_are_paid_for(scene, make, entries_of):
    definition = make(entries_of(scene.workload.queries), {"pins": ["x > 0.7"]})
    plan = planner.plan(statistics.build(scene.samples, definition), definition)
    shedder = Shedder(plan, 0.5)
    keep = shedder.offer(scene.fresh)
    assert keep[scene.fresh[:, 0] > 0.7].all()
    assert keep.mean() == pytest.approx(0.5, abs=0.005)
    assert shedder.offer_one((0.9, 0.5))


def test_weights_make_counts_and_sums_unbiased(scene, plan):
    shedder = Shedder(plan, 0.6)
    keep, weight = shedder.offer_weighted(scene.fresh)
    assert (weight[keep] >= 1).all()
    assert len(keep) == len(weight)
    assert (weight[~keep] == 0).all()
    regions = plan.partition.lookup(scene.fresh)
    some = plan.at(0.6).drop_thresholds[regions] < 1
    true = scene.fresh[some, 0].sum()
    assert (weight[some] * scene.fresh[some, 0]).sum() == pytest.approx(true, rel=0.01)
    assert weight[some].sum() == pytest.approx(some.sum(), rel=0.01)
    plain = Shedder(plan, 0.6).offer(scene.fresh)
    assert plain.tolist() == keep.tolist()


def test_a_least_fraction_bounds_the_weights_and_holds_the_budget(scene):
    plan = scene.plan(min_keep=0.1)
    keep, weight = Shedder(plan, 0.3, correct=False).offer_weighted(scene.fresh)
    assert weight.max() <= 10 + 1e-6
    regions = plan.partition.lookup(scene.fresh)
    counts = np.bincount(regions, weight, minlength=plan.regions)
    assert counts == pytest.approx(np.bincount(regions, minlength=plan.regions), abs=11)
    assert windows(Shedder(plan, 0.3).offer(np.tile(scene.fresh, (2, 1)))).max() <= 1.01 * 0.3
    assert keep.mean() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("pins", [[], ["x > 0.7"]])
def test_the_correction_leaves_every_region_its_least_fraction(scene, pins):
    plan = scene.plan(min_keep=0.2, pins=pins)
    z = plan.pinned_fraction + (1 - plan.pinned_fraction) * 0.25
    shedder = Shedder(plan, z)
    dear = plan.at(z).drop_thresholds[plan.partition.lookup(scene.fresh)] < 0.5
    flood = scene.fresh[scene.fresh[:, 0] > 0.7 if pins else dear]
    for part in np.array_split(np.tile(flood, (30, 1)), 40):  # far more passes than was planned
        shedder.offer(part)
        assert shedder._levels[:, :-2].max() <= (1 - 0.2) * 2**32 + 1
    assert shedder._ledger[kernels.LEVEL] > kernels.PLANNED


class Counted:
    """Counters in shared memory, as a fleet would keep them."""

    def __init__(self, offered, kept):
        self.offered, self.kept = offered, kept

    def exchange(self, offered, kept):
        with self.offered.get_lock():
            self.offered.value += offered
            self.kept.value += kept
            return self.offered.value, self.kept.value


SHARED = None


def share(offered, kept):
    global SHARED
    SHARED = Counted(offered, kept)


def work(task):
    document, points = task
    shedder = Shedder(Plan.from_document(document), 0.5, fleet=SHARED)
    return sum(int(shedder.offer(part).sum()) for part in np.array_split(points, 60))


def test_a_fleet_holds_the_budget_together(scene, plan):
    # One process sees only tuples it would keep, the other only those it would drop.
    thresholds = plan.at(0.5).drop_thresholds[plan.partition.lookup(scene.fresh)]
    order = np.argsort(thresholds, kind="stable")
    context = multiprocessing.get_context("spawn")
    offered, kept = context.Value("q", 0), context.Value("q", 0)
    halves = np.array_split(scene.fresh[order], 2)
    with ProcessPoolExecutor(2, context, initializer=share, initargs=(offered, kept)) as pool:
        done = list(pool.map(work, [(plan.to_document(), half) for half in halves]))
    assert offered.value == len(scene.fresh)
    assert kept.value == sum(done)
    assert kept.value / offered.value <= 0.5 * 1.02
