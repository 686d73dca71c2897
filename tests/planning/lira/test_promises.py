"""What nodes do is what the plan promised: whatever the batches, the loads and the ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from planning import rehearsal
from planning.families import Outcome
from planning.lira.memory import SHORTEST
from planning.lira.planner import plan as make_plan
from planning.lira.shedder import Shedder
from planning.lira.simulate import _drawn, _Trial, evaluate, in_order, one_delta, server_view
from planning.lira.statistics import build
from planning.streams import StreamDefinition, parse
from tests.planning.lira.test_shedder import due_under_lowest
from tests.support.schedules import live

NAMES = ("object_id", "time", "x", "y", "speed")
LOADS = (0.3, 0.5, 0.75, 0.9)
Rows = dict[str, np.ndarray]


class World:
    """A stream of positions: its plan from some of the objects, and the tracks of the others."""

    def __init__(self, rows: Rows, queries: int, sides: tuple[float, float], **chosen: Any) -> None:
        rng = np.random.default_rng(3)
        known = rng.permutation(np.unique(rows["object_id"]))
        learn = np.isin(rows["object_id"], known[: len(known) // 2])
        side = float(max(rows["x"].max(), rows["y"].max())) + 1.0
        inline = []
        for i in rng.integers(0, len(rows["x"]), queries):
            half = rng.uniform(*sides) / 2
            low = [float(max(rows[n][i] - half, 0.0)) for n in "xy"]
            high = [float(min(rows[n][i] + half, side)) for n in "xy"]
            inline.append({"ranges": {n: [a, b] for n, a, b in zip("xy", low, high, strict=True)}})
        self.definition: StreamDefinition = parse(
            {
                "stream": "cars", "family": "lira", "queries": {"inline": inline},
                "attributes": [
                    {"name": n, "domain": [0, side if n in "xy" else 1e9]} for n in NAMES
                ],
                "parameters": chosen,
            },
            "cars.yaml",
        )  # fmt: skip
        self.plan = make_plan(
            build({n: v[learn] for n, v in rows.items()}, self.definition), self.definition
        )
        self.fresh = {n: v[~learn] for n, v in rows.items()}

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the gate would see: the loads, and how they may change."""
        loads = [*LOADS, rehearsal.changing(LOADS)]
        return evaluate(self.plan, self.fresh, self.definition, loads)

    def trial(self, rows: Rows) -> _Trial:
        return _Trial(self.plan, in_order(rows), self.definition)


@pytest.fixture(scope="module")
def cars(samples) -> World:
    return World(samples, 25, (200, 700), regions=40, cells=32)


@pytest.fixture(scope="module")
def walkers() -> World:
    """Objects that turn at random, at speeds that differ by place: no forecast fits all."""
    rng = np.random.default_rng(8)
    objects, ticks = 120, 300
    start = rng.uniform(0, 4000, (objects, 2))
    pace = np.where(start[:, :1] < 2000, 3.0, 15.0)
    steps = rng.normal(0, 1, (ticks, objects, 2)) * pace
    where = (start + steps.cumsum(axis=0)).clip(0, 4000)
    rows = {
        "object_id": np.tile(np.arange(objects, dtype=float), ticks),
        "time": np.repeat(np.arange(ticks, dtype=float) * 5.0, objects),
        "x": where[:, :, 0].ravel(),
        "y": where[:, :, 1].ravel(),
        "speed": np.tile(pace[:, 0], ticks),
    }
    return World(rows, 25, (200, 900), regions=40, cells=32, lowest_threshold=10)


@pytest.fixture(scope="module")
def buses(shared_data) -> World:
    import pyarrow.parquet as parquet

    file = shared_data / "lira" / "austin_buses.parquet"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    table = parquet.read_table(file)
    columns = ("object_id", "time_s", "x_m", "y_m", "speed_mps")
    rows = {
        n: table.column(c).to_numpy().astype(np.float64)
        for n, c in zip(NAMES, columns, strict=True)
    }
    rows |= {n: rows[n] - rows[n].min() for n in "xy"}
    thresholds = {"lowest_threshold": 50, "highest_threshold": 1500, "fairness_threshold": 1000}
    return World(rows, 80, (1000, 4000), **thresholds)


@pytest.fixture(params=["cars", "walkers", "buses"])
def world(request) -> World:
    made: World = request.getfixturevalue(request.param)
    return made


def test_the_size_of_batches_changes_nothing(world):
    """Nor does it matter that single positions come as such."""
    rows = in_order(world.fresh)
    for load in (0.25, 0.5, 0.8):
        sizes = rehearsal.SIZES[1:]
        masks = [rehearsal.shed(world.plan, "lira", rows, load, size=size) for size in sizes]
        assert all((mask == masks[0]).all() for mask in masks)
        first = {n: v[:2000] for n, v in rows.items()}
        single = rehearsal.shed(world.plan, "lira", first, load, size=1)
        assert (single == masks[0][:2000]).all()


def test_the_plan_is_never_worse_than_the_simple_ways(world):
    outcomes = world.outcomes
    for outcome in outcomes:
        name, quality = outcome.strongest
        assert outcome.quality >= quality - 2.0 * outcome.noise, (name, outcome)
        assert outcome.spread <= 1e-12
        assert outcome.passed_fraction <= outcome.load * (1 + 1e-9)
        assert outcome.noise < 0.1
    assert outcomes[-1].schedule == rehearsal.changing(LOADS)
    assert not outcomes[-1].by_size
    better = [o.quality - o.strongest[1] for o in outcomes if o.strongest[0] == "one delta"]
    assert len(better) >= 4
    assert sum(better) > 0.0


def test_forecasts_are_near(world):
    """Where Δmax suffices; the gate states how near on the stream's own samples."""
    reached = [o for o in world.outcomes if o.load >= 1.1 * world.plan.floor]
    assert len(reached) >= 4
    for outcome in reached:
        assert outcome.predicted_quality == pytest.approx(outcome.quality, abs=0.05)


def test_ids_that_are_seen_once_do_no_harm(cars):
    """They used to lengthen the periods of all others, and to stay for ever."""
    rows = in_order(cars.fresh)
    size = len(rows["time"])
    once = {
        "object_id": 1e6 + np.arange(20_000.0),
        "time": np.linspace(0.0, 100.0, 20_000),
        "x": np.full(20_000, 1500.0),
        "y": np.full(20_000, 1500.0),
    }
    mixed = {n: np.concatenate([rows[n], once[n]]) for n in rows}
    order = np.argsort(mixed["time"], kind="stable")
    keep = rehearsal.shed(cars.plan, "lira", {n: v[order] for n, v in mixed.items()}, 0.5)
    own = keep[np.argsort(order, kind="stable")[:size]]
    alone = rehearsal.shed(cars.plan, "lira", rows, 0.5)
    assert (own == alone).all()


def test_nobody_waits_for_ever(walkers):
    """Also far below what Δmax reaches: everybody is heard of again while the ledger earns twice
    as many reports as there are objects."""
    rows = in_order(walkers.fresh)
    objects = len(np.unique(rows["object_id"]))
    due = due_under_lowest(rows, walkers.plan.frame.low)
    for load in (0.05, 0.2, 0.6):
        shedder = Shedder(walkers.plan, load)
        keep = shedder.offer({n: rows[n] for n in NAMES[:4]})
        view = server_view(rows, keep, 100.0)
        off = np.hypot(view[:, 0] - rows["x"], view[:, 1] - rows["y"])
        earned = np.cumsum(load * due)
        limit = 2.0 * max(SHORTEST, objects / 0.63) + objects
        since: dict[float, float] = {}
        for i, (name, far) in enumerate(zip(rows["object_id"].tolist(), off.tolist(), strict=True)):
            if far <= walkers.plan.frame.high:
                since.pop(name, None)
            else:
                since.setdefault(name, float(earned[i]))
                assert earned[i] - since[name] <= limit


def test_queries_count_by_weight(cars, samples):
    """Two queries, one of weight 0: what happens there does not matter."""
    document = cars.definition.model_dump(mode="json")
    inline = document["queries"]["inline"][:2]
    both = [{**inline[0], "weight": 1.0}, {**inline[1], "weight": 0.0}]
    qualities = []
    for queries in (both, both[:1]):
        asked = parse({**document, "queries": {"inline": queries}}, "cars.yaml")
        [outcome] = evaluate(cars.plan, cars.fresh, asked, [0.3])
        qualities.append((outcome.quality, outcome.random_quality, outcome.baselines))
    assert qualities[0] == qualities[1]
    assert qualities[0][0] < 1.0


@pytest.fixture(scope="module")
def days(cars, walkers) -> Callable[[int], tuple[World, Rows]]:
    """Return, by seed, a world and a stretch of its stream with some of its objects."""

    def day(seed: int) -> tuple[World, Rows]:
        rng = np.random.default_rng(seed)
        world = (cars, walkers)[seed % 2]
        rows = in_order(world.fresh)
        names = np.unique(rows["object_id"])
        some = rng.permutation(names)[: int(rng.integers(20, len(names) + 1))]
        begin = float(rng.uniform(0.0, 0.5)) * rows["time"].max()
        here = np.isin(rows["object_id"], some) & (rows["time"] >= begin)
        return world, {n: v[here][:3000] for n, v in rows.items()}

    return day


@pytest.mark.parametrize("block", range(10))
def test_two_hundred_random_days(days, block):
    """Budgets hold in every window, and no day ends worse than with random dropping."""
    for seed in range(20 * block, 20 * block + 20):
        world, rows = days(seed)
        trial = world.trial(rows)
        day = live([world.plan, one_delta(world.plan)], "lira", rows, seed)
        shed = day.load < 1.0
        due = trial.full & ~trial.first
        if seed % 20 == 0:
            assert (due == due_under_lowest(rows, world.plan.frame.low)).all()
        sent = np.cumsum(day.keep & ~trial.first & shed)
        over = sent - np.cumsum(np.where(due & shed, day.load, 0.0))
        assert over.max() <= 1e-6
        objects = len(np.unique(rows["object_id"]))
        savings = max(SHORTEST, 2 * objects)
        assert (over - np.minimum.accumulate(over)).max() <= savings + 1
        random = server_view(rows, trial.full & (trial.first | _drawn(day.load)), 100.0)
        ours = server_view(rows, day.keep, 100.0)
        gap = trial.quality(ours) - trial.quality(random)
        assert gap >= 0.0 or gap >= -4.5 * trial.noise(ours, random), seed
