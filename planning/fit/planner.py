"""From statistics (or a network) to a plan, by the method the definition names."""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.fit import cfit, graph, quadtree
from planning.fit import program as programs
from planning.fit.network import QueryNetwork
from planning.fit.plan import METHODS, Part, Plan
from planning.fit.regions import RegionLimit, enumerate_regions
from planning.fit.solve import reference_direction
from planning.fit.stored import Stored
from planning.fit.workload import Empirical, Workload


def plan(statistics: Any, definition: Any) -> Plan:
    """Return the plan for the measured network, for all rates up to the inputs' ``max_rate``."""
    parameters = definition.parameters
    network = statistics.network
    workload = None
    if parameters.method == "solver_w":
        workload = Empirical(statistics.rates / network.max_rates)
    return plan_network(
        network,
        method=parameters.method,
        error=parameters.error,
        workload=workload,
        reference=statistics.mean_rates,
        memory_bytes=parameters.memory_bytes,
        max_regions=parameters.max_regions,
        max_plans=parameters.max_plans,
    )


def plan_network(
    network: QueryNetwork,
    *,
    method: str = "exact",
    error: float = 0.1,
    workload: Workload | None = None,
    reference: FloatArray | None = None,
    memory_bytes: int = 4_000_000,
    max_regions: int = 5_000,
    max_plans: int = 1_000_000,
) -> Plan:
    """Plan a network: each fragment on its own.

    ``exact`` takes critical regions where they fit ``memory_bytes`` and the simplex elsewhere; both
    give the optimum. ``solver``, ``solver_w`` and ``c_fit`` are the paper's methods with an error
    bound of ``error``.
    """
    if method not in ("exact", *METHODS):
        raise InvalidInput(f"method must be one of exact, {', '.join(METHODS)}, got {method!r}")
    tables: list[Stored | None] = []
    fragments = graph.fragments(network)
    left = memory_bytes
    for fragment in fragments:
        part_workload = _marginal(workload, network, fragment)
        table = _table(fragment, method, error, part_workload, left, max_regions, max_plans)
        left -= table.nbytes if table is not None else 0
        tables.append(table)
    if method == "exact":
        method = "regions" if all(t is not None for t in tables) else "simplex"
    exact = method in ("regions", "simplex")
    rates = network.max_rates if reference is None else np.asarray(reference, dtype=np.float64)
    if not (rates > 0).any():
        rates = network.max_rates
    return Plan(
        network=network,
        method=method,
        error=0.0 if exact else error,
        reference=reference_direction(network, rates),
        parts=tuple(Part(f, t) for f, t in zip(fragments, tables, strict=True)),
    )


def _table(
    fragment: QueryNetwork,
    method: str,
    error: float,
    workload: Workload | None,
    memory_bytes: int,
    max_regions: int,
    max_plans: int,
) -> Stored | None:
    program = programs.build(fragment)
    if method == "simplex":
        return None
    if method in ("exact", "regions"):
        try:
            table = enumerate_regions(program, max_regions)
        except RegionLimit:
            if method == "regions":
                raise
            return None
        return table if method == "regions" or table.nbytes <= memory_bytes else None
    if method == "solver_w" and workload is None:
        raise InvalidInput("workload must be given for solver_w, got none; use solver")
    if method in ("solver", "solver_w"):
        chosen = workload if method == "solver_w" else None
        return quadtree.build(program, error, workload=chosen, max_plans=max_plans)
    return cfit.build(fragment, error, max_rows=max_plans)


def _marginal(
    workload: Workload | None, network: QueryNetwork, fragment: QueryNetwork
) -> Workload | None:
    """Return the workload of a fragment's inputs."""
    if workload is None or fragment.input_ids == network.input_ids:
        return workload
    return workload.marginal([network.input_ids.index(i) for i in fragment.input_ids])
