"""LIRA vectors: throttlers, levels of positions, and what a keyed shedder reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from consumers.kit.damage import damaged, encodings
from planning import batches
from planning.arrays import single_precision
from planning.examples import demo_plan
from planning.guarantees import Guarantee
from planning.lira.plan import Plan
from planning.lira.shedder import Shedder

ROWS, OBJECTS = 600, 23
LOADS = (0.0, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0 - 2.0**-53, 1.0)
RUNS = (0.05, 0.3, 0.6, 1.0)
NEAR = 1e-9
"""Of a number: throttlers that are rounded differently this far off are left out."""


def vectors() -> dict[str, Any]:
    """Return cases and damaged plans."""
    r = np.random.default_rng(18)
    plans = {
        "demo": demo_plan("lira"),
        "one region": _plan(r, side=1, levels=1, halvings=0),
        "a padded grid": _plan(r, side=13, levels=5, halvings=40),
        "a curve that is not convex": _plan(r, side=16, levels=9, halvings=60, bumpy=True),
        "little fairness": _plan(r, side=16, levels=9, halvings=30, fairness=4.0),
        "no importance": _plan(r, side=8, levels=3, halvings=9, importance=0.0),
        "guarantees": _plan(r, side=13, levels=4, halvings=20, guaranteed=True),
    }
    few = plans["a padded grid"], plans["guarantees"]
    return {
        "family": "lira",
        "cases": [_case(name, plan, r) for name, plan in plans.items()],
        "damaged": [
            one for seed, plan in enumerate(few) for one in damaged(plan, "lira", 5 + seed)
        ],
    }


def _plan(
    r: np.random.Generator, *, side: int, levels: int, halvings: int, bumpy: bool = False,
    fairness: float = 60.0, importance: float = 1.0, guaranteed: bool = False,
) -> Plan:  # fmt: skip
    tree, regions = _tree(r, side, halvings)
    segments = 12
    reduction = 1.0 / (1.0 + np.arange(segments + 1)) ** r.uniform(0.4, 1.2)
    if bumpy:
        reduction[1:] *= r.uniform(0.7, 1.3, segments)
    weight = r.random(levels) * (r.random(levels) > 0.2)
    document = {
        "format": 1, "bounds": [-100.0, 50.0, 1900.5, 1450.25], "side": side, "tree": tree,
        "level": r.integers(0, levels, regions).tolist(), "lowest_threshold": 5.0,
        "highest_threshold": 105.0, "segments": segments,
        "ratio": _single(np.sort(r.random(levels)) * importance), "weight": _single(weight),
        "inside": _single(r.random(levels)), "reduction": _single(reduction),
        "errors": _single(np.arange(segments + 1) * 1.5), "departure": 3.25,
        "fairness_threshold": fairness, "throttle_fraction": 0.5, "reports_per_position": 0.2,
    }  # fmt: skip
    if guaranteed:
        places = np.sort(r.uniform(5.0, 108.25, (5, levels)), axis=0)[::-1]
        document["guaranteed"] = {
            "guarantees": [
                asdict(Guarantee("query a", "max_delta", 20.0, 2, 0.4)),
                asdict(Guarantee("query b", "max_delta", 50.0, 1, 2.0)),
            ],
            "looks": [[0], [0, levels - 1]], "loads": [0.05, 0.2, 0.5, 0.9, 1.0],
            "places": places.tolist(), "error": 0.001,
        }  # fmt: skip
    return Plan.from_document(document)


def _single(values: Any) -> list[float]:
    numbers: list[float] = single_precision(np.asarray(values, dtype=np.float64)).tolist()
    return numbers


def _tree(r: np.random.Generator, side: int, halvings: int) -> tuple[str, int]:
    """Return the preorder of random halvings, and how many leaves lie in the grid."""
    size = 1 << (side - 1).bit_length()
    symbols, regions, left = [], 0, halvings
    waiting = [(0, 0, size, size)]
    while waiting:
        x, y, w, h = waiting.pop()
        ways = [way for way, wide in (("X", w), ("Y", h)) if wide > 1]
        if not left or not ways or (len(waiting) and r.random() < 0.2):
            symbols.append("L")
            regions += x < side and y < side
            continue
        left -= 1
        way = str(r.choice(ways))
        symbols.append(way)
        if way == "X":
            waiting += [(x + w // 2, y, w // 2, h), (x, y, w // 2, h)]
        else:
            waiting += [(x, y + h // 2, w, h // 2), (x, y, w, h // 2)]
    return "".join(symbols), regions


def _case(name: str, plan: Plan, r: np.random.Generator) -> dict[str, Any]:
    columns = _tracks(plan, r)
    settings = []
    for load in (*LOADS, *r.random(10).tolist()):
        exact = plan.at(load).by_level
        single = exact.astype(np.float32)
        if (
            (exact * (1 - NEAR)).astype(np.float32) == (exact * (1 + NEAR)).astype(np.float32)
        ).all():
            settings.append({"load": load, "by_level": single.astype(np.float64).tolist()})
    drawn = np.zeros(ROWS, dtype=np.uint32)
    decisions = []
    for load in RUNS:
        shedder = Shedder(plan, load)
        keep = shedder.decide(batches.read(columns, shedder.schema), draws=drawn).keep
        decisions.append("".join("01"[int(kept)] for kept in keep))
    x, y = (np.array(columns[n], dtype=np.float64) for n in ("x", "y"))
    levels = [
        int(plan.raster[_cell(plan, 1, b), _cell(plan, 0, a)]) for a, b in zip(x, y, strict=True)
    ]
    return {
        "name": name,
        **encodings(plan, "lira"),
        "columns": columns,
        "levels": levels,
        "settings": settings,
        "runs": RUNS,
        "decisions": decisions,
    }


def _cell(plan: Plan, axis: int, at: float) -> int:
    """Return the row or column of a coordinate; that of the nearest cell outside the space."""
    place = (at - plan.frame.bounds[axis]) * (1.0 / plan.frame.cell_size[axis])
    return int(min(place, plan.frame.side - 1.0)) if place > 0.0 else 0


def _tracks(plan: Plan, r: np.random.Generator) -> dict[str, list[Any]]:
    """Return objects that move, turn, jump, leave the space, and report late or nonsense."""
    x_low, y_low, x_high, y_high = plan.frame.bounds
    place = r.uniform((x_low, y_low), (x_high, y_high), (OBJECTS, 2))
    speed = r.normal(0.0, 12.0, (OBJECTS, 2))
    columns: dict[str, list[Any]] = {"object_id": [], "time": [], "x": [], "y": []}
    for row in range(ROWS):
        k = row % OBJECTS
        if r.random() < 0.1:
            speed[k] = r.normal(0.0, 12.0, 2)
        place[k] += 5.0 * speed[k] + (5000.0 if r.random() < 0.01 else 0.0) * r.normal(size=2)
        time = 5.0 * (row // OBJECTS) - (10.0 if r.random() < 0.02 else 0.0)
        columns["object_id"].append(f"car-{k}" if k % 4 else str(k) if row % 3 else k)
        columns["time"].append(time)
        columns["x"].append(None if r.random() < 0.01 else float(place[k, 0]))
        columns["y"].append(float(place[k, 1]))
    return columns
