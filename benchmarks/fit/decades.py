"""Networks whose costs span ten decades, held to capacities and to an independent program."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.fit.networks import link_documents, random_network
from benchmarks.fit.reference import best_throughput
from planning.errors import PlanningError
from planning.fit import QueryNetwork
from planning.fit.planner import plan_network


def wide_network(seed: int) -> tuple[QueryNetwork, float]:
    """Return a network with costs from 1e-5 to 1e5, and how far ``max_rate`` is above its rates.

    Weights span four decades in half of them, capacities three in a fifth, and in a third
    ``max_rate`` is up to a million times what is needed to overload the servers.
    """
    rng = np.random.default_rng([77, seed])
    inputs, nodes, operators = (int(rng.integers(a, b)) for a, b in ((1, 7), (1, 6), (2, 18)))
    drawn = random_network(
        rng, inputs=inputs, nodes=nodes, operators=operators, tree=bool(seed % 2)
    )
    document: dict[str, Any] = drawn.to_document()
    for operator in document["operators"]:
        operator["cost"] = float(10.0 ** rng.uniform(-5, 5))
    if seed % 4 >= 2:
        for output in document["outputs"]:
            output["weight"] = float(10.0 ** rng.uniform(-2, 2))
    highest = [i["max_rate"] for i in document["inputs"]]
    loads = QueryNetwork.from_document(document).evaluate(highest).loads
    for node in document["nodes"]:
        over = 10.0 ** rng.uniform(0, 3) if seed % 5 == 4 else 3 * rng.uniform(0.5, 1.5)
        node["capacity"] = (loads[node["id"]] or 1.0) / over
    if seed % 3 == 0:
        document["links"] = link_documents(rng, document, 3.0)
    far = float(10.0 ** rng.uniform(0, 6)) if seed % 3 == 2 else 1.0
    for stream in document["inputs"]:
        stream["max_rate"] *= far
    return QueryNetwork.from_document(document), far


def rates_for(network: QueryNetwork, far: float, count: int, seed: int) -> np.ndarray:
    """Draw rate vectors of all sizes, from hardly any overload up to ``max_rate``."""
    rng = np.random.default_rng([78, seed])
    shares = rng.random((count, len(network.inputs))) ** rng.choice([0.5, 1, 3, 8], (count, 1))
    return np.asarray(shares * network.max_rates / far ** rng.choice([0.0, 0.5, 1.0], (count, 1)))


def tried(seed: int, count: int, method: str, checked: int) -> tuple[str, float, float]:
    """Plan one network and try ``count`` rate vectors.

    Returns why it was refused (or nothing), the highest share of a capacity that was used, and the
    largest error of the throughput against the library at ``checked`` of the vectors.
    """
    network, far = wide_network(seed)
    try:
        plan = plan_network(network, method=method)
    except PlanningError as reason:
        return str(reason), 0.0, 0.0
    rates = rates_for(network, far, count, seed)
    done = network.evaluate_many(rates, plan.at_many(rates))
    error = 0.0
    for k in range(0, count, max(count // checked, 1)):
        best = best_throughput(network, rates[k])
        error = max(error, abs(best - done.throughput[k]) / max(best, 1e-300))
    return "", float(done.use(network).max()), error
