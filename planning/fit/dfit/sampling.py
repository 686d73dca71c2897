"""Where feasible input tables are sampled, and the error budget behind it.

The paper's samples mfr * (1 - epsilon)^k never reach 0, so rates below some floor would find no
row. Here 0.8 epsilon pays for the spread between samples and 0.2 epsilon for the floors, together
worth that share of the smallest optimum any overloaded rate vector can have. Merges on servers with
children are sampled once more, so the spread is divided further. Samples are powers of (1 - spread)
on an absolute scale: a change of costs or selectivities moves the edge of a table, not its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray
from planning.errors import check_between
from planning.fit.dfit.servers import Server, servers_of
from planning.fit.model import MethodLimit
from planning.fit.network import QueryNetwork, graph
from planning.fit.simplex.shedding import SheddingProgram, shedding_program
from planning.fit.simplex.warm import WarmSimplex

SPREAD_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Sampling:
    """What all servers agree on before they build tables.

    ``floors`` and ``highest`` give, per port (``stream@server``), the rate below which a stream
    counts as nothing and the rate it has when nothing is dropped at the highest input rates.
    """

    error: float
    spread: float
    rounds: int
    floors: dict[str, float]
    highest: dict[str, float]

    def samples(self, port: str, top: float) -> FloatArray:
        """Return 0 and the sample rates of a port up to ``top``, ascending.

        >>> Sampling(0.1, 0.5, 1, {"a@A": 0.2}, {}).samples("a@A", 1.0)
        array([0.   , 0.125, 0.25 , 0.5  , 1.   ])
        """
        floor = self.floors[port]
        if not math.isfinite(floor) or floor >= top:
            return np.zeros(1)
        step = math.log1p(-self.spread)
        first = math.ceil(math.log(floor) / step - 1e-9)
        last = math.ceil(math.log(top) / step - 1e-9)
        return np.concatenate([[0.0], (1.0 - self.spread) ** np.arange(first, last - 1, -1.0)])

    def raised(self, rows: FloatArray, zeros: FloatArray) -> FloatArray:
        """Return rows with every coordinate one sample higher; 0 becomes ``zeros``."""
        factor = (1.0 - self.spread) ** -self.rounds
        return np.where(rows > 0, rows * factor, zeros)


def smallest_optimum(program: SheddingProgram) -> float:
    """Return a lower bound on the optimum over all overloaded rate vectors.

    The optimum is concave and grows with the rates, so over {load = capacity} it is smallest at a
    corner: one input alone that fills one server.
    """
    valued = np.flatnonzero(program.valued_inputs)
    corners = [
        np.eye(1, len(program.max_rates), int(k))[0] / use[k]
        for use in program.raw_use
        for k in valued
        if use[k] > 0
    ]
    if not corners:
        return math.inf
    points = np.array(corners)
    return float(program.throughput(points, WarmSimplex(program).dropped(points)).min())


def plan_sampling(network: QueryNetwork, error: float) -> Sampling:
    """Divide the error budget over a tree of servers; refuse what tables cannot bound."""
    check_between("error", error, 0, 1, open_low=True)
    if network.tree_problem:
        raise MethodLimit(
            f"servers must form a tree for feasible input tables, but {network.tree_problem}; "
            "use regions, simplex or solver"
        )
    network.check_plain("c_fit")
    servers = servers_of(network)
    rounds = 1 + _merges(network, servers)
    spread = 1.0 - (1.0 - SPREAD_SHARE * error) ** (1.0 / rounds)
    budget = (1.0 - SPREAD_SHARE) * error * smallest_optimum(shedding_program(network))
    values = _values(network)
    flows = network.evaluate_many(network.max_rates[None, :], np.zeros((1, len(network.arcs))))
    highest: dict[str, float] = {}
    worth: dict[str, float] = {}
    for server in servers.values():
        entering = graph.arcs_into(network, server.id)
        for stream in server.inputs:
            arcs = [a for a in entering if network.arcs[a].stream == stream]
            highest[f"{stream}@{server.id}"] = float(flows.arcs[0, arcs[0]])
            if not server.children:
                worth[f"{stream}@{server.id}"] = sum(values[a] for a in arcs)
        if server.children:
            for output in server.outputs:
                arc = network.arc_index[f"{output.stream}->{output.id}"]
                highest[f"{output.id}@{server.id}"] = float(flows.arcs[0, arc])
                worth[f"{output.id}@{server.id}"] = output.weight
    floors = {
        port: float(budget / (len(worth) * value)) if value > 0 else math.inf
        for port, value in worth.items()
    }
    return Sampling(error, spread, rounds, floors, highest)


def _values(network: QueryNetwork) -> FloatArray:
    """Weighted throughput per tuple that passes each arc, nothing dropped below it."""
    values = np.zeros(len(network.arcs))
    for output in network.outputs:
        values[network.arc_index[f"{output.stream}->{output.id}"]] = output.weight
    for operator in reversed(network.order):
        below = sum(values[a] for a in network.arcs_from[operator.id])
        for port, arc in enumerate(network.arcs_into[operator.id]):
            values[arc] = operator.gain(port) * below
    return values


def _merges(network: QueryNetwork, servers: dict[str, Server]) -> int:
    """Most binary merges on one path through servers that have children."""
    deep: dict[str, int] = dict.fromkeys(network.input_ids, 0)
    for operator in network.order:
        own = len(operator.inputs) - 1 if servers[operator.node].children else 0
        deep[operator.id] = own + max(deep[stream] for stream in operator.inputs)
    return max(deep.values())
