"""Certify: a second opinion on a plan, from OR-Tools and the statistics alone.

It is the last part of the solve stage. A certificate that contradicts the plan fails the run; that
none could be made does not, and is what the certificate then says.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from upath import UPath

from planning import families
from planning.artifacts import Certificate, Manifest, Store
from planning.certifying import NOT_CERTIFIED, Contradiction
from planning.certifying import certify as checked
from planning.errors import PlanningError
from planning.families import Plan, Statistics
from planning.stages.run import Run
from planning.streams import StreamDefinition

MOST_CHARACTERS = 300


def certificate(
    plan: Plan,
    statistics: Statistics,
    definition: StreamDefinition,
    solver_status: str,
    limit_s: float,
) -> dict[str, Any]:
    """Return the certificate of a plan as its manifest has it; raise if it contradicts the plan.

    The limit is for solving. Building the program, from statistics that are bounded, comes on top.
    """
    begun = time.monotonic()
    try:
        room = families.family(definition.family).room("program")
        certifier = room.certifier(plan, statistics, definition)
        made = checked(certifier, solver_status, limit_s)
    except Contradiction:
        raise
    except Exception as error:  # whatever keeps the second opinion away, the plan is as it was
        detail = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {"status": NOT_CERTIFIED, "reason": detail[:MOST_CHARACTERS]}
    words = ("status", "scope", "reason", "gap", "violation", "loads", "of", "solver")
    return {
        **{name: getattr(made, name) for name in words},
        "seconds": round(time.monotonic() - begun, 3),
        "checks": [
            {
                "load": _plain(check.load),
                "objective": float(check.objective),
                "best": float(max(check.best, check.objective)),
                "bound": float(check.bound),
                "violation": float(check.violation),
            }
            for check in made.checks
        ],
    }


def _plain(load: Any) -> Any:
    """Return a load as JSON has it.

    >>> _plain(0.5), _plain((0.25, 3)), _plain({"i": 2})
    (0.5, [0.25, 3.0], {'i': 2.0})
    """
    if isinstance(load, Mapping):
        return {name: float(rate) for name, rate in load.items()}
    return [float(z) for z in load] if isinstance(load, tuple | list) else float(load)


def repeat(
    store: Store, stream: str, version: int | None = None, limit_s: float | None = None
) -> tuple[int, Certificate]:
    """Check a published version again, from what was kept with it; return its number as well.

    >>> from planning.examples import demo_definition, demo_plan, demo_statistics, demo_store
    >>> import json
    >>> store, signer = demo_store("sifter")
    >>> ticks = demo_definition("sifter")
    >>> texts = {"definition": {"definition": ticks.model_dump(mode="json"), "source": "t.yaml"},
    ...          "statistics": demo_statistics("sifter").to_document()}
    >>> _ = store.publish("ticks", demo_plan("sifter"), family="sifter", signer=signer,
    ...                   created_at="2026-01-02T03:04:05Z", solver_status="exact",
    ...                   inputs={name: json.dumps(text).encode() for name, text in texts.items()})
    >>> version, found = repeat(store, "ticks")
    >>> version, found.status in ("optimal", "not certified")
    (2, True)
    """
    published = store.load(stream, version)
    manifest = published.manifest
    with made_from(store, manifest) as (statistics, definition):
        limit = definition.gate.certificate_s if limit_s is None else limit_s
        status = manifest.solver_status
        found = certificate(published.plan, statistics, definition, status, limit)
    return manifest.version, msgspec.convert(found, Certificate)


@contextmanager
def made_from(store: Store, manifest: Manifest) -> Iterator[tuple[Statistics, StreamDefinition]]:
    """Yield the statistics and the definition that a version was made from, as they were kept."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(UPath(Path(folder)))
        for name in ("definition", "statistics"):
            run.put(run.folder / f"{name}.json", store.input(manifest, name))
        if "queries" in manifest.inputs:
            file = run.read("definition")["definition"]["queries"]["file"]
            run.put(run.queries(file), store.input(manifest, "queries"))
        room = families.family(manifest.family).room("statistics")
        try:
            statistics = room.Statistics.from_document(run.read("statistics"))
        except (LookupError, TypeError, ValueError) as error:
            raise PlanningError(
                f"the statistics of version {manifest.version} of {manifest.stream} cannot be read "
                f"by this release ({type(error).__name__}: {error}); verify it with Headgate "
                f"{manifest.planning_version}, or plan again"
            ) from error
        yield statistics, run.definition()
