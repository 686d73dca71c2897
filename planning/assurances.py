"""What a published version guarantees, and what certifies it, as people read it everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from msgspec import UNSET

from planning.artifacts import (
    Certificate,
    KeptGuarantee,
    Manifest,
    PredictedLimit,
    Published,
    Store,
)
from planning.certifying import at
from planning.errors import PlanningError
from planning.families import ByQuery, Plan
from planning.guarantees import Guarantees
from planning.stages.certify import made_from

Table = tuple[list[str], list[list[str]]]
ROUNDING = 1e-6
MOST_QUERIES = 12


def certificate(manifest: Manifest) -> str:
    """Return a version's certificate in words, or that it has none.

    >>> from msgspec.structs import replace
    >>> from planning.examples import demo_store
    >>> checked = Certificate(status="optimal", scope="optimal for these 16 regions", gap=0.0,
    ...                       loads=24, of=24, solver="OR-Tools 9.15 GLOP", seconds=0.4)
    >>> certificate(replace(demo_store("sifter")[0].latest("ticks"), certificate=checked))
    'optimal for these 16 regions: gap 0 at 24 of 24 loads, OR-Tools 9.15 GLOP, 0.4 s'
    """
    given = manifest.certificate
    if given is UNSET:
        return "none" + ": schema version 1 has none" * (manifest.schema_version == 1)
    if not given.loads:
        return f"{given.status}: {given.reason}"
    found = f"gap {given.gap:.2g} at {given.loads} of {given.of} loads"
    reason = f"; {given.reason}" if given.reason else ""
    return f"{verdict(given)}: {found}, {given.solver}, {given.seconds:.2g} s{reason}"


def verdict(given: Certificate) -> str:
    """Return what a certificate says of its plan.

    >>> verdict(Certificate(status="within 0.01", scope="optimal for these 9 regions", loads=1))
    'within 0.01 of the best for these 9 regions'
    """
    if given.status == "optimal":
        return given.scope
    return f"{given.status} of the best {given.scope.removeprefix('optimal ')}"


def checks(manifest: Manifest) -> Table:
    """Return the loads that a certificate covers, in order, as columns and rows."""
    found = () if manifest.certificate is UNSET else manifest.certificate.checks
    return ["load", "the plan", "solver's best", "dual bound", "gap"], [
        [at(c.load), *(f"{v:.6f}" for v in (c.objective, c.best, c.bound)), f"{c.gap:.2g}"]
        for c in sorted(found, key=lambda c: c.load if isinstance(c.load, float) else 0.0)
    ]


def predicted(plan: Plan, loads: Sequence[float]) -> tuple[KeptGuarantee, ...]:
    """Return a plan's guarantees, if it keeps any, with what it predicts for them at loads."""
    if not isinstance(plan, Guarantees):
        return ()
    kept = [(float(load), plan.kept(load)) for load in loads]
    return tuple(
        KeptGuarantee(
            **asdict(guarantee),
            predicted=tuple(PredictedLimit(load=z, value=float(values[i])) for z, values in kept),
        )
        for i, guarantee in enumerate(plan.guarantees)
    )


def guarantees(published: Published, more: Sequence[float] = ()) -> tuple[KeptGuarantee, ...]:
    """Return a version's guarantees, predicted where its manifest has them and at more loads."""
    kept = published.manifest.guarantees or ()
    recorded = {p.load for guarantee in kept for p in guarantee.predicted}
    return predicted(published.plan, sorted({*recorded, *more})) or kept


def table(kept: Sequence[KeptGuarantee]) -> Table:
    """Return guarantees as columns and rows; a value that breaks one is called short.

    >>> alerts = KeptGuarantee(name="query alerts", limit="min_completeness", value=0.95,
    ...     priority=1, holds_from=0.2134, predicted=(PredictedLimit(load=0.2, value=0.9),))
    >>> table([alerts])[1]
    [['query alerts', 'min_completeness', '0.95', '1', 'down to load 0.213', '0.9 short']]
    """
    columns = ["guarantee", "limit", "asked for", "priority", "holds"]
    return columns + [f"at {p.load:g}" for p in (kept[0].predicted if kept else ())], [
        [
            *(g.name, g.limit, f"{g.value:g}", str(g.priority)),
            "at no load" if g.holds_from > 1 else f"down to load {g.holds_from:.3g}",
            *(shown(g, p.value) for p in g.predicted),
        ]
        for g in kept
    ]


def shown(guarantee: KeptGuarantee, value: float) -> str:
    """Return a value as text, called short if it breaks the guarantee."""
    return f"{value:.4g}{'' if holds(guarantee, value) else ' short'}"


def holds(guarantee: KeptGuarantee, value: float) -> bool:
    """Return whether a value is the least one asked for, or more; of other limits, or less."""
    over = value - guarantee.value
    missing = -over if guarantee.limit.startswith("min") else over
    return missing <= ROUNDING * max(guarantee.value, 1.0)


def queries(store: Store, published: Published) -> Table:
    """Return the completeness predicted for the queries that lose most, at the gate's loads.

    It takes the statistics that were kept with the version: without them, or in a family that does
    not know it, there are no rows.
    """
    with suppress(PlanningError), made_from(store, published.manifest) as (statistics, definition):
        if isinstance(statistics, ByQuery):
            loads = sorted(definition.gate.loads)
            found = statistics.by_query(published.plan, definition, loads)
            worst = sorted(found, key=lambda name: (tuple(found[name].tolist()), name))
            columns = ["query", *(f"at {load:g}" for load in loads)]
            rows = [[name, *(f"{c:.4f}" for c in found[name])] for name in worst[:MOST_QUERIES]]
            return columns, rows
    return [], []
