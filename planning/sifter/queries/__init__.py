"""The queries Q as boxes: R(q), weight w, QoS slope alpha (Sections II-B and II-C).

A query is one or more disjoint boxes and keeps one completeness over all of them. Weights are
normalised to sum to 1; QoS is ``alpha * completeness + 1 - alpha``, or a concave line of several
pieces, whose alpha is its mean slope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import FloatArray, IntArray, frozen, frozen_ints, sorted_sum
from planning.errors import Mistake
from planning.families import Definition
from planning.query_files import FIELDS, written_queries
from planning.sifter.model import Orders, Pins, Space
from planning.sifter.queries.lines import Bends

if TYPE_CHECKING:
    from planning.sections import Tenant
    from planning.sifter.parameters import Parameters

Box = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Row b of ``low``, ``high`` and ``owner`` is box b; row q of the others is query q."""

    low: FloatArray  # (boxes, d), inclusive
    high: FloatArray  # (boxes, d), exclusive
    owner: IntArray  # (boxes,) index of the query
    weight: FloatArray  # w_q, normalised
    slope: FloatArray  # alpha_q; of a QoS line, its mean
    bends: Bends = field(default_factory=lambda: Bends.of(()))

    @property
    def count(self) -> int:
        """Return |Q|."""
        return int(self.weight.size)

    @property
    def coefficient(self) -> FloatArray:
        """Return w_q * alpha_q: the QoS lost when query q gets nothing."""
        return np.asarray(self.weight * self.slope)

    @property
    def base_qos(self) -> float:
        """Return sum of w_q * (1 - alpha_q), the part of B that no region contributes to.

        Without queries nothing can be lost: 1.
        """
        return 1.0 - sorted_sum(self.coefficient)


def boxes(
    low: FloatArray,
    high: FloatArray,
    weight: Sequence[float] | FloatArray | None = None,
    slope: Sequence[float] | FloatArray | None = None,
    owner: Sequence[int] | IntArray | None = None,
) -> Queries:
    """Return queries from half-open boxes; without ``owner`` every box is a separate query.

    >>> q = boxes(np.zeros((2, 1)), np.ones((2, 1)), weight=[1, 3])
    >>> q.weight.tolist(), q.base_qos
    ([0.25, 0.75], 0.0)
    """
    low, high = np.atleast_2d(low), np.atleast_2d(high)
    owners = np.arange(len(low)) if owner is None else np.asarray(owner, dtype=np.int64)
    count = int(owners.max(initial=-1)) + 1 if weight is None else len(weight)
    weights = np.ones(count) if weight is None else np.asarray(weight, dtype=np.float64)
    slopes = np.ones(count) if slope is None else np.asarray(slope, dtype=np.float64)
    return Queries(
        frozen(low), frozen(high), frozen_ints(owners), frozen(_normalised(weights)), frozen(slopes)
    )


def arranged(queries: Queries, orders: Orders) -> Queries:
    """Return the queries in the space of rearranged category codes.

    A run of codes becomes the runs of their positions, all of one query.
    """
    if not any(orders):
        return queries
    low, high, owner = queries.low.tolist(), queries.high.tolist(), queries.owner.tolist()
    for axis, order in enumerate(orders):
        if not order:
            continue
        pieces = [
            ([*a[:axis], first, *a[axis + 1 :]], [*b[:axis], last, *b[axis + 1 :]], q)
            for a, b, q in zip(low, high, owner, strict=True)
            for first, last in _runs(sorted(order[int(a[axis]) : int(b[axis])]))
        ]
        low, high, owner = ([piece[i] for piece in pieces] for i in range(3))
    shape = (-1, len(orders))
    return replace(
        queries,
        low=frozen(np.reshape(low, shape)),
        high=frozen(np.reshape(high, shape)),
        owner=frozen_ints(owner),
    )


def _runs(positions: list[int]) -> list[tuple[float, float]]:
    """Return consecutive numbers as half-open runs.

    >>> _runs([0, 1, 4])
    [(0.0, 2.0), (4.0, 5.0)]
    """
    runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return [(float(run[0]), float(run[-1]) + 1.0) for run in runs if run.size]


def of(definition: Definition[Parameters]) -> Queries:
    """Return the queries of a stream definition: inline ones first, then those of its file."""
    entries = weighed(written_queries(definition), definition.queries.tenants)
    return parse(entries, Space.of(definition))


def labels(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what people call written queries: their names, or else their places."""
    return [f"query {entry.get('name') or index}" for index, entry in enumerate(entries)]


def weighed(
    entries: Sequence[dict[str, Any]], tenants: Mapping[str, Tenant]
) -> list[dict[str, Any]]:
    """Return the queries of a tenant with a weight of its own so that together they weigh that.

    >>> from planning.sections import Tenant
    >>> asked = [{"tenant": "a", "weight": 1}, {"tenant": "a", "weight": 3}, {"tenant": "b"}]
    >>> [entry.get("weight") for entry in weighed(asked, {"a": Tenant(weight=2)})]
    [0.5, 1.5, None]
    """
    parts = {name: tenant.weight for name, tenant in tenants.items() if tenant.weight is not None}
    if not parts:
        return list(entries)
    weights = [
        _non_negative(label, "weight", entry.get("weight", 1.0))
        for label, entry in zip(labels(entries), entries, strict=True)
    ]
    sums = dict.fromkeys(parts, 0.0)
    for entry, weight in zip(entries, weights, strict=True):
        if entry.get("tenant") in sums:
            sums[entry["tenant"]] += weight
    for name, total in sums.items():
        if total <= 0.0:
            raise Mistake(
                f"weights of tenant {name}", "0", "0 for all its queries",
                "give at least one of them a weight > 0", verb="not all be",
            )  # fmt: skip
    return [
        entry | {"weight": weight * parts[entry["tenant"]] / sums[entry["tenant"]]}
        if entry.get("tenant") in parts
        else entry
        for entry, weight in zip(entries, weights, strict=True)
    ]


def pins_of(definition: Definition[Parameters]) -> Pins:
    """Return the must-keep predicates of a definition's parameters as boxes."""
    entries = [{"name": f"pin {i}", "where": w} for i, w in enumerate(definition.parameters.pins)]
    pins = parse(entries, Space.of(definition))
    return Pins(pins.low, pins.high)


def parse(entries: Iterable[dict[str, Any]], space: Space) -> Queries:
    """Turn written queries into boxes clipped to the space.

    A query that lies outside the domain keeps no box: no tuple can match it, so its completeness
    is 1 whatever is dropped.
    """
    low: list[FloatArray] = []
    high: list[FloatArray] = []
    owner: list[int] = []
    weight: list[float] = []
    slope: list[float] = []
    lines: list[tuple[int, Any]] = []
    entries = list(entries)
    for index, (label, entry) in enumerate(zip(labels(entries), entries, strict=True)):
        unknown = sorted(set(entry) - FIELDS)
        if unknown:
            raise Mistake(f"{label}: fields", ", ".join(sorted(FIELDS)), ", ".join(unknown))
        weight.append(_non_negative(label, "weight", entry.get("weight", 1.0)))
        corners = entry.get("qos")
        given = 1.0 - corners[0][1] if corners else entry.get("qos_slope", 1.0)
        slope.append(_non_negative(label, "qos_slope", given))
        if corners:
            lines.append((index, corners))
        for box_low, box_high in _boxes_of(entry, label, space):
            low.append(box_low)
            high.append(box_high)
            owner.append(index)
    shape = (-1, len(space.axes))
    made = boxes(np.reshape(low, shape), np.reshape(high, shape), weight, slope, owner)
    return replace(made, bends=Bends.of(lines)) if lines else made


def _boxes_of(entry: dict[str, Any], label: str, space: Space) -> list[Box]:
    where = entry.get("where")
    if where:
        from planning.sifter.queries.where import disjoint_boxes

        return disjoint_boxes(where, space, label)
    return _range_box(entry.get("ranges") or {}, label, space)


def _range_box(ranges: dict[str, Any], label: str, space: Space) -> list[Box]:
    unknown = sorted(set(ranges) - set(space.names))
    if unknown:
        raise Mistake(
            f"{label}: ranges", ", ".join(space.names), ", ".join(unknown), verb="name"
        )
    low, high = space.low.copy(), space.high.copy()
    for i, axis in enumerate(space.axes):
        if axis.name not in ranges:
            continue
        first, last = _pair(ranges[axis.name], label, axis.name)
        if axis.kind != "float":
            first = float(np.ceil(first))
        low[i] = max(low[i], first)
        high[i] = min(high[i], axis.edge_after(last))
    return [(low, high)] if bool(np.all(low < high)) else []


def _pair(value: Any, label: str, attribute: str) -> tuple[float, float]:
    try:
        first, last = (float(v) for v in value)
    except (TypeError, ValueError):
        first, last = float("nan"), float("nan")
    if not first <= last:
        raise Mistake(f"{label}: range of {attribute}", "[low, high]", str(value))
    return first, last


def _non_negative(label: str, field: str, value: Any) -> float:
    number = float("nan")
    with suppress(TypeError, ValueError):
        number = float(value)
    if not (np.isfinite(number) and number >= 0):
        raise Mistake(f"{label}: {field}", "a finite number >= 0", str(value))
    return number


def _normalised(weights: FloatArray) -> FloatArray:
    """Scale weights to sum to 1 (Section II-B)."""
    total = sorted_sum(weights)
    if weights.size and total <= 0:
        raise Mistake(
            "weights of the queries", "0", f"0 for all {weights.size}",
            "give at least one query a weight > 0", verb="not all be",
        )  # fmt: skip
    return weights / total if weights.size else weights
