"""The program of Section 3 in prefix variables, for library solvers: OR-Tools GLOP and HiGHS.

One variable per arc: the rate y that passes it. A prefix variable lies between 0 and the variables
of the next shorter prefix, that is, the rate of the stream that the arc carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from planning.arrays import FloatArray
from planning.errors import PlanningError
from planning.fit import graph
from planning.fit.network import QueryNetwork
from planning.fit.program import Program

PRIORITY_SLACK = 1e-11
INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Row:
    """One constraint ``sum of coefficients * variables <= bound``."""

    name: str
    coefficients: dict[int, float]
    bound: float


def stream_rate(network: QueryNetwork, stream: str) -> dict[int, float]:
    """Rate of an operator's stream in terms of the arcs into it: (1), (9)."""
    operator = network.operator[stream]
    rate: dict[int, float] = {}
    for port, arc in enumerate(network.arcs_into[stream]):
        rate[arc] = rate.get(arc, 0.0) + operator.gain(port)
    return rate


def rows(network: QueryNetwork) -> Iterator[Row]:
    """Yield the rate-independent constraints, each by name."""
    overhead = network.window_overhead
    for node in network.nodes:
        load = {
            arc: operator.cost * overhead[arc]
            for operator in network.operators
            if operator.node == node.id
            for arc in network.arcs_into[operator.id]
        }
        yield Row(f"load[{node.id}]", load, node.capacity)
    sent = len(network.arcs)
    for link in network.links:
        use: dict[int, float] = {}
        for stream, arcs in graph.arcs_between(network, link.source, link.target).items():
            use[sent] = network.operator[stream].size * float(overhead[arcs].max())
            for arc in arcs:
                yield Row(f"sent[{network.arcs[arc].name}]", {arc: 1.0, sent: -1.0}, 0.0)
            sent += 1
        yield Row(f"link[{link.source}->{link.target}]", use, link.capacity)
    for index, each in enumerate(network.arcs):
        if network.node_of[each.stream] is not None:
            above = {a: -gain for a, gain in stream_rate(network, each.stream).items()}
            yield Row(f"prefix[{each.name}]", {**above, index: 1.0}, 0.0)


def sent_count(network: QueryNetwork) -> int:
    """How many auxiliary variables the links need: one per stream sent over each."""
    return sum(
        len(graph.arcs_between(network, link.source, link.target)) for link in network.links
    )


def objectives(network: QueryNetwork, shortfall: int) -> list[dict[int, float]]:
    """Objectives to maximise one after the other: minus shortfalls, then priorities from high."""
    found: list[dict[int, float]] = []
    wanted = [o for o in network.outputs if o.minimum > 0]
    if wanted:
        found.append({shortfall + j: -1.0 / o.minimum for j, o in enumerate(wanted)})
    for priority in sorted({o.priority for o in network.outputs}, reverse=True):
        found.append(
            {
                network.arc_index[f"{o.stream}->{o.id}"]: o.weight
                for o in network.outputs
                if o.priority == priority
            }
        )
    return found


class Glop:
    """A GLOP model of one network that is re-solved as the rates move, from its last basis."""

    def __init__(self, network: QueryNetwork) -> None:
        from ortools.linear_solver import pywraplp

        self.network = network
        self._optimal = pywraplp.Solver.OPTIMAL
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._rate_of = [
            network.input_ids.index(arc.stream) if network.node_of[arc.stream] is None else -1
            for arc in network.arcs
        ]
        wanted = [o for o in network.outputs if o.minimum > 0]
        self._shortfall = len(network.arcs) + sent_count(network)
        self._y = [
            self._solver.NumVar(0.0, INFINITY, f"y{k}")
            for k in range(self._shortfall + len(wanted))
        ]
        for row in rows(network):
            self._add(row)
        for j, output in enumerate(wanted):
            arc = network.arc_index[f"{output.stream}->{output.id}"]
            self._add(
                Row(f"minimum[{output.id}]", {arc: -1.0, self._shortfall + j: -1.0},
                    -output.minimum)
            )
        self._objectives = objectives(network, self._shortfall)
        self._set_objective(self._objectives[0])

    def _add(self, row: Row) -> Any:
        constraint = self._solver.RowConstraint(-INFINITY, row.bound, row.name)
        for variable, coefficient in row.coefficients.items():
            constraint.SetCoefficient(self._y[variable], coefficient)
        return constraint

    def _set_objective(self, coefficients: dict[int, float]) -> None:
        objective = self._solver.Objective()
        objective.Clear()
        for variable, coefficient in coefficients.items():
            objective.SetCoefficient(self._y[variable], coefficient)
        objective.SetMaximization()

    def resolve(self, rates: FloatArray) -> float:
        """Move to ``rates`` and return the (first) objective's optimum."""
        for variable, k in zip(self._y, self._rate_of, strict=False):
            if k >= 0:
                variable.SetUb(float(rates[k]))
        if self._solver.Solve() != self._optimal:
            raise PlanningError(f"GLOP found no optimum for network {self.network.name!r}")
        return float(self._solver.Objective().Value())

    def solve(self, rates: FloatArray) -> FloatArray:
        """Return the rate that passes each arc, all objectives met in their order."""
        for level, coefficients in enumerate(self._objectives):
            self._set_objective(coefficients)
            best = self.resolve(rates)
            if level + 1 < len(self._objectives):
                slack = PRIORITY_SLACK * max(abs(best), 1.0)
                kept = {v: -c for v, c in coefficients.items()}
                self._add(Row(f"objective[{level}]", kept, slack - best))
        return np.array([v.solution_value() for v in self._y[: len(self.network.arcs)]])


def glop_scorer(program: Program) -> Callable[[FloatArray], FloatArray]:
    """Score points by GLOP, each point once, warm from the last (the paper used GLPK)."""
    model = Glop(program.network)
    known: dict[bytes, float] = {}

    def score(points: FloatArray) -> FloatArray:
        out = np.empty(len(points))
        for k, point in enumerate(points):
            key = point.tobytes()
            if key not in known:
                known[key] = model.resolve(point * program.max_rates)
            out[k] = known[key]
        return out

    return score


def highs(network: QueryNetwork, rates: FloatArray) -> FloatArray:
    """Return the rate that passes each arc, by SciPy's HiGHS."""
    from scipy.optimize import linprog

    wanted = [o for o in network.outputs if o.minimum > 0]
    shortfall = len(network.arcs) + sent_count(network)
    width = shortfall + len(wanted)
    constraints = list(rows(network))
    for j, output in enumerate(wanted):
        arc = network.arc_index[f"{output.stream}->{output.id}"]
        constraints.append(Row("minimum", {arc: -1.0, shortfall + j: -1.0}, -output.minimum))
    bounds: list[tuple[float, float | None]] = [(0.0, None)] * width
    for index, each in enumerate(network.arcs):
        if network.node_of[each.stream] is None:
            bounds[index] = (0.0, float(rates[network.input_ids.index(each.stream)]))
    solution = np.zeros(width)
    targets = objectives(network, shortfall)
    for level, coefficients in enumerate(targets):
        matrix = np.zeros((len(constraints), width))
        for i, row in enumerate(constraints):
            for variable, value in row.coefficients.items():
                matrix[i, variable] = value
        cost = np.zeros(width)
        for variable, value in coefficients.items():
            cost[variable] = -value
        limits = [row.bound for row in constraints]
        result = linprog(cost, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
        if result.status != 0:
            raise PlanningError(f"HiGHS found no optimum: {result.message}")
        solution = result.x
        slack = PRIORITY_SLACK * max(abs(result.fun), 1.0)
        kept = {v: -c for v, c in coefficients.items()}
        constraints.append(Row(f"objective[{level}]", kept, result.fun + slack))
    return np.asarray(solution[: len(network.arcs)])


def optimal_drops(
    network: QueryNetwork, rates: FloatArray, solver: Literal["glop", "highs"]
) -> dict[str, float]:
    """Solve by a library and return the drop fraction per arc: x = y over the stream's rate.

    A stream that needs no shedding at all is not shed, even where dropping costs nothing.
    """
    if network.evaluate(rates).feasible:
        return {}
    passed = Glop(network).solve(rates) if solver == "glop" else highs(network, rates)
    passed = np.maximum(passed, 0.0)
    drops: dict[str, float] = {}
    streams = dict(zip(network.input_ids, rates.tolist(), strict=True))
    for operator in network.order:
        total = 0.0
        for port, index in enumerate(network.arcs_into[operator.id]):
            arc = network.arcs[index]
            arriving = streams[arc.stream]
            flow = min(float(passed[index]), arriving)
            total += operator.gain(port) * flow
            if arriving > 1e-12 and flow < arriving * (1.0 - 1e-12):
                drops[arc.name] = 1.0 - flow / arriving
        streams[operator.id] = total
    return drops
