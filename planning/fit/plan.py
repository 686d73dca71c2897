"""The FIT plan: for every vector of input rates, the drop fraction on every arc.

A *load* is a rate vector (by input id, or in input order), or a scalar z in [0, 1]: z stands for
the rates in the observed direction at which the busiest server can afford the share z of its load.
At z = 1 that server is exactly full and nothing is shed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from planning.arrays import FloatArray
from planning.errors import check_between
from planning.fit import codec
from planning.fit.codec import METHODS, PlanDocument
from planning.fit.network import QueryNetwork, Rates
from planning.fit.path import Part

__all__ = ["METHODS", "Part", "Plan", "PlanDocument"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Coordinated drops for every load of a query network.

    ``error`` is the stated bound: 0 for exact methods, epsilon of the largest error for ``solver``
    and ``c_fit``, of the expected error for ``solver_w``.

    Examples
    --------
    >>> from planning.fit.demo import figure_1
    >>> from planning.fit.planner import plan_network
    >>> plan = plan_network(figure_1())
    >>> {arc: round(drop, 6) for arc, drop in plan.at([1.0, 1.0]).items()}  # Table 1's optimum
    {'i1->a1': 0.8, 'i2->a2': 0.6}
    >>> plan.at([0.1, 0.1]), round(plan.predicted_quality([1.0, 1.0]), 6)
    ({}, 0.3)
    """

    network: QueryNetwork
    method: str
    error: float
    reference: FloatArray  # rates that exactly fill the busiest server
    parts: tuple[Part, ...]

    @cached_property
    def _columns(self) -> list[tuple[Part, Any, Any]]:
        """Per part: its inputs among all inputs, and its arcs among all arcs."""
        columns = []
        for part in self.parts:
            inputs = [self.network.input_ids.index(i) for i in part.network.input_ids]
            whole = inputs == list(range(len(self.network.inputs)))
            arcs = [self.network.arc_index[a] if a else -1 for a in part.selector.arcs]
            positions = np.array(arcs, dtype=np.int64)
            columns.append((part, slice(None) if whole else inputs, positions))
        return columns

    def rates_at(self, load: float) -> FloatArray:
        """Return the rates that the scalar load z stands for; a z below 1e-6 counts as 1e-6."""
        z = check_between("load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage")
        return np.asarray(self.reference / max(z, 1e-6))

    def _vector(self, load: float | Rates) -> FloatArray:
        if isinstance(load, (int, float)):
            return self.rates_at(load)
        return self.network.rate_vector(load)

    def at(self, load: float | Rates) -> dict[str, float]:
        """Return the drop fraction per arc; absent arcs drop nothing.

        Rates above ``max_rate`` are outside the planned space: exact methods still give the
        optimum, the others scale them down to the edge first.
        """
        vector = self._vector(load)
        drops: dict[str, float] = {}
        for part, inputs, _ in self._columns:
            selector = part.selector
            fractions = selector.drops((vector[inputs] / part.program.max_rates)[None, :])[0]
            for arc, fraction in zip(selector.arcs, fractions.tolist(), strict=True):
                if fraction > 0.0 and arc:
                    drops[arc] = fraction
        return drops

    def at_many(self, rates: FloatArray) -> FloatArray:
        """Return rows of drop fractions, in the order of ``network.arcs``, for rows of rates."""
        rows = self.network.rate_rows(rates)
        out = np.zeros((len(rows), len(self.network.arcs)))
        for part, inputs, arcs in self._columns:
            scaled = np.ascontiguousarray(rows[:, inputs] / part.program.max_rates)
            named = arcs >= 0
            out[:, arcs[named]] = part.selector.drops(scaled)[:, named]
        return out

    def predicted_quality(self, load: float | Rates) -> float:
        """Return throughput over the throughput of unlimited servers, in [0, 1]."""
        if isinstance(load, (int, float)) and load == 0:
            return 0.0
        vector = self._vector(load)
        full = self.network.evaluate(vector).throughput
        if full <= 0:
            return 1.0
        return min(self.network.evaluate(vector, self.at(vector)).throughput / full, 1.0)

    def server_drops(self, load: float | Rates) -> dict[str, dict[str, float]]:
        """Return the drops that each server applies (Plan Implementation, Section 4).

        Arcs are dropped where their stream is made, so that dropped tuples are not sent; arcs of
        inputs where they enter.
        """
        drops: dict[str, dict[str, float]] = {n.id: {} for n in self.network.nodes}
        for arc, fraction in self.at(load).items():
            stream, consumer = arc.split("->")
            place = self.network.node_of[stream]
            if place is None:
                place = self.network.operator[consumer.split(":")[0]].node
            drops[place][arc] = fraction
        return drops

    @property
    def plan_count(self) -> int:
        """How many regions, cells or rows are stored; 0 when the simplex answers."""
        return sum(part.table.plan_count for part in self.parts if part.table is not None)

    @property
    def nbytes(self) -> int:
        """Memory of the stored tables."""
        return sum(part.table.nbytes for part in self.parts if part.table is not None)

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        return {
            "network": self.network.name,
            "servers": len(self.network.nodes),
            "inputs": len(self.network.inputs),
            "operators": len(self.network.operators),
            "outputs": len(self.network.outputs),
            "drop_locations": sum(part.program.location_count for part in self.parts),
            "fragments": len(self.parts),
            "method": self.method,
            "error": self.error,
            "plans": self.plan_count,
            "bytes": self.nbytes,
            "predicted_quality": round(self.predicted_quality(0.5), 6),
        }

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form, as :class:`PlanDocument` describes it."""
        return codec.to_document(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Plan:
        """Read the JSON form back; refuse what does not fit together."""
        return cls(*codec.from_document(document))

    def to_bytes(self) -> bytes:
        """Return the compact binary form; it decodes to an equal plan."""
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, payload: bytes) -> Plan:
        """Read the compact binary form back."""
        return cls(*codec.from_bytes(payload))
