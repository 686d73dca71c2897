"""The load is a promise: at no moment has the shedder sent more than z times what was due."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.lira.plan import Plan
from planning.lira.shedder import PERIOD, Shedder


@pytest.fixture(scope="module")
def plan(scene: Any) -> Plan:
    queries = scene.queries("proportional", 20)
    return scene.plan(queries, 0.5, regions=40)


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
)
def test_no_moment_exceeds_the_budget(plan, seed, objects, loads, batch):
    """Whatever moves, however the load changes and plans are swapped, the sum never exceeds it."""
    rows = walk(seed, objects, 80, plan)
    size = len(rows["time"])
    shedder = Shedder(plan, loads[0])
    keep, load = [], []
    for number, start in enumerate(range(0, size, batch)):
        asked = loads[(start * len(loads)) // size]
        shedder.set_load(asked)
        if number == 2:
            shedder.swap(plan)
        part = {n: v[start : start + batch] for n, v in rows.items()}
        keep.append(shedder.offer(part))
        load += [asked] * len(part["time"])
    due = due_under_lowest(rows, plan.frame.low)
    first = np.arange(size) < objects
    sent = np.cumsum(np.concatenate(keep) & ~first)
    assert shedder.counters.due == due.sum()
    assert shedder.counters.sent == sent[-1]
    budget = np.cumsum(np.where(due, load, 0.0))
    assert (sent <= budget + 1e-9 * due.sum()).all()


def test_savings_end_so_that_quiet_times_end_in_no_burst(plan):
    """Nodes that tremble are due but need not report; when they run, the past pays for little."""
    objects, ticks = 50, 300
    rows = walk(5, objects, 2 * ticks, plan)
    quiet = objects * ticks
    for n in ("x", "y"):
        rows[n][:quiet] = np.tile(rows[n][quiet : quiet + objects], ticks)
    rows["x"][:quiet] += np.repeat(np.arange(ticks) % 2, objects) * 8.0
    rows["x"][quiet:] += np.repeat(np.arange(ticks) % 2, objects) * 300.0
    due = due_under_lowest(rows, plan.frame.low)
    shedder = Shedder(plan, 0.5)
    shedder.offer({n: v[:quiet] for n, v in rows.items()})
    assert shedder.counters.sent < 0.3 * shedder.counters.due
    sent = int(shedder.offer({n: v[quiet:] for n, v in rows.items()}).sum())
    own = 0.5 * due[quiet:].sum()
    assert own < sent <= own + max(PERIOD, objects)


@pytest.mark.parametrize("load", [0.4, 0.6, 0.9])
def test_the_budget_is_used_and_reports_seldom_wait(plan, scene, load):
    positions = scene.trace.part(0, 400).positions[::5].astype(np.float64)
    nodes, ticks, _ = positions.shape
    flat = positions.transpose(1, 0, 2).reshape(-1, 2)
    rows = {
        "object_id": np.tile(np.arange(nodes), ticks),
        "time": np.repeat(np.arange(ticks, dtype=float), nodes),
        "x": flat[:, 0],
        "y": flat[:, 1],
    }
    shedder = Shedder(plan, load)
    waiting = []
    for start in range(0, len(flat), 5 * nodes):
        shedder.offer({n: v[start : start + 5 * nodes] for n, v in rows.items()})
        waiting.append(shedder.counters.waiting)
    assert 0.98 * load <= shedder.counters.passed_fraction <= load
    assert np.mean(waiting[len(waiting) // 2 :]) < 0.02 * nodes
