"""What a plan does to rates it has not seen, compared with the paper's and the naive alternatives.

A load z scales the observed rates so that, at their mean, the busiest server can afford the share z
of its work. A server that is sent more than it can do loses the excess at its entrance, evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from planning.arrays import Columns, FloatArray
from planning.errors import StatisticsError, check_between
from planning.families import Outcome
from planning.fit.dfit.servers import Server, servers_of
from planning.fit.model import MethodLimit
from planning.fit.network import QueryNetwork, graph
from planning.fit.network.document import OutputDocument
from planning.fit.plan import Plan
from planning.fit.planner import plan_network
from planning.fit.printed.distributions import Empirical
from planning.fit.shedder import Shedder
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex
from planning.fit.statistics import build, period_counts

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters

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
class Measured:
    """What reached the outputs, and how busy the servers were, per period."""

    throughput: FloatArray
    offered: FloatArray  # throughput of unlimited servers
    loads: FloatArray  # work that servers were given, as a share of their capacity
    passed: FloatArray  # tuples/s on each arc after drops and overflow

    @property
    def quality(self) -> float:
        """Weighted throughput over that of unlimited servers."""
        whole = float(np.sort(self.offered).sum())
        return float(np.sort(self.throughput).sum()) / whole if whole > 0 else 1.0


def evaluate(
    plan: Plan,
    samples: Columns,
    definition: Definition[Parameters],
    loads: Sequence[float | Mapping[str, float]],
) -> tuple[Outcome, ...]:
    """Shed the samples' rates with the plan at each load, and at random, and compare.

    The network that is loaded is the one the samples themselves show, so a plan made from stale
    costs is seen to be stale. At a load of rates by input id, an outcome's ``load`` is the fraction
    that corresponds to them: the share of its work that the busiest server can afford.
    """
    fresh = build(samples, definition).network
    rates = period_counts(samples, fresh) / definition.parameters.period_s
    if not len(rates):
        raise StatisticsError("samples must hold at least one complete period, got none")
    outcomes = []
    for load in loads:
        scaled = scale_to(fresh, rates, load)
        shed = measure(fresh, scaled, shed_by(plan, scaled, definition.parameters.period_s))
        random = measure(fresh, scaled, random_drops(fresh, scaled))
        outcomes.append(
            Outcome(
                load=_affordable(fresh, scaled) if isinstance(load, Mapping) else float(load),
                predicted_quality=plan.predicted_quality(load),
                quality=min(shed.quality, 1.0),
                random_quality=random.quality,
                passed_fraction=passed_fraction(fresh, scaled, shed),
                offered=int(scaled.sum() * definition.parameters.period_s),
            )
        )
    return tuple(outcomes)


def scale_to(
    network: QueryNetwork, rates: FloatArray, load: float | Mapping[str, float]
) -> FloatArray:
    """Scale rate vectors so that their mean asks the busiest server for 1/``load`` of its CPU.

    With a load of rates by input id, so that the mean of every input is its rate there; an input
    that shows no tuples has that rate all the time.
    """
    if isinstance(load, Mapping):
        wanted, mean = network.rate_vector(load), rates.mean(axis=0)
        seen = mean > 0
        return np.asarray(np.where(seen, rates / np.where(seen, mean, 1.0), 1.0) * wanted)
    check_between("load", load, 0.0, 1.0, open_low=True, remedy="pass a fraction above 0")
    busiest = _busiest(network, rates)
    return rates / (busiest * load) if busiest > 0 else rates


def _busiest(network: QueryNetwork, rates: FloatArray) -> float:
    """Return what the busiest server is asked for at the mean rates, in shares of its CPU."""
    use = shedding_program(network).use_per_tuple @ rates.mean(axis=0)
    return float(use.max(initial=0.0))


def _affordable(network: QueryNetwork, rates: FloatArray) -> float:
    return 1.0 / max(_busiest(network, rates), 1.0)


def shed_by(plan: Plan, rates: FloatArray, period_s: float) -> FloatArray:
    """Let a shedder follow the rates period by period; return the drops that it actually made.

    Whole tuples are counted on arcs out of inputs and splits, so rounding to tuples is included.
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
    busiest = (rates @ shedding_program(network).use_per_tuple.T).max(axis=1, initial=0.0)
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
    arcs = graph.arcs_into(network, server)
    return [a for a in arcs if network.node_of[network.arcs[a].stream] != server]


def passed_fraction(network: QueryNetwork, rates: FloatArray, shed: Measured) -> float:
    """Return the share of the busiest server's offered work that was let through to it."""
    offered = (rates @ shedding_program(network).use_per_tuple[: len(network.nodes)].T).mean(axis=0)
    busiest = int(np.argmax(offered))
    done = np.minimum(shed.loads[:, busiest], 1.0).mean()
    return float(done / offered[busiest]) if offered[busiest] > 0 else 1.0


def local_drops(network: QueryNetwork, rates: FloatArray) -> FloatArray:
    """Let every server shed for itself alone, upstream servers first (Section 1.1, plan 2).

    Each server maximises what it emits: its own outputs by weight, and a tuple sent on counts as
    one. It knows nothing about the servers that it sends to.
    """
    drops = np.zeros((len(rates), len(network.arcs)))
    servers = servers_of(network)
    for name in server_order(network):
        server = servers[name]
        program = shedding_program(_selfish(server))
        if not program.location_count:
            continue
        flows = _arriving(network, rates, drops, server) / program.max_rates
        fractions = WarmSimplex(program).fractions(np.ascontiguousarray(flows))
        for arc, column in zip(program.names, fractions.T, strict=True):
            if arc:
                drops[:, network.arc_index[arc]] = column
    return drops


def _selfish(server: Server) -> QueryNetwork:
    """Return the server as a network whose outputs are also the streams that it sends on."""
    alone = server.alone({f"{s}@{server.id}": 1.0 for s in server.inputs})
    sent = sorted({s for streams in server.children.values() for s in streams})
    own = alone.outputs if server.outputs or not sent else ()
    sends = (OutputDocument(f"sent {s}", s, 1.0) for s in sent)
    return structs.replace(alone, outputs=(*own, *sends))


def _arriving(
    network: QueryNetwork, rates: FloatArray, drops: FloatArray, server: Server
) -> FloatArray:
    """Rates of the streams that reach a server, given what servers above dropped."""
    reaching = {i: rates[:, k] for k, i in enumerate(network.input_ids)}
    flows = network.evaluate_many(rates, drops).arcs
    for arc in _entering(network, server.id):
        reaching.setdefault(network.arcs[arc].stream, flows[:, arc])
    return np.stack([reaching[stream] for stream in server.inputs], axis=1)


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
    nothing = network.evaluate_many(rates, np.zeros((len(rates), len(network.arcs))))
    overloaded = np.asarray((nothing.loads > network.capacities).any(axis=1), dtype=np.float64)
    return Comparison(throughput, offered, highest, plans, refused, overloaded)
