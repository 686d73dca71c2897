"""Dead-reckoning nodes under a plan: budgets at every moment, bad input, changes on the way.

The load is a promise: at no moment has the shedder sent more than z times what was due.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.batches import read
from planning.errors import ArtifactError, InvalidInput
from planning.lira.kernels import CREDIT, REPORT
from planning.lira.memory import SHORTEST, BudgetCorrection
from planning.lira.plan import Plan
from planning.lira.shedder import SCHEMA, Shedder
from planning.lira.simulate import in_order, server_view
from planning.pacing import UNLIMITED


@pytest.fixture(scope="module")
def city(scene) -> Plan:
    return scene.plan(scene.queries("proportional", 20), 0.5, regions=40)


def due_under_lowest(rows: dict[str, np.ndarray], low: float) -> np.ndarray:
    """Return which rows a node with Δmin everywhere would report, first ones left out."""
    last: dict[int, tuple[float, np.ndarray]] = {}
    reported: dict[int, tuple[float, np.ndarray, np.ndarray]] = {}
    due = np.zeros(len(rows["time"]), dtype=bool)
    for i, (name, t, x, y) in enumerate(
        zip(*(rows[n].tolist() for n in ("object_id", "time", "x", "y")), strict=True)
    ):
        here = np.array([x, y])
        if name not in last:
            reported[name] = (t, here, np.zeros(2))
        else:
            before, there = last[name]
            since, origin, velocity = reported[name]
            due[i] = np.hypot(*(here - origin - velocity * (t - since))) > low
            if due[i]:
                reported[name] = (t, here, (here - there) / (t - before))
        last[name] = (t, here)
    return due


def first_kept(rows: dict[str, np.ndarray], keep: np.ndarray) -> np.ndarray:
    """Return which rows are the first report of their object."""
    first = np.zeros(len(keep), dtype=bool)
    reported = np.flatnonzero(keep)
    first[reported[np.unique(rows["object_id"][reported], return_index=True)[1]]] = True
    return first


def known_by(rows: dict[str, np.ndarray], keep: np.ndarray) -> np.ndarray:
    """Return which rows come with or after the first report of their object."""
    known, seen = set(), []
    for name, kept in zip(rows["object_id"].tolist(), keep.tolist(), strict=True):
        known |= {name} if kept else set()
        seen.append(name in known)
    return np.array(seen, dtype=bool)


def walk(seed: int, objects: int, ticks: int, plan: Plan) -> dict[str, np.ndarray]:
    """Return positions that wander over the whole space, all objects at every tick."""
    rng = np.random.default_rng(seed)
    low, high = plan.frame.bounds[0], plan.frame.bounds[2]
    step = rng.normal(0, rng.choice([2.0, 8.0, 30.0]), (ticks, objects, 2)).clip(-60, 60)
    where = (rng.uniform(low, high, (objects, 2)) + step.cumsum(axis=0)).clip(low, high)
    return {
        "object_id": np.tile(np.arange(objects), ticks),
        "time": np.repeat(np.arange(ticks, dtype=float), objects),
        "x": where[:, :, 0].ravel(),
        "y": where[:, :, 1].ravel(),
    }


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    objects=st.integers(1, 60),
    loads=st.lists(st.floats(0.0, 0.999), min_size=1, max_size=4),
    batch=st.integers(1, 700),
    most=st.one_of(st.just(UNLIMITED), st.integers(0, 200)),
)
def test_no_moment_exceeds_the_budget(city, seed, objects, loads, batch, most):
    """However loads and plans change and reports are cut, the sum never exceeds the budget."""
    rows = walk(seed, objects, 80, city)
    size = len(rows["time"])
    shedder = Shedder(city, loads[0])
    keep, load = [], []
    for number, start in enumerate(range(0, size, batch)):
        asked = loads[(start * len(loads)) // size]
        shedder.set_load(asked)
        if number == 2:
            shedder, old = Shedder(city, asked), shedder
            shedder.adopt(old)
        part = read({n: v[start : start + batch] for n, v in rows.items()}, SCHEMA)
        decision = shedder.decide(part, most=most)
        assert decision.units == decision.keep.sum() <= most
        keep.append(decision.keep)
        load += [asked] * part.rows
    kept = np.concatenate(keep)
    seen = known_by(rows, kept)
    due = due_under_lowest({n: v[seen] for n, v in rows.items()}, city.frame.low)
    sent = np.cumsum((kept & ~first_kept(rows, kept))[seen])
    assert shedder.counters.due == due.sum()
    assert shedder.counters.sent == (sent[-1] if sent.size else 0)
    budget = np.cumsum(np.where(due, np.array(load)[seen], 0.0))
    assert (sent <= budget + 1e-9 * due.sum()).all()


def test_savings_end_so_that_quiet_times_end_in_no_burst(city):
    """Nodes that tremble are due but need not report; when they run, the past pays for little."""
    objects, ticks = 50, 4
    rows = walk(5, objects, 2 * ticks, city)
    quiet = objects * ticks
    for n in ("x", "y"):
        rows[n][:quiet] = np.tile(rows[n][quiet : quiet + objects], ticks)
    rows["x"][:quiet] += np.repeat(np.arange(ticks) % 2, objects) * 8.0
    rows["x"][quiet:] += np.repeat(np.arange(ticks) % 2, objects) * 300.0
    due = due_under_lowest(rows, city.frame.low)
    shedder = Shedder(city, 0.5)
    shedder.offer({n: v[:quiet] for n, v in rows.items()})
    assert shedder.counters.sent < 0.3 * shedder.counters.due
    shedder._fleet.counts[CREDIT] += 1000 * REPORT  # as if it had been quiet for much longer
    sent = int(shedder.offer({n: v[quiet:] for n, v in rows.items()}).sum())
    own = 0.5 * due[quiet:].sum()
    assert own < sent <= min(own + SHORTEST, due[quiet:].sum())


@pytest.mark.parametrize("load", [0.4, 0.6, 0.9])
def test_the_budget_is_used_and_reports_seldom_wait(city, scene, load):
    positions = scene.trace.part(0, 400).positions[::5].astype(np.float64)
    nodes, ticks, _ = positions.shape
    flat = positions.transpose(1, 0, 2).reshape(-1, 2)
    rows = {
        "object_id": np.tile(np.arange(nodes), ticks),
        "time": np.repeat(np.arange(ticks, dtype=float), nodes),
        "x": flat[:, 0],
        "y": flat[:, 1],
    }
    shedder = Shedder(city, load)
    waiting = []
    for start in range(0, len(flat), 5 * nodes):
        shedder.offer({n: v[start : start + 5 * nodes] for n, v in rows.items()})
        waiting.append(shedder.counters.waiting)
    assert 0.98 * load <= shedder.counters.passed_fraction <= load
    assert np.mean(waiting[len(waiting) // 2 :]) < 0.02 * nodes


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
    assert shedder.offer([]).tolist() == shedder.offer(None).tolist() == []
    assert not shedder.offer_one({})
    assert not shedder.offer_one(None)
    assert shedder.counters.invalid >= 4
    assert shedder.offer({"object_id": ["bus"], "time": [0], "x": [1], "y": [2]}).tolist() == [True]


def test_a_successor_and_another_load_keep_nodes_and_counters(plan, city, samples):
    """Also a successor with a plan of other regions: no object reports for the first time again."""
    rows = {n: v[:3000] for n, v in in_order(samples).items()}
    for other in (Plan.from_bytes(plan.to_bytes()), city):
        old = Shedder(plan, 0.5)
        old.offer(rows)
        before = old.counters
        shedder = Shedder(other, 0.5)
        shedder.offer(shedder.probe(50))
        shedder.adopt(old)
        assert shedder.counters == before
        shedder.set_load(0.3)
        assert shedder.counters == before
        assert shedder.setting.load == pytest.approx(max(0.3, other.floor))
        last = {n: v[-150:] for n, v in rows.items()}
        last["time"] = last["time"] + 1e-3
        assert not shedder.offer(last).any()  # nobody has moved
        assert shedder.counters.objects == before.objects


@pytest.mark.parametrize("loads", [(0.35, 0.9), (0.2, 0.95), (0.3, 0.8, 0.5)])
def test_a_load_that_changes_with_every_batch_is_used(city, loads):
    """What was learned outlasts a change of load, and is laid to the loads that were in force."""
    objects, ticks = 400, 200
    rows = walk(1, objects, ticks, city)
    shedder = Shedder(city, 0.5)
    wanted, due = 0.0, 0
    for tick in range(ticks):
        load = loads[tick % len(loads)]
        shedder.set_load(load)
        here = slice(tick * objects, (tick + 1) * objects)
        shedder.offer({n: v[here] for n, v in rows.items()})
        wanted += load * (shedder.counters.due - due)
        due = shedder.counters.due
    assert 0.98 * wanted <= shedder.counters.sent <= wanted
    assert shedder.counters.waiting < 0.2 * objects


def test_a_load_that_cannot_be_followed_changes_nothing(plan, monkeypatch):
    shedder = Shedder(plan, 0.5)
    before = shedder.setting
    monkeypatch.setattr(Plan, "near", lambda self, load: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shedder.set_load(0.3)
    with pytest.raises(InvalidInput):
        shedder.set_load(float("nan"))
    assert (shedder.load, shedder.setting) == (0.5, before)


@pytest.mark.parametrize(
    "change",
    [
        {"fairness_threshold": -1.0},
        {"weight": 1e308},
        {"weight": float("nan")},
        {"ratio": -1.0},
        {"reduction": 1.0},
        {"departure": -1e9},
        {"reports_per_position": 1.5},
    ],
)
def test_plans_that_cannot_be_evaluated_are_refused(plan, change):
    document = plan.to_document()
    for name, value in change.items():
        many = isinstance(document[name], list)
        document[name] = [value] * len(document[name]) if many else value
    with pytest.raises((InvalidInput, ArtifactError)):
        Shedder(Plan.from_document(document), 0.5)


def test_correction_meets_a_biased_budget_and_forgives_an_impossible_one():
    for bias in (0.8, 1.0, 1.3):
        correction = BudgetCorrection(0.6)
        sent = sum(_period(correction, bias) for _ in range(60))
        assert sent / 60_000 == pytest.approx(0.6, abs=0.005)
    surprised = BudgetCorrection(0.6)
    sent = sum(_period(surprised, 1.5 if k < 2 else 1.0) for k in range(25))
    assert sent / 25_000 == pytest.approx(0.6, abs=0.003)  # the first excess is made up for
    stuck = BudgetCorrection(0.1)
    for _ in range(100):
        stuck.observe(300, 1000)  # never fewer, whatever is asked for
    assert stuck.load == 0.0
    stuck.aim(0.5)
    for _ in range(10):
        _period(stuck, 1.0)
    assert stuck.load == pytest.approx(0.5, abs=0.05)


def _period(correction: BudgetCorrection, bias: float) -> float:
    kept = 1000 * correction.load * bias
    correction.observe(kept, 1000)
    return kept
