"""The runtime shedder: joins within its load, follows plans, and never raises for bad data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.joins.reference import brute_force
from benchmarks.joins.scene import Scene
from benchmarks.joins.workload import Workload
from planning.errors import InvalidInput
from planning.joins import demo, planner, simulate, statistics
from planning.joins.engine import probe
from planning.joins.model import Windows, tuples
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Scene(Workload(skew=0.8)).plan(60.0, 100.0)


@pytest.fixture(scope="module")
def typed(news: Callable[..., Any]) -> tuple[Any, Plan]:
    definition = news(size_bounds=(3, 4, 5, 6))
    columns = {k: np.asarray(v) for k, v in demo.rows(0, definition).items()}
    return definition, planner.plan(statistics.build(columns, definition), definition)


def test_unshed_it_is_the_complete_join(plan: Plan) -> None:
    left, right = Workload(skew=0.8).pair(25, 12, np.random.default_rng(1))
    matches = Shedder(plan, 1.0).push_pair(left, right)
    pairs = set(zip(matches.left.tolist(), matches.right.tolist(), strict=True))
    assert pairs == brute_force(left, right, plan.windows, plan.condition)


@pytest.mark.parametrize("load", [0.05, 0.3, 0.8])
def test_the_load_holds_and_output_is_a_part_of_the_full_join(plan: Plan, load: float) -> None:
    left, right = Workload(skew=0.8).pair(120, 60, np.random.default_rng(2))
    shedder = Shedder(plan, load)
    part = shedder.push_pair(left, right)
    assert shedder.counters.passed_fraction == pytest.approx(load, abs=0.01)
    complete = Shedder(plan, 1.0).push_pair(left, right)
    pairs, all_pairs = (
        set(zip(m.left.tolist(), m.right.tolist(), strict=True)) for m in (part, complete)
    )
    assert pairs <= all_pairs
    assert len(pairs) > 1.1 * load * len(all_pairs)


@pytest.mark.parametrize("adapt", [False, True])
def test_the_load_is_never_exceeded_by_more_than_one_tuple(plan: Plan, adapt: bool) -> None:
    left, right = Workload(skew=0.8).pair(60, 40, np.random.default_rng(8))
    shedder = Shedder(plan, 0.2, adapt=adapt)
    for second in range(120):
        for stream, part in enumerate((left, right)):
            rows = (part.time >= second / 2) & (part.time < second / 2 + 0.5)
            shedder.push(stream, part.take(rows))
            total = shedder.counters
            fullest = shedder.join.populations().sum(axis=1).max()
            assert total.compared <= 0.2 * total.possible + fullest
    assert total.passed_fraction == pytest.approx(0.2, abs=0.01)
    shedder.set_load(0.6)
    before = shedder.counters
    shedder.push_pair(*(replace(part, time=part.time + 60) for part in (left, right)))
    made = shedder.counters.compared - before.compared
    assert made / (shedder.counters.possible - before.possible) == pytest.approx(0.6, abs=0.01)


class PricedClock:
    """Processor time by a price list, with a few batches that cost far more than they should."""

    def __init__(self, costly: range) -> None:
        self.costly, self.spent, self.calls, self.compared = costly, 0.0, 0, 0
        self.shedder: Shedder | None = None

    def __call__(self) -> float:
        self.calls += 1
        if self.calls % 2 == 0 and self.shedder is not None:  # a batch ends
            compared = int(self.shedder.join.tally.total[probe.COMPARED])
            self.spent += 0.01 + 4e-7 * (compared - self.compared)
            self.spent += 15.0 if self.calls // 2 in self.costly else 0.0
            self.compared = compared
        return self.spent


@pytest.mark.parametrize("costly", [range(1, 2), range(160, 163)], ids=["compiling", "busy"])
def test_a_costly_moment_does_not_end_the_join(plan: Plan, costly: range) -> None:
    left, right = Workload(skew=0.8).pair(120, 60, np.random.default_rng(2))
    clock = PricedClock(costly)
    clock.shedder = shedder = Shedder(plan, cpu_share=0.1, clock=clock)
    shedder.push_pair(*(part.take(part.time < 60) for part in (left, right)))
    before = clock.spent
    later = shedder.push_pair(*(part.take(part.time >= 60) for part in (left, right)))
    assert len(later.left) > 100
    assert (clock.spent - before) / 60 == pytest.approx(0.1, rel=0.1)


def test_pushing_streams_in_turn_finds_the_same_pairs_as_merged(plan: Plan) -> None:
    left, right = Workload(skew=0.8).pair(30, 40, np.random.default_rng(3))
    merged = Shedder(plan, 1.0).push_pair(left, right)
    shedder = Shedder(plan, 1.0)
    pairs = set()
    for second in range(30):
        for stream, part in enumerate((left, right)):
            rows = (part.time >= second) & (part.time < second + 1)
            matches = shedder.push(stream, part.take(rows))
            pairs |= set(zip(matches.left.tolist(), matches.right.tolist(), strict=True))
    assert pairs == set(zip(merged.left.tolist(), merged.right.tolist(), strict=True))


def test_a_budget_in_comparisons_is_kept(plan: Plan) -> None:
    left, right = Workload(skew=0.8).pair(60, 100, np.random.default_rng(4))
    shedder = Shedder(plan, budget_per_s=40_000.0)
    shedder.push_pair(left, right)
    total = shedder.counters
    assert total.compared <= 40_000.0 * 60 * 1.03
    assert total.compared >= 40_000.0 * 60 * 0.8  # the windows fill first
    assert shedder.load == pytest.approx(40_000 / (2 * 100 * 2000), rel=0.2)


def test_processor_time_is_fed_forward(plan: Plan) -> None:
    spent = iter(np.arange(10**7) * 1e-4)  # every look at the clock: 0.1 ms later
    shedder = Shedder(plan, cpu_share=0.0001, clock=lambda: float(next(spent)))
    left, right = Workload(skew=0.8).pair(30, 60, np.random.default_rng(5))
    shedder.push_pair(left, right)
    assert shedder.counters.passed_fraction < 0.5
    rich = Shedder(plan, cpu_share=1.0, clock=lambda: 0.0)
    rich.push_pair(left, right)
    assert rich.counters.passed_fraction == 1.0


def test_under_a_new_plan_the_windows_go_on(plan: Plan) -> None:
    old = Shedder(plan, 0.5)
    left, right = Workload(skew=0.8).pair(10, 50, np.random.default_rng(6))
    old.push_pair(left, right)
    held, before = old.join.populations(), old.counters
    assert held.sum() > 0
    shedder = Shedder(replace(plan, load=0.3, utilities=plan.utilities * 2), 0.5, engine=True)
    shedder.adopt(old)
    np.testing.assert_array_equal(shedder.join.populations(), held)
    assert shedder.join.values.max() == 2 * old.controller.values.max()
    assert shedder.counters == before
    late = [replace(part, time=part.time + 10) for part in (left, right)]
    matches = shedder.push_pair(*late)
    assert matches.left.min() < len(left) <= matches.left.max() < 2 * len(left)
    assert shedder.counters.offered == 2 * before.offered


def test_other_windows_start_empty_and_counters_go_on(plan: Plan) -> None:
    old = Shedder(plan, 0.5)
    left, right = Workload(skew=0.8).pair(10, 50, np.random.default_rng(6))
    bad = tuples([np.nan], [{1}])
    old.push_pair(left, right)
    old.push(0, bad)
    before = old.counters
    windows = Windows((5.0, 5.0), 1.0)
    other = Scene(Workload(skew=0.8), windows=windows).plan(30, 50)
    for shedder in (Shedder(other, 0.5), Shedder(other, 0.5, engine=True)):
        shedder.adopt(old)
        assert shedder.join.populations().sum() == 0
        assert shedder.counters == before
        matches = shedder.push_pair(*(replace(p, time=p.time + 10) for p in (left, right)))
        assert matches.left.min() > len(left)  # tuples are numbered on
        assert shedder.counters.compared > before.compared
        assert shedder.counters.rejected == 1


def test_a_budget_stays_shut_under_a_new_plan(plan: Plan) -> None:
    left, right = Workload(skew=0.8).pair(40, 100, np.random.default_rng(4))
    old = Shedder(plan, budget_per_s=10_000.0)
    old.push_pair(left, right)
    shedder = Shedder(plan, budget_per_s=10_000.0)
    shedder.adopt(old)
    assert shedder.load == old.load < 0.1
    before = shedder.counters.compared
    moment = [replace(p, time=p.time + 40).take(p.time < 0.2) for p in (left, right)]
    shedder.push_pair(*moment)  # before the first tick
    assert shedder.counters.compared - before <= 0.2 * 10_000 * 1.5


def test_changes_of_the_load_do_not_forgive_what_was_compared_too_much(plan: Plan) -> None:
    left, right = Workload(skew=0.8).pair(30, 60, np.random.default_rng(8))
    shedder = Shedder(plan, 0.1)
    allowed = 0.0
    for step in range(600):
        load = (0.1, 0.02, 0.0, 0.3)[step % 4]
        shedder.set_load(load)
        before = shedder.counters
        for stream, part in enumerate((left, right)):
            rows = (part.time >= step / 20) & (part.time < (step + 1) / 20)
            shedder.push(stream, part.take(rows))
        total = shedder.counters
        allowed += load * (total.possible - before.possible)
        fullest = shedder.join.populations().sum(axis=1).max()
        assert total.compared <= allowed + fullest
    assert total.compared > 0.8 * allowed


def test_offer_spreads_fractions_over_tuples(typed: tuple[Any, Plan]) -> None:
    definition, plan = typed
    columns = {k: np.asarray(v) for k, v in demo.rows(5, definition).items()}
    shedder = Shedder(plan, 0.2)
    whole = shedder.offer(columns)
    assert whole.shape == (12_000, 21)
    again = Shedder(plan, 0.2)
    parts = [
        again.offer({k: v[a : a + 700] for k, v in columns.items()})
        for a in range(0, 12_000, 700)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    one = Shedder(plan, 0.2)
    rows = [one.offer_one({k: v[a] for k, v in columns.items()}) for a in range(300)]
    np.testing.assert_array_equal(np.array(rows), whole[:300])
    counters = shedder.counters
    assert counters.offered == 12_000
    assert counters.compared == whole.sum()
    assert counters.dropped == int((~whole.any(axis=1)).sum())
    assert Shedder(plan, 1.0).offer(columns).all()
    assert not Shedder(plan, 0.0).offer(columns).any()


def test_rows_that_cannot_be_read_are_compared_with_nothing(typed: tuple[Any, Plan]) -> None:
    _, plan = typed
    shedder = Shedder(plan, 0.5)
    mask = shedder.offer({"something": np.arange(4), "else": np.arange(4)})
    assert mask.shape == (4, 21)
    assert not mask.any()
    assert shedder.counters.rejected == 4


def test_unknown_types_count_as_the_cheapest(typed: tuple[Any, Plan]) -> None:
    _, plan = typed
    shedder = Shedder(plan, 1.0)
    shedder.push(0, tuples([0.0], [{1, 2, 3}], kind=[17]))
    matches = shedder.push(1, tuples([1.0], [{1, 2, 3}], kind=[-3]))
    assert len(matches) == 1
    assert shedder.join.tally.utility[0] == plan.utilities.min()
    assert shedder.counters.unknown_types == 2


def test_contradictory_settings_are_refused(plan: Plan) -> None:
    for settings, message in (
        ({"budget_per_s": 1.0, "cpu_share": 0.5}, "exclude each other"),
        ({"budget_per_s": -1.0}, "budget_per_s"),
        ({"cpu_share": 2.0}, "cpu_share"),
        ({"tick_s": 0.0}, "tick_s"),
        ({"load": 1.5}, "load must lie"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Shedder(plan, **settings)  # type: ignore[arg-type]


def test_a_zero_budget_finds_nothing_and_works_on(plan: Plan) -> None:
    shedder = Shedder(plan, budget_per_s=0.0)
    left, right = Workload(skew=0.8).pair(20, 50, np.random.default_rng(7))
    shedder.push_pair(left, right)
    shedder.limits.budget_per_s = 1e12
    matches = shedder.push_pair(
        *(replace(part, time=part.time + 20) for part in (left, right))
    )
    assert len(matches) > 0


def test_evaluate_beats_random_on_unseen_batches(typed: tuple[Any, Plan]) -> None:
    definition, plan = typed
    columns = {k: np.asarray(v) for k, v in demo.rows(9, definition).items()}
    before = {k: v.copy() for k, v in columns.items()}
    for outcome in simulate.evaluate(plan, columns, definition, (0.05, 0.1, 0.3)):
        assert outcome.quality > 2 * outcome.random_quality
        assert outcome.passed_fraction == pytest.approx(outcome.load, abs=0.01)
        assert outcome.predicted_quality == pytest.approx(outcome.quality, rel=0.1)
        assert outcome.random_quality == pytest.approx(outcome.load, rel=0.35)
    for name, values in columns.items():
        np.testing.assert_array_equal(values, before[name])


def test_figures_draw(typed: tuple[Any, Plan]) -> None:
    from matplotlib.figure import Figure

    from planning.joins import figures

    _, plan = typed
    axes = Figure().subplots()
    figures.draw(plan, axes)
    assert len(axes.patches) == 4 * 21


@pytest.mark.parametrize(
    "limit", [{"budget_per_s": 0.0}, {"budget_per_s": 300.0}, {"load": 0.3}, {"cpu_share": 0.01}]
)
@pytest.mark.parametrize("seed", range(3))
def test_nonsense_gives_a_part_of_the_full_join(
    plan: Plan, seed: int, limit: dict[str, float]
) -> None:
    """Out of order, equal, absurd and jumping times, empty sets, unknown items and types."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        time = np.sort(rng.uniform(0, 60, 150)).round(1) + rng.normal(0, 3, 150) * (seed > 0)
        time[rng.random(150) < 0.05] = rng.choice([np.nan, np.inf, -1e300, 1e9, -40.0])
        sets = [set(rng.integers(0, 103, k).tolist()) for k in rng.integers(0, 40, 150)]
        parts.append(tuples(time, sets, kind=rng.integers(-2, 4, 150)))
    sound = [np.isfinite(part.time) for part in parts]
    wanted = {
        (a, b)
        for a, b in brute_force(parts[0], parts[1], plan.windows, plan.condition)
        if sound[0][a] and sound[1][b]
    }
    shedder = Shedder(plan, **limit)  # type: ignore[arg-type]
    position, seen = [0, 0], set()
    while min(position) < 150:
        stream = int(rng.integers(2))
        low, high = position[stream], min(position[stream] + int(rng.integers(0, 30)), 150)
        position[stream] = high
        matches = shedder.push(stream, parts[stream].slice(low, high))
        pairs = list(zip(matches.left.tolist(), matches.right.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert not seen & set(pairs)
        seen |= set(pairs)
    assert seen <= wanted
    assert shedder.counters.offered == sum(position)
