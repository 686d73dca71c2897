"""What the benchmarks of the fit family share: networks, and errors against the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.fit import QueryNetwork
from planning.fit.plan import Plan
from planning.fit.program import build
from planning.fit.random_networks import random_network
from planning.fit.warm import WarmSimplex

MEAN = 0.15  # of the exponential workload: lambda = 5 of the paper (docs/families/fit.md)


def networks(count: int, seed: int, **more: Any) -> list[QueryNetwork]:
    """Return random networks: splits, merges, joins, several levels and outputs."""
    rng = np.random.default_rng(seed)
    return [
        random_network(
            rng,
            inputs=int(rng.integers(1, 7)),
            nodes=int(rng.integers(1, 6)),
            operators=int(rng.integers(2, 18)),
            tree=bool(k % 2),
            links=k % 3 == 0,
            **more,
        )
        for k in range(count)
    ]


def relative_errors(plan: Plan, points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return errors against the optimum at overloaded points, and the largest overload."""
    network, program = plan.network, build(plan.network)
    over = (points @ program.raw_use.T > 1).any(axis=1)
    rates = points[over] * network.max_rates
    done = network.evaluate_many(rates, plan.at_many(rates))
    dropped = WarmSimplex(program).dropped(np.ascontiguousarray(points[over]))
    best = points[over] @ program.full_throughput - dropped @ program.lost_throughput
    overload = float((done.loads / network.capacities).max(initial=0.0) - 1)
    return np.asarray(1.0 - done.throughput / np.maximum(best, 1e-12)), overload
