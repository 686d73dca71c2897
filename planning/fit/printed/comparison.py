"""The paper's methods and the naive ones on the same rates, without prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray
from planning.fit.model import MethodLimit
from planning.fit.network import QueryNetwork
from planning.fit.planner import plan_network
from planning.fit.printed.distributions import Empirical
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simulate import local_drops, measure, random_drops

Method = tuple[str, str, float]
"""Name, method of ``plan_network``, and error (0 for exact)."""

METHODS: tuple[Method, ...] = (
    ("exact", "exact", 0.0),
    ("Solver 5 %", "solver", 0.05),
    ("Solver 10 %", "solver", 0.10),
    ("Solver-W 2 %", "solver_w", 0.02),
    ("C-FIT 5 %", "c_fit", 0.05),
    ("C-FIT 10 %", "c_fit", 0.10),
)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Per method, the throughput of every period; refused methods with their reasons."""

    throughput: dict[str, FloatArray]
    offered: FloatArray
    highest_load: dict[str, float]
    plans: dict[str, int]
    refused: dict[str, str]
    overloaded: FloatArray  # whether each period needs shedding

    def quality(self, method: str) -> float:
        """Weighted throughput over that of unlimited servers, all periods."""
        return float(np.sort(self.throughput[method]).sum() / np.sort(self.offered).sum())

    def share_of_optimum(self, method: str) -> float:
        """Throughput in overloaded periods over the optimum's."""
        over = self.overloaded > 0
        if not over.any():
            return 1.0
        best = np.sort(self.throughput["exact"][over]).sum()
        return float(np.sort(self.throughput[method][over]).sum() / best)


def compare(
    network: QueryNetwork,
    rates: FloatArray,
    *,
    methods: Sequence[Method] = METHODS,
    max_plans: int = 1_000_000,
) -> Comparison:
    """Run methods over the rate vectors; ``max_plans`` bounds the paper's methods."""
    throughput: dict[str, FloatArray] = {}
    highest: dict[str, float] = {}
    plans: dict[str, int] = {}
    refused: dict[str, str] = {}
    offered = np.zeros(len(rates))
    workload = Empirical(np.clip(rates[:: max(len(rates) // 500, 1)] / network.max_rates, 0, 1))
    for name, method, error in methods:
        try:
            plan = plan_network(
                network, method=method, error=error or 0.1, workload=workload, max_plans=max_plans
            )
        except MethodLimit as limit:
            refused[name] = str(limit)
            continue
        done = measure(network, rates, plan.at_many(rates))
        throughput[name], offered = done.throughput, done.offered
        highest[name], plans[name] = float(done.loads.max()), plan.plan_count
    for name, drops in (
        ("local shedding", local_drops(network, rates)),
        ("random dropping", random_drops(network, rates)),
    ):
        done = measure(network, rates, drops)
        throughput[name], highest[name] = done.throughput, float(done.loads.max())
    use = rates @ shedding_program(network).use_per_tuple.T
    overloaded = np.asarray((use > 1.0).any(axis=1), dtype=np.float64)
    return Comparison(throughput, offered, highest, plans, refused, overloaded)
