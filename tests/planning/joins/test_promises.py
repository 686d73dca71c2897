"""What a plan promises holds at run time: shares, budgets, drift, batches of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.joins import recorded
from benchmarks.joins.definitions import pair_definition
from benchmarks.joins.scene import Scene
from benchmarks.joins.workload import Workload
from planning.joins import planner, simulate, statistics
from planning.joins.engine import Matches
from planning.joins.layout import Layout
from planning.joins.model import Condition, Tuples, Windows, concatenate, merge, tuples
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder
from planning.streams import parse
from tests.support.schedules import live

SIZES = (1, 100, 2_000, 20_000)
SPEED = 1.0  # seconds by which the drifting stream's correlation moves per window


def made_of(parts: list[Tuples], scene: Scene) -> Plan:
    definition = scene.definition()
    left, right = (Layout.of(definition).refine(part) for part in parts)
    return planner.plan(statistics.from_tuples(left, right, definition), definition)


def scaled(part: Tuples, factor: float, shift: float = 0.0) -> Tuples:
    return replace(part, time=(part.time + shift) * factor)


def by_window(matches: Matches, parts: list[Tuples], window_s: float) -> np.ndarray:
    """Matches by the window of time in which they were completed."""
    when = np.maximum(parts[0].time[matches.left], parts[1].time[matches.right])
    number = int(max(part.time[-1] for part in parts) // window_s) + 1
    return np.bincount((when // window_s).astype(int), minlength=number)


def below_random(found: np.ndarray, complete: np.ndarray, load: float) -> np.ndarray:
    """In which windows less was found than random dropping finds, by two standard errors."""
    expected = load * complete
    return np.asarray(expected - found > 2.0 * np.sqrt(2.0 * expected))


class TestDrift:
    """A stale plan is noticed on any scale of time, and is soon no worse than random dropping."""

    @pytest.mark.parametrize("factor", [60.0, 3600.0])
    def test_time_may_be_scaled(self, factor: float) -> None:
        rng = np.random.default_rng(5)
        before = Workload(skew=0.8, shift_s=25.0).pair(100, 60, rng)
        moved = Workload(skew=0.8, shift_s=31.0).pair(100, 60, rng)
        results = []
        for k in (1.0, factor):
            scene = Scene(windows=Windows((20.0 * k, 20.0 * k), k))
            plan = made_of([scaled(part, k) for part in before], scene)
            shedder = Shedder(plan, 0.1)
            found = shedder.push_pair(*(scaled(part, k) for part in moved))
            assert shedder.counters.stale
            assert shedder.replan_wanted
            results.append((found.left.tolist(), found.right.tolist()))
        assert results[0] == results[1]

    @pytest.mark.parametrize("moved", [6.0, 12.0, -10.0])
    @pytest.mark.parametrize("rate", [30.0, 80.0])
    def test_generated(self, moved: float, rate: float) -> None:
        scene, rng, load = Scene(), np.random.default_rng(5), 0.1
        plan = made_of(list(Workload(skew=0.8).pair(100, rate, rng)), scene)
        usual = Workload(skew=0.8).pair(40, rate, rng)
        other = Workload(skew=0.8, shift_s=25.0 + moved).pair(140, rate, rng)
        parts = [
            concatenate([old, scaled(new, 1.0, 40.0)])
            for old, new in zip(usual, other, strict=True)
        ]
        complete = by_window(Shedder(plan, 1.0).push_pair(*parts), parts, 20.0)
        kept = Shedder(plan, load, adapt=False).push_pair(*parts)
        assert by_window(kept, parts, 20.0)[5:].sum() < load * complete[5:].sum()
        watched = by_window(Shedder(plan, load).push_pair(*parts), parts, 20.0)
        # Three windows after the change, at 40 s.
        assert not below_random(watched, complete, load)[5:].any()
        assert watched[6:].sum() > (2.0 if rate > 50 else 0.9) * load * complete[6:].sum()

    def test_recorded(self, shared_data: Path) -> None:
        """Flights that are planned as if aircraft came in much earlier than they do."""
        pair = recorded.flights(shared_data).shortened(0.07)
        hours, load = 3600.0, 0.1
        plan = pair.plan((pair.left, scaled(pair.right, 1.0, -2.5 * hours)))
        parts = [scaled(part, 1.0, -float(pair.left.time[0])) for part in (pair.left, pair.right)]
        complete = by_window(Shedder(plan, 1.0).push_pair(*parts), parts, 12 * hours)
        kept, watched = (
            by_window(Shedder(plan, load, adapt=adapt).push_pair(*parts), parts, 12 * hours)
            for adapt in (False, True)
        )
        assert kept.sum() < 0.5 * load * complete.sum()
        assert watched[3:].sum() > 2.0 * load * complete[3:].sum()
        assert not below_random(watched, complete, load)[3:].any()

    def test_a_prediction_says_what_lasts(self) -> None:
        parts = drifting(SPEED)
        plan = made_of([part.take(part.time < 120) for part in parts], Scene())
        late = [part.take(part.time >= 120) for part in parts]
        assert plan.lasting
        naive = replace(plan, lasting=())
        for outcome in simulate.measure(plan, late[0], late[1], (0.1, 0.3, 0.5)):
            error = abs(outcome.predicted_quality - outcome.quality)
            assert error < 0.05
            assert error < abs(naive.predicted_quality(outcome.load) - outcome.quality) + 0.01
        assert naive.predicted_quality(0.1) > plan.predicted_quality(0.1) + 0.1
        again = Plan.from_bytes(plan.to_bytes())
        assert again.lasting == plan.lasting == Plan.from_document(plan.to_document()).lasting


def drifting(per_window: float) -> list[Tuples]:
    """Both streams, with a time correlation that moves all the time."""
    rng, parts = np.random.default_rng(3), ([], [])
    for begin in range(0, 160, 5):
        both = Workload(skew=0.8, shift_s=25.0 + per_window * begin / 20).pair(160, 60, rng)
        for part, made in zip(both, parts, strict=True):
            made.append(part.take((part.time >= begin) & (part.time < begin + 5)))
    return [concatenate(made) for made in parts]


def compared(plan: Plan, stream: np.ndarray, batch: Tuples) -> list[tuple[int, int, bool]]:
    """Every comparison of the complete join, by a plain loop: tuple, basic window, match?"""
    windows, sets = plan.windows, np.split(batch.items, batch.first[1:-1])
    contents = [set(items.tolist()) for items in sets]
    times, streams = batch.time.tolist(), stream.tolist()
    epochs = [int((t - windows.origin_s) // windows.basic_window_s) for t in times]
    made: list[tuple[int, int, bool]] = []
    for k, content in enumerate(contents):
        window = 1 - streams[k]
        for other in range(k - 1, -1, -1):
            if times[k] - times[other] > windows.window_s[window]:
                break
            if streams[other] == window:
                j = min(epochs[k] - epochs[other], windows.counts[window] - 1)
                made.append((k, j, len(content & contents[other]) >= plan.condition.threshold))
    return made


@pytest.mark.parametrize("sizes", [(), (3, 4, 5, 6)])
def test_a_join_elsewhere_finds_what_the_operator_finds(sizes: tuple[int, ...]) -> None:
    scene = Scene(Workload(skew=0.8), sizes=sizes)
    plan = scene.plan(60.0, 60.0)
    rates = ((0.0, 20.0), (30.0, 50.0), (35.0, 15.0))
    left, right = Workload(skew=0.8).pair(60, rates, np.random.default_rng(4))
    stream, _, batch = merge(left, right)
    columns = plan.layout.rows(stream, batch)
    tuple_of, basic_window, match = np.array(compared(plan, stream, batch)).T
    by_window: dict[tuple[int, int], list[int]] = {}
    for one, age, hit in zip(tuple_of.tolist(), basic_window.tolist(), match.tolist(), strict=True):
        by_window.setdefault((one, age), []).append(hit)
    for load in (0.1, 0.3, 0.7):
        masks = []
        for size in SIZES:
            shedder = Shedder(plan, load)
            rows = range(0, min(len(batch), 500 * size), size)
            parts = [
                shedder.offer({name: column[a : a + size] for name, column in columns.items()})
                for a in rows
            ]
            masks.append(np.concatenate(parts))
        for mask in masks[2:]:
            np.testing.assert_array_equal(mask, masks[1])
        np.testing.assert_array_equal(masks[0], masks[1][:500])
        granted = masks[1][tuple_of, basic_window]
        operator = Shedder(plan, load, adapt=False)
        found = operator.push_pair(left, right)
        assert granted.mean() == pytest.approx(load, abs=0.01)
        assert operator.counters.passed_fraction == pytest.approx(load, abs=0.01)
        share = float((granted * match).sum() / match.sum())
        assert share == pytest.approx(len(found) / match.sum(), abs=0.02)
        # The trial knows comparisons and matches without a loop.
        trial = simulate.Trial(plan, columns, stream, batch)
        [outcome] = trial.outcomes([load])
        assert outcome.quality == pytest.approx(share, abs=1e-9)
        assert outcome.passed_fraction == pytest.approx(granted.mean(), abs=1e-9)
        found_by_newest, room = 0.0, dict.fromkeys(range(len(batch)), 0.0)
        for one, compared_with in zip(*np.unique(tuple_of, return_counts=True), strict=True):
            room[one] = load * compared_with
        for (one, _), here in sorted(by_window.items()):
            found_by_newest += min(room[one] / len(here), 1.0) * sum(here)
            room[one] = max(room[one] - len(here), 0.0)
        newest = found_by_newest / match.sum()
        assert outcome.baselines["newest first"] == pytest.approx(newest, abs=1e-9)


@pytest.mark.parametrize("size", SIZES)
def test_pushed_batches_may_have_any_size(size: int) -> None:
    plan = Scene(Workload(skew=0.8)).plan(60.0, 60.0)
    left, right = Workload(skew=0.8).pair(40, 40, np.random.default_rng(4))
    stream, _, batch = merge(left, right)
    wanted, shedder = Shedder(plan, 0.2), Shedder(plan, 0.2)
    whole = wanted.push_pair(left, right)
    parts = []
    for a in range(0, len(batch), size):
        part = batch.slice(a, min(a + size, len(batch)))
        of = stream[a : a + size]
        parts.append(shedder.push_pair(part.take(of == 0), part.take(of == 1)))
    together = Matches.together(parts)
    np.testing.assert_array_equal(together.left, whole.left)
    np.testing.assert_array_equal(together.right, whole.right)


BURSTS = {
    "burst": (((0.0, 20.0), (12.0, 400.0), (16.0, 20.0)), 40_000.0),
    "steps": (((0.0, 50.0), (8.0, 100.0), (14.0, 200.0)), 20_000.0),
    "scarce": (((0.0, 80.0),), 700.0),
    "less than a tuple": (((0.0, 80.0),), 30.0),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", BURSTS)
def test_a_budget_holds_in_every_second(name: str, size: int) -> None:
    plan = Scene(Workload(skew=0.8)).plan(60.0, 60.0)
    rates, budget = BURSTS[name]
    parts = Workload(skew=0.8).pair(20, rates, np.random.default_rng(3))
    stream, _, batch = merge(*parts)
    shedder = Shedder(plan, budget_per_s=budget)
    run, log = shedder.governed._run, [(0.0, 0)]

    def noted(*arguments: Any) -> Matches:
        matches = run(*arguments)
        log.append((float(arguments[2].time[0]), int(shedder.governed.total[0])))
        return matches

    shedder.governed._run = noted  # type: ignore[method-assign]
    for a in range(0, len(batch), size):
        part, of = batch.slice(a, min(a + size, len(batch))), stream[a : a + size]
        shedder.push_pair(part.take(of == 0), part.take(of == 1))
    begun, total = np.array(log).T
    ends = np.searchsorted(begun, begun[1:] + 1.0, side="left") - 1
    spent = total[ends] - total[:-1]
    most = shedder.join.populations().sum(axis=1).max() if budget < 100 else 0
    assert spent.max() <= budget + most
    seconds = float(batch.time[-1])
    if name != "less than a tuple":
        assert total[-1] > (0.3 if name == "burst" else 0.6) * budget * seconds
    assert total[-1] <= budget * (seconds + 1.0) + most


STREAMS: dict[str, Callable[[pytest.FixtureRequest], tuple[Plan, Tuples, Tuples]]] = {
    "keywords": lambda _: generated(Workload(skew=0.6), (2, 3, 4, 5, 6)),
    "single values": lambda _: generated(Workload(skew=0.8).single_valued(300), ()),
    "recorded": lambda request: halved(request.getfixturevalue("shared_data"), (0, 1, 2, 3)),
}


def generated(workload: Workload, sizes: tuple[int, ...]) -> tuple[Plan, Tuples, Tuples]:
    scene = Scene(workload, sizes=sizes)
    if workload.mean_items == 1.0:
        scene = scene.but(condition=Condition("equality"))
    return scene.plan(60.0, 60.0), *workload.pair(60, 50, np.random.default_rng(8))


def halved(data: Path, sizes: tuple[int, ...]) -> tuple[Plan, Tuples, Tuples]:
    pair = recorded.wiki_keywords(data)
    early, late = pair.halves()
    return pair.plan(early, sizes), *late


@pytest.mark.parametrize("name", STREAMS)
def test_quality_does_not_depend_on_the_size_of_batches(
    request: pytest.FixtureRequest, name: str
) -> None:
    plan, left, right = STREAMS[name](request)
    for outcome in simulate.measure(plan, left, right, (0.1, 0.5, (0.1, 1.0, 0.3))):
        assert outcome.spread < 0.02
        assert len(outcome.by_size) == (0 if outcome.schedule else 4)
        assert outcome.quality > outcome.strongest[1] - 4.5 * outcome.noise
        if not outcome.schedule:
            assert outcome.passed_fraction == pytest.approx(outcome.load, abs=0.015)
            assert outcome.random_quality == pytest.approx(outcome.load)


def test_a_changing_load_is_kept_although_comparisons_are_uneven() -> None:
    scene = Scene(Workload(skew=0.8))
    plan = scene.plan(40.0, 60.0)
    rates = ((0.0, 10.0), (25.0, 60.0))
    parts = Workload(skew=0.8).pair(50, rates, np.random.default_rng(6))
    [rising] = simulate.measure(plan, *parts, [(0.2, 1.0)])  # most comparisons are made at 1
    assert rising.load == pytest.approx(0.6)
    assert 0.5 < rising.passed_fraction <= 0.6 + 0.01


def test_where_matches_cluster_the_newest_come_first(shared_data: Path) -> None:
    """Few users with many edits: the pattern over the basic windows is mostly chance."""
    pair = recorded.wiki_users(shared_data)
    early, late = pair.halves()
    for outcome in simulate.measure(pair.plan(early), late[0], late[1], (0.1, 0.3, 0.5)):
        assert outcome.quality > outcome.strongest[1] - 0.02
        assert outcome.predicted_quality == pytest.approx(outcome.quality, abs=0.05)


DAYS = {
    "keywords": ({"skew": 0.8}, 25.0, ()),
    "burst": ({"skew": 0.8}, ((0.0, 10.0), (20.0, 60.0), (30.0, 10.0)), ()),
    "flat, by size": ({"skew": 0.0}, 25.0, (2, 3, 4, 5)),
    "both directions": ({"skew": 0.6, "cycle_s": 20.0, "shift_s": 10.0}, 30.0, ()),
}


@pytest.mark.parametrize("name", DAYS)
def test_random_days(name: str) -> None:
    """Fifty days each: the share holds in every window, and quality is not below random."""
    workload, rates, sizes = DAYS[name]
    scene = Scene(Workload(**workload), sizes=sizes)
    plans = [scene.plan(40.0, 60.0, seed) for seed in (1, 2)]
    parts = Workload(**workload).pair(50, rates, np.random.default_rng(6))
    stream, _, batch = merge(*parts)
    trial = simulate.Trial(plans[0], plans[0].layout.rows(stream, batch), stream, batch)
    stored = trial._stored(0, len(batch))
    later, earlier, utility = trial.matches
    complete = trial._totals(np.ones(utility.size))
    window = np.searchsorted(batch.time, np.arange(0.0, 51.0, 10.0))
    spans = [(0, end) for end in window[2:]]
    spans += list(zip(window[:-2], window[2:], strict=True))
    for seed in range(50):
        day = live(plans, "joins", trial.columns, seed)
        made, possible = (stored * day.keep).sum(axis=1), stored.sum(axis=1)
        for a, b in spans:  # of 20 s, every 10 s
            allowed = float((day.load * possible)[a:b].sum())
            assert made[a:b].sum() <= allowed + 0.05 * possible[a:b].sum(), (seed, a)
        found = trial._totals(day.keep.ravel()[trial.place])
        random = trial._totals(np.sqrt(day.load[later] * day.load[earlier]))
        gain = float((found - random).sum() / complete.sum())
        assert gain >= -4.5 * simulate._error(found - random, complete), seed


class TestTexts:
    """Sets of texts join as sets of numbers do."""

    WORDS = tuple(f"word {k}" for k in range(100))

    def definition(self, text: bool) -> Any:
        number = pair_definition(Windows((20, 20), 1), Condition("overlap", 3), vocabulary=100)
        if not text:
            return number
        known = {"type": "category", "values": ["", *self.WORDS]}
        names = number.parameters.items
        return parse(
            {
                "stream": "pair",
                "family": "joins",
                "parameters": {"items": list(names), "threshold": 3, "size_bounds": [3, 4, 5]},
                "attributes": [
                    {"name": "stream", "type": "category", "values": ["0", "1"]},
                    {"name": "time_s", "domain": [-1e12, 1e12]},
                    *({"name": name} | known for name in names),
                ],
            },
            "pair",
        )

    def test_rows(self) -> None:
        parts = Workload(skew=0.8).pair(40, 40, np.random.default_rng(2))
        stream, _, batch = merge(*parts)
        numbered = pair_definition(
            Windows((20, 20), 1), Condition("overlap", 3), vocabulary=100, sizes=(3, 4, 5)
        )
        columns = Layout.of(numbered).rows(stream, batch)
        words = np.array([*self.WORDS, ""], dtype=object)  # -1 is the last
        texts = {k: words[v] if k.startswith("item") else v for k, v in columns.items()}
        definition = self.definition(text=True)
        plans = [
            planner.plan(statistics.build(rows, of), of)
            for rows, of in ((columns, numbered), (texts, definition))
        ]
        np.testing.assert_array_equal(plans[0].hits, plans[1].hits)
        np.testing.assert_array_equal(plans[0].density, plans[1].density)
        assert plans[1].vocabulary is None
        again = Plan.from_bytes(plans[1].to_bytes())
        assert again.layout.text
        assert not plans[0].layout.text
        assert "text" not in plans[0].to_document()["layout"]
        masks = [
            Shedder(plan, 0.2).offer(rows)
            for plan, rows in zip((plans[0], again), (columns, texts), strict=True)
        ]
        np.testing.assert_array_equal(*masks)
        outcomes = [
            simulate.evaluate(plan, rows, of, (0.2,))
            for plan, rows, of in ((plans[0], columns, numbered), (plans[1], texts, definition))
        ]
        assert outcomes[0] == outcomes[1]
        assert Shedder(again).probe(20).keys() == set(again.layout.columns)
        assert Shedder(again, 0.5).offer(Shedder(again).probe(20)).shape == (20, 21)

    def test_sets(self) -> None:
        rng = np.random.default_rng(3)
        sets = [{int(a) for a in rng.integers(0, 30, 6)} for _ in range(400)]
        times = np.sort(rng.uniform(0, 40, 400))
        plan = Scene().plan(40.0, 40.0)
        pairs = []
        for name, known in ((str, None), (int, 100)):
            shedder = Shedder(replace(plan, vocabulary=known))
            named = [{f"word {a}" if name is str else a for a in items} for items in sets]
            halves = (tuples(times[k::2], named[k::2]) for k in range(2))
            found = shedder.push_pair(*halves)
            pairs.append(set(zip(found.left.tolist(), found.right.tolist(), strict=True)))
        assert pairs[0] == pairs[1]
        assert pairs[0]


def test_what_is_unsound_is_said() -> None:
    scene = Scene(Workload(skew=0.8))
    definition = scene.definition()

    def told(seconds: float, rate: float) -> list[str]:
        counted = scene.statistics(seconds, rate)
        return planner.warnings(planner.plan(counted, definition), counted, definition)

    assert told(100.0, 60.0) == []
    short = told(15.0, 200.0)[0]
    assert "span 14.99" in short
    assert "window of 20 s" in short
    [few] = told(100.0, 4.0)
    assert "matches" in few
    parts = [part.take(part.time < 120) for part in drifting(SPEED)]
    counted = statistics.from_tuples(parts[0], parts[1], definition)
    wrong = replace(planner.plan(counted, definition), lasting=(0.1,) * 6)
    assert "second half" in planner.warnings(wrong, counted, definition)[0]


def test_halves_are_kept_and_may_be_absent() -> None:
    counted = Scene().statistics(40.0, 30.0)
    again = statistics.Statistics.from_document(counted.to_document())
    assert counted.early is not None
    assert again.early is not None
    for ours, theirs in zip(counted.early, again.early, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    older = {k: v for k, v in counted.to_document().items() if k != "early"}
    plan = planner.plan(statistics.Statistics.from_document(older), Scene().definition())
    assert plan.lasting == ()
    assert all(a <= b for a, b in pairwise(plan.predicted_quality(r) for r in (0.1, 0.2, 0.9)))
