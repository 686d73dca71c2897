"""FIT vectors: steps of arcs and streams at rate vectors, and keyed decisions on labelled items."""

from __future__ import annotations

from typing import Any

import numpy as np

from consumers.kit.damage import damaged, encodings
from planning import batches, keys
from planning.examples import demo_plan
from planning.fit.demo import figure_1, web
from planning.fit.network import QueryNetwork
from planning.fit.plan import Plan
from planning.fit.planner import plan_network
from planning.fit.shedder import Shedder
from planning.pacing import ONE

ITEMS, LOADS = 250, 12
NETWORK = {
    "name": "two sites",
    "nodes": [
        {"id": "A", "capacity": 1.0, "parent": None},
        {"id": "B", "capacity": 0.8, "parent": "A"},
        {"id": "C", "capacity": 0.5, "parent": None},
    ],
    "inputs": [{"id": "i", "max_rate": 3.0}, {"id": "k", "max_rate": 2.0, "size": 2.0}],
    "operators": [
        {"id": "f", "node": "A", "type": "filter", "cost": 0.3, "selectivity": 0.7,
         "inputs": ["i"], "size": 1.5},
        {"id": "u", "node": "A", "type": "union", "cost": 0.1, "selectivity": 1.0,
         "inputs": ["f", "k"]},
        {"id": "g", "node": "B", "type": "map", "cost": 0.4, "selectivity": 1.0, "inputs": ["u"]},
        {"id": "s", "node": "B", "type": "aggregate", "cost": 0.3, "selectivity": 0.1,
         "inputs": ["u"]},
        {"id": "j", "node": "B", "type": "join", "cost": 0.05, "selectivity": 0.1,
         "inputs": ["g", "f"], "windows": [5.0, 4.0]},
        {"id": "c", "node": "C", "type": "aggregate", "cost": 0.4, "selectivity": 0.5,
         "inputs": ["k"], "window": {"size": 40.0, "slide": 10.0, "batch": 30}},
    ],
    "outputs": [
        {"id": "o1", "stream": "j", "weight": 1.0},
        {"id": "o2", "stream": "s", "weight": 4.0},
        {"id": "o3", "stream": "c", "weight": 1.0},
    ],
    "links": [{"from": "A", "to": "B", "capacity": 2.0}],
}  # fmt: skip


def vectors() -> dict[str, Any]:
    """Return cases and damaged plans."""
    r = np.random.default_rng(18)
    sites = QueryNetwork.from_document(NETWORK)
    small = plan_network(figure_1(), method="solver", error=0.3)
    plans: dict[str, Plan] = {
        "demo": demo_plan("fit"),  # type: ignore[dict-item]
        "figure 1": plan_network(figure_1()),
        "two sites, windows and a link": plan_network(sites),
        "web": plan_network(web()),
        "quadtree": small,
        "rows": plan_network(figure_1(), method="c_fit", error=0.3),
    }
    return {
        "family": "fit",
        "cases": [_case(name, plan, r) for name, plan in plans.items()],
        "damaged": damaged(plans["two sites, windows and a link"], "fit", 7)
        + damaged(small, "fit", 8),
    }


def _case(name: str, plan: Plan, r: np.random.Generator) -> dict[str, Any]:
    loads: list[Any] = [1.0]
    while len(loads) < LOADS:
        rates = (r.random(len(plan.reference)) * plan.network.max_rates / plan.headroom).tolist()
        z = float(r.random())
        loads += [load for load in (rates, z) if _in_tables(plan, load)]
    names = [*(arc.name for arc in plan.network.arcs), *plan.network.streams, "elsewhere"]
    labels = r.choice(names, ITEMS).tolist()
    draws = keys.draws_of([np.arange(ITEMS)], salt=len(name))
    settings, decisions = [], []
    for load in loads:
        shedder = Shedder(plan, load)
        batch = batches.read({"arc": labels}, shedder.schema)
        keep = shedder.decide(batch, draws=draws).keep
        ratios = shedder.measures().values["drop_ratio"]  # of arcs, then of streams
        settings.append({"load": load, "steps": [*(ratios * ONE).tolist(), 0]})
        decisions.append("".join("01"[int(kept)] for kept in keep))
    return {
        "name": name,
        **encodings(plan, "fit"),
        "labels": labels,
        "draws": draws.tolist(),
        "settings": settings,
        "decisions": decisions,
    }


def _in_tables(plan: Plan, load: Any) -> bool:
    """Whether the rates of a load lie in the planned space, where tables answer."""
    rates = plan.rates_at(load) if isinstance(load, float) else np.array(load) * plan.headroom
    return bool((rates <= plan.network.max_rates).all())
