"""The optimum by HiGHS, objective after objective, in the rates that pass each arc (Section 3).

Independent of the product: scipy's solver, and a formulation of its own. Every variable is in units
of what the arc can carry at most: the stream's rate, or what fills a capacity, so that the
library's tolerances mean something.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs
from scipy.optimize import linprog

from benchmarks.fit.networks import random_network
from planning.fit import QueryNetwork
from planning.fit.network.graph import arcs_between, fragments

KEPT = (1e-11, 1e-10, 1e-9)
"""What an objective may lose to those after it, as a part of one: the least that HiGHS can keep.

Later objectives gain by it, at the price of the earlier ones: 1e-9 makes up to 1.5e-6 of a
throughput.
"""

TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")


def asking(rng: np.random.Generator, most: float = 0.9, **more: int | bool) -> QueryNetwork:
    """Return a random network whose outputs ask for minimums, at two or three priorities.

    ``most`` is the largest minimum as a share of what the highest rates bring to an output.
    """
    drawn = random_network(rng, **more)  # type: ignore[arg-type]
    full = drawn.evaluate(drawn.max_rates).outputs
    outputs = tuple(
        structs.replace(
            output,
            priority=int(rng.integers(0, 3)),
            minimum=float(rng.choice([0.0, 1.0, 1.0]) * rng.uniform(0.01, most) * full[output.id]),
        )
        for output in drawn.outputs
    )
    return structs.replace(drawn, outputs=outputs)


def best_throughput(network: QueryNetwork, rates: np.ndarray) -> float:
    """Return the highest weighted throughput after all that is more important."""
    shortfalls, throughputs = best_levels(network, rates)
    return sum(throughputs.values())


def levels(
    network: QueryNetwork, rates: np.ndarray, outputs: dict[str, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return what outputs mean: per priority, the largest shortfall and the weighted throughput.

    A shortfall is what is missing of the minimum, as a part of it; what the rates themselves do not
    bring is not missed.
    """
    full = network.evaluate(rates).outputs
    shortfalls: dict[int, float] = {}
    throughputs: dict[int, float] = {}
    for output in network.outputs:
        reached, priority = outputs[output.id], output.priority
        throughputs[priority] = throughputs.get(priority, 0.0) + output.weight * reached
        if output.minimum > 0.0:
            missing = (min(output.minimum, full[output.id]) - reached) / output.minimum
            shortfalls[priority] = max(shortfalls.get(priority, 0.0), missing)
    return shortfalls, throughputs


def best_by_parts(
    network: QueryNetwork, rates: np.ndarray
) -> list[tuple[QueryNetwork, dict[int, float], dict[int, float]]]:
    """Return :func:`best_levels` of every part that shares no server, link or stream."""
    places = {name: k for k, name in enumerate(network.input_ids)}
    return [
        (part, *best_levels(part, rates[[places[i] for i in part.input_ids]]))
        for part in fragments(network)
    ]


def best_levels(
    network: QueryNetwork, rates: np.ndarray
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the least shortfalls by priority, from high to low, and then the throughputs."""
    arcs = network.arcs
    most = np.zeros(len(arcs))  # tuples/s that an arc carries at most
    streams = dict(zip(network.input_ids, rates.tolist(), strict=True))
    capacity = {n.id: n.capacity for n in network.nodes}
    for operator in network.order:
        total = 0.0
        for port, a in enumerate(network.arcs_into[operator.id]):
            fills = capacity[operator.node] / operator.cost if operator.cost > 0 else np.inf
            most[a] = min(streams[arcs[a].stream], fills)
            total += operator.gain(port) * most[a]
        streams[operator.id] = total
    for a, arc in enumerate(arcs):
        if arc.to_output:
            most[a] = streams[arc.stream]
    groups = [
        (link, stream, between)
        for link in network.links
        for stream, between in arcs_between(network, link.source, link.target).items()
    ]
    priorities = sorted({o.priority for o in network.outputs}, reverse=True)
    first = len(arcs) + len(groups)
    short = {p: first + k for k, p in enumerate(priorities)}
    carried = [max(most[between]) for _, _, between in groups]
    unit = np.concatenate([most, carried, np.ones(len(priorities))])
    unit = np.maximum(unit, 1e-300)
    rows, bounds = [], []

    def at_most(entries: dict[int, float], bound: float) -> None:
        row = np.zeros(len(unit))
        for k, value in entries.items():
            row[k] += value * unit[k]
        largest = np.abs(row).max()
        if largest > 0:
            rows.append(row / largest)
            bounds.append(bound / largest)

    for node in network.nodes:
        own = [o for o in network.operators if o.node == node.id]
        at_most({a: o.cost for o in own for a in network.arcs_into[o.id]}, node.capacity)
    for a, arc in enumerate(arcs):
        if network.node_of[arc.stream] is not None:
            operator = network.operator[arc.stream]
            above = enumerate(network.arcs_into[arc.stream])
            at_most({a: 1.0, **{b: -operator.gain(port) for port, b in above}}, 0.0)
    for link in network.links:
        sent = {k: stream for k, (of, stream, _) in enumerate(groups, len(arcs)) if of is link}
        at_most({k: network.operator[s].size for k, s in sent.items()}, link.capacity)
    for k, (_, _, between) in enumerate(groups, len(arcs)):
        for a in between:
            at_most({a: 1.0, k: -1.0}, 0.0)
    full = network.evaluate(rates).outputs
    reaching = {o.id: network.arc_index[f"{o.stream}->{o.id}"] for o in network.outputs}
    for output in network.outputs:
        if output.minimum > 0.0:
            wanted = min(output.minimum, full[output.id])
            row = {reaching[output.id]: -1.0, short[output.priority]: -output.minimum}
            at_most(row, -wanted)

    reached: list[float] = []

    def best(gain: np.ndarray) -> float:
        """Maximise an objective and keep what it reached."""
        highest = np.abs(gain).max(initial=0.0)
        if highest == 0.0:
            return 0.0
        for slack in KEPT:
            done = linprog(
                -gain / highest,
                A_ub=np.array(rows) if rows else None,
                b_ub=[*bounds, *(value + slack for value in reached)] or None,
                bounds=[(0.0, 1.0)] * len(unit),
                method="highs-ds",
                options=dict.fromkeys(TOLERANCES, 1e-10),
            )
            if done.status == 0:
                break
        assert done.status == 0, done.message
        rows.append(-gain / highest)
        reached.append(done.fun)
        return float(-done.fun * highest)

    asked = {o.priority for o in network.outputs if o.minimum > 0.0}
    shortfalls = {p: -best(-np.eye(len(unit))[short[p]]) for p in priorities if p in asked}
    throughputs = {}
    for priority in priorities:
        gain = np.zeros(len(unit))
        for output in network.outputs:
            if output.priority == priority:
                gain[reaching[output.id]] += output.weight
        throughputs[priority] = best(gain * unit)
    return shortfalls, throughputs
