"""Guarantees in the running join and in what ``offer`` grants, on data that nobody planned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.joins import recorded
from benchmarks.joins.definitions import pair_definition
from planning.arrays import FloatArray
from planning.families import Definition
from planning.guarantees import Guarantee
from planning.joins import planner
from planning.joins.demo import Workload
from planning.joins.engine import Matches
from planning.joins.model import Tuples, combine_utilities, merge
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder
from planning.joins.statistics import from_tuples

Make = Callable[..., Any]
Pair = tuple[Tuples, Tuples]
BLOCKS = 20
SIGMAS = 3.0 * np.sqrt(2.0)  # the plan's own samples err as much as the held-out ones
TYPED = Workload(skew=0.8, type_frequencies=(1.0, 2.0, 4.0))


def found(plan: Plan, parts: Pair, matches: Matches, one: Guarantee) -> FloatArray:
    """Return the utility that was found of a guarantee's matches, by stretches of the time."""
    left, right = parts[0].take(matches.left), parts[1].take(matches.right)
    utility = combine_utilities(plan.utilities, plan.combine)[left.kind, right.kind]
    what, _, name = one.name.partition(" ")
    if what == "type":
        utility = utility * ((left.kind == plan.types.index(name)) | (
            right.kind == plan.types.index(name)
        ))  # fmt: skip
    elif what == "window":
        utility = utility * ((left.time <= right.time) == (name == f"of {plan.layout.streams[0]}"))
    when = np.maximum(left.time, right.time)
    ends = [min(part.time[0] for part in parts), max(part.time[-1] for part in parts)]
    block = np.clip(((when - ends[0]) / (ends[1] - ends[0]) * BLOCKS).astype(int), 0, BLOCKS - 1)
    return np.bincount(block, utility, minlength=BLOCKS).astype(float)


def share(some: FloatArray, every: FloatArray) -> tuple[float, float]:
    """Return a share and its standard error, from stretches that are taken as independent."""
    total = float(every.sum())
    rest = some - every * float(some.sum()) / total
    error = float(np.sqrt((rest**2).sum() * BLOCKS / (BLOCKS - 1))) / total
    return float(some.sum()) / total, error


def offered(plan: Plan, parts: Pair, load: float) -> Matches:
    """Return the matches that a join finds which compares what ``offer`` grants."""
    stream, rows, batch = merge(*parts)
    keep = Shedder(plan, load).offer(plan.layout.rows(stream, batch))
    every = Shedder(plan, 1.0).push_pair(*parts)
    place = [np.empty(len(part), dtype=np.int64) for part in parts]
    for i in range(2):
        place[i][rows[stream == i]] = np.flatnonzero(stream == i)
    pairs = np.sort(np.column_stack((place[0][every.left], place[1][every.right])), axis=1)
    windows = plan.windows
    epoch = np.floor((batch.time - windows.origin_s) / windows.basic_window_s).astype(int)
    back = np.minimum(epoch[pairs[:, 1]] - epoch[pairs[:, 0]], windows.most - 1)
    granted = keep[pairs[:, 1], back]
    return replace(every, left=every.left[granted], right=every.right[granted])


def kept_by(plan: Plan, parts: Pair, matches: Matches, every: Matches) -> list[tuple[float, float]]:
    """Return what is kept of each guarantee's matches, with standard errors."""
    return [
        share(found(plan, parts, matches, one), found(plan, parts, every, one))
        for one in plan.guarantees
    ]


def assert_kept(plan: Plan, parts: Pair, load: float) -> None:
    """Every guarantee holds within sampling error, joined here or elsewhere."""
    every, shedder = Shedder(plan, 1.0).push_pair(*parts), Shedder(plan, load)
    for matches in (shedder.push_pair(*parts), offered(plan, parts, load)):
        for one, (kept, error) in zip(
            plan.guarantees, kept_by(plan, parts, matches, every), strict=True
        ):
            assert kept >= one.value - SIGMAS * error, (one.name, kept, error)
    assert shedder.counters.passed_fraction <= load * 1.0001
    assert not shedder.counters.stale


@pytest.mark.parametrize(
    "asked",
    [
        {"types": {"report": {"min_share": 0.7}}, "window_of": {"second": {"min_share": 0.6}}},
        {"min_share": 0.5, "types": {"flash": {"min_share": 0.8, "priority": 1}}},
    ],
)
def test_generated_streams(news: Make, asked: dict[str, Any]) -> None:
    definition = news(**asked)
    early, late = (TYPED.pair(240.0, 60.0, np.random.default_rng(seed)) for seed in (1, 2))
    plan = planner.plan(from_tuples(*early, definition), definition)
    floor = max(one.holds_from for one in plan.guarantees)
    for load in (floor, 1.3 * floor):
        assert_kept(plan, late, load)


@pytest.fixture(scope="module")
def flights(shared_data: Path) -> tuple[tuple[Pair, Pair], Definition[Parameters]]:
    """Return two stretches of the recorded flights, typed by the airport in New York."""
    pair, parts = recorded.flights(shared_data), []
    for part, name in ((pair.left, "departures"), (pair.right, "arrivals")):
        origins = pq.read_table(shared_data / "joins" / f"flights_{name}.parquet").column("origin")
        kind = np.unique(origins.to_pylist(), return_inverse=True)[1]
        parts.append(replace(part, kind=kind))
    pair = replace(pair, left=parts[0], right=parts[1]).shortened(0.15)
    definition = pair_definition(
        pair.windows, pair.condition, vocabulary=4000, items=1, utilities=(1.0, 1.0, 1.0)
    )
    return pair.halves(), definition


@pytest.mark.parametrize(
    "asked",
    [
        {"types": {"type 2": {"min_share": 0.8}}},
        {"types": {"type 2": {"min_share": 0.85, "priority": 1}},
         "window_of": {"1": {"min_share": 0.4}}},
    ],
)  # fmt: skip
def test_recorded_flights(flights: Any, asking_for: Make, asked: dict[str, Any]) -> None:
    (early, late), definition = flights
    definition = asking_for(definition, **asked)
    plan = planner.plan(from_tuples(*early, definition), definition)
    floor = max(one.holds_from for one in plan.guarantees)
    # What flies changes by the hour, and so does the load that a guarantee needs.
    assert_kept(plan, late, 1.35 * floor)
    every = Shedder(plan, 1.0).push_pair(*late)
    ours, free = (
        kept_by(plan, late, Shedder(some, floor).push_pair(*late), every)
        for some in (plan, replace(plan, guaranteed=None))
    )
    assert all(a[0] > b[0] + 0.2 for a, b in zip(ours, free, strict=True))
    # On the whole of the later stretch, the plan's setting keeps them from the floor on.
    counted = from_tuples(*late, definition)
    take = plan.at(floor).take
    for (one, table), (_, error) in zip(counted.protected(definition), ours, strict=True):
        assert float((table * take).sum()) >= one.value - SIGMAS * error, one.name


def test_a_stale_plan_leaves_every_type_its_comparisons(news: Make) -> None:
    """When the correlation moves, the join learns where matches are, and starves no type."""
    asked = {"flash": {"min_share": 0.6}}
    definition = news(types=asked, utilities=(0.05, 1.0, 1.0), combine="min")
    rng = np.random.default_rng(5)
    before = TYPED.pair(200.0, 80.0, rng)
    after = replace(TYPED, shift_s=33.0).pair(200.0, 80.0, rng)
    plan = planner.plan(from_tuples(*before, definition), definition)
    load, every = plan.guarantees[0].holds_from, Shedder(plan, 1.0).push_pair(*after)
    shares = []
    for some in (plan, replace(plan, guaranteed=None)):
        shedder = Shedder(some, load)
        matches = shedder.push_pair(*after)
        assert shedder.replan_wanted
        assert shedder.counters.passed_fraction <= load * 1.0001
        blocks = found(plan, after, matches, plan.guarantees[0])
        shares.append(blocks / found(plan, after, every, plan.guarantees[0]))
    late = np.mean(shares, axis=1, where=np.arange(BLOCKS) >= BLOCKS // 2)
    assert late[0] > 0.9 * plan.guarantees[0].value > late[1]
