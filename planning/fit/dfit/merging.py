"""Merge the children's tables and map them to a server's inputs (Section 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.dfit.point_quadtree import undominated
from planning.fit.dfit.sampling import Sampling
from planning.fit.dfit.servers import Server
from planning.fit.dfit.tables import (
    CHUNK,
    FULL,
    Bound,
    Table,
    check_product,
    check_rows,
    zero_rate,
)
from planning.fit.model import Operator, arc_name


def merge_tables(
    server: Server,
    children: Mapping[str, Table],
    sampling: Sampling,
    bound: Bound | None,
    max_rows: int,
) -> Table:
    """Combine the children's rows and map them to the server's inputs (Section 6.3).

    Rows of equal rates keep the best score; no row is merged with a merely similar one, because
    that would add error. The server's own outputs are sampled like one-column children.
    """
    names = tuple(sorted(server.children))
    outputs = [
        sampling.samples(f"{o.id}@{server.id}", sampling.highest[f"{o.id}@{server.id}"])
        for o in server.outputs
    ]
    sizes = [children[name].count for name in names] + [len(samples) for samples in outputs]
    merges = sum(len(o.inputs) - 1 for o in server.operators if o.is_merge)
    check_product(server.id, [*sizes, *[len(division_shares(sampling))] * merges], 2e7)
    mapper = _Mapper(server, names, children, sampling)
    if bound is None and server.parent is None:
        bound = Bound(mapper.raw_use())
    zeros = mapper.zeros()
    kept: _Rows | None = None
    total = int(np.prod(sizes)) if sizes else 1
    for first in range(0, total, CHUNK):
        index = np.arange(first, min(first + CHUNK, total))
        rows = mapper.map(np.stack(np.unravel_index(index, sizes), axis=1), outputs)
        if bound is not None:
            rows = rows.take(bound.keeps(rows.rates, sampling.raised(rows.rates, zeros)))
        kept = rows.best() if kept is None else kept.joined(rows).best()
        check_rows(server.id, len(kept.rates), max_rows)
    assert kept is not None
    if len(kept.rates) <= CHUNK:
        kept = kept.take(undominated(kept.rates, kept.score))
    score, raw_use = kept.score, mapper.raw_use()
    own = (mapper.arcs, kept.keep, names, kept.rows)
    return Table(server.id, server.inputs, kept.rates, score, raw_use, zeros, *own)


class _Rows(NamedTuple):
    rates: FloatArray
    score: FloatArray
    keep: FloatArray
    rows: IntArray

    def take(self, chosen: BoolArray | IntArray) -> _Rows:
        return _Rows._make(column[chosen] for column in self)

    def joined(self, other: _Rows) -> _Rows:
        return _Rows._make(np.concatenate(pair) for pair in zip(self, other, strict=True))

    def best(self) -> _Rows:
        """Keep the row of highest score among those of equal rates, ordered by rates."""
        digits = np.round(self.rates, 12)
        order = np.lexsort((-self.score, *digits.T[::-1]))
        sorted_rates = digits[order]
        fresh = np.ones(len(order), dtype=np.bool_)
        if len(order) > 1:
            fresh[1:] = (sorted_rates[1:] != sorted_rates[:-1]).any(axis=1)
        return self.take(order[fresh])


class _Mapper:
    """Maps rates demanded at a server's outputs back to its inputs."""

    def __init__(
        self,
        server: Server,
        names: tuple[str, ...],
        children: Mapping[str, Table],
        sampling: Sampling,
    ) -> None:
        self.server, self.names, self.children, self.sampling = server, names, children, sampling
        network = server.alone(sampling.highest)
        self.network = network
        own = [a.name for a in network.arcs if not a.to_output]
        ports = [f"{stream}@{name}" for name in names for stream in children[name].inputs]
        self.arcs = (*own, *ports)
        self.column = {name: k for k, name in enumerate(self.arcs)}

    def map(self, combination: IntArray, outputs: list[FloatArray]) -> _Rows:
        """Map row numbers of all children (and its own output samples) to rows of this server."""
        rows = combination[:, : len(self.names)]
        demand: dict[str, list[FloatArray]] = {o.id: [] for o in self.server.operators}
        ports: dict[str, FloatArray] = {}
        for k, name in enumerate(self.names):
            table = self.children[name]
            for j, stream in enumerate(table.inputs):
                ports[f"{stream}@{name}"] = table.rates[rows[:, k], j]
                demand[stream].append(ports[f"{stream}@{name}"])
        for k, (output, samples) in enumerate(zip(self.server.outputs, outputs, strict=True)):
            demand[output.stream].append(samples[combination[:, len(self.names) + k]])
        backward = _Backward(self.server, demand, len(combination), self.sampling)
        take = backward.take
        rates = np.stack([backward.stream(s) for s in self.server.inputs], axis=1)
        score = np.zeros(len(take))
        for k, name in enumerate(self.names):
            score += self.children[name].score[rows[take, k]]
        keep = np.ones((len(take), len(self.arcs)))
        for arc, flow in backward.arcs.items():
            keep[:, self.column[arc]] = _share(flow, backward.stream(arc.split("->")[0]))
        for port, flow in ports.items():
            keep[:, self.column[port]] = _share(flow[take], backward.stream(port.rsplit("@", 1)[0]))
        for output in self.server.outputs:
            score += output.weight * backward.stream(output.stream)
        good = backward.load() <= self.server.capacity * FULL
        for child, capacity in self.server.bandwidth.items():
            used = np.zeros(len(take))
            for stream in self.server.children.get(child, ()):
                size = next(o.size for o in self.server.operators if o.id == stream)
                used += size * ports[f"{stream}@{child}"][take]
            good &= used <= capacity * FULL
        good &= backward.possible
        return _Rows(rates, score, keep, rows[take]).take(good)

    def zeros(self) -> FloatArray:
        """Return, per input, a rate below which everything it feeds may be rounded to 0."""
        return self._gains(
            {
                **{
                    f"{s}@{name}": self.children[name].zeros[j]
                    for name in self.names
                    for j, s in enumerate(self.children[name].inputs)
                },
                **{
                    f"{o.stream}@": zero_rate(self.sampling, f"{o.id}@{self.server.id}")
                    for o in self.server.outputs
                },
            }
        )

    def _gains(self, zero_of: dict[str, float]) -> FloatArray:
        gains = self.server.gains()
        zeros = np.zeros(len(self.server.inputs))
        for port, zero in zero_of.items():
            gain = gains[port.split("@")[0]]
            positive = gain > 0
            zeros[positive] = np.maximum(zeros[positive], zero / gain[positive])
        return zeros

    def raw_use(self) -> FloatArray:
        """Share of each capacity of the subtree per input rate."""
        gains = self.server.gains()
        use = [self.server.use()]
        for child, capacity in self.server.bandwidth.items():
            sent = self.server.children.get(child, ())
            sizes = {o.id: o.size for o in self.server.operators}
            use.append(np.sum([sizes[s] * gains[s] for s in sent], axis=0) / capacity)
        for name in self.names:
            table = self.children[name]
            ports = np.array([gains[s] for s in table.inputs])
            use.extend(table.raw_use @ ports)
        return np.array(use)


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Kept share; 0/0 keeps all."""
    safe = np.where(whole > 1e-13, whole, 1.0)
    return np.where(whole > 1e-13, np.minimum(part / safe, 1.0), 1.0)


def division_shares(sampling: Sampling) -> FloatArray:
    """Return the shares that the first branch of a merge may contribute: (1 - spread)^k, and 0.

    Shares below the spread need no sample: the row one sample lower serves them with 0.
    """
    spread = sampling.spread
    steps = int(np.ceil(np.log(spread) / np.log1p(-spread)))
    return np.concatenate([(1.0 - spread) ** np.arange(steps + 1.0), [0.0]])


class _Backward:
    """Rates each operator must receive so that its stream meets the largest demand.

    A split passes the maximum of its branches; the rest is dropped on the other branches. A merge
    is tried with every division of its output over its inputs (``division_shares``).
    """

    def __init__(
        self,
        server: Server,
        demand: dict[str, list[FloatArray]],
        count: int,
        sampling: Sampling,
    ) -> None:
        self.server = server
        self.sampling = sampling
        self.take = np.arange(count)
        self.demand = demand
        self.inputs: dict[str, list[FloatArray]] = {s: [] for s in server.inputs}
        self.arcs: dict[str, FloatArray] = {}
        self.possible = np.ones(count, dtype=np.bool_)
        for operator in reversed(server.operators):
            self._receive(operator)

    def _receive(self, operator: Operator) -> None:
        wanted = self.stream(operator.id)
        rest = wanted
        last = len(operator.inputs) - 1
        for port, stream in enumerate(operator.inputs):
            part = rest
            if port < last:
                shares = division_shares(self.sampling)
                self._repeat(len(shares))
                rest = np.repeat(rest, len(shares))
                part = rest * np.tile(shares, len(rest) // len(shares))
                rest = rest - part
            gain = operator.gain(port)
            if gain > 0:
                flow = part / gain
            else:
                self.possible &= part <= 0.0
                flow = np.zeros(len(part))
            self.arcs[arc_name(stream, operator, port)] = flow
            (self.inputs if stream in self.inputs else self.demand)[stream].append(flow)

    def _repeat(self, times: int) -> None:
        self.take = np.repeat(self.take, times)
        self.possible = np.repeat(self.possible, times)
        for table in (self.demand, self.inputs):
            for stream, flows in table.items():
                table[stream] = [np.repeat(flow, times) for flow in flows]
        self.arcs = {arc: np.repeat(flow, times) for arc, flow in self.arcs.items()}

    def stream(self, name: str) -> FloatArray:
        """Largest rate demanded of a stream, which its consumers then see arrive."""
        flows = self.inputs[name] if name in self.inputs else self.demand[name]
        if not flows:
            return np.zeros(len(self.take))
        return np.asarray(np.max(flows, axis=0))

    def load(self) -> FloatArray:
        """CPU that the server spends."""
        total = np.zeros(len(self.take))
        for operator in self.server.operators:
            for port, stream in enumerate(operator.inputs):
                total += operator.cost * self.arcs[arc_name(stream, operator, port)]
        return total
