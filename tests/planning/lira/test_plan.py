"""From positions to plan to shedder: budgets, bad input, and what the objective promises."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from planning.arrays import frozen
from planning.errors import ArtifactError, InvalidInput, StatisticsError
from planning.lira.axis import ErrorAxis
from planning.lira.correction import BudgetCorrection
from planning.lira.model import Frame
from planning.lira.objective import node_importance
from planning.lira.parameters import Parameters
from planning.lira.plan import Plan
from planning.lira.planner import levels_of
from planning.lira.planner import plan as make_plan
from planning.lira.shedder import Shedder
from planning.lira.simulate import evaluate, in_order, server_view
from planning.lira.stations import RoamingNode, Stations, broadcasts, place_evenly
from planning.lira.statistics import Statistics, build
from planning.runtime import ThrotLoop
from planning.sections import Attribute, Query


class Definition:
    """A stream definition in miniature: what the family reads of one."""

    def __init__(self, queries: Any = (), **parameters: Any) -> None:
        self.parameters = Parameters(regions=40, cells=32, **parameters)
        self.attributes = tuple(
            Attribute(name=n, domain=(0, 3000 if n in "xy" else 1e6))
            for n in ("object_id", "time", "x", "y", "speed")
        )
        self.queries = type("Queries", (), {})()
        self.queries.file = None
        self.queries.inline = tuple(
            Query(ranges={"x": (q[0], q[2]), "y": (q[1], q[3])}) for q in queries
        )
        self.source = ""


QUERIES = [(500, 500, 1100, 1000), (1900, 1700, 2500, 2300), (300, 2200, 700, 2600)]


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    from planning.lira.trace import generate_trace

    trace = generate_trace(11, cars=150, seconds=400, side_m=3000)
    nodes, ticks, _ = trace.positions.shape
    flat = trace.positions.astype(np.float64)
    speed = np.hypot(*np.diff(flat, axis=1, prepend=flat[:, :1]).transpose(2, 0, 1))
    return {
        "object_id": np.repeat(np.arange(nodes, dtype=float), ticks),
        "time": np.tile(np.arange(ticks, dtype=float), nodes),
        "x": flat[:, :, 0].ravel(),
        "y": flat[:, :, 1].ravel(),
        "speed": speed.ravel(),
    }


@pytest.fixture(scope="module")
def statistics(samples) -> Statistics:
    return build(samples, Definition(QUERIES))


@pytest.fixture(scope="module")
def plan(statistics) -> Plan:
    return make_plan(statistics, Definition(QUERIES))


def test_same_statistics_same_bytes(statistics, plan):
    again = make_plan(
        Statistics.from_document(json.loads(json.dumps(statistics.to_document()))),
        Definition(QUERIES),
    )
    assert again.to_bytes() == plan.to_bytes()
    assert Plan.from_document(json.loads(json.dumps(plan.to_document()))).to_bytes() == (
        plan.to_bytes()
    )


def test_order_of_samples_leaves_no_trace(samples, statistics):
    order = np.random.default_rng(0).permutation(len(samples["x"]))
    shuffled = build({n: v[order] for n, v in samples.items()}, Definition(QUERIES))
    assert shuffled.to_document() == statistics.to_document()


@pytest.mark.parametrize("z", [0.25, 0.4, 0.6, 0.9, 1.0])
def test_a_setting_keeps_budget_fairness_and_range(plan, z):
    setting = plan.at(z)
    spent = plan.weight @ plan.curve(setting.by_level) / plan.weight.sum()
    assert spent <= max(z, plan.floor) + 1e-6
    assert setting.expenditure == pytest.approx(spent)
    assert np.ptp(setting.throttlers) <= plan.fairness_threshold + 1e-9
    assert setting.throttlers.min() >= 5.0
    assert setting.throttlers.max() <= 100.0


def test_quality_and_throttlers_are_monotone_in_z(plan):
    loads = np.linspace(0, 1, 60)
    quality = [plan.predicted_quality(z) for z in loads]
    assert (np.diff(quality) >= -1e-9).all()
    assert quality[-1] == 1.0
    throttlers = np.array([plan.at(z).throttlers for z in loads])
    assert (np.diff(throttlers, axis=0) <= 1e-6).all()


def test_throttlers_fall_with_the_level(plan):
    for z in (0.3, 0.5, 0.8):
        assert (np.diff(plan.at(z).by_level) <= 1e-9).all()


def test_unreachable_load_says_how_far_it_gets(plan):
    setting = plan.at(0.01)
    assert not setting.reached
    assert setting.expenditure == pytest.approx(plan.floor, rel=0.02)
    assert plan.predicted_quality(0.01) == 0.0 < plan.predicted_quality(plan.floor)


def test_no_queries_is_uniform(samples):
    definition = Definition()
    made = make_plan(build(samples, definition), definition)
    assert np.ptp(made.at(0.5).throttlers) < 1e-9
    assert made.predicted_quality(0.3) == 1.0


@pytest.mark.parametrize(
    "queries",
    [
        [(-1e6, -1e6, 1e6, 1e6)],  # larger than the space
        [(100, 100, 100, 100)],  # no area
        [(5000, 5000, 6000, 6000)],  # outside
    ],
)
def test_odd_queries_still_give_a_plan(samples, queries):
    definition = Definition(queries)
    made = make_plan(build(samples, definition), definition)
    assert made.at(0.5).expenditure <= 0.5 + 1e-6


@pytest.mark.parametrize("partitioner", ["halving", "quadtree", "gridreduce", "grid"])
@pytest.mark.parametrize("objective", ["nodes", "paper"])
def test_every_partitioner_and_objective_plans(statistics, partitioner, objective):
    made = make_plan(
        statistics,
        Definition(QUERIES, partitioner=partitioner, objective=objective, speed_factor=True),
    )
    assert made.regions <= 64
    assert made.at(0.5).expenditure <= 0.5 + 1e-6


def test_samples_without_use_are_refused(samples):
    nowhere = samples | {"x": samples["x"] + 1e5}
    with pytest.raises(StatisticsError, match="inside the space"):
        build(nowhere, Definition(QUERIES))
    one_each = {n: v[::400] for n, v in samples.items()}
    with pytest.raises(StatisticsError, match="objects that move"):
        build(one_each, Definition(QUERIES))
    still = samples | {"x": np.full_like(samples["x"], 7.0), "y": np.full_like(samples["y"], 7.0)}
    with pytest.raises(StatisticsError, match="objects that move"):
        build(still, Definition(QUERIES))


def test_parameters_are_checked():
    with pytest.raises(ValidationError, match="lowest_threshold below highest_threshold"):
        Parameters(lowest_threshold=50, highest_threshold=20)
    with pytest.raises(ValidationError):
        Parameters(regions=0)
    with pytest.raises(ValueError, match="attributes object_id, time, x, y, speed"):
        Parameters().check_definition(type("D", (), {"attributes": ()})())


def test_documents_that_do_not_fit_are_refused(plan):
    good = plan.to_document()
    for change in (
        {"format": 9}, {"tree": "LL"}, {"tree": "Q"}, {"level": [0]}, {"bounds": [0, 0, 1]},
        {"reduction": [1.0]}, {"level": [999] * plan.regions}, {"side": 0}, {"extra": 1},
    ):  # fmt: skip
        with pytest.raises(ArtifactError):
            Plan.from_document(good | change)


def test_the_shedder_keeps_its_budget_on_what_it_sees(plan, samples):
    rows = in_order(samples)
    for z in (0.4, 0.6, 0.8):
        shedder = Shedder(plan, z)
        for start in range(0, len(rows["x"]), 500):
            shedder.offer({n: v[start : start + 500] for n, v in rows.items()})
        counters = shedder.counters
        assert counters.offered == len(rows["x"])
        assert counters.objects == 150
        assert 0.97 * z <= counters.passed_fraction <= z


def test_the_shedder_follows_its_node_exactly(plan, samples):
    """At load 1 the reports are those of Δmin; one call per position decides alike."""
    rows = {n: v[:2000] for n, v in in_order(samples).items()}
    batch = Shedder(plan, 1.0, correct=False)
    mask = batch.offer(rows)
    assert batch.counters.due == batch.counters.sent
    single = Shedder(plan, 1.0, correct=False)
    items = zip(*(rows[n] for n in ("object_id", "time", "x", "y")), strict=True)
    assert [single.offer_one(item) for item in items] == mask.tolist()
    view = server_view(rows, mask, 100.0)
    gap = np.hypot(view[:, 0] - rows["x"], view[:, 1] - rows["y"])
    assert gap.max() <= 5.0 + 1e-9


def test_bad_positions_never_raise(plan):
    shedder = Shedder(plan, 1.0)
    nan, inf = np.nan, np.inf
    keep = shedder.offer(
        {
            "object_id": [1, 1, 1, 1, 1, 1, 2],
            "time": [0, 1, -1, 2, nan, 3, 1],
            "x": [10, nan, 10, 2900, 10, inf, -1e300],
            "y": [10, 10, 10, 2900, 10, 10, -1e300],
        }
    )
    # first report; no number; late; a teleport; no time; not finite; far outside, but first
    assert keep.tolist() == [True, False, False, True, False, False, True]
    counters = shedder.counters
    assert (counters.invalid, counters.late, counters.jumps) == (3, 1, 1)
    assert counters.dropped == 4
    assert shedder.offer({"object_id": [1], "time": [9.0]}).tolist() == [False]
    assert shedder.offer({"object_id": ["bus"], "time": [0], "x": [1], "y": [2]}).tolist() == [True]


def test_swap_and_load_keep_the_nodes(plan, samples):
    rows = {n: v[:3000] for n, v in in_order(samples).items()}
    shedder = Shedder(plan, 0.5)
    shedder.offer(rows)
    before = shedder.counters
    shedder.swap(Plan.from_bytes(plan.to_bytes()))
    shedder.set_load(0.3)
    assert shedder.counters == before
    assert shedder.setting.load == pytest.approx(max(0.3, plan.floor))


def test_evaluate_beats_random_dropping(plan, samples):
    outcomes = evaluate(plan, samples, Definition(QUERIES), (0.3, 0.5, 0.8))
    for outcome in outcomes:
        assert outcome.quality > outcome.random_quality
        assert 0.97 * outcome.load <= outcome.passed_fraction <= outcome.load + 1e-9


def test_importance_counts_nodes_not_area():
    nodes = np.array([[9.0, 1.0], [5.0, 5.0]])
    queries = np.array([[0.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 2.0]])
    made = node_importance(
        nodes, queries, np.array([1.0, 3.0]), (0, 0, 2, 2),
        reach_m=1, neighbour=0, background=0, least_nodes=1,
    )  # fmt: skip
    # Query 1 holds 10 nodes and weighs a quarter; query 2 holds 5 and weighs the rest.
    np.testing.assert_allclose(made.inside, [[0.225, 0.025], [0.75, 0.0]], atol=1e-9)
    np.testing.assert_allclose(made.total, made.inside)
    near = node_importance(
        nodes, queries, np.ones(2), (0, 0, 2, 2),
        reach_m=1, neighbour=0.3, background=0.01, least_nodes=1,
    )  # fmt: skip
    assert near.inside.sum() == pytest.approx(1.0)
    assert 0 < near.total[1, 1] < near.total[1, 0]
    with pytest.raises(InvalidInput, match="at least one cell"):
        node_importance(
            np.zeros((2, 2)), queries, np.ones(2), (0, 0, 2, 2),
            reach_m=1, neighbour=0, background=0, least_nodes=1,
        )  # fmt: skip


def test_fairness_on_the_axis_is_fairness_in_metres(curve):
    axis = ErrorAxis.of(curve, 7.3)
    for low in np.linspace(5, 60, 200):
        pair = axis.thresholds([low, low + 40.0])
        assert pair[1] - pair[0] <= 40.0 + 1e-9


def test_levels_keep_the_order():
    rng = np.random.default_rng(0)
    m, w = rng.exponential(1, 500), rng.exponential(1, 500)
    level, ratio = levels_of(m, w, 64)
    assert (np.diff(level[np.argsort(m / w, kind="stable")].astype(int)) >= 0).all()
    assert np.abs(np.log(ratio[level] / (m / w))).max() <= np.log(ratio[1] / ratio[0]) / 2 + 1e-5


def test_correction_meets_a_biased_budget_and_forgives_an_impossible_one():
    for bias in (0.8, 1.0, 1.3):
        correction = BudgetCorrection(0.6, floor=0.2)
        sent = sum(_period(correction, bias) for _ in range(60))
        assert sent / 60_000 == pytest.approx(0.6, abs=0.005)
    surprised = BudgetCorrection(0.6, floor=0.2)
    sent = sum(_period(surprised, 1.5 if k < 2 else 1.0) for k in range(25))
    assert sent / 25_000 == pytest.approx(0.6, abs=0.003)  # the first excess is made up for
    stuck = BudgetCorrection(0.1, floor=0.3)
    for _ in range(100):
        _period(stuck, 1.0)
    assert stuck.load == 0.3
    stuck.aim(0.5)
    for _ in range(10):
        _period(stuck, 1.0)
    assert stuck.load == pytest.approx(0.5, abs=0.05)


def _period(correction: BudgetCorrection, bias: float) -> float:
    kept = 1000 * correction.load * bias
    correction.observe(kept, 1000)
    return kept


def test_throtloop_stops_at_what_the_plan_can_reach(plan):
    loop = ThrotLoop(max_queue=10, floor=plan.floor)
    for _ in range(50):
        loop.step(1000.0, 1.0)
    assert loop.load == plan.floor
    assert plan.at(loop.load).expenditure == pytest.approx(plan.floor, rel=0.02)
    with pytest.raises(InvalidInput, match="at least 2"):
        ThrotLoop(max_queue=1)


def test_a_roaming_node_is_handed_off_and_always_knows_its_throttler(plan, samples):
    stations = place_evenly(plan.frame.bounds, 600.0)
    messages = broadcasts(plan, stations, 0.4)
    raster = plan.partition.paint(plan.at(0.4).throttlers)
    node = RoamingNode(stations, messages, plan.frame)
    width, height = plan.frame.cell_size
    for x, y in zip(samples["x"][:400], samples["y"][:400], strict=True):
        wanted = raster[int(y / height), int(x / width)]
        assert node.threshold(float(x), float(y)) == pytest.approx(wanted, abs=2e-3)
    assert node.handoffs >= 1
    many = stations.serving_all(
        samples["x"][:50], samples["y"][:50], np.full(50, -1, dtype=np.int64)
    )
    singles = [
        stations.serving(float(x), float(y))
        for x, y in zip(samples["x"][:50], samples["y"][:50], strict=True)
    ]
    assert many.tolist() == singles


def test_a_frame_survives_its_bytes():
    for bounds in ((0.0, 0.0, 14142.0, 14142.0), (0.1, 0.2, 3.3, 4.4)):
        frame = Frame(bounds, 100, 5.0, 100.0, 95)
        assert Frame.read(frame.to_bytes() + b"rest")[0] == frame
    with pytest.raises(InvalidInput, match="bounds"):
        Frame((0.0, 0.0, 0.0, 1.0), 10, 5.0, 100.0, 95)
    with pytest.raises(InvalidInput, match="Δmin < Δmax"):
        Frame((0.0, 0.0, 1.0, 1.0), 10, 5.0, 5.0, 95)


def test_a_node_stays_with_its_station_while_covered():
    stations = Stations(frozen([0.0, 10.0]), frozen([0.0, 0.0]), frozen([8.0, 8.0]))
    x, y = np.array([4.0, 6.0, 9.0, 30.0]), np.zeros(4)
    stay = np.array([1, 0, 0, -1], dtype=np.int64)
    # Covered by both: stays, though the other is nearer. Out of reach: handed off, to the nearest.
    wanted = [1, 0, 1, 1]
    assert stations.serving_all(x, y, stay).tolist() == wanted
    found = [stations.serving(a, 0.0, int(c)) for a, c in zip(x.tolist(), stay, strict=True)]
    assert found == wanted
    assert stations.serving_all(x, y, np.full(4, -1, dtype=np.int64)).tolist() == [0, 1, 1, 1]
