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

from planning.arrays import FloatArray, IntArray
from planning.errors import ArtifactError, InvalidInput, PlanningError, check_between
from planning.fit import codec
from planning.fit.codec import METHODS, PlanDocument
from planning.fit.network import QueryNetwork, Rates
from planning.fit.path import Part
from planning.guarantees import Guarantee

__all__ = ["METHODS", "Part", "Plan", "PlanDocument"]

CHECKED = ([0.9], [0.5], [0.2], [0.05])
"""Loads at which a plan is checked before it is followed."""


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
    headroom: float = 1.0  # times which predicted rates are multiplied before the plan is asked
    qualities: tuple[float, ...] = ()  # of the observed rates at evenly spaced scalar loads
    holds_from: tuple[float, ...] = ()  # least load of each output's minimum, as in ``guarantees``

    @cached_property
    def _columns(self) -> list[tuple[Part, Any, Any, Any]]:
        """Per part: its inputs among all inputs, which locations are arcs, and where those are."""
        columns = []
        for part in self.parts:
            inputs = [self.network.input_ids.index(i) for i in part.network.input_ids]
            whole = inputs == list(range(len(self.network.inputs)))
            arcs = [self.network.arc_index[a] if a else -1 for a in part.selector.arcs]
            positions = np.array(arcs, dtype=np.int64)
            named = np.flatnonzero(positions >= 0)
            columns.append((part, slice(None) if whole else inputs, named, positions[named]))
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
        for part, inputs, _, _ in self._columns:
            selector = part.selector
            fractions = selector.drops((vector[inputs] / part.program.max_rates)[None, :])[0]
            for arc, fraction in zip(selector.arcs, fractions.tolist(), strict=True):
                if fraction > 0.0 and arc:
                    drops[arc] = fraction
        return drops

    def fractions(self, load: float | Rates) -> FloatArray:
        """Return the drop fraction of every arc, in the order of ``network.arcs``.

        Equal loads give equal bits in every process, whatever was asked before; :meth:`at` and
        :meth:`at_many` start from the last answer and may differ from it by rounding.
        """
        vector = self._vector(load)
        out = np.zeros(len(self.network.arcs))
        for part, inputs, named, arcs in self._columns:
            scaled = (vector[inputs] / part.program.max_rates)[None, :]
            out[arcs] = part.selector.drops(scaled, warm=False)[0, named]
        if not (out.min() >= 0.0 and out.max() <= 1.0):  # NaN fails both
            raise PlanningError(
                f"drops of network {self.network.name!r} must be fractions at every load, got "
                f"{out.tolist()} at {vector.tolist()}"
            )
        return out

    def least_of_streams(self, drops: FloatArray) -> FloatArray:
        """Return what all arcs of a stream drop, in the order of ``network.streams``."""
        out = np.zeros(len(self.network.streams))
        streams, arcs, starts = self._stream_arcs
        out[streams] = np.minimum.reduceat(drops[arcs], starts)
        return out

    @cached_property
    def _stream_arcs(self) -> tuple[IntArray, IntArray, IntArray]:
        """The streams that have arcs, their arcs one after the other, and where each starts."""
        lists = list(self.network.arcs_from.values())
        sizes = np.array([len(arcs) for arcs in lists])
        used = np.flatnonzero(sizes)
        return used, np.concatenate(lists).astype(np.int64), (np.cumsum(sizes) - sizes)[used]

    def at_many(self, rates: FloatArray) -> FloatArray:
        """Return rows of drop fractions, in the order of ``network.arcs``, for rows of rates."""
        rows = self.network.rate_rows(rates)
        out = np.zeros((len(rows), len(self.network.arcs)))
        for part, inputs, named, arcs in self._columns:
            scaled = np.ascontiguousarray(rows[:, inputs] / part.program.max_rates)
            out[:, arcs] = part.selector.drops(scaled)[:, named]
        return out

    def predicted_quality(self, load: float | Rates) -> float:
        """Return throughput over the throughput of unlimited servers, in [0, 1].

        Of a scalar load: over rates that vary around those of the load as the observed ones do, if
        the plan was made from statistics. Rates above the mean lose more than those below it gain.
        """
        if isinstance(load, (int, float)) and self.qualities:
            self.rates_at(load)
            loads = np.linspace(0.0, 1.0, len(self.qualities))
            return float(np.interp(load, loads, self.qualities))
        if isinstance(load, (int, float)) and load == 0:
            return 0.0
        vector = self._vector(load)
        full = self.network.evaluate(vector).throughput
        if full <= 0:
            return 1.0
        return min(self.network.evaluate(vector, self.at(vector)).throughput / full, 1.0)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The minimums of outputs in tuples/s, the most important first.

        Each holds from a scalar load on: down to it, as the rates grow in the observed direction,
        the output gets its minimum, or all there is of it where the rates do not bring so much.
        """
        return tuple(
            Guarantee(f"output {o.id}", "minimum", o.minimum, o.priority, load)
            for (_, o), load in zip(codec.asking(self.network), self.holds_from, strict=False)
        )

    def kept(self, load: float | Rates) -> list[float]:
        """Return what each output with a minimum gets, in tuples/s, as in ``guarantees``.

        What the rates themselves do not bring counts as got: shedding does not lack it.
        """
        asked, reached, full = self.reached(self._vector(load)[None, :])
        return [float(rate) for rate in (reached + np.maximum(asked - full, 0.0))[0]]

    def reached(self, rates: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return minimums, and what reaches their outputs with and without drops at rows of rates.

        In the order of ``guarantees``.
        """
        asking = codec.asking(self.network)
        places, drops = [k for k, _ in asking], self.at_many(rates)
        done, full = (self.network.evaluate_many(rates, d) for d in (drops, np.zeros_like(drops)))
        asked = np.array([output.minimum for _, output in asking])
        return asked, done.outputs[:, places], full.outputs[:, places]

    def passed_fraction(self, load: float | Rates) -> float:
        """Return the share of the items of all inputs that pass, dropped where all arcs drop them.

        It need not grow with a scalar load: at another load other inputs may be dropped.
        """
        rates, drops = self._vector(load), self.fractions(load)
        kept = 1.0 - self.least_of_streams(drops)[: len(rates)]
        total = float(rates.sum())
        return float(rates @ kept) / total if total > 0.0 else 1.0

    def affordable(self, load: float | Rates) -> float:
        """Return the share of its load that the busiest server can afford, at most 1."""
        vector, use = self._vector(load), 1.0
        for part, inputs, _, _ in self._columns:
            scaled = vector[inputs] / part.program.max_rates
            use = max(use, float((part.program.raw_use @ scaled).max(initial=0.0)))
        return 1.0 / use

    def without_estimate(self, load: float | Rates) -> tuple[str, ...]:
        """Return the arcs that drop everything: no weight makes up for what nobody has seen."""
        drops = self.fractions(load)
        return tuple(self.network.arcs[a].name for a in np.flatnonzero(drops > 1.0 - 2.0**-32))

    @cached_property
    def not_nested(self) -> tuple[str, ...]:
        """Arcs that drop more at some scalar load than at a lower one.

        There an item that is kept at a load, by its key, may be dropped at a higher one.
        """
        from planning.fit.path.nesting import rising

        return rising(self)

    def check(self) -> None:
        """Raise unless the plan can be followed: tables that contradict the network are refused."""
        reference, use = self.reference, 0.0
        if not (np.isfinite(reference).all() and (reference >= 0.0).all() and reference.any()):
            raise self._unsound()
        for part, inputs, _, _ in self._columns:
            scaled = reference[inputs] / part.program.max_rates / np.array([[1.0], *CHECKED])
            use = max(use, float((part.program.raw_use @ scaled[0]).max(initial=0.0)))
            solve = getattr(part.selector, "optimum", None)  # of a table that is exact
            answers = [part.flows(scaled)] + ([part.flows(scaled, solve)] if solve else [])
            reached = [flows.throughput for flows in answers]
            over = answers[0].use(part.network).max(initial=0.0) > 1.0 + 1e-6
            if over or not np.allclose(reached[0], reached[-1], rtol=1e-6, atol=0.0):
                raise ArtifactError(
                    "tables of a fit plan must reach the optimum of its network and overload "
                    "nothing; make it anew"
                )
        if not (use == 0.0 or abs(use - 1.0) < 1e-6):
            raise self._unsound()

    def _unsound(self) -> ArtifactError:
        return ArtifactError(
            "reference rates of a fit plan must exactly fill its busiest server, got "
            f"{self.reference.tolist()}; make it anew"
        )

    @cached_property
    def _places(self) -> tuple[str | None, ...]:
        """Server that applies the drops of each arc."""
        network = self.network
        return tuple(
            network.node_of[arc.stream]
            or (None if arc.to_output else network.operator[arc.consumer].node)
            for arc in network.arcs
        )

    def applied_by(self, server: str | None) -> FloatArray:
        """Return 1 for every arc whose drops a server applies, else 0; all are 1 for None."""
        servers = [node.id for node in self.network.nodes]
        if server is not None and server not in servers:
            raise InvalidInput(f"server must be one of {', '.join(servers)}, got {server}")
        return np.array([float(server in (None, place)) for place in self._places])

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
            "headroom": self.headroom,
            "plans": self.plan_count,
            "bytes": self.nbytes,
            "predicted_quality": round(self.predicted_quality(0.5), 6),
            "not_nested": list(self.not_nested),
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
