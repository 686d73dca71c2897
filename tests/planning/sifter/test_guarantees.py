"""Plans with guarantees, QoS lines and tenants: their optimum, their promises, their bytes."""

import json
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.sifter.guarantees import Difference, difference, instance, without_terms
from planning import batches, rehearsal, streams
from planning.arrays import frozen
from planning.errors import ArtifactError, InfeasiblePlan, InvalidInput, StatisticsError
from planning.guarantees import Guarantees
from planning.keys import draws, hashes
from planning.pacing import ONE
from planning.sifter import codec, kernels, planner, queries, statistics
from planning.sifter.model import Partition
from planning.sifter.plan import Plan, Traced
from planning.sifter.program import Problem
from planning.sifter.queries.shares import Shares
from planning.sifter.shedder import Shedder
from planning.sifter.simulate import Bench
from planning.sifter.statistics import Statistics

LINE = [[0, 0], [0.5, 0.9], [1, 1]]


def test_plans_are_the_optimum_of_highs_within_their_bound():
    worst = Difference(*np.max([difference(seed, 6) for seed in range(40)], axis=0))
    assert worst.quality <= 1e-6
    assert worst.shortfall <= 1e-6
    assert worst.above <= 1e-6
    assert worst.broken <= 1e-6


def test_without_terms_the_general_planner_equals_the_path():
    assert max(without_terms(seed) for seed in range(500)) <= 1e-7


def define(inline, *, loads=(0.3, 0.5, 0.7), parameters=None, **more):
    return streams.parse(
        {
            "stream": "t", "family": "sifter", "attributes": [{"name": "x", "domain": [0, 1]}],
            "queries": {"inline": inline, **more}, "gate": {"loads": list(loads)},
            "parameters": {"fairness_threshold": 1.0} | (parameters or {}),
        },
        "t.yaml",
    )  # fmt: skip


def parts(definition, frequency, shares):
    """Statistics of regions in a row, with what each query has of each region's data."""
    asked, shares = queries.of(definition), np.array(shares, dtype=float)
    cuts = None
    for k in range(1, len(frequency)):
        cuts = (0, k / len(frequency), cuts, None)
    query, region = np.nonzero(shares)
    qos = asked.coefficient @ shares
    return Statistics(
        Partition.from_nested(cuts), np.ones(len(frequency), np.int64), frozen(frequency),
        frozen(qos), shares.any(axis=0), 1.0 - float(qos.sum()), 1000, 1000, len(shares),
        shares=Shares.of(query, region, shares[query, region], shares.shape),
    )  # fmt: skip


@pytest.fixture(scope="module")
def two():
    """Two halves, a query for each; the first must keep 0.9 of it, though the other weighs more."""
    definition = define(
        [
            {"name": "alerts", "ranges": {"x": [0, 0.5]}, "min_completeness": 0.9, "weight": 1},
            {"name": "rest", "ranges": {"x": [0.5, 1]}, "weight": 3},
        ]
    )
    statistics = parts(definition, [0.5, 0.5], [[1, 0], [0, 1]])
    return definition, statistics, planner.plan(statistics, definition)


def test_a_guarantee_comes_before_quality_and_states_its_floor(two):
    definition, known, plan = two
    # 0.45 of the stream are the alerts that are asked for; below, they get all there is.
    assert plan.at(0.7).drop_thresholds.tolist() == pytest.approx([0.1, 0.5], abs=1e-6)
    assert plan.at(0.45).drop_thresholds.tolist() == pytest.approx([0.1, 1.0], abs=1e-6)
    assert plan.at(0.2).drop_thresholds.tolist() == pytest.approx([0.6, 1.0], abs=1e-6)
    (alerts,) = plan.guarantees
    assert str(alerts) == "query alerts: min_completeness 0.9 down to load 0.45"
    assert alerts.holds_from == pytest.approx(0.45, abs=1e-6)
    assert plan.kept(0.2) == pytest.approx([0.4], abs=1e-6)
    assert plan.predicted_quality(0.7) == pytest.approx(0.25 * 0.9 + 0.75 * 0.5, abs=1e-6)
    assert isinstance(plan, Guarantees)
    assert plan.summary()["guarantees"] == [str(alerts)]
    assert planner.solver_status(plan, definition) == f"within {plan.traced.error:.3g}"
    assert 0 < plan.traced.error <= 1e-3
    (warning, *_) = planner.warnings(plan, known, definition)
    assert warning.startswith(
        "query alerts: min_completeness 0.9 holds from load 0.45 on, at load 0.3 it is 0.6: lower "
        "min_completeness, ask less for others"
    )
    assert known.completeness(plan.at(0.3).drop_thresholds) == pytest.approx([0.6, 0.0], abs=1e-6)


def test_priorities_come_one_after_another_and_equals_fall_short_together():
    inline = [
        {"name": name, "ranges": {"x": [0, 0.5]}, "min_completeness": asked, "priority": priority}
        for name, asked, priority in (("a", 1.0, 2), ("b", 0.8, 1), ("c", 0.4, 1))
    ]
    definition = define(inline, loads=(1.0,))
    plan = planner.plan(parts(definition, [0.2, 0.4, 0.4], np.eye(3)), definition)
    assert plan.kept(0.1) == pytest.approx([0.5, 0.0, 0.0], abs=1e-5)
    # a holds from 0.2 on; b and c share 0.24 by what they ask for: half of it, 0.4 and 0.2.
    assert plan.kept(0.44) == pytest.approx([1.0, 0.4, 0.2], abs=1e-3)
    floors = [one.holds_from for one in plan.guarantees]
    assert floors == pytest.approx([0.2, 0.68, 0.68], abs=1e-4)
    assert [one.name for one in plan.guarantees] == ["query a", "query b", "query c"]


def test_what_is_worth_most_first_is_shared_out():
    definition = define([{"ranges": {"x": [0, 0.5]}, "qos": LINE}] * 2)
    plan = planner.plan(parts(definition, [0.5, 0.5], np.eye(2)), definition)
    assert plan.guarantees == ()
    assert plan.kept(0.5) == ()
    assert plan.at(0.5).drop_thresholds.tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert plan.predicted_quality(0.5) == pytest.approx(0.9, abs=1e-6)
    assert plan.predicted_quality(0.75) == pytest.approx(0.95, abs=1e-6)


def test_tenants_bear_their_caps_and_their_gap():
    inline = [{"ranges": {"x": [0, 0.5]}, "tenant": t, "weight": w}
              for t, w in (("a", 1), ("b", 9))]  # fmt: skip
    shares = np.eye(2)
    for more, expected in (
        ({}, [1.0, 0.0]),
        ({"tenants": {"a": {"max_loss": 0.7}}}, [0.7, 0.3]),
        ({"tenant_gap": 0.2}, [0.6, 0.4]),
        ({"tenants": {"a": {"weight": 99}}}, [0.0, 1.0]),
        ({"tenants": {"a": {"max_loss": 0.55}}, "tenant_gap": 0.0}, [0.5, 0.5]),
        ({"tenants": {"a": {"max_loss": 0.4}}, "tenant_gap": 0.0}, [0.4, 0.6]),
    ):
        definition = define(inline, **more)
        plan = planner.plan(parts(definition, [0.5, 0.5], shares), definition)
        assert plan.at(0.5).drop_thresholds.tolist() == pytest.approx(expected, abs=1e-5), more
        if "tenant_gap" in more:
            assert plan.kept(0.5)[-1] == pytest.approx(abs(np.subtract(*expected)), abs=1e-5)


def test_what_holds_at_no_load_in_use_is_infeasible_and_says_what_to_relax():
    inline = [{"name": "a", "ranges": {"x": [0, 0.5]}, "min_completeness": 1.0},
              {"ranges": {"x": [0.5, 1]}, "tenant": "t"}]  # fmt: skip
    definition = define(inline, tenants={"t": {"max_loss": 0.0}}, loads=(0.3, 0.5))
    with pytest.raises(InfeasiblePlan, match=r"query a: min_completeness 1 holds from load 1 on"):
        planner.plan(parts(definition, [0.5, 0.5], np.eye(2)), definition)
    # The gap between tenants is no guarantee: it is only warned about.
    inline = [{"ranges": {"x": [0, 0.5]}, "tenant": t} for t in "ab"]
    definition = define(inline, tenants={"a": {"max_loss": 0.1}}, tenant_gap=0.0, loads=(0.9,))
    statistics = parts(definition, [0.5, 0.5], np.eye(2))
    plan = planner.plan(statistics, definition)
    (warning, *_) = planner.warnings(plan, statistics, definition)
    assert warning.startswith("tenants: tenant_gap 0 holds from load 0.9 on, at load 0.5 it is 0.8")


def test_terms_need_the_queries_shares(two):
    definition, statistics, _ = two
    with pytest.raises(StatisticsError, match="run the statistics stage again"):
        planner.plan(replace(statistics, shares=None), definition)


def test_running_out_of_time_is_a_larger_error_and_a_valid_plan():
    definition, statistics = instance(5, 40, 150, 20)
    problem = Problem.of(statistics, definition)
    hasty, whole = planner.solve(problem, 1e-5, 1e-3), planner.solve(problem, 1e-5, 60.0)
    assert hasty.error > whole.error
    assert whole.error <= 1e-5
    for z in np.linspace(problem.lowest, 1, 30)[1:]:
        rows = np.array([hasty.at(z), whole.at(z)])
        assert problem.passed(rows) == pytest.approx([z, z], abs=1e-6)
        window = np.ptp(rows[:, problem.queried], axis=1)
        assert window.max() <= problem.fairness_threshold + 1e-6
    late = definition.with_parameters({"quality_error": 1e-5, "solve_limit_s": 1e-3})
    plan = planner.plan(statistics, late)
    assert "raise solve_limit_s or quality_error" in planner.warnings(plan, statistics, late)[-1]


@pytest.fixture(scope="module")
def rich():
    """A plan with everything, whose thresholds do not all fall with the load."""
    found = None
    for seed in range(40):
        definition, statistics = instance(seed, 9, 20)
        plan = planner.plan(statistics, definition)
        if plan.traced and plan.not_nested and plan.guarantees and not statistics.pinned_fraction:
            found = plan
            break
    assert found is not None
    return found


def test_not_nested_tells_the_truth(rich, two):
    assert two[2].not_nested == ()
    loads = np.unique([*np.linspace(0, 1, 301), *rich.traced.loads])
    d = np.array([rich.at(z).drop_thresholds for z in loads])
    rising = np.flatnonzero((np.diff(d, axis=0) > 0).any(axis=0)).tolist()
    assert list(rich.not_nested) == rising != []
    assert rich.summary()["not_nested"] == rising
    # Keys nest in every other region.
    steps = np.array([rich.at(z).steps[:-1] for z in loads]).astype(np.int64)
    nested = np.setdiff1d(np.arange(rich.regions), rising)
    assert (np.diff(steps[:, nested], axis=0) <= 0).all()


def test_a_plan_with_terms_keeps_its_fairness_threshold(rich):
    shedder = Shedder(rich, 0.5)
    shedder.set_load(0.4, rich.fairness_threshold)
    with pytest.raises(InvalidInput, match="for which the plan was solved"):
        rich.at(0.5, 0.123)


def places(rng, rows, regions=9):
    """Tuples that come in bursts of one region."""
    start = rng.integers(0, regions, rows // 50 + 1).repeat(50)[:rows]
    mixed = np.where(rng.random(rows) < 0.5, start, rng.integers(0, regions, rows))
    return {"x": (mixed + rng.random(rows)) / regions}


def test_the_budget_is_a_promise_over_jumping_loads_and_all_sizes(rich):
    rng = np.random.default_rng(2)
    stream = places(rng, 60_000)
    schedule = (0.3, 0.7, 0.05, 1.0, 0.5, 0.51, 0.2, 0.9)
    for size in (1, 7, 100, 2_000, 20_000):
        rows = 8_000 if size == 1 else 60_000
        part = {"x": stream["x"][:rows]}
        for load in (schedule, 0.4):
            keep = rehearsal.shed(rich, "sifter", part, load, size=size)
            # Loads change between batches: each is in force for a whole one.
            at = rehearsal.along(load, rows)[np.arange(rows) // size * size]
            balance = np.concatenate([[0.0], np.cumsum(keep - at)])
            above = float((balance - np.minimum.accumulate(balance)).max())
            assert above <= 100 * float(np.max(at[at < 1.0])) + 1.0
            if load == 0.4:
                assert keep.sum() <= 0.4 * rows + 1.0
                assert keep.mean() >= 0.39


def test_single_tuples_batches_and_weights_decide_alike(rich):
    rng = np.random.default_rng(3)
    stream = places(rng, 3_000)
    one, all_at_once, weighted = (Shedder(rich, 0.45) for _ in range(3))
    singly = [one.offer_one({"x": float(x)}) for x in stream["x"]]
    keep, weight = weighted.offer_weighted(stream)
    assert singly == all_at_once.offer(stream).tolist() == keep.tolist()
    assert (weight[keep] >= 1.0).all()
    assert not weight[~keep].any()


def test_keys_decide_by_the_plan_at_the_load(rich):
    rng = np.random.default_rng(4)
    stream = places(rng, 5_000)
    shedder = Shedder(rich, 0.45)
    drawn = draws(hashes([np.arange(5_000)]))
    decided = shedder.decide(batches.read(stream, shedder.schema), draws=drawn).keep
    region = rich.partition.lookup(stream["x"][:, None])
    steps = np.ceil(rich.at(0.45).drop_thresholds * ONE).astype(np.uint64)
    assert decided.tolist() == (drawn >= steps[region]).tolist()


def test_the_ledgers_levels_never_go_against_the_debt(rich):
    for z in (0.2, 0.45, 0.8):
        shedder = Shedder(rich, z, correct=False)
        exact = shedder._steps.astype(np.int64)
        for level in range(kernels.LEVELS):
            shedder._ledger[[kernels.SINCE, kernels.LEVEL]] = 1, level
            shedder._set_level()
            steps = shedder._levels[level, :-1].astype(np.int64)
            part = ((level - 16) / 16.5) ** 3
            at = (1 - part) * z if part > 0 else z - part * (1 - z)
            planned = rich.at(max(at, min(z, rich.path.lowest))).steps.astype(np.int64)
            limit = {1: np.maximum, -1: np.minimum, 0: lambda a, _: a}[int(np.sign(level - 16))]
            assert np.abs(steps - limit(planned, exact)).max() <= 64


def test_what_a_limit_cuts_first_is_what_the_plan_drops_most():
    inline = [
        {"ranges": {"x": [0, 0.5]}, "min_completeness": 0.9},
        {"ranges": {"x": [0.5, 1]}, "weight": 5},
    ]
    definition = define(inline)
    plan = planner.plan(parts(definition, [0.5, 0.5], np.eye(2)), definition)
    assert plan.order.tolist() == [1, 0]  # by A/f alone it would be the other way round
    assert plan.path.order[plan.path.order >= 0].tolist() == [0, 1]


def test_both_forms_decode_to_equal_plans(rich, two):
    for plan in (rich, two[2]):
        text = json.loads(json.dumps(plan.to_document()))
        for again in (Plan.from_bytes(plan.to_bytes()), Plan.from_document(text)):
            assert again.to_document() == plan.to_document()
            assert again.to_bytes() == plan.to_bytes()
            assert again.guarantees == plan.guarantees
            assert again.traced.drop_thresholds.tolist() == plan.traced.drop_thresholds.tolist()
    size, loads = len(rich.to_bytes()), len(rich.traced.loads)
    assert size < 4 * loads * rich.regions + 20 * loads * (2 + len(rich.guarantees)) + 2000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loads", lambda t: t["loads"][::-1]),
        ("loads", lambda t: [0.1, *t["loads"][1:]]),
        ("loads", lambda t: [*t["loads"][:-1], 0.999]),
        ("loads", lambda t: [t["loads"][0], t["loads"][0], *t["loads"][2:]]),
        ("loads", lambda t: [0.0]),
        ("drop_thresholds", lambda t: t["drop_thresholds"][:-1]),
        ("drop_thresholds", lambda t: [1.5, *t["drop_thresholds"][1:]]),
        ("drop_thresholds", lambda t: [*t["drop_thresholds"][:-1], 0.1]),
        ("drop_thresholds", lambda t: [float("nan"), *t["drop_thresholds"][1:]]),
        ("quality", lambda t: [float("inf"), *t["quality"][1:]]),
        ("quality", lambda t: t["quality"][1:]),
        ("kept", lambda t: [row[1:] for row in t["kept"]]),
        ("kept", lambda t: [[3.0] * len(row) for row in t["kept"]]),
        ("error", lambda t: -1.0),
        ("error", lambda t: float("nan")),
        ("guarantees", lambda t: [g | {"holds_from": 5.0} for g in t["guarantees"]]),
        ("guarantees", lambda t: [g | {"value": -0.5} for g in t["guarantees"]]),
        ("guarantees", lambda t: t["guarantees"][1:]),
        ("zebra", lambda t: 1),
    ],
)
def test_a_damaged_table_is_refused(rich, field, value):
    document = rich.to_document()
    changed = document | {"traced": document["traced"] | {field: value(document["traced"])}}
    with pytest.raises(ArtifactError, match="sifter plan must"):
        Plan.from_document(changed)


def test_damaged_bytes_are_refused_or_another_sound_plan(rich):
    payload = bytearray(rich.to_bytes())
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(400):
        damaged = bytearray(payload)
        place = int(rng.integers(len(damaged) - 900, len(damaged)))
        damaged[place] ^= 1 << int(rng.integers(8))
        try:
            read = Plan.from_bytes(bytes(damaged))
        except ArtifactError:
            refused += 1
        else:
            d = np.array([read.at(z).drop_thresholds for z in (0.0, 0.3, 0.77, 1.0)])
            assert ((d >= 0.0) & (d <= 1.0)).all()
    assert 100 < refused < 400
    for end in range(len(payload) - 700, len(payload), 13):
        with pytest.raises(ArtifactError):
            Plan.from_bytes(bytes(payload[:end]))


def test_a_bomb_is_refused_before_it_is_unpacked(two):
    plan = two[2]
    whole = plan.to_bytes()
    head = codec.message(codec._traced_head(plan.traced))
    tail = codec.LENGTH.pack(len(head)) + head + zlib.compress(bytes(10**8), 9)
    before = whole[: whole.index(struct.pack("<I", len(head)) + head)]
    with pytest.raises(ArtifactError, match="bytes of tables"):
        Plan.from_bytes(before + tail)
    loads = np.linspace(0, 1, codec.MOST_THRESHOLDS // plan.regions + 1)
    many = replace(plan.traced, loads=loads, quality=loads, kept=loads[:0].reshape(0, 1))
    head = codec.message(codec._traced_head(many))
    with pytest.raises(ArtifactError, match="at most"):
        Plan.from_bytes(before + codec.LENGTH.pack(len(head)) + head + b"")


def test_settings_are_mixed_between_the_loads(rich):
    loads = rich.traced.loads
    for low, high in zip(loads, loads[1:], strict=False):
        for part in (0.0, 0.3, 1.0):
            z = low + part * (high - low)
            ends = [rich.at(end).drop_thresholds for end in (low, high)]
            expected = (1 - part) * ends[0] + part * ends[1]
            assert rich.at(z).drop_thresholds == pytest.approx(expected, abs=1e-9)


def test_shares_are_what_queries_have_of_regions(scene, make):
    points = scene.workload.tuples(40_000)
    corners = np.random.default_rng(1).uniform(0, 0.7, (40, 2))
    ranges = [{"x": [x, x + 0.3], "y": [y, y + 0.2]} for x, y in corners.tolist()]
    definition = make([{"ranges": r, "weight": 1 + i % 3} for i, r in enumerate(ranges)])
    made = statistics.build(scene.columns(points), definition)
    rng = np.random.default_rng(0)
    d = rng.random(made.partition.regions)
    asked = queries.of(definition)
    quality = float(asked.weight @ (1 - asked.slope * (1 - made.completeness(d))))
    assert quality == pytest.approx(made.base_qos + float((1 - d) @ made.region_qos), abs=1e-7)
    # Measured: which part of its samples each query keeps when regions are dropped whole.
    gone = rng.random(made.partition.regions) < 0.5
    keep = ~gone[made.partition.lookup(points)]
    bench = Bench(points, asked)
    many = bench.matches >= 100
    off = made.completeness(gone * 1.0) - bench.completeness(keep, 1.0)
    assert many.sum() > 20
    assert np.abs(off[many]).max() < 0.05
    document = made.to_document()
    again = Statistics.from_document(json.loads(json.dumps(document)))
    assert again.to_document() == document
    del document["shares"]
    assert Statistics.from_document(document).shares is None


def test_traced_loads_and_quality_are_of_the_statistics():
    definition, statistics = instance(3, 9, 20)
    plan = planner.plan(statistics, definition)
    assert isinstance(plan.traced, Traced)
    problem = Problem.of(statistics, definition)
    for k, load in enumerate(plan.traced.loads):
        d = plan.at(load).drop_thresholds
        assert plan.predicted_quality(load) == pytest.approx(problem.quality(d)[0], abs=1e-9)
        assert plan.kept(load) == pytest.approx(problem.kept(d)[0].tolist(), abs=1e-9)
        between = (load + plan.traced.loads[min(k + 1, len(plan.traced.loads) - 1)]) / 2
        there = problem.quality(plan.at(between).drop_thresholds)[0]
        assert plan.predicted_quality(between) <= there + 1e-9
