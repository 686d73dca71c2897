"""The program of Section 3 in prefix variables, as an OR-Tools model built from the network alone.

One variable per arc: the rate y that passes it. A prefix variable lies between 0 and the variables
of the next shorter prefix, that is, the rate of the stream that the arc carries:

    maximise   sum of weight_o * y_o                               (3), (8), (11)
    subject to sum of cost_a * y_a <= zeta_n                       load[n]:   (1), (4), (9)
               y_a <= sum of gain_b * y_b over the arcs b above    prefix[a]: (6), (7)
               0 <= y_a <= r_i on the arcs of inputs               (2), (5), (10)

and, beyond the paper, link[l] for bandwidths and minimum[o] for throughputs. The run-time solver
(:mod:`planning.fit.simplex`) solves the same program in the rates that are dropped.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput, PlanningError
from planning.fit.model import MethodLimit, Output
from planning.fit.network import QueryNetwork, Rates, graph
from planning.fit.planner import Optimum
from planning.fit.planner import optimum as by_simplex

Library = Literal["glop", "highs"]
LIBRARIES = {"glop": "GLOP", "highs": "HIGHS_LP"}
PRIORITY_SLACK = 1e-11
INFINITY = float("inf")

Form = list[tuple[Any, float]]
"""A linear form: variables with their coefficients."""


class NetworkProgram:
    """The model of one network; it is solved again as the rates move, from its last basis.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> program = NetworkProgram(figure_1())
    >>> round(program.resolve(np.array([1.0, 1.0])), 9), program.status
    (0.6, 'OPTIMAL')
    """

    def __init__(self, network: QueryNetwork, library: Library = "glop") -> None:
        from ortools.linear_solver import pywraplp

        if network.min_keep > 0:
            raise MethodLimit("solver must be simplex for a network with min_keep")
        self.network = network
        self.status = "NOT_SOLVED"
        self._optimal = pywraplp.Solver.OPTIMAL
        self._solver = pywraplp.Solver.CreateSolver(LIBRARIES[library])
        if library == "highs":  # which prints a line per solution otherwise
            self._solver.SetSolverSpecificParametersAsString("output_flag=false")
        self._passing = [
            self._solver.NumVar(0.0, INFINITY, f"y[{arc.name}]") for arc in network.arcs
        ]
        self._entering = [
            (variable, network.input_ids.index(arc.stream))
            for arc, variable in zip(network.arcs, self._passing, strict=True)
            if network.node_of[arc.stream] is None
        ]
        self._define_loads()
        self._define_links()
        self._define_prefixes()
        self._objectives = [*self._define_minimums(), *self._throughputs()]
        self._maximise(self._objectives[0])

    def _define_loads(self) -> None:
        """load[n]: what arrives at a server's operators takes at most its capacity."""
        network, overhead = self.network, self.network.window_overhead
        for node in network.nodes:
            load = [
                (self._passing[arc], operator.cost * overhead[arc])
                for operator in network.operators
                if operator.node == node.id
                for arc in network.arcs_into[operator.id]
            ]
            self._at_most(f"load[{node.id}]", load, node.capacity)

    def _define_links(self) -> None:
        """link[l]: a stream is sent once to a server, as much as its most demanding arc needs."""
        network, overhead = self.network, self.network.window_overhead
        for link in network.links:
            use: Form = []
            for stream, arcs in graph.arcs_between(network, link.source, link.target).items():
                sent = self._solver.NumVar(0.0, INFINITY, f"sent[{stream}@{link.target}]")
                use.append((sent, network.operator[stream].size * float(overhead[arcs].max())))
                for arc in arcs:
                    name = f"sent[{network.arcs[arc].name}]"
                    self._at_most(name, [(self._passing[arc], 1.0), (sent, -1.0)], 0.0)
            self._at_most(f"link[{link.id}]", use, link.capacity)

    def _define_prefixes(self) -> None:
        """prefix[a]: an arc carries at most what the operator above it emits."""
        network = self.network
        for index, arc in enumerate(network.arcs):
            if network.node_of[arc.stream] is None:
                continue  # an input's rate is the variable's upper bound
            operator = network.operator[arc.stream]
            above = [
                (self._passing[into], -operator.gain(port))
                for port, into in enumerate(network.arcs_into[arc.stream])
            ]
            self._at_most(f"prefix[{arc.name}]", [(self._passing[index], 1.0), *above], 0.0)

    def _define_minimums(self) -> list[Form]:
        """minimum[o]: throughput and shortfall reach the minimum; shortfalls are the first goal."""
        shortfalls: Form = []
        for output in self.network.outputs:
            if output.minimum > 0:
                shortfall = self._solver.NumVar(0.0, INFINITY, f"shortfall[{output.id}]")
                row = [(self._reaching(output), -1.0), (shortfall, -1.0)]
                self._at_most(f"minimum[{output.id}]", row, -output.minimum)
                shortfalls.append((shortfall, -1.0 / output.minimum))
        return [shortfalls] if shortfalls else []

    def _throughputs(self) -> list[Form]:
        """Return the weighted throughput of each priority, from high to low."""
        outputs = self.network.outputs
        return [
            [(self._reaching(o), o.weight) for o in outputs if o.priority == priority]
            for priority in sorted({o.priority for o in outputs}, reverse=True)
        ]

    def _reaching(self, output: Output) -> Any:
        """Return the variable of the rate that reaches an output."""
        return self._passing[self.network.arc_index[f"{output.stream}->{output.id}"]]

    def _at_most(self, name: str, row: Form, bound: float) -> None:
        constraint = self._solver.RowConstraint(-INFINITY, bound, name)
        for variable, coefficient in row:
            constraint.SetCoefficient(variable, coefficient)

    def _maximise(self, form: Form) -> None:
        objective = self._solver.Objective()
        objective.Clear()
        for variable, coefficient in form:
            objective.SetCoefficient(variable, coefficient)
        objective.SetMaximization()

    def resolve(self, rates: FloatArray) -> float:
        """Move to ``rates`` and return the (first) objective's optimum."""
        for variable, place in self._entering:
            variable.SetUb(float(rates[place]))
        optimal = self._solver.Solve() == self._optimal
        self.status = "OPTIMAL" if optimal else "NOT_SOLVED"
        if not optimal:
            raise PlanningError(f"the library found no optimum for network {self.network.name!r}")
        return float(self._solver.Objective().Value())

    def solve(self, rates: FloatArray) -> FloatArray:
        """Return the rate that passes each arc, all objectives optimised in their order.

        What an objective reached becomes a constraint on those after it, so a model solves once.
        """
        for level, form in enumerate(self._objectives):
            self._maximise(form)
            best = self.resolve(rates)
            if level + 1 < len(self._objectives):
                slack = PRIORITY_SLACK * max(abs(best), 1.0)
                kept = [(variable, -coefficient) for variable, coefficient in form]
                self._at_most(f"objective[{level}]", kept, slack - best)
        return np.array([variable.solution_value() for variable in self._passing])


def optimal_drops(network: QueryNetwork, rates: FloatArray, library: Library) -> dict[str, float]:
    """Solve by a library and return the drop fraction per arc: x = y over the stream's rate.

    A stream that needs no shedding at all is not shed, even where dropping costs nothing.
    """
    if network.evaluate(rates).feasible:
        return {}
    passed = np.maximum(NetworkProgram(network, library).solve(rates), 0.0)
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


def optimum(network: QueryNetwork, rates: Rates, solver: str = "simplex") -> Optimum:
    """Return the highest weighted throughput by the product's simplex, or by a library."""
    if solver == "simplex":
        return by_simplex(network, rates)
    if solver not in LIBRARIES:
        raise InvalidInput(f"solver must be one of simplex, glop, highs, got {solver!r}")
    vector = network.rate_vector(rates)
    return Optimum.of(network, vector, optimal_drops(network, vector, solver))  # type: ignore[arg-type]
