"""Attribute vectors: settings, and what a keyed shedder sends of tuples that come in batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from consumers.kit.damage import damaged, encodings
from planning import batches, keys
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder
from planning.examples import demo_plan, demo_samples

ROWS, PARTS = 450, 3
RUNS = ((0.9, 0.9, 0.9), (0.5, 0.2, 0.7), (0.05, 1.0, 0.4), (0.0, 0.6, 0.6))
LOADS = (0.0, 1e-6, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0 - 2.0**-53, 1.0)


def vectors() -> dict[str, Any]:
    """Return cases and damaged plans."""
    r = np.random.default_rng(18)
    guarantees = {
        "level": {"max_error": 0.8, "priority": 2},
        "load": {"max_age": 5, "priority": 1},
        "state": {"max_age": 3},
    }
    plans = {
        "demo": (demo_plan("attributes"), demo_samples("attributes", batch=1)),
        **{m: _planned(r, method=m) for m in ("on_change", "periods", "selection", "paper")},
        "refresh": _planned(r, method="on_change", refresh_reports=12),
        "guarantees": _planned(r, method="on_change", guarantees=guarantees),
        "two streams": _planned(
            r, method="on_change", stream_attribute="kind", guarantees={"load": {"max_age": 4}}
        ),
        "two streams in proportion": _planned(
            r, method="periods", stream_attribute="kind", inter_stream="proportional"
        ),
    }
    few, streams = plans["guarantees"][0], plans["two streams"][0]
    return {
        "family": "attributes",
        "cases": [_case(name, *given, r) for name, given in plans.items()],
        "damaged": damaged(few, "attributes", 3) + damaged(streams, "attributes", 4),
    }


def _planned(r: np.random.Generator, **parameters: Any) -> tuple[Plan, dict[str, Any]]:
    parameters = {"cid": ["station"], "frontier_points": 40, **parameters}
    return plan_samples(_samples(r, 900), Parameters.model_validate(parameters)), _samples(r, ROWS)


def _samples(r: np.random.Generator, rows: int) -> dict[str, Any]:
    """Return stations that report in turn, now and then out of turn, with some values missing."""
    i = np.arange(rows)
    late = r.random(rows) < 0.05
    station = np.where(late, r.integers(0, 9, rows), i % 6)
    load = np.round(r.normal(size=rows), 3)
    load[r.random(rows) < 0.02] = np.nan
    return {
        "station": station,
        "kind": np.array(["air", "sea"])[station % 2],
        "level": np.round(np.cumsum(r.normal(size=rows)) * 0.1, 2),
        "load": load,
        "state": np.array(["idle", "running", "Dienst ü"])[(i // 40 + station) % 3],
        "count": (i * 7919) % 97,
    }


def _case(name: str, plan: Plan, samples: Any, r: np.random.Generator) -> dict[str, Any]:
    parts = []
    for part in range(PARTS):
        rows = slice(part * ROWS // PARTS, (part + 1) * ROWS // PARTS)
        columns = {n: np.asarray(c)[rows] for n, c in samples.items() if n in plan.attributes}
        if part == 1 and len(columns) > 3:
            columns.pop(plan.attributes[-1])  # a missing attribute is not sent
        drawn = keys.draws_of([np.arange(ROWS)[rows] // int(r.integers(1, 4))], part)
        parts.append((columns, drawn))
    decisions = []
    for loads in RUNS:
        shedder = Shedder(plan, loads[0])
        for load, (columns, drawn) in zip(loads, parts, strict=True):
            shedder.set_load(load)
            batch = batches.read(columns, shedder.schema)
            keep = shedder.decide(batch, draws=drawn).keep
            decisions.append("".join("01"[int(sent)] for sent in keep.ravel()))
    return {
        "name": name,
        **encodings(plan, "attributes"),
        "batches": [{"columns": _plain(c), "draws": drawn.tolist()} for c, drawn in parts],
        "settings": [_setting(plan, load) for load in LOADS],
        "runs": RUNS,
        "decisions": decisions,
    }


def _plain(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        name: [None if value != value else value for value in column.tolist()]
        for name, column in columns.items()
    }


def _setting(plan: Plan, load: float) -> dict[str, Any]:
    setting = plan.at(load)
    return {
        "load": load,
        "capacity_bytes": setting.capacity_bytes,
        "tuple_rate": setting.tuple_rate.tolist(),
        "period": setting.period.tolist(),
        "band": setting.band.tolist(),
        "header_bytes": setting.header_bytes.tolist(),
        "window_bytes": plan.promises(setting).window_bytes,
    }
