"""The hard limit on reports, and decisions with keys: in the plan's own order, and repeatable."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.batches import read
from planning.lira.plan import Plan
from planning.lira.shedder import SCHEMA, Shedder
from planning.lira.simulate import in_order

HALVES = {
    "format": 1, "bounds": [0, 0, 2000, 2000], "side": 2, "tree": "XLL", "level": [0, 1],
    "lowest_threshold": 5, "highest_threshold": 105, "segments": 2, "ratio": [0.5, 2.0],
    "weight": [100, 100], "inside": [0.2, 0.8], "reduction": [1, 0.5, 0.25],
    "errors": [0, 9, 18], "departure": 0, "fairness_threshold": 100,
    "throttle_fraction": 0.5, "reports_per_position": 0.2,
}  # fmt: skip


class Node:
    """One object by dead reckoning, in plain Python, told what it reported."""

    def __init__(self) -> None:
        self.last = self.report = None

    def believed(self, t: float) -> float:
        """Return the x at which the server believes the node to be."""
        since, rx, _, vx, _ = self.report
        return rx + vx * (t - since)

    def off(self, t: float, x: float, y: float) -> float:
        """Return how far the server is off; infinite while it knows nothing."""
        if self.report is None:
            return np.inf
        since, rx, ry, vx, vy = self.report
        return np.hypot(x - rx - vx * (t - since), y - ry - vy * (t - since))

    def move(self, t: float, x: float, y: float, reported: bool) -> None:
        if reported:
            before, px, py = self.last or (t - 1.0, x, y)
            self.report = (t, x, y, (x - px) / (t - before), (y - py) / (t - before))
        if self.report is not None:  # an object that never reported is not known at all
            self.last = (t, x, y)


def walk(seed: int, objects: int, ticks: int, side: float) -> dict[str, np.ndarray]:
    """Return positions that wander over the space, every object at every tick."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0, rng.choice([3.0, 20.0]), (ticks, objects, 2)).clip(-60, 60)
    where = (rng.uniform(0, side, (objects, 2)) + steps.cumsum(axis=0)).clip(0, side - 1)
    return {
        "object_id": np.tile(np.arange(objects), ticks),
        "time": np.repeat(np.arange(ticks, dtype=float), objects),
        "x": where[:, :, 0].ravel(),
        "y": where[:, :, 1].ravel(),
    }


def parts(rows: dict[str, np.ndarray], size: int):
    for start in range(0, len(rows["time"]), size):
        yield read({n: v[start : start + size] for n, v in rows.items()}, SCHEMA)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    objects=st.integers(1, 60),
    size=st.integers(1, 300),
    load=st.sampled_from([0.4, 0.75, 1.0]),
    limits=st.lists(st.one_of(st.integers(0, 40), st.just(10**9)), min_size=1, max_size=5),
)
def test_nodes_know_what_was_reported_and_what_was_cut(seed, objects, size, load, limits):
    """A position is kept only beyond its throttler, and left out there only if it was cut."""
    plan = Plan.from_document(HALVES)
    rows = walk(seed, objects, 12, 2000.0)
    shedder = Shedder(plan, load, correct=False)
    throttlers = plan.at(load).throttlers.astype(np.float32)
    nodes: dict[int, Node] = defaultdict(Node)
    for number, part in enumerate(parts(rows, size)):
        most = limits[number % len(limits)]
        decision = shedder.decide(part, most=most)
        assert decision.units == decision.keep.sum() <= most
        beyond = 0
        columns = zip(*(part.columns[n].tolist() for n in SCHEMA.columns), strict=True)
        for (name, t, x, y), kept in zip(columns, decision.keep.tolist(), strict=True):
            off, limit = nodes[name].off(t, x, y), float(throttlers[int(x >= 1000)])
            if nodes[name].report is not None:  # who is believed in a place counts as being there
                limit = min(limit, float(throttlers[int(nodes[name].believed(t) >= 1000)]))
            if abs(off - limit) > 1e-6:
                assert not kept or off > limit
                beyond += not kept and off > limit
            nodes[name].move(t, x, y, kept)
        assert bool(beyond) == bool(decision.cut)
    assert shedder.counters.waiting <= objects
    assert shedder.counters.offered == len(rows["time"])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), objects=st.integers(2, 200), share=st.floats(0.0, 1.2))
def test_the_limit_cuts_where_throttlers_are_high_and_evenly_over_the_batch(seed, objects, share):
    """With one position per object nothing depends on another: the cut is exact."""
    plan = Plan.from_document(HALVES)
    rows = walk(seed, objects, 2, 2000.0)
    free, limited = Shedder(plan, 0.75), Shedder(plan, 0.75)
    first, second = parts(rows, objects)
    wanted = free.decide(first).keep
    assert wanted.all()
    limited.decide(first)
    wanted = free.decide(second).keep
    most = int(share * wanted.sum())
    decision = limited.decide(second, most=most)
    assert decision.units == min(most, wanted.sum())
    assert decision.cut == wanted.sum() - decision.units
    assert not (decision.keep & ~wanted).any()
    watched = rows["x"][objects:] >= 1000
    if most >= (wanted & watched).sum():
        assert (decision.keep >= (wanted & watched)).all()
        cut = np.flatnonzero(wanted & ~watched)
    else:
        assert not (decision.keep & ~watched).any()
        cut = np.flatnonzero(wanted & watched)
    if cut.size:  # of any stretch of those at the edge, the same share passes
        passed = np.cumsum(decision.keep[cut])
        even = passed[-1] * np.arange(1, cut.size + 1) / cut.size
        assert (np.abs(passed - even) <= 1.0).all()


def test_a_limit_that_does_not_bite_changes_no_decision(plan, samples):
    rows = in_order(samples)
    free, limited = Shedder(plan, 0.5), Shedder(plan, 0.5)
    for part in parts(rows, 700):
        wanted = free.decide(part)
        decision = limited.decide(part, most=wanted.units)
        assert (decision.keep == wanted.keep).all()
        assert (decision.units, decision.cut) == (wanted.units, 0)
    assert free.counters == limited.counters


def test_a_first_position_that_is_cut_is_the_first_again(plan):
    shedder = Shedder(plan, 1.0)
    item = {"object_id": [7], "time": [0.0], "x": [100.0], "y": [100.0]}
    cut = shedder.decide(read(item, SCHEMA), most=0)
    assert (cut.keep.tolist(), cut.units, cut.cut) == ([False], 0, 1)
    assert shedder.offer({**item, "time": [-5.0]}).tolist() == [True]
    assert shedder.counters.late == shedder.counters.due == 0


def test_many_positions_of_one_object_do_not_favour_the_beginning():
    """A node that was cut wants to report again at once; that must not use the limit up early."""
    plan = Plan.from_document(HALVES)
    ticks = np.arange(400.0)
    rows = {
        "object_id": np.zeros(400, dtype=int),
        "time": ticks,
        "x": 1200 + 40 * (ticks % 2),
        "y": np.full(400, 500.0),
    }
    batch = read(rows, SCHEMA)
    wanted = Shedder(plan, 1.0).decide(batch).units
    decision = Shedder(plan, 1.0).decide(batch, most=wanted // 4)
    halves = decision.keep[:200].sum(), decision.keep[200:].sum()
    assert sum(halves) >= wanted // 4 - 2
    assert abs(int(halves[0]) - int(halves[1])) <= 2


def test_with_keys_a_decision_depends_on_the_track_alone(plan, samples):
    """Other objects, batches, draws and what the ledger holds do not matter; the load does."""
    rows = in_order(samples)
    everyone = keyed(Shedder(plan, 0.5), rows, 900)
    plain = Shedder(plan, 0.5, correct=False)
    assert everyone.tolist() == np.concatenate([plain.offer(p) for p in parts(rows, 333)]).tolist()
    some = rows["object_id"] % 7 == 3
    few = {n: v[some] for n, v in rows.items()}
    assert keyed(Shedder(plan, 0.5), few, 17, seed=5).tolist() == everyone[some].tolist()
    used = Shedder(plan, 0.5)
    others = {n: v[~some] for n, v in rows.items()}
    for part in parts(others, 500):
        used.decide(part)
    assert used.setting.load != 0.5  # corrected
    saved = used.counters
    assert keyed(used, few, 40).tolist() == everyone[some].tolist()
    assert used.setting.load == 0.5
    assert used.counters.sent > saved.sent
    assert keyed(Shedder(plan, 0.8), rows, 900).tolist() != everyone.tolist()


def keyed(shedder: Shedder, rows: dict[str, np.ndarray], size: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [
            shedder.decide(part, draws=rng.integers(0, 2**32, part.rows, dtype=np.uint32)).keep
            for part in parts(rows, size)
        ]
    )


def test_keys_and_limit_cut_alike_everywhere(plan, samples):
    rows = in_order(samples)
    draws = np.zeros(600, dtype=np.uint32)
    one, two = Shedder(plan, 0.5), Shedder(plan, 0.5)
    for part in parts(rows, 600):
        first, second = (s.decide(part, draws=draws, most=30) for s in (one, two))
        assert (first.keep == second.keep).all()
        assert first.units <= 30
    assert one.counters == two.counters


@pytest.mark.parametrize("load", [0.3, 0.6, 1.0])
def test_the_plan_says_how_many_positions_are_reported(plan, samples, load):
    rows = in_order(samples)
    shedder = Shedder(plan, load)
    for part in parts(rows, 600):
        shedder.decide(part)
    share = shedder.counters.sent / shedder.counters.offered
    assert share == pytest.approx(plan.passed_fraction(load), rel=0.06)
