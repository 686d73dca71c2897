"""What queries and tenants are promised: the guarantees of a definition as means over queries.

A query keeps the completeness that it is promised; a tenant keeps 1 - ``max_loss`` of its queries'
tuples in the mean, by the queries' weights. Both fall short by e when only (1 - e) of that is kept.
``tenant_gap`` comes after all of them: the tenants' mean losses lie in one window of that width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.errors import Mistake
from planning.families import Definition
from planning.guarantees import NOWHERE, Guarantee
from planning.query_files import written_queries
from planning.sections import Tenant
from planning.sifter import queries

if TYPE_CHECKING:
    from planning.sifter.parameters import Parameters

MIN_COMPLETENESS, MAX_LOSS, TENANT_GAP = "min_completeness", "max_loss", "tenant_gap"


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """A mean over a tenant's queries, or one query."""

    query: IntArray
    weight: FloatArray  # sums to 1


@dataclass(frozen=True, slots=True, eq=False)
class Promise(Mean):
    """A mean completeness that is guaranteed."""

    guarantee: Guarantee

    @property
    def asked(self) -> float:
        """The least mean completeness."""
        value = self.guarantee.value
        return value if self.guarantee.limit == MIN_COMPLETENESS else 1.0 - value


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Guarantees, the most important first, and the tenants that ``gap`` is about."""

    promises: tuple[Promise, ...]
    tenants: tuple[Mean, ...] = ()
    gap: Guarantee | None = None

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """All guarantees, the most important first."""
        given = tuple(promise.guarantee for promise in self.promises)
        return (*given, self.gap) if self.gap else given

    @property
    def level(self) -> IntArray:
        """The place of every guarantee's priority, the most important 0; the gap's is the last."""
        priorities = sorted({one.priority for one in self.guarantees}, reverse=True)
        return np.array([priorities.index(one.priority) for one in self.guarantees], dtype=np.int64)

    @property
    def levels(self) -> int:
        """Return the number of priorities."""
        return int(self.level.max(initial=-1)) + 1


def of(definition: Definition[Parameters]) -> Terms:
    """Return what a definition promises to its queries and tenants."""
    section = definition.queries
    entries = written_queries(definition)
    labels = queries.labels(entries)
    promises = [
        Promise(np.array([q]), np.ones(1), _guarantee(labels[q], MIN_COMPLETENESS, entry))
        for q, entry in enumerate(entries)
        if entry.get(MIN_COMPLETENESS, 0.0) > 0.0
    ]
    tenants = {name: _mean(entries, name) for name in _tenants(entries)}
    for name, mean in tenants.items():
        asked = section.tenants.get(name, Tenant()).model_dump()
        if asked[MAX_LOSS] is not None and asked[MAX_LOSS] < 1.0:
            guarantee = _guarantee(f"tenant {name}", MAX_LOSS, asked)
            promises.append(Promise(mean.query, mean.weight, guarantee))
    promises.sort(key=lambda promise: -promise.guarantee.priority)
    if section.tenant_gap is None or len(tenants) < 2:
        return Terms(tuple(promises))
    last = min([0, *(promise.guarantee.priority for promise in promises)]) - 1
    gap = Guarantee("tenants", TENANT_GAP, section.tenant_gap, last, NOWHERE)
    return Terms(tuple(promises), tuple(tenants.values()), gap)


def absent(definition: Definition[Parameters]) -> bool:
    """Tell whether a definition has neither guarantees nor QoS lines."""
    lines = any("qos" in entry for entry in written_queries(definition))
    return not lines and not of(definition).guarantees


def _guarantee(name: str, limit: str, asked: dict[str, Any]) -> Guarantee:
    return Guarantee(name, limit, float(asked[limit]), int(asked.get("priority", 0)), NOWHERE)


def _tenants(entries: Iterable[dict[str, Any]]) -> list[str]:
    return sorted({entry["tenant"] for entry in entries if entry.get("tenant")})


def _mean(entries: Sequence[dict[str, Any]], tenant: str) -> Mean:
    """Return the mean over a tenant's queries, by weight; if all weigh nothing, evenly."""
    query = np.array([q for q, entry in enumerate(entries) if entry.get("tenant") == tenant])
    weight = np.array([float(entries[q].get("weight", 1.0)) for q in query])
    weight = weight if weight.sum() > 0.0 else np.ones(len(query))
    return Mean(query, weight / weight.sum())


def check(definition: Definition[Parameters]) -> None:
    """Refuse what no data can meet at any load that the plan is tried at.

    A query of the whole space gets exactly the load. It leaves no region without queries, so that
    with ``fairness_threshold`` 0 and no pins every other query gets just that as well.
    """
    section, parameters = definition.queries, definition.parameters
    if section.file is not None:
        return  # it is read when the plan is made
    entries = written_queries(definition)
    if section.tenant_gap is not None and len(_tenants(entries)) < 2:
        at = ("queries", TENANT_GAP)
        raise Mistake(TENANT_GAP, "absent, or there be two tenants", "fewer", at=at)
    everything = {q for q, entry in enumerate(entries) if not entry.keys() & {"ranges", "where"}}
    alike = everything and parameters.fairness_threshold == 0.0 and not parameters.pins
    most = max(*definition.gate.loads, parameters.throttle_fraction)
    for promise in of(definition).promises:
        guarantee = promise.guarantee
        if promise.asked <= most or not (alike or everything >= {*promise.query.tolist()}):
            continue
        bound = most if guarantee.limit == MIN_COMPLETENESS else 1.0 - most
        side = "at most" if guarantee.limit == MIN_COMPLETENESS else "at least"
        raise Mistake(
            f"{guarantee.name}: {guarantee.limit}",
            f"{side} {bound:g}, because no such query gets more than the load, and the plan is "
            f"tried at loads up to {most:g}",
            f"{guarantee.value:g}",
            f"lower it, raise gate.loads{' or fairness_threshold' if alike else ''}",
            at=("queries",),
        )
