"""Feasible input tables: made at leaves, merged and propagated towards the inputs (Section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.dfit.point_quadtree import undominated
from planning.fit.dfit.sampling import Sampling
from planning.fit.dfit.servers import Server
from planning.fit.kernels.drops import fractions
from planning.fit.model import MethodLimit
from planning.fit.simplex.dual import (
    OPTIMAL,
    REFRESH,
    Basis,
    Problem,
    reoptimise,
    start,
    values,
)
from planning.fit.simplex.shedding import Arrivals, shedding_program

CHUNK = 200_000
FULL = 1.0 + 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Row k: with ``rates[k]`` at its inputs, the server and all below it are feasible.

    ``keep`` is the complementary local plan: the share kept on each of ``arcs``, which are the
    arcs into the server's own operators and its ports to children (``stream@child``). ``rows``
    names the row of each child's table that the plan serves.
    """

    server: str
    inputs: tuple[str, ...]
    rates: FloatArray
    score: FloatArray
    raw_use: FloatArray  # share of every capacity in the subtree per input rate, nothing dropped
    zeros: FloatArray  # a rate below which an input may have been rounded to 0
    arcs: tuple[str, ...]
    keep: FloatArray
    children: tuple[str, ...] = ()
    rows: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    @property
    def count(self) -> int:
        """How many rows the table has."""
        return len(self.rates)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """What is known about other servers, per rate at this server's inputs.

    A row can matter only if the rates one sample above it overload something (``use`` > 1) and if
    the servers above can deliver it (``limit`` <= 1).
    """

    use: FloatArray
    limit: FloatArray | None = None

    def keeps(self, rows: FloatArray, raised: FloatArray) -> BoolArray:
        """Whether each row can matter."""
        kept = (raised @ self.use.T > 1.0).any(axis=1)
        if self.limit is not None:
            kept &= (rows @ self.limit.T <= FULL).all(axis=1)
        return np.asarray(kept)


def leaf_table(server: Server, sampling: Sampling, bound: Bound | None, max_rows: int) -> Table:
    """Sample the feasible inputs of a server without children, with local plans for its splits.

    At the input server, and below it where ``bound`` says so, only rows are kept that become
    infeasible when *all* their coordinates are raised by one sample.

    Splits are shed by the optimal local plan (the paper's greedy order of quality/load ratios finds
    the same where no merge precedes a split).
    """
    local = _LocalPlans(server, sampling)
    raw_use = local.program.use_per_tuple
    if bound is None and server.parent is None:
        bound = Bound(raw_use)
    zeros = np.array([zero_rate(sampling, f"{s}@{server.id}") for s in server.inputs])
    axes = []
    for k, stream in enumerate(server.inputs):
        port = f"{stream}@{server.id}"
        axes.append(_reachable(local, k, sampling.samples(port, sampling.highest[port])))
    check_product(server.id, [len(a) for a in axes])
    feasible: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    total = 0
    for rows in _product(axes):
        if bound is not None:
            rows = rows[bound.keeps(rows, sampling.raised(rows, zeros))]
        good, keep = local.plans(rows)
        feasible.append((rows[good], local.score(rows[good], keep), keep))
        total += int(good.sum())
        check_rows(server.id, total, max_rows)
    rates, score, keep = (np.concatenate(column) for column in zip(*feasible, strict=True))
    if local.splits:  # only local plans can make more input worth less
        kept = undominated(rates, score)
        rates, score, keep = rates[kept], score[kept], keep[kept]
    return Table(server.id, server.inputs, rates, score, raw_use, zeros, local.arcs, keep)


def zero_rate(sampling: Sampling, port: str) -> float:
    """Return the rate below which a port's stream may have been rounded to 0.

    A stream without value has none: it is dropped whole before any table is consulted.
    """
    floor = sampling.floors[port]
    return min(floor, sampling.highest[port]) if np.isfinite(floor) else 0.0


def check_product(server: str, sizes: list[int], most: float = 4e8) -> None:
    """Refuse more sample points than can be examined."""
    points = float(np.prod([float(s) for s in sizes]))
    if points > most:
        raise MethodLimit(
            f"sample points of server {server} must number at most {most:.3g}, got {points:.3g} "
            f"({' x '.join(map(str, sizes))}); raise error, or use regions or simplex"
        )


def check_rows(server: str, rows: int, most: int) -> None:
    """Refuse tables beyond the limit."""
    if rows > most:
        raise MethodLimit(
            f"rows of the table of server {server} must number at most {most}, got more; raise "
            "max_rows or error, or use regions or simplex"
        )


def _product(axes: list[FloatArray]) -> Iterator[FloatArray]:
    """Yield all combinations of samples in chunks of rows."""
    sizes = [len(axis) for axis in axes]
    total = int(np.prod(sizes))
    for first in range(0, total, CHUNK):
        index = np.arange(first, min(first + CHUNK, total))
        digits = np.unravel_index(index, sizes)
        yield np.stack([axis[d] for axis, d in zip(axes, digits, strict=True)], axis=1)


def _reachable(local: _LocalPlans, k: int, samples: FloatArray) -> FloatArray:
    """Cut samples above the maximum feasible rate (after local plans) of one input."""
    alone = np.zeros((len(samples), len(local.server.inputs)))
    alone[:, k] = samples
    return samples[local.plans(alone)[0]]


class _LocalPlans:
    """Optimal drops at a leaf's splits for given input rates."""

    def __init__(self, server: Server, sampling: Sampling) -> None:
        self.server = server
        network = server.alone(sampling.highest)
        self.program = shedding_program(network)
        self.arcs = tuple(a.name for a in network.arcs if not a.to_output)
        self.network = network
        single = [s for s in network.input_ids if len(network.arcs_from[s]) == 1]
        self.upper = self.program.upper.copy()
        for k, arc in enumerate(self.program.locations):
            if network.arcs[arc].stream in single:
                self.upper[k] = 0.0  # an input's own arc is shed by the parent
        self.splits = bool(
            any(network.arcs[a].stream not in single for a in self.program.locations)
        )

    def plans(self, rows: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Return which rows are feasible (with a plan), and the shares kept for those."""
        scaled = rows / self.program.max_rates
        fits = np.asarray((scaled @ self.program.raw_use.T <= FULL).all(axis=1))
        good = fits.copy()
        keep = np.ones((len(rows), len(self.arcs)))
        if self.splits and not fits.all():
            over = np.flatnonzero(~fits)
            dropped = np.zeros((len(over), self.program.location_count))
            status = np.empty(len(over), dtype=np.int64)
            program = self.program
            _solve_locally(
                Problem(program.tableau, program.cost, self.upper, program.bounded),
                np.ascontiguousarray(scaled[over]),
                program.arrivals,
                dropped,
                status,
            )
            good[over] = status == OPTIMAL
            keep[np.ix_(over, self.program.locations)] = 1.0 - dropped
        return good, keep[good]

    def score(self, rows: FloatArray, keep: FloatArray) -> FloatArray:
        """Weighted throughput of rows with their plans."""
        drops = np.zeros((len(rows), len(self.network.arcs)))
        drops[:, : len(self.arcs)] = 1.0 - keep
        return self.network.evaluate_many(rows, drops).throughput


@njit(cache=True)
def _solve_locally(
    problem: Problem,
    rates: FloatArray,
    arrivals: Arrivals,
    out: FloatArray,
    status: IntArray,
) -> None:
    rows, columns = problem.tableau.shape[0], problem.cost.shape[1]
    state = Basis(
        problem.tableau.copy(),
        problem.cost.copy(),
        np.empty(rows, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty(rows + columns, dtype=np.int64),
    )
    variables = np.zeros(columns)
    pivots = 0
    for k in range(rates.shape[0]):
        if k == 0 or pivots > REFRESH:
            start(problem, state)
            pivots = 0
        limit = 50 * (rows + columns)
        status[k], count = reoptimise(state, problem.upper, problem.bounded, rates[k], limit)
        pivots += count
        values(state, problem.upper, rates[k], variables)
        fractions(arrivals, rates[k], variables, out[k])
