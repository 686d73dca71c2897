"""What a plan does to rates it has not seen, compared with the naive alternatives.

A load z scales the observed rates so that, at their mean, the busiest server or link can afford the
share z of its work. What is sent beyond a link's bandwidth or a server's CPU is lost at its
entrance, evenly. Rates are followed by the code of a node, which measures and predicts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import structs

from planning import rehearsal
from planning.arrays import Columns, FloatArray, IntArray
from planning.errors import StatisticsError, check_between
from planning.families import Outcome
from planning.fit.dfit.servers import Server, servers_of
from planning.fit.network import QueryNetwork, graph
from planning.fit.network.document import OutputDocument
from planning.fit.plan import Plan
from planning.fit.simplex.shedding import shedding_program
from planning.fit.simplex.warm import WarmSimplex
from planning.fit.statistics import build, period_counts
from planning.runtime.rates import RateMonitor

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters

BLOCKS = 20
"""Stretches of the samples whose qualities count as independent."""
MOST_ITEMS = 1_000_000
"""Items that a node is offered at one load."""
FEWEST_PER_PERIOD, MOST_PER_PERIOD = 200, 30_000
"""Items of a period: where there would be more, it is taken shorter than it is; rates stay."""
BUSY_PERIODS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What reached the outputs, and how busy the servers were, per period."""

    throughput: FloatArray
    offered: FloatArray  # throughput of unlimited servers
    loads: FloatArray  # what servers, then links, were given, as a share of their capacity
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
    loads: Sequence[float | tuple[float, ...] | Mapping[str, float]],
) -> tuple[Outcome, ...]:
    """Let a node follow the samples' rates with the plan at each load, and compare.

    The network that is loaded is the one the samples themselves show, so a plan made from stale
    costs is seen to be stale. At a load of rates by input id, an outcome's ``load`` is the fraction
    that corresponds to them: the share of its work that the busiest server can afford. The
    alternatives follow the rates that the node believes in while it sheds. What is predicted is
    what the plan would achieve if the node knew them.

    Batch sizes are tried on a busy stretch, where no batch lasts longer than a period: what longer
    ones do to rates that change meanwhile depends on the rates.
    """
    fresh = build(samples, definition).network
    rates = period_counts(samples, fresh) / definition.parameters.period_s
    if not len(rates):
        raise StatisticsError("samples must hold at least one complete period, got none")
    return tuple(_outcome(plan, fresh, rates, definition.parameters.period_s, z) for z in loads)


def _outcome(
    plan: Plan,
    fresh: QueryNetwork,
    rates: FloatArray,
    period_s: float,
    load: float | tuple[float, ...] | Mapping[str, float],
) -> Outcome:
    schedule = load if isinstance(load, tuple) else ()
    scaled = scale_to(fresh, rates, load)
    items = _Items(fresh, scaled, period_s, MOST_ITEMS // 5 if schedule else MOST_ITEMS)
    scaled = scaled[: items.periods]
    shed = items.measured(plan, 100 if schedule else rehearsal.USUAL, items.count)
    sizes: dict[str, float] = {}
    if not schedule and items.count:
        busy = _busy(fresh, scaled)
        sizes = rehearsal.by_size(busy.count, lambda *tried: busy.measured(plan, *tried).quality)
    random, local = items.instead(random_drops), items.instead(local_drops)
    strongest = max(random, local, key=lambda done: done.quality)
    z = _affordable(fresh, scaled) if isinstance(load, Mapping) else float(np.mean(load))
    known = measure(plan.network, scaled, plan.at_many(scaled * plan.headroom))
    return Outcome(
        load=z,
        predicted_quality=min(known.quality, 1.0),
        quality=min(shed.quality, 1.0),
        random_quality=random.quality,
        passed_fraction=passed_fraction(fresh, scaled, shed),
        offered=int(scaled.sum() * period_s),
        baselines={"local shedding": local.quality},
        by_size=sizes,
        noise=_noise(shed, strongest),
        error=_noise(shed, known),
        schedule=schedule,
    )


def _busy(network: QueryNetwork, rates: FloatArray) -> _Items:
    """Return the items of few periods that are busier than most, each as long as a large batch."""
    together = np.convolve(rates.sum(axis=1), np.ones(min(BUSY_PERIODS, len(rates))), mode="valid")
    first = int(np.argsort(together, kind="stable")[3 * len(together) // 4])
    chosen = rates[first : first + BUSY_PERIODS]
    return _Items(network, chosen, MOST_PER_PERIOD / max(float(chosen.sum(axis=1).mean()), 1e-9))


def _noise(shed: Measured, other: Measured) -> float:
    """Return the standard error of the difference of two qualities, from stretches of the time."""
    gain = shed.throughput - other.throughput
    blocks = np.array_split(np.arange(len(shed.offered)), min(BLOCKS, len(shed.offered)))
    gained = np.array([gain[block].sum() for block in blocks])
    whole = np.array([shed.offered[block].sum() for block in blocks])
    if len(blocks) < 2 or not whole.sum():
        return 0.0
    left = gained - whole * (gained.sum() / whole.sum())
    return float(np.sqrt((left**2).sum() * len(blocks) / (len(blocks) - 1)) / whole.sum())


def scale_to(
    network: QueryNetwork,
    rates: FloatArray,
    load: float | tuple[float, ...] | Mapping[str, float],
) -> FloatArray:
    """Scale rate vectors so that their mean asks the busiest server for 1/``load`` of its CPU.

    Loads that follow one another scale equal stretches. With a load of rates by input id, the mean
    of every input is its rate there; an input that shows no tuples has that rate all the time.
    """
    if isinstance(load, Mapping):
        wanted, mean = network.rate_vector(load), rates.mean(axis=0)
        seen = mean > 0
        return np.asarray(np.where(seen, rates / np.where(seen, mean, 1.0), 1.0) * wanted)
    for z in np.atleast_1d(load):
        check_between("load", float(z), 0.0, 1.0, open_low=True, remedy="pass a fraction above 0")
    busiest = _busiest(network, rates)
    return rates / (busiest * rehearsal.along(load, len(rates))[:, None]) if busiest > 0 else rates


def _busiest(network: QueryNetwork, rates: FloatArray) -> float:
    """Return what the busiest server or link is asked for at the mean rates."""
    use = shedding_program(network).use_per_tuple @ rates.mean(axis=0)
    return float(use.max(initial=0.0))


def _affordable(network: QueryNetwork, rates: FloatArray) -> float:
    return 1.0 / max(_busiest(network, rates), 1.0)


def shed_by(
    plan: Plan, rates: FloatArray, period_s: float, size: int = rehearsal.USUAL
) -> FloatArray:
    """Let a node follow the rates in batches; return the drops that it actually made per period."""
    items = _Items(plan.network, rates, period_s)
    return items.shed(plan, size, items.count)


class _Items:
    """The items behind rates, in the order of time, as a node with all operators sees them."""

    def __init__(
        self,
        network: QueryNetwork,
        rates: FloatArray,
        period_s: float,
        most: int = MOST_ITEMS,
    ) -> None:
        self.network = network
        mean = max(float(rates.sum(axis=1).mean()), 1e-9)
        per_period = min(max(most // len(rates), FEWEST_PER_PERIOD), MOST_PER_PERIOD)
        self.period_s = min(period_s, per_period / mean)
        self.rates = rates = rates[: max(int(most / (mean * self.period_s)), BUSY_PERIODS)]
        self.periods = len(rates)
        whole = np.rint(np.cumsum(rates * self.period_s, axis=0)).astype(np.int64)
        each = np.diff(whole, axis=0, prepend=0).ravel()
        cell = np.repeat(np.arange(each.size), each)
        place = np.arange(len(cell)) - np.repeat(np.cumsum(each) - each, each)
        period, source = np.divmod(cell, rates.shape[1])
        time = period + (place + 0.5) / each[cell]
        order = np.lexsort((source, time))
        self.time, self.period, self.source = time[order], period[order], source[order]
        self.count = len(order)
        self.names = np.array([arc.name for arc in network.arcs], dtype=object)
        self.levels = _levels(network)

    def measured(self, plan: Plan, size: int, rows: int) -> Measured:
        """Measure what a node lets through of so many items in batches."""
        drops = self.shed(plan, size, rows)
        return measure(self.network, self.rates[: len(drops)], drops)

    def shed(self, plan: Plan, size: int, rows: int) -> FloatArray:
        """Offer so many of the items in batches; return the drops made on each arc, by period."""
        periods = int(self.period[rows - 1]) + 1 if 0 < rows < self.count else len(self.rates)
        offered, kept = np.zeros((2, periods, len(self.names)), dtype=np.int64)
        carried = np.zeros((len(self.network.streams), 1))
        node = self._node(plan, min(size, rows))
        believed: list[FloatArray] = []
        arrived = np.zeros((-(-rows // size), periods))
        for start in range(0, rows, size):
            part = slice(start, min(start + size, rows))
            first, last = int(self.period[start]), int(self.period[part.stop - 1])
            node.now_s = self.time[part.stop - 1] * self.period_s
            width = last - first + 1
            flows = np.zeros((len(carried), width), dtype=np.int64)
            np.add.at(flows, (self.source[part], self.period[part] - first), 1)
            arrived[len(believed), first : last + 1] = flows.sum(axis=0)
            for level in self.levels:
                counts = flows[level.streams]
                if not counts.any():
                    continue
                cell = np.repeat(np.arange(counts.size), counts.ravel())
                keep = node.offer({"arc": self.names[level.arcs[cell // width]]})
                passed = np.bincount(cell[keep], minlength=counts.size).reshape(counts.shape)
                offered[first : last + 1, level.arcs] += counts.T
                kept[first : last + 1, level.arcs] += passed.T
                out = np.cumsum(level.gains @ passed, axis=1) + carried[level.made]
                whole = np.floor(out + 1e-9)
                carried[level.made] = out[:, -1:] - whole[:, -1:]
                flows[level.made] = np.diff(whole, axis=1, prepend=0.0)
            rates: Any = node.path.load
            believed.append(self.network.rate_vector(rates))
        self.followed = np.array(believed).reshape(-1, self.rates.shape[1]), arrived
        share = kept / np.maximum(offered, 1)
        return np.where(offered > kept, 1.0 - share / self.network.window_overhead, 0.0)

    def instead(self, rule: Callable[[QueryNetwork, FloatArray], FloatArray]) -> Measured:
        """Measure what other drops do, at the rates that the node believed in when it last shed."""
        believed, arrived = self.followed
        of_period = arrived / np.maximum(arrived.sum(axis=0), 1.0)
        drops = of_period.T @ rule(self.network, believed)
        return measure(self.network, self.rates[: len(drops)], drops)

    def _node(self, plan: Plan, first: int) -> rehearsal.Rehearsal:
        """Return a node that has seen the mirror image of the beginning, in batches as long."""
        monitor = RateMonitor(period_s=self.period_s)
        if first:
            every_s = max(self.time[first - 1] * self.period_s, self.period_s)
            for k in reversed(range(min(monitor.periods, len(self.rates)))):
                named = zip(self.network.input_ids, self.rates[k] * every_s, strict=True)
                monitor.before(-k * every_s, dict(named))
        return rehearsal.Rehearsal(plan, "fit", throttle=monitor)


class _Level(NamedTuple):
    """Operators that read only what inputs and operators before them make."""

    arcs: IntArray
    streams: IntArray  # of the arcs
    made: IntArray  # streams of the operators
    gains: FloatArray  # (operators, arcs)


def _levels(network: QueryNetwork) -> list[_Level]:
    depth: dict[str, int] = dict.fromkeys(network.input_ids, 0)
    for operator in network.order:
        depth[operator.id] = 1 + max(depth[stream] for stream in operator.inputs)
    place = {stream: k for k, stream in enumerate(network.streams)}
    levels = []
    for d in range(1, max(depth.values()) + 1):
        operators = [o for o in network.order if depth[o.id] == d]
        arcs = [a for o in operators for a in network.arcs_into[o.id]]
        gains = np.zeros((len(operators), len(arcs)))
        for row, o in enumerate(operators):
            for port, arc in enumerate(network.arcs_into[o.id]):
                gains[row, arcs.index(arc)] = o.gain(port)
        streams = [place[network.arcs[a].stream] for a in arcs]
        made = [place[o.id] for o in operators]
        levels.append(_Level(np.array(arcs), np.array(streams), np.array(made), gains))
    return levels


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
    servers = [node.id for node in network.nodes]
    asked = np.zeros((len(rates), len(servers) + len(network.links)))

    def lose(arcs: list[int], place: int, share: FloatArray) -> None:
        asked[:, place] = share
        effective[:, arcs] = 1.0 - (1.0 - effective[:, arcs]) / np.maximum(share, 1.0)[:, None]

    for name in server_order(network):
        for k, link in enumerate(network.links):
            if link.target == name:
                between = graph.arcs_between(network, link.source, name).values()
                sent = network.evaluate_many(rates, effective).links[:, k]
                lose([a for arcs in between for a in arcs], len(servers) + k, sent / link.capacity)
        k = servers.index(name)
        work = network.evaluate_many(rates, effective).loads[:, k]
        lose(_entering(network, name), k, work / network.nodes[k].capacity)
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
    """Return the share of its offered work that was let through to the busiest server or link."""
    offered = (rates @ shedding_program(network).use_per_tuple.T).mean(axis=0)
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
