"""The linear program of Section 3 in its shedding form, with the rates on the right-hand side.

The paper's prefix variables are the rates y that pass each drop location. Here the variables are
the rates *dropped* there: with d = 0 nothing is shed, and the program reads

    minimise   sum of loss_a * d_a                             (3), (8), (11)
    subject to sum of saving_na * d_a >= load_n(r) - zeta_n    load[n]:  (1), (4), (9)
               sum of gain_ab * d_a + d_b <= full_b(r)         split[b]: (6), (7)
               0 <= d_a <= r_i                                 (2), (5), (10)
               d_a <= (1 - min_keep) * arriving_a(r, d) + e_a  min_keep[a]
               full_o(r) + t_o >= minimum_o                    reach[o]
               out_o(r, d) + t_o + minimum_o * e_p >= minimum_o   minimum[o]

with the shortfalls as the first objectives, because capacities come first: those of min_keep, e_a;
what even the inputs do not bring, t_o; and for each priority p, from high to low, the largest share
e_p that is missing of its outputs' minimums. ``d = 0`` is dual feasible whatever the rates are, and
the rates only move the right-hand side: a basis that is optimal once stays dual feasible for every
rate vector. Drop locations are the arcs out of inputs and out of splits; after a merge one flow per
arc is enough, because union and join outputs are alike whichever branch they came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.network import QueryNetwork, graph

GOLDEN = 0.6180339887498949
FAR = 1e3
"""Times its capacity that a server saves by the highest drop rate of a location; where that is
more, drop rates are in units of what saves the capacity once."""


class Arrivals(NamedTuple):
    """What reaches each drop location, in units of its highest rate."""

    per_rate: FloatArray
    per_drop: FloatArray  # taken away per rate dropped elsewhere
    port: IntArray  # location of the sender's port before it, or -1


@dataclass(frozen=True, slots=True, eq=False)
class SheddingProgram:
    """Basic variables are ``tableau[:, n] + tableau[:, n+1:] @ r - tableau[:, :n] @ x``.

    Rates are in units of each input's ``max_rate``, dropped rates in units of the location's
    highest rate (or of one capacity, see ``FAR``), loads in units of the capacity.
    """

    network: QueryNetwork
    locations: IntArray  # arc of each drop location, -1 for a sender's port
    max_rates: FloatArray
    scale: FloatArray  # unit of the dropped rate at each location
    tableau: FloatArray
    cost: FloatArray  # one row per objective, in order of importance; the last breaks ties
    upper: FloatArray  # affine upper bound per variable: constant, then per rate
    bounded: IntArray  # 1 where a variable has an upper bound
    arrivals: Arrivals
    full_throughput: FloatArray  # weighted throughput per rate, nothing dropped
    lost_throughput: FloatArray  # weighted throughput lost per dropped rate
    raw_use: FloatArray  # share of each server's and link's capacity per rate, nothing dropped

    @property
    def location_count(self) -> int:
        """How many drop locations there are."""
        return len(self.locations)

    @property
    def names(self) -> tuple[str, ...]:
        """Arc of each drop location; empty for a sender's port."""
        arcs = self.network.arcs
        return tuple(arcs[a].name if a >= 0 else "" for a in self.locations)

    @property
    def valued_inputs(self) -> BoolArray:
        """Which inputs contribute to any output.

        The others are dropped whole as soon as anything must be shed: their relative error has no
        meaning, and a quadtree over them would never end.
        """
        highest = max(self.full_throughput.max(), 1e-300)
        return np.asarray(self.full_throughput > 1e-15 * highest)

    @property
    def use_per_tuple(self) -> FloatArray:
        """Share of each capacity per tuple/s of each input, nothing dropped."""
        return self.raw_use / self.max_rates

    def fits(self, rates: FloatArray) -> BoolArray:
        """Whether each row of rates needs no shedding at any server or link."""
        return np.asarray((rates @ self.raw_use.T <= 1.0).all(axis=1))

    def throughput(self, rates: FloatArray, dropped: FloatArray) -> FloatArray:
        """Return the weighted throughput of rows of rates with their dropped rates."""
        return np.asarray(rates @ self.full_throughput - dropped @ self.lost_throughput)


@dataclass(slots=True)
class _Location:
    """A place for a drop: ``arcs`` are all arcs behind it, one unless it is a sender's port."""

    arc: int
    stream: str
    arcs: tuple[int, ...]
    port: int = -1


def _locations(network: QueryNetwork) -> list[_Location]:
    """Arcs out of inputs and splits whose drop saves something, in topological order."""
    saves = _downstream_use(network)
    limited = {(link.source, link.target) for link in network.links}
    locations: list[_Location] = []
    for stream in (*network.input_ids, *(o.id for o in network.order)):
        leaving = network.arcs_from[stream]
        source = network.node_of[stream]
        if source is not None and len(leaving) < 2:
            continue
        arcs = [a for a in leaving if saves[a]]
        targets: dict[str, list[int]] = {}
        for arc in arcs:
            targets.setdefault(network.operator[network.arcs[arc].consumer].node, []).append(arc)
        for target, group in targets.items():
            port = -1
            if len(group) > 1 and (source, target) in limited:
                port = len(locations)
                locations.append(_Location(-1, stream, tuple(group)))
            locations += [_Location(arc, stream, (arc,), port) for arc in group]
    return locations


def _downstream_use(network: QueryNetwork) -> list[bool]:
    """Whether a tuple on each arc costs CPU or bandwidth anywhere below."""
    limited = {(link.source, link.target) for link in network.links}
    uses = [False] * len(network.arcs)
    for operator in reversed(network.order):
        below = any(uses[a] for a in network.arcs_from[operator.id])
        for port, arc in enumerate(network.arcs_into[operator.id]):
            source = network.node_of[network.arcs[arc].stream]
            uses[arc] = (
                operator.cost > 0
                or (below and operator.gain(port) > 0)
                or (source, operator.node) in limited
            )
    return uses


class _Propagation:
    """Flows on all arcs as linear forms: ``rates @ r - drops @ d``, in tuples/s."""

    def __init__(self, network: QueryNetwork, locations: list[_Location]) -> None:
        self.network = network
        inputs, count = len(network.inputs), len(locations)
        self.width = inputs + count
        at_arc = {location.arc: k for k, location in enumerate(locations) if location.arc >= 0}
        streams: dict[str, FloatArray] = {}
        for k, name in enumerate(network.input_ids):
            streams[name] = np.eye(1, self.width, k)[0]
        self.arcs = np.zeros((len(network.arcs), self.width))
        self.arrivals = np.zeros((count, self.width))
        for operator in network.order:
            out = np.zeros(self.width)
            for port, arc in enumerate(network.arcs_into[operator.id]):
                flow = streams[network.arcs[arc].stream].copy()
                if arc in at_arc:
                    flow = self._drop(flow, at_arc[arc], locations)
                self.arcs[arc] = flow
                out = out + operator.gain(port) * flow
            streams[operator.id] = out
        for arc, each in enumerate(network.arcs):
            if each.to_output:
                self.arcs[arc] = streams[each.stream]

    def _drop(self, flow: FloatArray, place: int, locations: list[_Location]) -> FloatArray:
        inputs = len(self.network.inputs)
        chain = [k for k in (locations[place].port, place) if k >= 0]
        for k in chain:
            self.arrivals[k] = flow
            flow = flow.copy()
            flow[inputs + k] -= 1.0
        return flow

    def node_use(self, overhead: FloatArray) -> FloatArray:
        """Share of each server's capacity, as linear forms."""
        position = {n.id: k for k, n in enumerate(self.network.nodes)}
        use = np.zeros((len(self.network.nodes), self.width))
        for operator in self.network.order:
            for arc in self.network.arcs_into[operator.id]:
                use[position[operator.node]] += operator.cost * overhead[arc] * self.arcs[arc]
        return use / self.network.capacities[:, None]

    def link_use(self, overhead: FloatArray, locations: list[_Location]) -> FloatArray:
        """Share of each link's bandwidth; a stream is sent once to a server (its port's flow)."""
        network = self.network
        ports = {loc.arcs: k for k, loc in enumerate(locations) if loc.arc < 0}
        use = np.zeros((len(network.links), self.width))
        for k, link in enumerate(network.links):
            for stream, arcs in graph.arcs_between(network, link.source, link.target).items():
                flow = self.arcs[arcs[0]]
                if tuple(arcs) in ports:
                    port = ports[tuple(arcs)]
                    flow = self.arrivals[port].copy()
                    flow[len(network.inputs) + port] -= 1.0
                size = network.operator[stream].size * float(np.max(overhead[arcs]))
                use[k] += size * flow / link.capacity
        return use


def shedding_program(network: QueryNetwork) -> SheddingProgram:
    """Write down the network's program."""
    full = _Propagation(network, [])
    at_most = full.arcs @ network.max_rates
    streams = {network.arcs[a].stream: at_most[a] for a in range(len(network.arcs))}
    locations = [loc for loc in _locations(network) if streams[loc.stream] > 0]
    locations = _renumbered(locations)
    highest = np.array([streams[loc.stream] for loc in locations])
    forms = _Propagation(network, locations)
    inputs = len(network.inputs)
    overhead = network.window_overhead
    ones = np.ones(len(network.arcs))
    use = np.concatenate([forms.node_use(overhead), forms.link_use(overhead, locations)])
    raw = np.concatenate([forms.node_use(ones), forms.link_use(ones, locations)])
    saved = np.abs(use[:, inputs:] * highest).max(axis=0, initial=0.0)
    scale = highest / np.where(saved > FAR, saved, 1.0)
    units = np.concatenate([network.max_rates, scale])
    use, raw = use * units, raw * units
    arrivals = forms.arrivals * units / scale[:, None]
    outputs = np.array([a for a, arc in enumerate(network.arcs) if arc.to_output], dtype=np.int64)
    out = forms.arcs[outputs] * units
    weights = np.array([o.weight for o in network.outputs])
    shares = scale / highest
    tableau, cost, upper, bounded = _rows(network, use, arrivals, locations, out, shares)
    return SheddingProgram(
        network=network,
        locations=np.array([loc.arc for loc in locations], dtype=np.int64),
        max_rates=network.max_rates,
        scale=scale,
        tableau=tableau,
        cost=cost,
        upper=upper,
        bounded=bounded,
        arrivals=Arrivals(
            np.ascontiguousarray(arrivals[:, :inputs]),
            np.ascontiguousarray(-arrivals[:, inputs:]),
            np.array([loc.port for loc in locations], dtype=np.int64),
        ),
        full_throughput=weights @ out[:, :inputs],
        lost_throughput=-weights @ out[:, inputs:],
        raw_use=np.ascontiguousarray(raw[:, :inputs]),
    )


def _renumbered(locations: list[_Location]) -> list[_Location]:
    """Point each location at its port's place in this list."""
    ports = {
        (loc.stream, arc): k for k, loc in enumerate(locations) if loc.arc < 0 for arc in loc.arcs
    }
    for location in locations:
        if location.arc >= 0:
            location.port = ports.get((location.stream, location.arc), -1)
    return locations


def _rows(
    network: QueryNetwork,
    use: FloatArray,
    arrivals: FloatArray,
    locations: list[_Location],
    out: FloatArray,
    shares: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Tableau, costs and bounds from the linear forms, in normalised units.

    ``shares`` are the units of the dropped rates as shares of the locations' highest rates.
    """
    count, inputs = len(arrivals), len(network.inputs)
    first = [location.stream in network.input_ids for location in locations]
    wanted = [k for k, o in enumerate(network.outputs) if o.minimum > 0]
    asking = sorted({network.outputs[k].priority for k in wanted}, reverse=True)
    kept = [k for k, loc in enumerate(locations) if loc.arc >= 0] if network.min_keep > 0 else []
    short = len(kept) + len(wanted) + len(asking)  # what is missing, in the order of the objectives
    rows: list[FloatArray] = []

    def at_least_zero(form: FloatArray, constant: float, *shortfalls: int) -> None:
        filled = np.zeros(short)
        filled[list(shortfalls)] = -1.0
        rows.append(np.concatenate([-form[inputs:], filled, [constant], form[:inputs]]))

    for form in use:  # load[n] and link[l]: slack = 1 - use
        if np.any(form[inputs:] != 0):
            at_least_zero(-form, 1.0)
    for k in range(count):  # split[b]: what passes is not negative
        if not first[k]:
            form = arrivals[k].copy()
            form[inputs + k] -= 1.0
            at_least_zero(form, 0.0)
    for j, k in enumerate(kept):  # min_keep[a]: what passes and shortfall reach the share
        places = [place for place in (locations[k].port, k) if place >= 0]
        form = (1.0 - network.min_keep) * arrivals[places[0]]
        form[[inputs + place for place in places]] -= 1.0
        at_least_zero(form, 0.0, j)
    for j, k in enumerate(wanted, len(kept)):  # reach[o] and minimum[o], in parts of the minimum
        output, form = network.outputs[k], out[k] / network.outputs[k].minimum
        shared = len(kept) + len(wanted) + asking.index(output.priority)
        at_least_zero(np.where(np.arange(len(form)) < inputs, form, 0.0), -1.0, j)
        at_least_zero(form, -1.0, j, shared)
    tableau = np.array(rows).reshape(len(rows), count + short + 1 + inputs)
    upper = np.zeros((count + short + len(rows), 1 + inputs))
    bounded = np.zeros(count + short + len(rows), dtype=np.int64)
    for k in range(count):
        if first[k]:
            upper[k, 1:] = arrivals[k, :inputs]
            bounded[k] = 1
    missing = shares[kept] / shares[kept].max(initial=0.0) if kept else shares[kept]
    groups = [missing, np.ones(len(wanted)), *np.ones((len(asking), 1))]
    return tableau, _cost(network, out[:, inputs:], groups), upper, bounded


def _cost(
    network: QueryNetwork, out_drops: FloatArray, shortfalls: list[FloatArray]
) -> FloatArray:
    """Objectives in order of importance: shortfalls, priorities from high to low, then a tie-break.

    The tie-break drops fewer tuples and makes the optimal basis unique, so that critical regions
    do not overlap.
    """
    place = out_drops.shape[1]
    short = sum(map(len, shortfalls))
    total = place + short
    rows: list[FloatArray] = []
    for costs in shortfalls:
        if len(costs):
            rows.append(np.zeros(total))
            rows[-1][place : place + len(costs)] = costs
            place += len(costs)
    for priority in sorted({o.priority for o in network.outputs}, reverse=True):
        weights = np.array([o.weight if o.priority == priority else 0.0 for o in network.outputs])
        loss = np.concatenate([-weights @ out_drops, np.zeros(short)])
        highest = loss.max(initial=0.0)
        if highest > 0:
            rows.append(loss / highest)
    golden = np.modf(GOLDEN * np.arange(1, total + 1))[0]
    rows.append(1.0 + 0.5 * golden)
    return np.ascontiguousarray(np.maximum(np.array(rows), 0.0))
