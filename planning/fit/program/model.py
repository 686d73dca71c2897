"""The program of Section 3 in prefix variables, as matrices made from a network alone.

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

from collections.abc import Callable

import numpy as np

from planning.arrays import BoolArray, FloatArray
from planning.fit.network import QueryNetwork, graph

INFINITY = float("inf")
TINY = 1e-300
FITS = 1e-12
"""Share of a rate that is rounding."""

Rule = Callable[[int, FloatArray], FloatArray]
"""What passes an arc, of what arrives there."""


class NetworkModel:
    """Rows ``matrix @ x <= limits(r)`` with variables from 0 to ``most(r)``.

    Variables are shares: of what an arc can carry at most, or of a minimum. Objectives come in
    ``levels``, each more important than those after it: shortfalls of ``min_keep``; for each
    priority from high to low, the largest share that is missing of its outputs' minimums; for each
    priority, the weighted throughput. ``worth`` is the throughput of a unit of each level.
    """

    def __init__(self, network: QueryNetwork) -> None:
        self.network = network
        inputs, arcs = len(network.inputs), len(network.arcs)
        alone = network.evaluate_many(np.eye(inputs), np.zeros((inputs, arcs)))
        self.use = alone.use(network).T  # share of each capacity per rate, nothing dropped
        self.full = alone.arcs.T  # tuples/s on each arc per rate, nothing dropped
        self.unit = np.ones(arcs)
        self.fills = self._filling()
        reached = self._forward(network.max_rates[None, :], self._capped)[0][0]
        self.unit = np.where(reached > 0.0, reached, 1.0)
        self.fills = self._filling()
        self.names: list[str] = []
        self._rows: list[dict[int, float]] = []
        self._right: list[tuple[float, FloatArray, float]] = []
        self.size = arcs
        self._sent: dict[int, list[int]] = {}
        self._kept: dict[int, int] = {}
        self._short: dict[int, int] = {}
        self._asking: dict[int, int] = {}  # output of each row minimum[o]
        self.equal: set[int] = set()  # rows that hold with equality
        self.capacities: list[int] = []  # rows of servers and links
        self._define_capacities()
        self._define_prefixes()
        self._define_minimums()
        constant, per_rate, least = zip(*self._right, strict=True)
        self.constant, self.least = np.array(constant), np.array(least)
        self.per_rate = np.array(per_rate)
        self.matrix = np.zeros((len(self._rows), self.size))
        for place, row in enumerate(self._rows):
            self.matrix[place, list(row)] = list(row.values())
        self.levels, self.worth = self._define_levels()

    def _row(
        self,
        name: str,
        row: dict[int, float],
        constant: float = 0.0,
        per_rate: FloatArray | None = None,
        least: float = -INFINITY,
    ) -> None:
        """Add ``row @ x <= max(constant + per_rate @ r, least)``."""
        self.names.append(name)
        self._rows.append(row)
        given = np.zeros(len(self.network.inputs)) if per_rate is None else per_rate
        self._right.append((constant, given, least))

    def _new(self) -> int:
        """Add a variable; return its column."""
        self.size += 1
        return self.size - 1

    def _filling(self) -> FloatArray:
        """Return how much of each arc's unit would fill its consumer's server alone."""
        network, fills = self.network, np.full(len(self.network.arcs), INFINITY)
        capacity = {node.id: node.capacity for node in network.nodes}
        for operator in network.operators:
            for arc in network.arcs_into[operator.id]:
                cost = operator.cost * float(network.window_overhead[arc] * self.unit[arc])
                fills[arc] = capacity[operator.node] / cost if cost > 0.0 else INFINITY
        return fills

    def _capped(self, arc: int, arriving: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(arriving, self.fills[arc]))

    def _define_capacities(self) -> None:
        """load[n] and link[l]: a stream is sent once, as much as its most demanding arc needs."""
        network, overhead = self.network, self.network.window_overhead
        for node in network.nodes:
            own = [o for o in network.operators if o.node == node.id and o.cost > 0.0]
            load = {a: 1.0 / float(self.fills[a]) for o in own for a in network.arcs_into[o.id]}
            self.capacities.append(len(self._rows))
            self._row(f"server {node.id}", load, 1.0)
        for link in network.links:
            use: dict[int, float] = {}
            for stream, arcs in graph.arcs_between(network, link.source, link.target).items():
                size = network.operator[stream].size * float(overhead[arcs].max())
                most = float(self.unit[arcs].max())
                sent = self._new()
                self._sent[sent] = arcs
                use[sent] = size * most / link.capacity
                for arc in arcs:
                    self._row(f"sent[{arc}]", {arc: float(self.unit[arc]) / most, sent: -1.0})
            self.capacities.append(len(self._rows))
            self._row(f"link {link.id}", use, 1.0)

    def _define_prefixes(self) -> None:
        """prefix[a] and keep[a]: an arc carries at most what its stream brings.

        With ``min_keep`` a location passes that share of it, or falls short; and what is no
        location passes all of it, because a drop behind a location would evade the share.
        """
        network, least = self.network, self.network.min_keep
        droppable = _droppable(network) if least > 0 else np.ones(len(network.arcs), dtype=np.bool_)
        for arc, each in enumerate(network.arcs):
            above, given = self._above(arc), self._entering(arc)
            if not droppable[arc]:
                self.equal.add(len(self._rows))
            if not droppable[arc] or network.node_of[each.stream] is not None:
                row = {arc: 1.0, **{a: -share for a, share in above.items()}}
                self._row(f"prefix[{arc}]", row, 0.0, given)
            if droppable[arc] and least > 0:
                self._kept[arc] = self._new()
                row = {a: least * share for a, share in above.items()}
                row |= {arc: -1.0, self._kept[arc]: -1.0}
                self._row(f"keep[{arc}]", row, 0.0, -least * given)

    def _above(self, arc: int) -> dict[int, float]:
        """Return what the arcs into an arc's operator bring to it; none if it leaves an input."""
        stream = self.network.arcs[arc].stream
        into = self.network.arcs_into.get(stream, ())
        return {
            a: self.network.operator[stream].gain(port) * float(self.unit[a] / self.unit[arc])
            for port, a in enumerate(into)
        }

    def _entering(self, arc: int) -> FloatArray:
        """Return what the inputs bring to an arc themselves, per rate."""
        stream = self.network.arcs[arc].stream
        here = np.array([float(stream == i) for i in self.network.input_ids])
        return np.asarray(here / self.unit[arc])

    def _define_minimums(self) -> None:
        """minimum[o]: an output reaches its minimum, or all there is of it, or falls short."""
        asking = [(k, o) for k, o in enumerate(self.network.outputs) if o.minimum > 0]
        for place, output in sorted(asking, key=lambda each: -each[1].priority):
            if output.priority not in self._short:
                self._short[output.priority] = self._new()
            arc = self.arc_to(place)
            row = {arc: -float(self.unit[arc]) / output.minimum, self._short[output.priority]: -1.0}
            self._asking[len(self._rows)] = place
            name = f"minimum of output {output.id}"
            self._row(name, row, 0.0, -self.full[arc] / output.minimum, least=-1.0)

    def _define_levels(self) -> tuple[FloatArray, FloatArray]:
        levels, outputs = [], self.network.outputs
        if self._kept:
            arcs, columns = list(self._kept), list(self._kept.values())
            share = self.unit[arcs] / np.maximum(self.full[arcs] @ self.network.max_rates, TINY)
            levels.append(np.zeros(self.size))
            levels[-1][columns] = -share / share.max()
        levels += [-np.eye(1, self.size, column)[0] for column in self._short.values()]
        shortfalls = len(levels)
        for priority in sorted({o.priority for o in outputs}, reverse=True):
            level = np.zeros(self.size)
            for place, output in enumerate(outputs):
                if output.priority == priority:
                    level[self.arc_to(place)] = output.weight * self.unit[self.arc_to(place)]
            if level.any() or len(levels) == shortfalls:
                levels.append(level)
        made = np.array(levels)
        total = max(float(made[shortfalls:].sum()), TINY)
        made[shortfalls:] /= total
        return made, np.where(np.arange(len(made)) < shortfalls, 0.0, total)

    def arc_to(self, place: int) -> int:
        """Return the arc that reaches an output."""
        output = self.network.outputs[place]
        return self.network.arc_index[f"{output.stream}->{output.id}"]

    def limits(self, rates: FloatArray) -> FloatArray:
        """Return the right-hand sides of the rows, for rows of rates."""
        return np.asarray(np.maximum(self.constant + rates @ self.per_rate.T, self.least))

    def most(self, rates: FloatArray) -> FloatArray:
        """Return what the variables cannot exceed, for rows of rates."""
        passing, arriving = self._forward(rates, self._capped)
        out = np.ones((len(rates), self.size))
        out[:, : len(self.unit)] = passing
        for arc, column in self._kept.items():
            out[:, column] = arriving[:, arc]
        for sent, arcs in self._sent.items():
            share = self.unit[arcs] / self.unit[arcs].max()
            out[:, sent] = (share * passing[:, arcs]).max(axis=1)
        return out

    def _forward(self, rates: FloatArray, rule: Rule) -> tuple[FloatArray, FloatArray]:
        """Return what passes and what arrives at each arc, from the inputs down."""
        network = self.network
        passing = np.zeros((len(rates), len(network.arcs)))
        arriving = np.zeros_like(passing)
        order = [a for o in network.order for a in network.arcs_into[o.id]]
        for arc in [*order, *(k for k, arc in enumerate(network.arcs) if arc.to_output)]:
            arriving[:, arc] = rates @ self._entering(arc)
            for a, share in self._above(arc).items():
                arriving[:, arc] += share * passing[:, a]
            passing[:, arc] = rule(arc, arriving[:, arc])
        return passing, arriving

    def setting(self, rates: FloatArray, drops: FloatArray) -> FloatArray:
        """Return the variables' values at rows of rates with drop fractions per arc."""
        passing, arriving = self._forward(rates, lambda arc, rate: (1.0 - drops[:, arc]) * rate)
        out = np.zeros((len(rates), self.size))
        out[:, : len(self.unit)] = passing
        for sent, arcs in self._sent.items():
            out[:, sent] = (self.unit[arcs] / self.unit[arcs].max() * passing[:, arcs]).max(axis=1)
        for arc, column in self._kept.items():
            missing = self.network.min_keep * arriving[:, arc] - passing[:, arc]
            out[:, column] = np.maximum(missing, 0.0)
        for priority, column in self._short.items():
            missing = self.missing(rates, passing)[:, self._places(priority)]
            out[:, column] = missing.max(axis=1)
        return out

    def _places(self, priority: int) -> list[int]:
        outputs = [self.network.outputs[place] for place in self._asking.values()]
        return [k for k, output in enumerate(outputs) if output.priority == priority]

    def missing(self, rates: FloatArray, variables: FloatArray) -> FloatArray:
        """Return the share that each minimum lacks, of what the rates bring; in its rows' order."""
        rows = list(self._asking)
        arcs = len(self.unit)
        reached = variables[:, :arcs] @ self.matrix[rows, :arcs].T
        return np.maximum(reached - self.limits(rates)[:, rows], 0.0)

    def drops(self, rates: FloatArray, variables: FloatArray) -> FloatArray:
        """Return the drop fractions that let as much pass as the variables say.

        What exceeds a capacity, by a library's tolerance, is dropped from all inputs.
        """
        arcs = self.network.arcs

        def rule(arc: int, rate: FloatArray) -> FloatArray:
            kept = rate if arcs[arc].to_output else np.maximum(variables[:, arc], 0.0)
            return np.where(kept < rate * (1.0 - FITS), kept, rate)

        passing, arriving = self._forward(rates, rule)
        found = 1.0 - np.where(passing < arriving, passing / np.maximum(arriving, TINY), 1.0)
        most = self.used(self.setting(rates, found)).max(axis=1, initial=0.0)
        most = np.where(most > 1.0 + FITS, most, 1.0)
        for arc, each in enumerate(arcs):
            if self.network.node_of[each.stream] is None and not each.to_output:
                found[:, arc] = 1.0 - (1.0 - found[:, arc]) / most
        return found

    def used(self, variables: FloatArray) -> FloatArray:
        """Return the share of each server's and link's capacity, for rows of variables."""
        return variables @ self.matrix[self.capacities].T


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
