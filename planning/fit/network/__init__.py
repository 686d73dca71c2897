"""A query network spread over servers: its document, its arcs, and what drops do to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput, Mistake
from planning.fit.model import AggregateWindow, Arc, MethodLimit, Operator
from planning.fit.network import graph
from planning.fit.network.document import NetworkDocument, document_of, fields_of

Rates = Mapping[str, float] | Sequence[float] | FloatArray
TOLERANCE = 1e-9
"""Share of a capacity by which rounding may exceed it."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a network does at given rates and drops if its servers are fast enough."""

    throughput: float
    loads: dict[str, float]
    outputs: dict[str, float]
    links: dict[str, float]
    overloaded: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether every server and link stays within its capacity."""
        return not self.overloaded


class QueryNetwork(NetworkDocument, frozen=True, eq=False, dict=True):
    """Operators placed on servers, with inputs and weighted outputs (Section 2).

    Its fields are those of its document; what follows from them is computed on first use.

    >>> network = QueryNetwork.from_document({
    ...     "name": "Figure 7",
    ...     "nodes": [{"id": "A", "capacity": 1, "parent": None}],
    ...     "inputs": [{"id": "i", "max_rate": 1}],
    ...     "operators": [
    ...         {"id": "common", "node": "A", "type": "map", "cost": 1, "selectivity": 1,
    ...          "inputs": ["i"]},
    ...         {"id": "top", "node": "A", "type": "map", "cost": 2, "selectivity": 1,
    ...          "inputs": ["common"]},
    ...         {"id": "bottom", "node": "A", "type": "map", "cost": 5, "selectivity": 1,
    ...          "inputs": ["common"]}],
    ...     "outputs": [{"id": "o1", "stream": "top", "weight": 1},
    ...                 {"id": "o2", "stream": "bottom", "weight": 1}]})
    >>> done = network.evaluate([0.2], {"common->bottom": 0.6})
    >>> round(done.throughput, 12), round(done.loads["A"], 12)
    (0.28, 1.0)
    """

    def __post_init__(self) -> None:
        self._check_names()
        self._check_references()
        graph.check_parents(self.nodes)
        _ = self.order

    @classmethod
    def from_document(cls, document: Any) -> QueryNetwork:
        """Read and check a network document."""
        return cls(**fields_of(document))

    @classmethod
    def read(cls, path: str | Path) -> QueryNetwork:
        """Read a network document from a JSON or YAML file."""
        text = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix == ".json":
            return cls.from_document(json.loads(text))
        import yaml

        return cls.from_document(yaml.safe_load(text))

    def write(self, path: str | Path) -> None:
        """Write the network document to a JSON or YAML file, by the file's suffix."""
        document = self.to_document()
        if Path(path).suffix == ".json":
            text = json.dumps(document, indent=1) + "\n"
        else:
            import yaml

            text = yaml.safe_dump(document, sort_keys=False)
        Path(path).write_text(text, encoding="utf-8")

    def to_document(self) -> dict[str, Any]:
        """Return the document; reading it back gives an equal network."""
        return document_of(self)

    def _check_names(self) -> None:
        for what, names in (
            ("nodes", [n.id for n in self.nodes]),
            ("inputs and operators", list(self.streams)),
            ("outputs", [o.id for o in self.outputs]),
            ("links", [link.id for link in self.links]),
            ("arcs", [arc.name for arc in self.arcs]),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                at = (what,) if what in ("nodes", "outputs", "links") else ("operators",)
                names_twice = f"{', '.join(twice)} twice"
                raise Mistake(what, "distinct names", names_twice, verb="have", at=at)

    def _check_references(self) -> None:
        nodes = {n.id for n in self.nodes}
        streams = set(self.streams)
        for k, operator in enumerate(self.operators):
            if operator.node not in nodes:
                raise Mistake(
                    f"node of operator {operator.id}",
                    f"one of {', '.join(sorted(nodes))}",
                    repr(operator.node),
                    at=("operators", k, "node"),
                )
        for at, reader, stream in (
            *(
                (("operators", k, "inputs", port), f"operator {o.id}", stream)
                for k, o in enumerate(self.operators)
                for port, stream in enumerate(o.inputs)
            ),
            *(
                (("outputs", k, "stream"), f"output {o.id}", o.stream)
                for k, o in enumerate(self.outputs)
            ),
        ):
            if stream not in streams:
                unknown = f"unknown stream {stream!r}"
                raise Mistake(reader, "an input or operator", unknown, verb="read", at=at)
        for k, link in enumerate(self.links):
            for key, end in (("from", link.source), ("to", link.target)):
                if end not in nodes:
                    at = ("links", k, key)
                    raise Mistake(f"link {link.id}", "known nodes", repr(end), verb="join", at=at)

    @cached_property
    def input_ids(self) -> tuple[str, ...]:
        """Ids of the inputs: the order of every rate vector."""
        return tuple(i.id for i in self.inputs)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """What inputs and operators emit, by their ids."""
        return (*self.input_ids, *(o.id for o in self.operators))

    @cached_property
    def max_rates(self) -> FloatArray:
        """The corner of the planned rate space."""
        return np.array([i.max_rate for i in self.inputs])

    @cached_property
    def capacities(self) -> FloatArray:
        """CPU capacity per server, in the order of ``nodes``."""
        return np.array([n.capacity for n in self.nodes])

    @cached_property
    def arcs(self) -> tuple[Arc, ...]:
        """Every arc, operators' first, in document order."""
        inner = [
            Arc(stream, o.id, port if o.is_merge else None, False)
            for o in self.operators
            for port, stream in enumerate(o.inputs)
        ]
        return (*inner, *(Arc(o.stream, o.id, None, True) for o in self.outputs))

    @cached_property
    def arc_index(self) -> dict[str, int]:
        """Position of each arc by name."""
        return {arc.name: index for index, arc in enumerate(self.arcs)}

    @cached_property
    def arcs_from(self) -> dict[str, tuple[int, ...]]:
        """Positions of the arcs that carry each stream."""
        table: dict[str, list[int]] = {stream: [] for stream in self.streams}
        for index, arc in enumerate(self.arcs):
            table[arc.stream].append(index)
        return {stream: tuple(indices) for stream, indices in table.items()}

    @cached_property
    def arcs_into(self) -> dict[str, tuple[int, ...]]:
        """Positions of the arcs into each operator, by port."""
        table: dict[str, list[int]] = {o.id: [] for o in self.operators}
        for index, arc in enumerate(self.arcs):
            if not arc.to_output:
                table[arc.consumer].append(index)
        return {operator: tuple(indices) for operator, indices in table.items()}

    @cached_property
    def operator(self) -> dict[str, Operator]:
        """Operators by id."""
        return {o.id: o for o in self.operators}

    @cached_property
    def order(self) -> tuple[Operator, ...]:
        """Operators such that each comes after those it reads; a cycle is an error."""
        return graph.topological(self.operators)

    @cached_property
    def node_of(self) -> dict[str, str | None]:
        """Server that emits each stream; None for inputs."""
        return {
            **dict.fromkeys(self.input_ids),
            **{o.id: o.node for o in self.operators},
        }

    @cached_property
    def arc_windows(self) -> tuple[AggregateWindow | None, ...]:
        """The aggregate window that drops on each arc must respect, in tuples of that arc."""
        return graph.arc_windows(self)

    @cached_property
    def window_overhead(self) -> FloatArray:
        """Tuples per kept share of windows on each arc: 1 unless an aggregate's window follows."""
        return graph.window_overhead(self)

    @cached_property
    def tree_problem(self) -> str:
        """Why the servers do not form a tree below the inputs' servers; empty if they do."""
        return graph.tree_problem(self)

    def check_plain(self, method: str) -> None:
        """Refuse what lies beyond the paper's objective: its bounds are on one weighted sum."""
        reasons = []
        if (self.window_overhead > 1.0).any():
            reasons.append("windowed aggregates (dropping whole windows is not proportional)")
        if any(o.minimum > 0 for o in self.outputs):
            reasons.append("minimum throughputs")
        if self.min_keep > 0:
            reasons.append("min_keep")
        if len({o.priority for o in self.outputs}) > 1:
            reasons.append("priorities")
        if reasons:
            raise MethodLimit(
                "method must be exact (regions or simplex) for a network with "
                f"{' and '.join(reasons)}, got {method}"
            )

    def check_worth_planning(self) -> None:
        """Refuse what a document may say but no plan can make sense of."""
        for k, link in enumerate(self.links):
            if link.source == link.target:
                raise Mistake(f"link {link.id}", "two nodes", "one", verb="join", at=("links", k))
        if not any(o.weight > 0 for o in self.outputs):
            raise Mistake(
                "weights of the outputs",
                "a number above 0 for at least one",
                "0 for all",
                "without a weight every tuple may be dropped",
                at=("outputs",),
            )
        if not self.links and not any(o.cost > 0 for o in self.operators):
            raise Mistake(
                "costs of the operators",
                "a number above 0 for at least one",
                "0 for all",
                "operators without a cost never overload a server: nothing has to be shed",
                at=("operators",),
            )

    def rate_vector(self, rates: Rates) -> FloatArray:
        """Return ``rates`` (by input id, or in input order) as a checked vector.

        Rates above ``max_rate`` are allowed here; a plan says what it does with them.
        """
        if isinstance(rates, Mapping):
            unknown = sorted(set(rates) - set(self.input_ids))
            missing = [i for i in self.input_ids if i not in rates]
            if unknown or missing:
                raise InvalidInput(
                    f"rates must name exactly the inputs {', '.join(self.input_ids)}; "
                    f"unknown: {', '.join(unknown) or 'none'}, "
                    f"missing: {', '.join(missing) or 'none'}"
                )
            rates = [rates[i] for i in self.input_ids]
        vector = self._numbers(rates)
        if vector.shape != (len(self.inputs),):
            raise InvalidInput(
                f"rates must be {len(self.inputs)} numbers, got shape {vector.shape}"
            )
        if not (vector.min() >= 0.0 and vector.max() < np.inf):  # NaN fails both
            first = int(np.argmax(~(np.isfinite(vector) & (vector >= 0))))
            raise InvalidInput(
                f"rate of input {self.input_ids[first]} must be finite and >= 0, "
                f"got {vector[first]!r}"
            )
        return vector

    def _numbers(self, rates: Any) -> FloatArray:
        """Return rates as an array; texts are no numbers, even if they spell some."""
        try:
            given = np.asarray(rates)
        except ValueError:  # rows of several lengths
            given = np.asarray(None)
        if given.dtype.kind not in "fiu":
            raise InvalidInput(
                f"rates of {', '.join(self.input_ids)} must be numbers, got {rates!r:.200}"
            )
        return given.astype(np.float64, copy=False)

    def rate_rows(self, rates: FloatArray) -> FloatArray:
        """Return rows of rates, in input order, checked like :meth:`rate_vector`."""
        rows = self._numbers(rates)
        if rows.ndim != 2 or rows.shape[1] != len(self.inputs):
            raise InvalidInput(
                f"rates must be rows of {len(self.inputs)} numbers, got shape {rows.shape}"
            )
        if not (rows.min(initial=0.0) >= 0.0 and rows.max(initial=0.0) < np.inf):
            first = int(np.argmax(~(np.isfinite(rows) & (rows >= 0)).all(axis=1)))
            self.rate_vector(rows[first])
        return rows

    def drop_vector(self, drops: Mapping[str, float]) -> FloatArray:
        """Return drop fractions in the order of ``arcs``; absent arcs drop nothing."""
        vector = np.zeros(len(self.arcs))
        for name, fraction in drops.items():
            if name not in self.arc_index:
                raise InvalidInput(f"drops must be on arcs of the network, got {name!r}")
            if not 0.0 <= fraction <= 1.0:
                raise InvalidInput(f"drop fraction on {name} must lie in [0, 1], got {fraction!r}")
            vector[self.arc_index[name]] = fraction
        return vector

    def evaluate(self, rates: Rates, drops: Mapping[str, float] | None = None) -> Evaluation:
        """Return throughput and load per server at ``rates`` with drop fractions per arc."""
        flows = graph.flows(
            self, self.rate_vector(rates)[None, :], self.drop_vector(drops or {})[None, :]
        )
        loads = {n.id: float(flows.loads[0, k]) for k, n in enumerate(self.nodes)}
        links = {link.id: float(flows.links[0, k]) for k, link in enumerate(self.links)}
        over = [n.id for n in self.nodes if loads[n.id] > n.capacity * (1 + TOLERANCE)]
        over += [k.id for k in self.links if links[k.id] > k.capacity * (1 + TOLERANCE)]
        outputs = {o.id: float(flows.outputs[0, k]) for k, o in enumerate(self.outputs)}
        throughput = float(flows.throughput[0])
        return Evaluation(throughput, loads, outputs, links, tuple(over))

    def evaluate_many(self, rates: FloatArray, drops: FloatArray) -> graph.Flows:
        """Evaluate rows of rates with rows of drop fractions in the order of ``arcs``."""
        return graph.flows(self, rates, drops)

    def with_operators(self, changes: Mapping[str, Mapping[str, Any]]) -> QueryNetwork:
        """Return the network with fields of some operators replaced, checked again."""
        unknown = sorted(set(changes) - set(self.operator))
        if unknown:
            raise InvalidInput(f"operators to change must exist, got {', '.join(unknown)}")
        document = self.to_document()
        for item in document["operators"]:
            item.update(changes.get(item["id"], {}))
        return QueryNetwork.from_document(document)
