"""How far a FIT plan stays below the optimum."""

from __future__ import annotations

import numpy as np

from planning.fit import Plan
from planning.fit.program import build
from planning.fit.warm import WarmSimplex


def errors(plan: Plan, points: np.ndarray) -> np.ndarray:
    """Relative errors at the overloaded points; asserts that every server is feasible."""
    network, program = plan.network, build(plan.network)
    over = (points @ program.raw_use.T > 1).any(axis=1)
    rates = points[over] * network.max_rates
    done = network.evaluate_many(rates, plan.at_many(rates))
    assert (done.loads <= network.capacities * (1 + 1e-9)).all()
    dropped = WarmSimplex(program).dropped(np.ascontiguousarray(points[over]))
    best = points[over] @ program.full_throughput - dropped @ program.lost_throughput
    return np.asarray(1.0 - done.throughput / np.maximum(best, 1e-12))
