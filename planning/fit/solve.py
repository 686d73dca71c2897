"""The optimum at one rate vector, by the warm simplex, GLOP or HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planning.arrays import FloatArray
from planning.errors import InvalidInput
from planning.fit import program as programs
from planning.fit.network import QueryNetwork, Rates

Solver = Literal["simplex", "glop", "highs"]


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best load shedding plan at one rate vector.

    Examples
    --------
    >>> from planning.fit.examples import figure_1
    >>> best = optimum(figure_1(), {"i1": 1.0, "i2": 1.0})
    >>> {server: round(load, 6) for server, load in best.loads.items()}
    {'A': 1.0, 'B': 1.0}
    """

    throughput: float
    drops: dict[str, float]
    loads: dict[str, float]
    outputs: dict[str, float]
    shortfalls: dict[str, float]


def optimum(network: QueryNetwork, rates: Rates, solver: Solver = "simplex") -> Optimum:
    """Return the highest weighted throughput that no server or link is overloaded by.

    All three solvers find the same throughput; ``glop`` (OR-Tools) and ``highs`` (SciPy) work on
    the prefix variables of Section 3, ``simplex`` on :mod:`planning.fit.program`.

    >>> table_1 = QueryNetwork.from_document({
    ...     "name": "Figure 1",
    ...     "nodes": [{"id": "A", "capacity": 1, "parent": None},
    ...               {"id": "B", "capacity": 1, "parent": "A"}],
    ...     "inputs": [{"id": "i1", "max_rate": 1}, {"id": "i2", "max_rate": 1}],
    ...     "operators": [
    ...         {"id": "a1", "node": "A", "type": "map", "cost": 1, "selectivity": 1,
    ...          "inputs": ["i1"]},
    ...         {"id": "a2", "node": "A", "type": "map", "cost": 2, "selectivity": 1,
    ...          "inputs": ["i2"]},
    ...         {"id": "b1", "node": "B", "type": "map", "cost": 3, "selectivity": 1,
    ...          "inputs": ["a1"]},
    ...         {"id": "b2", "node": "B", "type": "map", "cost": 1, "selectivity": 1,
    ...          "inputs": ["a2"]}],
    ...     "outputs": [{"id": "o1", "stream": "b1", "weight": 1},
    ...                 {"id": "o2", "stream": "b2", "weight": 1}]})
    >>> best = optimum(table_1, [1, 1])
    >>> round(best.throughput, 12), {a: round(f, 12) for a, f in best.drops.items()}
    (0.6, {'i1->a1': 0.8, 'i2->a2': 0.6})
    """
    vector = network.rate_vector(rates)
    if solver == "simplex":
        drops = _by_simplex(network, vector)
    elif solver in ("glop", "highs"):
        from planning.fit import library

        drops = library.optimal_drops(network, vector, solver)
    else:
        raise InvalidInput(f"solver must be one of simplex, glop, highs, got {solver!r}")
    done = network.evaluate(vector, drops)
    shortfalls = {
        o.id: o.minimum - done.outputs[o.id]
        for o in network.outputs
        if done.outputs[o.id] < o.minimum * (1 - 1e-9)
    }
    return Optimum(done.throughput, drops, done.loads, done.outputs, shortfalls)


def _by_simplex(network: QueryNetwork, vector: FloatArray) -> dict[str, float]:
    from planning.fit.warm import WarmSimplex

    program = programs.build(network)
    if not program.location_count:
        return {}
    fractions = WarmSimplex(program).fractions((vector / program.max_rates)[None, :])[0]
    return named(program, fractions)


def named(program: programs.Program, fractions: FloatArray) -> dict[str, float]:
    """Return drop fractions by arc, leaving out arcs that drop nothing."""
    return {
        name: float(fraction)
        for name, fraction in zip(program.names, fractions, strict=True)
        if name and fraction > 0
    }


def reference_direction(network: QueryNetwork, rates: FloatArray) -> FloatArray:
    """Scale ``rates`` so that the busiest server or link is exactly full.

    >>> import numpy as np
    >>> from planning.fit.examples import figure_1
    >>> reference_direction(figure_1(), np.array([1.0, 1.0]))
    array([0.25, 0.25])
    """
    program = programs.build(network)
    use = program.raw_use @ (rates / program.max_rates)
    busiest = float(use.max(initial=0.0))
    return rates / busiest if busiest > 0 else rates
