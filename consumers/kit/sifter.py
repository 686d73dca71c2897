"""Sifter vectors: regions, thresholds and keyed decisions at many loads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from consumers.kit.damage import damaged, encodings
from planning import batches, keys
from planning.arrays import frozen, single_precision
from planning.examples import demo_plan
from planning.guarantees import Guarantee
from planning.sifter.model import Axis, Partition, Pins, Space
from planning.sifter.plan import Plan, Traced
from planning.sifter.shedder import Shedder

ROWS = 400
CITIES = ("Oslo", "Łódź", "東京", "Rome", "Lima")
AXES = (
    Axis("price", "float", 0.0, 100.0),
    Axis("count", "int", -5.0, 51.0),
    Axis("city", "category", 0.0, 5.0, CITIES),
)


def vectors() -> dict[str, Any]:
    """Return cases and damaged plans."""
    r = np.random.default_rng(18)
    plain = _plan(r, AXES[:2], 24)
    plans = {
        "demo": demo_plan("sifter"),
        "one region": _plan(r, AXES[:1], 1),
        "two axes": plain,
        "least fraction": replace(_plan(r, AXES[:2], 17), min_keep=0.07),
        "no fairness": replace(_plan(r, AXES[:2], 9), fairness_threshold=1.0),
        "all alike": replace(_plan(r, AXES[:2], 9), fairness_threshold=0.0),
        "nothing queried": replace(plain, queried=np.zeros(24, dtype=np.bool_)),
        "many regions": _plan(r, AXES, 700),
        "categories in another order": _plan(r, AXES, 40, ordered=True),
        "pins": _plan(r, AXES, 30, ordered=True, pins=3),
        "guarantees": _traced(r, _plan(r, AXES, 20, pins=1)),
    }
    few = _traced(r, _plan(r, AXES, 6, ordered=True, pins=1))
    return {
        "family": "sifter",
        "cases": [_case(name, plan, r) for name, plan in plans.items()],
        "damaged": damaged(few, "sifter", 1) + damaged(plans["two axes"], "sifter", 2),
    }


def _plan(
    r: np.random.Generator, axes: tuple[Axis, ...], regions: int, *, ordered: bool = False,
    pins: int = 0,
) -> Plan:  # fmt: skip
    orders = ((), (), tuple(r.permutation(len(CITIES)).tolist())) if ordered else ()
    frequency = r.random(regions) * (r.random(regions) > 0.1)
    qos = r.random(regions) * frequency
    ends = [[axis.low, axis.high] for axis in axes]
    corners = r.uniform(*np.array(ends).T, size=(pins, 2, len(axes)))
    return Plan(
        space=Space(axes),
        partition=Partition.from_nested(_tree(r, axes, regions), orders),
        frequency=single_precision(frequency / max(frequency.sum(), 1e-9)),
        region_qos=single_precision(qos),
        queried=r.random(regions) > 0.3,
        base_qos=0.1,
        fairness_threshold=float(r.random()),
        throttle_fraction=0.5,
        pins=Pins(frozen(corners.min(axis=1)), frozen(corners.max(axis=1))),
        pinned_fraction=0.02 if pins else 0.0,
    )


def _tree(r: np.random.Generator, axes: tuple[Axis, ...], regions: int) -> Any:
    """Return nested cuts, each inside its own box."""
    if regions == 1:
        return None
    wide = [k for k, a in enumerate(axes) if a.kind == "float" or a.high - a.low >= 2.0]
    axis = int(r.choice(wide))
    box = axes[axis]
    cut = float(r.uniform(box.low, box.high))
    cut = cut if box.kind == "float" else max(float(np.floor(cut)), box.low + 1.0)
    below, above = ([*axes], [*axes])
    below[axis], above[axis] = replace(box, high=cut), replace(box, low=cut)
    left = int(r.integers(max(1, regions // 4), regions - regions // 4))
    halves = (tuple(below), left), (tuple(above), regions - left)
    return axis, cut, *(_tree(r, *half) for half in halves)


def _traced(r: np.random.Generator, plan: Plan) -> Plan:
    loads = np.concatenate([[0.0], np.sort(r.random(6)), [1.0]])
    thresholds = r.random((8, plan.regions)) * (r.random((8, plan.regions)) > 0.3)
    thresholds[0], thresholds[-1] = 1.0, 0.0
    traced = Traced(
        frozen(loads), single_precision(thresholds), frozen(np.sort(r.random(8))),
        frozen(r.random((8, 2))),
        (
            Guarantee("query alerts", "min_completeness", 0.9, 2, 0.3),
            Guarantee("query others", "min_completeness", 0.5, 1, 2.0),
        ),
        0.001,
    )  # fmt: skip
    return replace(plan, traced=traced)


def _case(name: str, plan: Plan, r: np.random.Generator) -> dict[str, Any]:
    columns = {axis.name: _values(plan, k, r) for k, axis in enumerate(plan.space.axes)}
    users = [int(u) if u % 3 else f"user-{u}" for u in r.integers(0, 5000, ROWS)]
    days = [None if d == 0 else float(d) / 2 for d in r.integers(0, 9, ROWS)]
    salt = int(r.integers(-(2**62), 2**62)) if r.random() < 0.5 else None
    draws = keys.draws_of([users, days], salt)
    batch = batches.read(columns, Shedder(plan).schema)
    places = plan.partition.lookup(plan.space.matrix(columns))
    turns = plan.turns
    loads = [0.0, 1.0, 1e-12, 1.0 - 2.0**-53, *r.random(3).tolist()]
    loads += r.choice(turns, min(3, len(turns)), replace=False).tolist()
    settings, decisions = [], []
    for load in loads:
        setting = plan.at(load)
        settings.append(
            {
                "load": load,
                "thresholds": setting.drop_thresholds.tolist(),
                "steps": setting.steps.tolist(),
            }
        )
        keep = Shedder(plan, load).decide(batch, draws=draws).keep
        decisions.append("".join("01"[int(kept)] for kept in keep))
    return {
        "name": name,
        **encodings(plan, "sifter"),
        "columns": columns,
        "keys": [users, days],
        "salt": None if salt is None else str(salt),
        "draws": draws.tolist(),
        "regions": np.where(places < 0, plan.regions, places).tolist(),
        "settings": settings,
        "decisions": decisions,
    }


def _values(plan: Plan, axis: int, r: np.random.Generator) -> list[Any]:
    """Return values inside and outside the domain, on cuts and corners, and missing ones."""
    given = plan.space.axes[axis]
    if given.kind == "category":
        return r.choice(np.array([*CITIES, "Atlantis", None], dtype=object), ROWS).tolist()
    span = given.high - given.low
    values = r.uniform(given.low - 0.1 * span, given.high + 0.1 * span, ROWS)
    values = values if given.kind == "float" else np.floor(values)
    cuts = plan.partition.cut[plan.partition.dimension == axis]
    edges = np.concatenate([cuts, plan.pins.low[:, axis], plan.pins.high[:, axis], [-1e308, 1e308]])
    values[: ROWS // 4] = r.choice(edges, ROWS // 4)
    values = r.permutation(values)
    return [None if missing else value for value, missing in
            zip(values.tolist(), r.random(ROWS) < 0.02, strict=True)]  # fmt: skip
