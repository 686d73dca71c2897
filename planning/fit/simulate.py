"""What a plan does to rates it has not seen, against the paper's and the naive alternatives.

A load z scales the observed rates so that, at their mean, the busiest server can afford the share z
of its work. A server that is sent more than it can do loses the excess at its entrance, evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planning.arrays import Columns, FloatArray
from planning.errors import StatisticsError, check_between
from planning.families import Outcome
from planning.fit import program as programs
from planning.fit.network import QueryNetwork
from planning.fit.plan import Plan
from planning.fit.servers import Server, servers_of
from planning.fit.shedder import Shedder
from planning.fit.statistics import build, period_counts


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What reached the outputs, and how busy the servers were, per period."""

    throughput: FloatArray
    offered: FloatArray  # throughput of unlimited servers
    loads: FloatArray  # share of capacity that servers were asked for
    passed: FloatArray  # tuples/s on each arc after drops and overflow

    @property
    def quality(self) -> float:
        """Weighted throughput over that of unlimited servers."""
        whole = float(np.sort(self.offered).sum())
        return float(np.sort(self.throughput).sum()) / whole if whole > 0 else 1.0


def evaluate(
    plan: Plan, samples: Columns, definition: Any, loads: Sequence[float]
) -> tuple[Outcome, ...]:
    """Shed the samples' rates with the plan at each load, and at random, and compare.

    The network that is loaded is the one the samples themselves show, so a plan made from stale
    costs is seen to be stale.
    """
    fresh = build(samples, definition).network
    rates = period_counts(samples, fresh) / definition.parameters.period_s
    if not len(rates):
        raise StatisticsError("samples must hold at least one complete period, got none")
    outcomes = []
    for load in loads:
        scaled = scale_to(fresh, rates, float(load))
        shed = measure(fresh, scaled, shed_by(plan, scaled, definition.parameters.period_s))
        random = measure(fresh, scaled, random_drops(fresh, scaled))
        outcomes.append(
            Outcome(
                load=float(load),
                predicted_quality=plan.predicted_quality(float(load)),
                quality=min(shed.quality, 1.0),
                random_quality=random.quality,
                passed_fraction=passed_fraction(fresh, scaled, shed),
                offered=int(scaled.sum() * definition.parameters.period_s),
            )
        )
    return tuple(outcomes)


def scale_to(network: QueryNetwork, rates: FloatArray, load: float) -> FloatArray:
    """Scale rate vectors so that their mean asks the busiest server for 1/``load`` of its CPU."""
    check_between("load", load, 0.0, 1.0, open_low=True, remedy="pass a fraction above 0")
    use = _raw_use(network) @ rates.mean(axis=0)
    busiest = float(use.max(initial=0.0))
    return rates / (busiest * load) if busiest > 0 else rates


def _raw_use(network: QueryNetwork) -> FloatArray:
    program = programs.build(network)
    return program.raw_use / program.max_rates


def shed_by(plan: Plan, rates: FloatArray, period_s: float) -> FloatArray:
    """Let a shedder follow the rates period by period; return the drops that it really made.

    Whole tuples are counted on the arcs out of inputs and splits, so rounding to tuples is in it.
    """
    network = plan.network
    shedder = Shedder(plan)
    drops = np.zeros((len(rates), len(network.arcs)))
    for k, vector in enumerate(rates):
        shedder.set_load(vector)
        drops[k] = network.drop_vector(shedder.setting)
        flows = dict(zip(network.input_ids, vector * period_s, strict=True))
        for operator in network.order:
            out = 0.0
            for port, arc in enumerate(network.arcs_into[operator.id]):
                name = network.arcs[arc].name
                arriving = round(flows[network.arcs[arc].stream])
                kept = shedder.pass_counts({name: arriving})[name]
                if arriving:
                    drops[k, arc] = 1.0 - kept / arriving
                out += operator.gain(port) * kept
            flows[operator.id] = out
    return drops


def random_drops(network: QueryNetwork, rates: FloatArray) -> FloatArray:
    """Drop the same fraction of every input, just enough for the busiest server."""
    busiest = (rates @ _raw_use(network).T).max(axis=1, initial=0.0)
    fraction = 1.0 - 1.0 / np.maximum(busiest, 1.0)
    drops = np.zeros((len(rates), len(network.arcs)))
    for k, arc in enumerate(network.arcs):
        if network.node_of[arc.stream] is None and not arc.to_output:
            drops[:, k] = fraction
    return drops


def measure(network: QueryNetwork, rates: FloatArray, drops: FloatArray) -> Measured:
    """Push rates through servers of limited CPU and links of limited bandwidth."""
    effective = drops.copy()
    asked = np.zeros((len(rates), len(network.nodes)))
    for name in server_order(network):
        k = [n.id for n in network.nodes].index(name)
        arcs = _entering(network, name)
        load = network.evaluate_many(rates, effective).loads[:, k] / network.nodes[k].capacity
        asked[:, k] = load
        excess = np.maximum(load, 1.0)[:, None]
        effective[:, arcs] = 1.0 - (1.0 - effective[:, arcs]) / excess
    done = network.evaluate_many(rates, effective)
    offered = network.evaluate_many(rates, np.zeros_like(drops)).throughput
    return Measured(done.throughput, offered, asked, done.arcs)


def server_order(network: QueryNetwork) -> list[str]:
    """Return servers so that each follows those that send to it, as far as there is no cycle."""
    order: list[str] = []
    for operator in network.order:
        if operator.node not in order:
            order.append(operator.node)
    return order


def _entering(network: QueryNetwork, server: str) -> list[int]:
    """Arcs that carry tuples into a server from elsewhere."""
    return [
        k
        for k, arc in enumerate(network.arcs)
        if not arc.to_output
        and network.operator[arc.consumer].node == server
        and network.node_of[arc.stream] != server
    ]


def passed_fraction(network: QueryNetwork, rates: FloatArray, shed: Measured) -> float:
    """Return the share of the busiest server's offered work that was let through to it."""
    offered = (rates @ _raw_use(network)[: len(network.nodes)].T).mean(axis=0)
    busiest = int(np.argmax(offered))
    done = np.minimum(shed.loads[:, busiest], 1.0).mean()
    return float(done / offered[busiest]) if offered[busiest] > 0 else 1.0


def local_drops(network: QueryNetwork, rates: FloatArray) -> FloatArray:
    """Let every server shed for itself alone, upstream servers first (Section 1.1, plan 2).

    Each server maximises what it emits: its own outputs by weight, and a tuple sent on counts as
    one. It knows nothing about the servers that receive it.
    """
    from planning.fit.warm import WarmSimplex

    drops = np.zeros((len(rates), len(network.arcs)))
    servers = servers_of(network)
    for name in server_order(network):
        server = servers[name]
        alone = _selfish(server, network)
        flows = _arriving(network, rates, drops, server)
        program = programs.build(alone)
        if not program.location_count:
            continue
        fractions = WarmSimplex(program).fractions(
            np.ascontiguousarray(flows / program.max_rates)
        )
        for arc, column in zip(program.names, fractions.T, strict=True):
            if arc:
                drops[:, network.arc_index[arc]] = column
    return drops


def _selfish(server: Server, network: QueryNetwork) -> QueryNetwork:
    sent = sorted({s for streams in server.children.values() for s in streams})
    highest = {f"{s}@{server.id}": 1.0 for s in server.inputs}
    document = server.alone(highest).to_document()
    outputs = [
        {"id": o.id, "stream": o.stream, "weight": o.weight} for o in server.outputs
    ] + [{"id": f"sent {s}", "stream": s, "weight": 1.0} for s in sent]
    document["outputs"] = outputs or document["outputs"]
    return QueryNetwork.from_document(document)


def _arriving(
    network: QueryNetwork, rates: FloatArray, drops: FloatArray, server: Server
) -> FloatArray:
    """Rates of the streams that reach a server, given what servers above dropped."""
    flows = network.evaluate_many(rates, drops)
    columns = []
    for stream in server.inputs:
        if stream in network.input_ids:
            columns.append(rates[:, network.input_ids.index(stream)])
        else:
            arc = next(
                a
                for a in network.arcs_from[stream]
                if not network.arcs[a].to_output
                and network.operator[network.arcs[a].consumer].node == server.id
            )
            columns.append(flows.arcs[:, arc])
    return np.stack(columns, axis=1)

