"""One D-FIT server: its table, its deltas to the parent, and its drops each control period.

A server knows its own operators, the agreed sampling, and the tables its children sent. Every
control period it measures its input rates, looks up the best row, sheds for itself and for all
servers below, and sends the rest on. Three rules keep every server safe without trusting its
neighbours: it sheds by its own table whatever arrives, a parent sheds for an overloaded child even
when its own CPU is idle, and a child that does not answer counts as one that wants nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput
from planning.fit.dfit import point_quadtree
from planning.fit.dfit.chains import MARGIN
from planning.fit.dfit.merging import merge_tables
from planning.fit.dfit.sampling import Sampling
from planning.fit.dfit.servers import Server
from planning.fit.dfit.tables import FULL, Bound, Table, leaf_table
from planning.fit.kernels.lookup import best_below
from planning.fit.model import arc_name
from planning.fit.path import MATCH, PointQuadtree

MAX_ROWS = 2_000_000


class Delta(msgspec.Struct, frozen=True):
    """Rows of a table that changed since the last message; a full table replaces all rows.

    A row is named by its rates: points of the sample grid do not move when costs change. Scores
    travel as value per input rate; only rows with a local plan, whose score is not linear, carry
    their own. Rows that the new loads (``raw_use``) make infeasible need not be named.
    """

    full: bool
    inputs: tuple[str, ...]
    added: list[list[float]]
    scores: list[float | None]
    removed: list[list[float]]
    value: list[float]
    raw_use: list[list[float]]
    zeros: list[float]


@dataclass(slots=True, eq=False)
class Known:
    """A table as the parent knows it: rates with scores, no local plans."""

    inputs: tuple[str, ...]
    rows: dict[tuple[float, ...], float | None] = field(default_factory=dict)
    value: FloatArray = field(default_factory=lambda: np.zeros(0))
    raw_use: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    zeros: FloatArray = field(default_factory=lambda: np.zeros(0))

    def apply(self, delta: Delta) -> None:
        """Apply a delta."""
        if delta.full:
            self.rows = {}
        for row in delta.removed:
            self.rows.pop(tuple(row), None)
        for row, score in zip(delta.added, delta.scores, strict=True):
            self.rows[tuple(row)] = score
        self.value, self.zeros = np.array(delta.value), np.array(delta.zeros)
        self.raw_use = np.array(delta.raw_use).reshape(-1, len(self.inputs))
        self.rows = {row: s for row, s in self.rows.items() if not withdrawn(row, s, self.raw_use)}

    def table(self, server: str) -> Table:
        """Return it as a table without local plans."""
        rates = np.array(sorted(self.rows)).reshape(-1, len(self.inputs))
        own = [self.rows[tuple(row)] for row in rates.tolist()]
        linear = rates @ self.value
        score = np.array([linear[k] if s is None else s for k, s in enumerate(own)])
        nothing = np.zeros((len(rates), 0))
        return Table(server, self.inputs, rates, score, self.raw_use, self.zeros, (), nothing)


def withdrawn(row: tuple[float, ...], score: float | None, raw_use: FloatArray) -> bool:
    """Whether a row without local plan is now infeasible: both sides see that by the new loads."""
    return score is None and bool((raw_use @ np.array(row) > FULL).any())


def absent(inputs: tuple[str, ...]) -> Known:
    """Return the table of a child that is down: it wants nothing and gives nothing.

    >>> absent(("a",)).table("B").rates
    array([[0.]])
    """
    count = len(inputs)
    return Known(
        inputs, {(0.0,) * count: None}, np.zeros(count), np.zeros((0, count)), np.zeros(count)
    )


class DFitServer:
    """The planning and shedding of one server, without any transport."""

    def __init__(self, server: Server, sampling: Sampling, bound: Bound | None = None) -> None:
        self.server = server
        self.sampling = sampling
        self.bound = bound
        self.children: dict[str, Known] = {}
        self.down: set[str] = set()
        self.table: Table | None = None
        self.drops: dict[str, float] = {}
        self.scale: dict[str, float] = {}
        self._sent: dict[tuple[float, ...], float | None] | None = None
        self._value = np.zeros(len(server.inputs))
        self._index: PointQuadtree | None = None
        self._order: IntArray = np.zeros(0, dtype=np.int64)

    @property
    def ready(self) -> bool:
        """Whether every child has sent a table (or is known to be down)."""
        return all(c in self.children or c in self.down for c in self.server.children)

    def change(self, operators: dict[str, dict[str, Any]]) -> None:
        """Replace costs or selectivities of this server's operators, as newly measured."""
        known = {o.id for o in self.server.operators}
        unknown = sorted(set(operators) - known)
        if unknown:
            raise InvalidInput(f"operators must be on server {self.server.id}, got {unknown}")
        changed = [structs.replace(o, **operators.get(o.id, {})) for o in self.server.operators]
        self.server = structs.replace(self.server, operators=tuple(changed))
        self.learn(self.server.use())

    def learn(self, above: FloatArray) -> bool:
        """Learn what a server now uses per rate at this server's inputs (a chain only).

        The feasibility triangle shrinks where they can take less: one that is too large would lose
        rows, one that is too small only keeps more. Returns whether anything is new.
        """
        if self.bound is None or (above <= self.bound.use * (1 + 1e-12)).all():
            return False
        self.bound = Bound(np.maximum(self.bound.use, MARGIN * above))
        return True

    def use_above(self, child: str) -> FloatArray:
        """Return the most that this server or one above it uses per rate at a child's inputs."""
        use = self.server.use()
        if self.bound is not None:
            use = np.maximum(use, self.bound.use.max(axis=0) / MARGIN)
        gains = self.server.gains()
        sources = {stream: int(np.argmax(gains[stream])) for stream in self.server.children[child]}
        return np.array([use[k] / gains[stream][k] for stream, k in sources.items()])

    def receive(self, child: str, delta: Delta) -> None:
        """Take a child's table or delta; a child that sends is up."""
        if child not in self.server.children:
            raise InvalidInput(
                f"child must be one of {', '.join(sorted(self.server.children))}, got {child!r}"
            )
        known = self.children.get(child)
        if known is None or delta.full:
            known = self.children[child] = Known(delta.inputs)
        known.apply(delta)
        self.down.discard(child)

    def rebuild(self) -> Table:
        """Build this server's table from what is known now."""
        if self.server.children:
            below = {}
            for child, streams in self.server.children.items():
                known = self.children.get(child)
                if known is None or child in self.down:
                    known = absent(streams)
                below[child] = known.table(child)
            table = merge_tables(self.server, below, self.sampling, self.bound, MAX_ROWS)
        else:
            table = leaf_table(self.server, self.sampling, self.bound, MAX_ROWS)
        self.table = table
        self._value = self._linear_value(table)
        self._index, self._order = point_quadtree.build(table.rates, table.score)
        return table

    def _linear_value(self, table: Table) -> FloatArray:
        """Score per input rate where nothing is dropped locally; what rows are compared with."""
        plain = (table.keep >= 1.0).all(axis=1)
        if not plain.any():
            return np.zeros(len(self.server.inputs))
        return np.asarray(np.linalg.lstsq(table.rates[plain], table.score[plain], rcond=None)[0])

    def delta(self, *, full: bool = False) -> Delta:
        """Return what the parent does not know yet, and remember it as sent."""
        table = self.table if self.table is not None else self.rebuild()
        linear = table.rates @ self._value
        close = np.abs(linear - table.score) <= 1e-9 * np.maximum(np.abs(table.score), 1e-12)
        current: dict[tuple[float, ...], float | None] = {
            tuple(row): None if same else float(score)
            for row, same, score in zip(
                table.rates.tolist(), close.tolist(), table.score.tolist(), strict=True
            )
        }
        before = {} if full or self._sent is None else self._sent
        added = [row for row, score in current.items() if row not in before or before[row] != score]
        removed = [
            row
            for row, score in before.items()
            if row not in current and not withdrawn(row, score, table.raw_use)
        ]
        message = Delta(
            full=full or self._sent is None,
            inputs=self.server.inputs,
            added=[list(row) for row in added],
            scores=[current[row] for row in added],
            removed=[list(row) for row in removed],
            value=self._value.tolist(),
            raw_use=table.raw_use.tolist(),
            zeros=table.zeros.tolist(),
        )
        self._sent = current
        return message

    def decide(self, rates: dict[str, float]) -> None:
        """Choose scaling and drops for the measured rates; they hold until the next decision."""
        table = self.table if self.table is not None else self.rebuild()
        vector = np.array([rates.get(s, 0.0) for s in self.server.inputs])
        self.scale = dict.fromkeys(self.server.inputs, 1.0)
        self.drops = {}
        if not (table.raw_use @ vector > 1.0).any():
            return
        vector = np.where(table.zeros > 0, vector, 0.0)  # streams without value go first
        worthless = [s for s, zero in zip(self.server.inputs, table.zeros, strict=True) if not zero]
        self.scale.update(dict.fromkeys(worthless, 0.0))
        if not (table.raw_use @ vector > 1.0).any():
            return
        row = self._best(vector)
        if row < 0:
            self.scale = dict.fromkeys(self.server.inputs, 0.0)
            return
        for k, stream in enumerate(self.server.inputs):
            if vector[k] > 0:
                self.scale[stream] = float(min(table.rates[row, k] / vector[k], 1.0))
        self.drops = {
            arc: 1.0 - float(keep)
            for arc, keep in zip(table.arcs, table.keep[row], strict=True)
            if keep < 1.0
        }

    def _best(self, vector: FloatArray) -> int:
        index = self._index
        assert index is not None
        stack = np.empty(len(index.points) + 1, dtype=np.int64)
        row = best_below(index, vector * (1.0 + MATCH), stack)
        return int(self._order[row]) if row >= 0 else -1

    def flow(self, rates: dict[str, float]) -> tuple[float, dict[str, dict[str, float]], float]:
        """Push rates through the server with the drops in force.

        Returns the CPU load, the rates sent to each child, and the throughput of its own outputs.
        """

        def kept(arc: str) -> float:
            return 1.0 - self.drops.get(arc, 0.0)

        streams = {s: rates.get(s, 0.0) * self.scale.get(s, 1.0) for s in self.server.inputs}
        load = 0.0
        for operator in self.server.operators:
            total = 0.0
            for port, stream in enumerate(operator.inputs):
                rate = streams[stream] * kept(arc_name(stream, operator, port))
                load += operator.cost * rate
                total += operator.gain(port) * rate
            streams[operator.id] = total
        sent = {
            child: {s: streams[s] * kept(f"{s}@{child}") for s in wanted}
            for child, wanted in self.server.children.items()
        }
        throughput = sum(o.weight * streams[o.stream] for o in self.server.outputs)
        return load, sent, throughput
