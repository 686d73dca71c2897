"""Definitions of the family's streams, as their owners would write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

COUNTS = ("period", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")


@pytest.fixture(scope="session")
def define() -> Callable[..., Any]:
    """Return a function that gives the definition of a network's stream."""
    from planning.streams import parse

    def make(network: Any, changes: dict[str, Any] | None = None, **parameters: Any) -> Any:
        elements = [*network.input_ids, *(o.id for o in network.operators)]
        definition = {
            "stream": "requests",
            "family": "fit",
            "attributes": [
                {"name": "element", "type": "category", "values": elements},
                *({"name": n, "type": "int", "domain": [0, 1e12]} for n in COUNTS),
            ],
            "samples": {"expectations": "operators"},
            "gate": {"holdout_by": ["period"]},
            "parameters": {"network": network.to_document(), **parameters},
        }
        return parse({**definition, **(changes or {})}, "requests.yaml")

    return make


@pytest.fixture(scope="session")
def definition(define: Callable[..., Any]) -> Any:
    """Return the definition of a user's stream with the demo network."""
    from planning.fit import demo

    return define(demo.network())


@pytest.fixture(scope="session")
def samples(definition: Any) -> dict[str, np.ndarray]:
    """Return the clean rows of the demo's first batch."""
    return clean(definition, 0)


def clean(definition: Any, batch: int, **more: int) -> dict[str, np.ndarray]:
    from planning.fit import demo

    columns = {n: np.asarray(v) for n, v in demo.counts(batch, definition, **more).items()}
    good = columns["tuples_out"] >= 0
    return {name: values[good] for name, values in columns.items()}


@pytest.fixture(scope="session")
def clean_samples() -> Callable[..., dict[str, np.ndarray]]:
    """Return a function that gives the clean rows of a demo batch."""
    return clean


@pytest.fixture(scope="session")
def windowed() -> Callable[..., Any]:
    """Return a function that gives a network with a windowed aggregate after a map."""
    from planning.fit import QueryNetwork
    from planning.fit.demo import operator

    def make(batch: int, size: float = 40, slide: float = 10) -> Any:
        window = {"size": size, "slide": slide, "batch": batch}
        return QueryNetwork.from_document(
            {
                "name": "windows",
                "nodes": [{"id": "A", "capacity": 10, "parent": None}],
                "inputs": [{"id": "x", "max_rate": 40}],
                "operators": [
                    operator("m", "A", "map", 0.5, 1.0, "x"),
                    operator("g", "A", "aggregate", 0.5, 0.1, "m", window=window),
                ],
                "outputs": [{"id": "o", "stream": "g", "weight": 1}],
            }
        )

    return make


@pytest.fixture(scope="session", params=["exact", "simplex", "solver", "solver_w", "c_fit"])
def plan(request: pytest.FixtureRequest) -> Any:
    """Return a plan of Figure 9(c) by each method."""
    from benchmarks.fit import examples
    from planning.fit.planner import plan_network
    from planning.fit.printed.distributions import Exponential

    network, workload = examples.figure_9("c"), Exponential(0.2, 2)
    return plan_network(network, method=request.param, error=0.1, workload=workload)
