"""The program of Section 3 in prefix variables, as an OR-Tools model built from the network alone.

One variable per arc: the rate y that passes it. A prefix variable lies between 0 and the variables
of the next shorter prefix, that is, the rate of the stream that the arc carries:

    maximise   sum of weight_o * y_o                               (3), (8), (11)
    subject to sum of cost_a * y_a <= zeta_n                       load[n]:   (1), (4), (9)
               y_a <= sum of gain_b * y_b over the arcs b above    prefix[a]: (6), (7)
               0 <= y_a <= r_i on the arcs of inputs               (2), (5), (10)

and, beyond the paper, link[l] for bandwidths, keep[a] for ``min_keep`` and minimum[o] for
throughputs, whose shortfalls are the first objectives. The run-time solver
(:mod:`planning.fit.simplex`) solves the same program in the rates that are dropped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.certifying import TOLERANCE, Check, Load
from planning.errors import PlanningError
from planning.fit.network import QueryNetwork, graph
from planning.fit.path.nesting import LEAST, knots
from planning.fit.planner import HEADROOM_LOADS, predicted

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters
    from planning.fit.plan import Plan
    from planning.fit.statistics import Statistics

Library = Literal["glop", "highs"]
LIBRARIES = {"glop": "GLOP", "highs": "HIGHS_LP"}
PRIORITY_SLACK = 1e-11
FITS = 1e-12
"""Share of a capacity by which rounding may exceed it where nothing is dropped."""
NEAR = 1e-6
PROVEN = 1e-9
"""Quality below which a gap is rounding: no solution is asked for to close it."""
EACH = 5
"""Gate loads, observed rate vectors and knots of the drops that are tried, of each kind."""
INFINITY = float("inf")


class _Row(NamedTuple):
    """sum of ``coefficients`` times variables <= max(``per_rate`` @ r + ``constant``, ``floor``)."""

    name: str
    coefficients: dict[int, float]
    constant: float = 0.0
    per_rate: FloatArray | float = 0.0
    floor: float = -INFINITY
    equal: bool = False


class Solution(NamedTuple):
    """What the library found for one objective: the variables, and prices of rows and levels."""

    variables: FloatArray
    prices: FloatArray


class NetworkProgram:
    """The model of one network; it is solved again as the rates move, from its last basis.

    Variables are shares: of the rate of the arc's stream at the input rates ``units``, of a
    minimum, of one. Objectives come in ``levels``, each more important than those after it.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> program = NetworkProgram(figure_1())
    >>> round(program.resolve(np.array([1.0, 1.0])), 9), program.status
    (0.6, 'OPTIMAL')
    """

    def __init__(self, network: QueryNetwork, library: Library = "glop") -> None:
        self.network = network
        self.status = "NOT_SOLVED"
        inputs, arcs = len(network.inputs), len(network.arcs)
        alone = network.evaluate_many(np.eye(inputs), np.zeros((inputs, arcs)))
        self.use = alone.use(network).T  # share of each capacity per rate, nothing dropped
        busiest = self.use.max(axis=0, initial=0.0)
        units = np.where(busiest * network.max_rates > 1.0, 1.0 / np.maximum(busiest, 1e-300), 1.0)
        units = np.where(units == 1.0, network.max_rates, units)
        self._full = alone.arcs.T
        highest = self._full @ units
        self._unit = np.where(highest > 0.0, highest, 1.0)
        self._rows: list[_Row] = []
        self._upper = [self._full / self._unit[:, None]]  # per rate, of the variables
        self._sent: dict[int, list[int]] = {}
        self._define_loads()
        self._define_links()
        self._define_prefixes()
        self._kept = self._define_keeps()
        self._short = self._define_minimums()
        self._most = np.concatenate(self._upper)
        self._most_shortfall = np.zeros(self.size)
        self._most_shortfall[[column for column, _ in self._short.values()]] = 1.0
        self.levels, self.unit_of_level = self._define_levels(units)
        self._matrix = np.zeros((len(self._rows), self.size))
        for place, row in enumerate(self._rows):
            self._matrix[place, list(row.coefficients)] = list(row.coefficients.values())
        self._constant = np.array([row.constant for row in self._rows])
        self._per_rate = np.array([np.zeros(inputs) + row.per_rate for row in self._rows])
        self._floor = np.array([row.floor for row in self._rows])
        self._equal = np.array([row.equal for row in self._rows])
        self._load_library(library)

    @property
    def size(self) -> int:
        """How many variables there are."""
        return sum(map(len, self._upper))

    def _new(self, upper: FloatArray) -> int:
        """Add a variable with an upper bound per rate; return its column."""
        self._upper.append(upper[None, :])
        return self.size - 1

    def _define_loads(self) -> None:
        """load[n]: what arrives at a server's operators takes at most its capacity."""
        network, cost = self.network, self.network.window_overhead * self._unit
        for node in network.nodes:
            load = {
                arc: operator.cost * float(cost[arc]) / node.capacity
                for operator in network.operators
                if operator.node == node.id
                for arc in network.arcs_into[operator.id]
            }
            self._rows.append(_Row(f"load[{node.id}]", load, 1.0))

    def _define_links(self) -> None:
        """link[l]: a stream is sent once to a server, as much as its most demanding arc needs."""
        network, overhead = self.network, self.network.window_overhead
        for link in network.links:
            use: dict[int, float] = {}
            for stream, arcs in graph.arcs_between(network, link.source, link.target).items():
                size = network.operator[stream].size * float(overhead[arcs].max())
                sent = self._new(self._upper[0][arcs[0]])
                self._sent[sent] = arcs
                use[sent] = size * float(self._unit[arcs[0]]) / link.capacity
                for arc in arcs:
                    self._rows.append(_Row(f"sent[{arc}]", {arc: 1.0, sent: -1.0}))
            self._rows.append(_Row(f"link[{link.id}]", use, 1.0))

    def _define_prefixes(self) -> None:
        """prefix[a]: an arc carries at most what its stream brings; all of it where none may drop.

        Only ``min_keep`` makes a difference there: a drop behind a location would evade it.
        """
        network, droppable = self.network, _droppable(self.network)
        for arc, each in enumerate(network.arcs):
            bound = network.min_keep > 0 and not droppable[arc]
            if bound or network.node_of[each.stream] is not None:
                above = {a: -share for a, share in self._above(arc).items()}
                given = self._entering(arc)
                self._rows.append(_Row(f"prefix[{each.name}]", {arc: 1.0, **above}, 0.0, given,
                                       equal=bound))  # fmt: skip

    def _above(self, arc: int) -> dict[int, float]:
        """Return what the arcs into an arc's operator bring to it; none if it leaves an input."""
        stream = self.network.arcs[arc].stream
        into = self.network.arcs_into.get(stream, ())
        return {
            a: self.network.operator[stream].gain(port) * float(self._unit[a] / self._unit[arc])
            for port, a in enumerate(into)
        }

    def _entering(self, arc: int) -> FloatArray:
        """Return what the inputs bring to an arc themselves, per rate."""
        stream = self.network.arcs[arc].stream
        here = [float(stream == name) for name in self.network.input_ids]
        return np.array(here) / self._unit[arc]

    def _define_keeps(self) -> dict[int, int]:
        """keep[a]: a location passes ``min_keep`` of what arrives, or falls short."""
        least, kept = self.network.min_keep, {}
        for arc in np.flatnonzero(_droppable(self.network)).tolist() if least > 0 else []:
            kept[arc] = self._new(least * self._upper[0][arc])
            above = {a: least * share for a, share in self._above(arc).items()}
            row = {**above, arc: -1.0, kept[arc]: -1.0}
            self._rows.append(_Row(f"keep[{arc}]", row, 0.0, -least * self._entering(arc)))
        return kept

    def _define_minimums(self) -> dict[int, tuple[int, list[int]]]:
        """minimum[o]: an output reaches its minimum, or all there is of it, or falls short.

        Outputs of one priority share the shortfall, as a part of their minimums. Returns its column
        and the outputs by priority, from high to low.
        """
        network = self.network
        asking = {o.priority for o in network.outputs if o.minimum > 0}
        short: dict[int, tuple[int, list[int]]] = {}
        for priority in sorted(asking, reverse=True):
            column = self._new(np.zeros(len(network.inputs)))
            places = [k for k, o in enumerate(network.outputs) if o.priority == priority]
            short[priority] = column, [k for k in places if network.outputs[k].minimum > 0]
            for place in short[priority][1]:
                output, arc = network.outputs[place], self._arc_to(place)
                row = {arc: -float(self._unit[arc]) / output.minimum, column: -1.0}
                brought = -self._full[arc] / output.minimum
                self._rows.append(_Row(f"minimum[{output.id}]", row, 0.0, brought, floor=-1.0))
        return short

    def _define_levels(self, units: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the objectives in order, and how much throughput a unit of each is (or none)."""
        outputs, levels = self.network.outputs, []
        for columns in [list(self._kept.values()), *([c] for c, _ in self._short.values())]:
            if columns:
                levels.append(np.zeros(self.size))
                levels[-1][columns] = -1.0
        shortfalls, total = len(levels), 0.0
        for priority in sorted({o.priority for o in outputs}, reverse=True):
            level = np.zeros(self.size)
            for place, output in enumerate(outputs):
                if output.priority == priority:
                    arc = self._arc_to(place)
                    level[arc] = output.weight * float(self._full[arc] @ units)
            if level.any():
                levels.append(level)
                total += float(level.sum())
        for level in levels[shortfalls:]:
            level /= total
        unit = np.where(np.arange(len(levels)) < shortfalls, 0.0, total)
        return np.array(levels).reshape(-1, self.size), unit

    def _arc_to(self, place: int) -> int:
        """Return the arc that reaches an output."""
        output = self.network.outputs[place]
        return self.network.arc_index[f"{output.stream}->{output.id}"]

    def _load_library(self, library: Library) -> None:
        from ortools.linear_solver import pywraplp

        self._solver = pywraplp.Solver.CreateSolver(LIBRARIES[library])
        if library == "highs":  # which prints a line per solution otherwise
            self._solver.SetSolverSpecificParametersAsString("output_flag=false")
        self._options = pywraplp.MPSolverParameters()
        for tolerance in (self._options.PRIMAL_TOLERANCE, self._options.DUAL_TOLERANCE):
            self._options.SetDoubleParam(tolerance, PROVEN)
        self._optimal = pywraplp.Solver.OPTIMAL
        self._columns = [self._solver.NumVar(0.0, INFINITY, f"x{k}") for k in range(self.size)]
        kept = [("level", level, -INFINITY, INFINITY) for level in -self.levels]
        given = [
            (row.name, self._matrix[k], row.constant if row.equal else -INFINITY, row.constant)
            for k, row in enumerate(self._rows)
        ]
        self._constraints = []
        for name, coefficients, low, high in [*given, *kept]:
            constraint = self._solver.RowConstraint(low, high, name)
            for column in np.flatnonzero(coefficients).tolist():
                constraint.SetCoefficient(self._columns[column], float(coefficients[column]))
            self._constraints.append(constraint)
        self._moving = np.flatnonzero(self._per_rate.any(axis=1)).tolist()
        self._first = [
            (k, self.network.input_ids.index(arc.stream))
            for k, arc in enumerate(self.network.arcs)
            if self.network.node_of[arc.stream] is None
        ]
        self._aim(0)

    def _aim(self, level: int) -> None:
        """Maximise one level; what those before it must keep is set when it is solved."""
        self._aimed, objective = level, self._solver.Objective()
        objective.Clear()
        for column in np.flatnonzero(self.levels[level]).tolist():
            objective.SetCoefficient(self._columns[column], float(self.levels[level, column]))
        objective.SetMaximization()
        for constraint in self._constraints[len(self._rows) + level :]:
            constraint.SetUb(INFINITY)

    def limits(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the right-hand sides of the rows, and what the variables cannot exceed."""
        right = np.maximum(self._constant + rates @ self._per_rate.T, self._floor)
        return right, rates @ self._most.T + self._most_shortfall

    def maximised(self, level: int, rates: FloatArray, kept: FloatArray) -> Solution | None:
        """Maximise a level at ``rates`` while those before it keep their values, if that succeeds."""
        if level != self._aimed:
            self._aim(level)
        for column, place in self._first:
            self._columns[column].SetUb(float(rates[place] / self._unit[column]))
        right = self.limits(rates[None, :])[0][0] if self._moving else self._constant
        for row in self._moving:
            low = float(right[row]) if self._equal[row] else -INFINITY
            self._constraints[row].SetBounds(low, float(right[row]))
        for row, value in enumerate(kept.tolist(), len(self._rows)):
            self._constraints[row].SetUb(PRIORITY_SLACK - value)
        optimal = self._solver.Solve(self._options) == self._optimal
        self.status = "OPTIMAL" if optimal else "NOT_SOLVED"
        if not optimal:
            return None
        rows = self._constraints[: len(self._rows) + level]
        return Solution(
            np.array([column.solution_value() for column in self._columns]),
            np.array([row.dual_value() for row in rows]),
        )

    def bounds(self, level: int, prices: FloatArray, rates: FloatArray, kept: FloatArray) -> Any:
        """Return what no setting can exceed at rows of rates, by weak duality from any prices.

        The library's tolerances do not matter: prices of the wrong sign count as none, and what is
        left of the objective counts at the highest values of the variables.
        """
        free = np.concatenate([self._equal, np.zeros(level, dtype=np.bool_)])
        prices = np.where(free, prices, np.maximum(prices, 0.0))
        right, most = self.limits(rates)
        matrix = np.concatenate([self._matrix, -self.levels[:level]])
        left = np.maximum(self.levels[level] - prices @ matrix, 0.0)
        return np.hstack([right, -kept]) @ prices + most @ left

    def setting(self, rates: FloatArray, drops: FloatArray) -> FloatArray:
        """Return the variables' values at rows of rates with drop fractions per arc."""
        network, arriving = self.network, np.zeros((len(rates), len(self.network.arcs)))
        passing = np.zeros((len(rates), self.size))
        order = [a for o in network.order for a in network.arcs_into[o.id]]
        for arc in [*order, *(k for k, arc in enumerate(network.arcs) if arc.to_output)]:
            arriving[:, arc] = rates @ self._entering(arc)
            for a, share in self._above(arc).items():
                arriving[:, arc] += share * passing[:, a]
            passing[:, arc] = (1.0 - drops[:, arc]) * arriving[:, arc]
        for sent, arcs in self._sent.items():
            passing[:, sent] = passing[:, arcs].max(axis=1)
        for arc, column in self._kept.items():
            missing = network.min_keep * arriving[:, arc] - passing[:, arc]
            passing[:, column] = np.maximum(missing, 0.0)
        right = self.limits(rates)[0]
        for row, _ in enumerate(self._rows):
            if self._floor[row] == -1.0:  # minimum[o]
                arc, column = self._rows[row].coefficients
                missing = passing[:, arc] * self._matrix[row, arc] - right[:, row]
                passing[:, column] = np.maximum(passing[:, column], missing)
        return passing

    def drops(self, rates: FloatArray, passed: FloatArray) -> FloatArray:
        """Return the drop fractions of what passes; where it needs no shedding, none.

        What exceeds a capacity, by the library's tolerance, is dropped from all inputs.
        """
        network, found = self.network, np.zeros((1, len(self.network.arcs)))
        if (self.use @ rates <= 1.0 + FITS).all():
            return found
        flows = np.zeros(len(network.arcs))
        for arc in (a for o in network.order for a in network.arcs_into[o.id]):
            arriving = float(rates @ self._entering(arc))
            arriving += sum(share * flows[a] for a, share in self._above(arc).items())
            flows[arc] = min(max(float(passed[arc]), 0.0), arriving)
            if arriving > 0.0 and flows[arc] < arriving * (1.0 - FITS):
                found[0, arc] = 1.0 - flows[arc] / arriving
        most = float(network.evaluate_many(rates[None, :], found).use(network).max(initial=0.0))
        first = [k for k, _ in self._first if not network.arcs[k].to_output]
        found[0, first] = 1.0 - (1.0 - found[0, first]) / max(most, 1.0)
        return found

    def resolve(self, rates: FloatArray) -> float:
        """Move to ``rates`` and return the (first) objective's optimum."""
        solution = self.maximised(0, rates, np.zeros(0))
        if solution is None:
            raise PlanningError(f"the library found no optimum for network {self.network.name!r}")
        return float(self.levels[0] @ solution.variables) * (float(self.unit_of_level[0]) or 1.0)

    def solve(self, rates: FloatArray) -> FloatArray:
        """Return the drop fractions of the optimum, all objectives in their order."""
        kept, solution = np.zeros(0), None
        for level in range(len(self.levels)):
            solution = self.maximised(level, rates, kept)
            if solution is None:
                raise PlanningError(f"no optimum found for network {self.network.name!r}")
            kept = self.levels[: level + 1] @ solution.variables
        assert solution is not None
        return np.asarray(self.drops(rates, solution.variables)[0])


def _droppable(network: QueryNetwork) -> BoolArray:
    """Whether an arc is a drop location: out of an input or split, with something to save below."""
    limited = {(link.source, link.target) for link in network.links}
    saves = np.zeros(len(network.arcs), dtype=np.bool_)
    for operator in reversed(network.order):
        below = saves[list(network.arcs_from[operator.id])].any()
        for port, arc in enumerate(network.arcs_into[operator.id]):
            sender = network.node_of[network.arcs[arc].stream]
            costs = operator.cost > 0 or (sender, operator.node) in limited
            saves[arc] = costs or (below and operator.gain(port) > 0)
    full = network.evaluate_many(network.max_rates[None, :], np.zeros((1, len(saves)))).arcs[0]
    for arc, each in enumerate(network.arcs):
        split = network.node_of[each.stream] is None or len(network.arcs_from[each.stream]) > 1
        saves[arc] &= split and full[arc] > 0.0
    return saves
