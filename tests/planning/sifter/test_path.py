"""The exact path against two independent solvers, and its promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from benchmarks.sifter.planning import solve
from planning.arrays import frozen
from planning.sifter import kernels
from planning.sifter.model import Axis, Partition, Pins, Space
from planning.sifter.path import Path
from planning.sifter.plan import Plan
from planning.sifter.shedder import Shedder

INSTANCES = 2000


def instance(seed):
    """Random and degenerate: f = 0, A = 0, no queries, ties, Delta and z at both ends."""
    rng = np.random.default_rng(seed)
    regions = int(rng.integers(1, 13))
    frequency = rng.dirichlet(np.full(regions, 0.5))
    qos = rng.random(regions) * rng.choice([0.01, 1.0, 5.0])
    queried = rng.random(regions) < rng.choice([0.0, 0.5, 0.9, 1.0])
    if seed % 3 == 0:
        frequency[rng.random(regions) < 0.3] = 0.0
        frequency = frequency / frequency.sum() if frequency.sum() else np.full(
            regions, 1 / regions
        )
        qos[rng.random(regions) < 0.3] = 0.0
    if seed % 5 == 0:
        frequency, qos = np.full(regions, 1 / regions), np.full(regions, 0.25)
    qos = np.where(queried & (frequency > 0), qos, 0.0)
    delta = float(rng.choice([0.0, 1.0, 0.5, rng.random()]))
    z = float(rng.choice([0.0, 1.0, 0.5, rng.random()]))
    return frequency, qos, queried, z, delta


def highs_loss(frequency, qos, queried, z, delta):
    regions = len(frequency)
    members = np.flatnonzero(queried)
    rows = np.zeros((2 * len(members), regions + 1))
    for r, i in enumerate(members):
        rows[2 * r, [i, regions]] = 1.0, -1.0
        rows[2 * r + 1, [i, regions]] = -1.0, 1.0
    limits = np.tile([delta, 0.0], len(members))
    solved = linprog(
        np.append(qos, 0.0),
        A_ub=rows if len(members) else None,
        b_ub=limits if len(members) else None,
        A_eq=np.append(frequency, 0.0)[None, :],
        b_eq=[(1.0 - z) * frequency.sum()],
        bounds=[(0, 1)] * (regions + 1),
        method="highs",
    )
    assert solved.status == 0, solved.message
    return solved.fun


def check_promises(thresholds, frequency, queried, z, delta):
    assert (thresholds >= 0).all()
    assert (thresholds <= 1).all()
    assert np.dot(frequency, thresholds) == pytest.approx(1 - z, abs=1e-12)
    window = thresholds[queried]
    if window.size:
        assert window.max() - window.min() <= delta + 1e-12


def test_path_is_the_optimum_of_the_window_and_pairwise_programs():
    for seed in range(INSTANCES):
        frequency, qos, queried, z, delta = instance(seed)
        thresholds = Path.of(frequency, qos, queried).thresholds(z, delta)
        check_promises(thresholds, frequency, queried, z, delta)
        lost = float(np.dot(qos, thresholds))
        for form in ("window", "pairwise"):
            solved = solve(frequency, qos, queried, z, delta, form)
            assert lost == pytest.approx(solved, abs=1e-9), (seed, form)


def test_path_is_the_optimum_of_highs():
    for seed in range(0, INSTANCES, 4):  # the benchmark solves them all
        frequency, qos, queried, z, delta = instance(seed)
        thresholds = Path.of(frequency, qos, queried).thresholds(z, delta)
        expected = highs_loss(frequency, qos, queried, z, delta)
        assert float(np.dot(qos, thresholds)) == pytest.approx(expected, abs=1e-9), seed


def test_greedy_order_is_by_ratio_not_by_region_qos():
    # The region with the smallest A is the wrong one to drop: it holds hardly any data.
    frequency, qos = np.array([0.1, 0.9]), np.array([0.2, 0.3])
    thresholds = Path.of(frequency, qos, np.array([True, True])).thresholds(0.5, 1.0)
    assert thresholds[0] == 0.0
    assert thresholds[1] == pytest.approx(5 / 9)


def test_delta_zero_is_not_random_dropping_where_regions_have_no_queries():
    path = Path.of(np.array([0.4, 0.6]), np.array([1.0, 0.0]), np.array([True, False]))
    assert path.thresholds(0.5, 0.0).tolist() == pytest.approx([0.0, 5 / 6])


def test_thresholds_rise_as_z_falls_and_bend_only_at_breakpoints():
    rng = np.random.default_rng(3)
    frequency, qos = rng.dirichlet(np.ones(9)), rng.random(9)
    queried = np.arange(9) > 1
    qos = np.where(queried, qos, 0.0)
    path = Path.of(frequency, qos, queried)
    bends = path.breakpoints(0.4)
    assert len(bends) <= 9 + 2
    assert bends[0] == 1.0
    assert bends[-1] == pytest.approx(0.0, abs=1e-12)
    grid = [path.thresholds(z, 0.4) for z in np.linspace(1, 0, 101)]
    assert (np.diff(grid, axis=0) >= -1e-12).all()
    for high, low in zip(bends[:-1], bends[1:], strict=True):
        middle = path.thresholds((high + low) / 2, 0.4)
        ends = (path.thresholds(high, 0.4) + path.thresholds(low, 0.4)) / 2
        assert middle == pytest.approx(ends, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_promises_hold_for_any_statistics(regions, z, delta):
    counts, mass, queried = (np.array(column) for column in zip(*regions, strict=True))
    if counts.sum() == 0:
        counts = counts + 1
    frequency = counts / counts.sum()
    qos = np.where(queried & (frequency > 0), mass / 50.0, 0.0)
    thresholds = Path.of(frequency, qos, queried).thresholds(z, delta)
    check_promises(thresholds, frequency, queried, z, delta)


def test_frequencies_that_do_not_cover_the_budget_are_dropped_whole():
    path = Path.of(np.array([0.3]), np.array([1.0]), np.array([True]))
    assert path.thresholds(0.1, 0.5).tolist() == [1.0]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.99]) | st.floats(0, 0.99))
def test_a_least_fraction_kept_is_a_constraint_of_the_optimum(seed, min_keep):
    frequency, qos, queried, share, delta = instance(seed)
    z = min_keep + (1.0 - min_keep) * share  # below, no thresholds meet the budget
    thresholds = Path.of(frequency, qos, queried, min_keep).thresholds(z, delta)
    check_promises(thresholds, frequency, queried, z, delta)
    assert (thresholds <= 1.0 - min_keep + 1e-12).all()
    lost = float(np.dot(qos, thresholds))
    for form in ("window", "pairwise"):
        solved = solve(frequency, qos, queried, z, delta, form, min_keep)
        assert lost == pytest.approx(solved, abs=1e-9)


def test_below_the_least_fraction_every_region_keeps_the_load():
    frequency, qos = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.1, 0.0])
    path = Path.of(frequency, qos, np.array([True, True, False]), 0.25)
    assert path.thresholds(0.2, 0.5).tolist() == pytest.approx([0.8] * 3)
    assert path.thresholds(0.25, 0.5).tolist() == pytest.approx([0.75] * 3)
    assert path.thresholds(0.625, 0.5).tolist() == pytest.approx([0.0, 0.0, 0.75])
    assert path.thresholds(0.0, 0.5).tolist() == [1.0] * 3
    assert path.thresholds(1.0, 0.5).tolist() == [0.0] * 3
    even = Path.of(frequency, qos, np.array([True, True, False]), 1.0)
    assert even.thresholds(0.3, 0.5).tolist() == pytest.approx([0.7] * 3)
    assert even.breakpoints(0.5).tolist() == [1.0, 0.0]


def test_pinned_tuples_are_paid_before_the_least_fraction():
    # 0.4 of the stream is pinned, so at z = 0.5 the rest may keep 1/6 of itself, less than 0.2.
    path = Path.of(np.array([0.2, 0.4]), np.array([0.5, 0.1]), np.array([True, True]), 0.2)
    assert path.thresholds(0.5, 1.0).tolist() == pytest.approx([5 / 6] * 2)
    assert path.thresholds(0.4, 1.0).tolist() == pytest.approx([1.0] * 2)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.7]))
def test_no_rounded_threshold_falls_with_the_load(seed, z, other, min_keep):
    frequency, qos, queried, _, delta = instance(seed)
    path = Path.of(frequency, qos, queried, min_keep)
    bends = path.breakpoints(delta).tolist()
    loads = sorted({z, other, min_keep, *bends, 0.0, 1.0})
    loads = sorted({y for x in loads for y in (x, np.nextafter(x, 1.0), np.nextafter(x, 0.0))})
    kept = [path.thresholds(x, delta) for x in loads]
    assert (np.diff(kept, axis=0) <= 0.0).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]))
def test_the_compiled_steps_are_those_of_the_path(seed, min_keep):
    frequency, qos, queried, z, delta = instance(seed)
    cuts = None
    for k in range(1, len(frequency)):
        cuts = (0, float(k), cuts, None)
    none = frozen(np.zeros((0, 1)))
    plan = Plan(
        Space((Axis("x", "float", 0.0, 20.0),)), Partition.from_nested(cuts), frozen(frequency),
        frozen(qos), queried, 0.0, delta, 0.5, Pins(none, none), min_keep=min_keep,
    )  # fmt: skip
    shedder = Shedder(plan, z, correct=False)
    busy = np.append(frequency > 1e-6, True)  # thresholds of next to nothing are all rounding
    for level in range(kernels.LEVELS):  # from nearly 1 through z to nearly 0
        shedder._ledger[[kernels.SINCE, kernels.LEVEL]] = 1, level
        shedder._set_level()
        part = ((level - 16) / 16.5) ** 3
        at = (1 - part) * z if part > 0 else z - part * (1 - z)
        exact = plan.at(max(at, min(z, plan.path.lowest))).steps.astype(np.int64)
        compiled = shedder._levels[level, :-1].astype(np.int64)
        assert np.abs(compiled - exact)[busy].max() <= 64
