"""Every partitioner: a complete division, its own promise, and what odd samples do to it."""

from typing import get_args

import numpy as np
import pytest

from benchmarks.sifter.many_regions import expected_loss
from benchmarks.sifter.reference_tree import Grower, point_masses
from planning.sifter import partitioners
from planning.sifter.demo import Settings, Workload
from planning.sifter.model import LEAF, is_preorder
from planning.sifter.parameters import Parameters, PartitionerName
from planning.sifter.partitioners import cost_pruning
from planning.sifter.partitioners.sample import Sample
from planning.sifter.path import Path
from planning.sifter.queries import boxes
from planning.sifter.queries.matching import hit_counts
from planning.sifter.statistics import consolidate

NAMES = get_args(PartitionerName)


def sample_of(points, asked, dimensions=2, discrete=None):
    flags = np.zeros(dimensions, dtype=bool) if discrete is None else np.array(discrete)
    return Sample(points, asked, np.zeros(dimensions), np.ones(dimensions), flags)


def workload_sample(seed=2, count=600, dimensions=2):
    workload = Workload(Settings("SKEW", "SKEW", dimensions=dimensions, queries=150), seed)
    return sample_of(workload.tuples(count), workload.queries, dimensions)


def make(name, sample, regions=16, **more):
    parameters = Parameters(regions=regions, partitioner=name, **more)
    return partitioners.PARTITIONERS[name](sample, parameters)


def test_the_table_holds_every_name_that_a_definition_may_give():
    assert tuple(partitioners.PARTITIONERS) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_point_has_one_region_and_regions_fill_the_space(name, dimensions, rng):
    sample = workload_sample(dimensions=dimensions)
    partition = make(name, sample, regions=27)
    assert 1 < partition.regions <= 27
    assert is_preorder(partition.dimension)
    low, high = partition.bounds(sample.low, sample.high)
    assert np.prod(high - low, axis=1).sum() == pytest.approx(1.0)
    assert (high > low).all()
    points = rng.random((2000, dimensions))
    inside = (low[None] <= points[:, None]) & (points[:, None] < high[None])
    assert (inside.all(axis=2).sum(axis=1) == 1).all()
    assert inside.all(axis=2).argmax(axis=1).tolist() == partition.lookup(points).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_same_sample_same_partition(name):
    one, two = (make(name, workload_sample()) for _ in range(2))
    assert one.dimension.tolist() == two.dimension.tolist()
    assert one.cut.tolist() == two.cut.tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("points", "asked"),
    [
        (np.full((50, 2), 0.3), 40),
        (np.repeat([[0.1, 0.9], [0.8, 0.2]], 30, axis=0), 40),
        (np.array([[0.5, 0.5]]), 40),
        (np.random.default_rng(0).random((30, 2)).round(1), 40),
        (np.random.default_rng(0).random((200, 2)), 0),
    ],
    ids=["one point", "two points", "single tuple", "duplicates", "no queries"],
)
def test_odd_samples_give_a_usable_partition(name, points, asked, rng):
    low = rng.random((asked, 2)) * 0.9
    partition = make(name, sample_of(points, boxes(low, low + 0.1)), regions=100)
    assert 1 <= partition.regions <= 100
    assert is_preorder(partition.dimension)
    low, high = partition.bounds(np.zeros(2), np.ones(2))
    assert (high > low).all()


def test_uniform_grid_has_equal_volumes_and_the_power_below():
    partition = make("uniform_grid", workload_sample(), regions=30)
    assert partition.regions == 25
    low, high = partition.bounds(np.zeros(2), np.ones(2))
    assert np.prod(high - low, axis=1) == pytest.approx(np.full(25, 1 / 25))


def test_data_equi_depth_has_equal_counts():
    sample = workload_sample(count=640)
    partition = make("data_equi_depth", sample, regions=16)
    counts = np.bincount(partition.lookup(sample.points))
    assert counts.tolist() == [40] * 16


def test_query_equi_depth_has_equal_query_centers():
    sample = workload_sample()
    partition = make("query_equi_depth", sample, regions=9)
    counts = np.bincount(partition.lookup(sample.query_centers))
    assert counts.max() - counts.min() <= 2


def test_flexible_grid_volumes_differ_at_most_twofold_for_any_l():
    # Section V-C.
    partition = make("flexible_uniform_grid", workload_sample(), regions=10)
    low, high = partition.bounds(np.zeros(2), np.ones(2))
    volume = np.prod(high - low, axis=1)
    assert partition.regions == 10
    assert volume.max() / volume.min() == pytest.approx(2.0)


def test_flexible_equi_depth_counts_differ_at_most_twofold_for_any_l():
    sample = workload_sample(count=640)
    partition = make("flexible_data_equi_depth", sample, regions=10)
    counts = np.bincount(partition.lookup(sample.points))
    assert partition.regions == 10
    assert counts.max() <= 2 * counts.min() + 1


def diversity(positions, hits):
    return ((positions - positions.mean()) ** 2).sum() * ((hits - hits.mean()) ** 2).sum()


def test_qdpart_splits_where_equation_11_says():
    sample = workload_sample(count=60)
    partition = make("qdpart", sample, regions=2)
    best = (-1.0, None, None)
    hits = hit_counts(sample.points, sample.queries).astype(float)
    for axis in range(2):
        order = np.argsort(sample.points[:, axis])
        x, h = sample.points[order, axis], hits[order]
        roof = diversity(x, h)
        for j in range(1, len(x)):
            gain = roof - diversity(x[:j], h[:j]) - diversity(x[j:], h[j:])
            if gain > best[0]:
                best = (gain, axis, (x[j - 1], x[j]))
    assert partition.dimension[0] == best[1]
    assert best[2][0] < partition.cut[0] <= best[2][1]


def test_qdpart_stops_early_when_all_hits_are_equal(rng):
    everywhere = boxes(np.zeros((3, 2)), np.ones((3, 2)))
    partition = make("qdpart", sample_of(rng.random((100, 2)), everywhere), regions=16)
    assert partition.regions == 1


def loss_of(partition, sample, z=0.5, delta=0.5):
    counts = np.bincount(partition.lookup(sample.points), minlength=partition.regions)
    frequency = counts / counts.sum()
    qos, queried, _, _ = consolidate(partition, frequency, sample.queries, sample.low, sample.high)
    return float(np.dot(qos, Path.of(frequency, qos, queried).thresholds(z, delta)))


def test_cost_tree_loses_least_on_its_own_sample():
    losses = {name: 0.0 for name in NAMES}
    for seed in range(6):
        sample = workload_sample(seed, count=1000)
        for name in NAMES:
            losses[name] += loss_of(make(name, sample), sample)
    best_other = min(loss for name, loss in losses.items() if name != "cost_tree")
    assert losses["cost_tree"] < 0.85 * best_other


def test_cost_tree_cuts_off_the_space_without_queries(rng):
    # All queries lie in one corner, the data everywhere: one region must be free and hold most.
    low = rng.random((50, 2)) * 0.2
    sample = sample_of(rng.random((400, 2)), boxes(low, low + 0.05))
    partition = make("cost_tree", sample, regions=3)
    thirds = np.full(3, 1 / 3)
    _, queried, _, _ = consolidate(partition, thirds, sample.queries, sample.low, sample.high)
    free = partition.lookup(sample.points)[:, None] == np.flatnonzero(~queried)
    assert free.any(axis=1).mean() > 0.85


def brute_force_prune(axis, left, value, node, leaves):
    """Best value with exactly up to ``leaves`` leaves below node, by trying everything."""
    best = value[node]
    if axis[node] == LEAF:
        return best
    for k in range(1, leaves):
        one = brute_force_prune(axis, left, value, left[node], k)
        two = brute_force_prune(axis, left, value, left[node] + 1, leaves - k)
        best = max(best, one + two)
    return best


@pytest.mark.parametrize("seed", range(10))
def test_pruning_is_optimal(seed):
    rng = np.random.default_rng(seed)
    axis, left, used, open_nodes = np.full(31, LEAF), np.zeros(31, dtype=np.int64), 1, [0]
    while used < 31:
        node = open_nodes.pop(int(rng.integers(len(open_nodes))))
        axis[node], left[node] = 0, used
        open_nodes += [used, used + 1]
        used += 2
    value = rng.random(31)
    for leaves in (1, 2, 5, 9):
        chosen = cost_pruning.prune(axis, left, value, leaves)
        assert chosen.sum() <= leaves
        expected = brute_force_prune(axis, left, value, 0, leaves)
        assert value[chosen].sum() == pytest.approx(expected)


def test_whole_number_axes_are_cut_at_whole_numbers(rng):
    points = np.column_stack([rng.integers(0, 6, 300), rng.random(300)])
    low = np.column_stack([rng.integers(0, 5, 40), rng.random(40) * 0.8])
    asked = boxes(low, low + [1.0, 0.2])
    sample = Sample(points, asked, np.zeros(2), np.array([6.0, 1.0]), np.array([True, False]))
    for name in NAMES:
        partition = make(name, sample, regions=16)
        cuts = partition.cut[partition.dimension == 0]
        assert (cuts == np.round(cuts)).all(), name


@pytest.mark.parametrize("seed", range(20))
def test_what_pruning_reads_off_the_leaves_is_the_exact_path(seed):
    rng = np.random.default_rng(seed)
    f, a, free = rng.dirichlet(np.ones(12)), rng.random(12), rng.random(12) < 0.2
    a[free] = 0.0
    needs, delta = np.array([0.05, 0.3, 0.6, 0.95]), float(rng.random())
    lost = cost_pruning.multipliers(f, a, free, np.ones(12, dtype=bool), needs, delta)[2]
    path = Path.of(f, a, ~free)
    assert lost == pytest.approx([np.dot(a, path.thresholds(1 - n, delta)) for n in needs])


@pytest.mark.parametrize("regions", [16, 48])
def test_cost_tree_is_about_as_good_as_a_tree_written_apart(regions):
    # Judged on tuples that neither has seen; greedy growth differs by some per cent either way.
    workload = Workload(Settings("SKEW", "SKEW", dimensions=4, queries=100, side=(0.1, 0.3)), 4)
    points, fresh = workload.tuples(4000), workload.tuples(10_000)
    sample = sample_of(points, workload.queries, 4)
    grower = Grower(points, workload.queries, sample.low, sample.high)
    mass, ratios = point_masses(fresh, workload.queries), []
    for z in (0.5, 0.75):
        made = make("cost_tree", sample, regions, throttle_fraction=z)
        region = made.lookup(points)
        f = np.bincount(region, minlength=made.regions) / len(points)
        a = np.bincount(region, weights=grower.mass, minlength=made.regions)
        _, queried, _, _ = consolidate(made, f, workload.queries, sample.low, sample.high)
        path = Path.of(f, np.where(queried, a, 0.0), queried)
        other = grower.tree(regions, z, 0.5)
        ours, theirs = (
            expected_loss(of(fresh), mass, at, z)
            for of, at in (
                (made.lookup, lambda q, path=path: path.thresholds(q, 0.5)),
                (other.lookup, other.thresholds),
            )
        )
        ratios.append(ours / theirs)
    assert np.mean(ratios) < 1.05
