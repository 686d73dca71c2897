"""Publish: the candidate becomes the stream's next version, once per run."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from planning import assurances
from planning.artifacts import Manifest, SigningKey, drafting
from planning.artifacts.manifest import from_time, to_time
from planning.artifacts.predicting import promise
from planning.home import Home
from planning.query_files import content
from planning.stages import reevaluate
from planning.stages.gate import verdict_of
from planning.stages.run import Run
from planning.stages.solve import candidate, solver_status
from planning.streams import StreamDefinition

DOCUMENTS = ("definition", "collected", "statistics", "candidate")
CERTIFIED = ("definition", "statistics")
"""What is kept with a version, so that its certificate can be made again."""
MOST_CHECKS = 24
"""Loads of a certificate that a manifest lists; nodes read manifests too."""


def publish(
    home: Home, run: Run, *, created_at: str, dry_run: bool = False
) -> dict[str, Any] | None:
    """Publish the run's candidate if the gate let it pass; return the new version's summary.

    Nothing is published twice: a run that is repeated finds its own version in the store. Returns
    None for a dry run or a refused plan.

    >>> import tempfile
    >>> from planning.examples import demo_run
    >>> from planning.stages import gate, local, solve
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = Home.at(folder)
    ...     run = demo_run(home, "sifter")
    ...     for stage in (local.validate, local.statistics, solve.solve):
    ...         _ = stage(run)
    ...     _ = gate.gate(home, run)
    ...     [publish(home, run, created_at=f"2026-01-02T03:0{i}:00Z")["version"] for i in (1, 2)]
    [1, 1]
    """
    if dry_run:
        return None
    verdict = verdict_of(run)
    definition = run.definition()
    plan = candidate(run)
    decided_at = from_time("created_at", created_at).timestamp()
    if verdict["decision"] != "publish":
        reevaluate.record(home, definition, plan, decided_at)
        return None
    signer = SigningKey.load_or_create(home.keys)
    store = home.store()
    manifest = store.publish(
        definition.stream,
        plan,
        family=definition.family,
        signer=signer,
        created_at=created_at,
        inputs=_inputs(run, definition),
        parameters=definition.model_dump(mode="json")["parameters"],
        predicted=[_prediction(o) for o in verdict["outcomes"] if not o.get("schedule")],
        gate={
            **{name: verdict[name] for name in ("decision", "reason", "outcomes")},
            "warnings": verdict.get("warnings", []),
        },
        validity={
            "not_after": _not_after(definition, created_at),
            "fallback": definition.validity.fallback,
        },
        solver_status=solver_status(run),
        certificate=_shortened(run.read("certificate")) if run.has("certificate") else None,
        guarantees=assurances.predicted(plan, definition.gate.loads),
        run=run.folder.name,
        schema_version=definition.schema_version,
    )
    store.prune(definition.stream, definition.retention.versions)
    summary = _summary(manifest)
    run.write("published", summary)
    reevaluate.record(home, definition, plan, decided_at)
    return summary


def _prediction(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return what is promised at a load of the gate."""
    promised = promise(outcome["quality"], outcome.get("error", 0.0))
    point = {**promised._asdict(), "load": outcome["load"], "model": outcome["predicted_quality"]}
    return {name: value for name, value in point.items() if value is not None}


def _shortened(certificate: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate with the checks that leave most open.

    >>> checks = [{"load": z / 100, "objective": 1 - z / 100, "bound": 1.0} for z in range(100)]
    >>> [check["load"] for check in _shortened({"checks": checks})["checks"]][:2]
    [0.76, 0.77]
    """
    checks = certificate.get("checks", [])
    most = sorted(checks, key=lambda check: check["objective"] - check["bound"])[:MOST_CHECKS]
    return certificate | {"checks": [check for check in checks if check in most]}


def _inputs(run: Run, definition: StreamDefinition) -> dict[str, str | bytes]:
    """Return what the plan was made from: what a certificate needs as it is, else its digest."""
    texts = {name: json.dumps(run.read(name), sort_keys=True).encode() for name in DOCUMENTS}
    inputs: dict[str, str | bytes] = {
        name: text if name in CERTIFIED else drafting.digest(text) for name, text in texts.items()
    }
    if definition.queries.file is not None:
        inputs["queries"] = content(run.queries(definition.queries.file))
    return inputs


def _not_after(definition: StreamDefinition, created_at: str) -> str | None:
    seconds = definition.validity.valid_for_s
    if seconds is None:
        return None
    return to_time(from_time("created_at", created_at) + timedelta(seconds=seconds))


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {
        "stream": manifest.stream,
        "family": manifest.family,
        "version": manifest.version,
        "parent": manifest.parent,
        "created_at": manifest.created_at,
        "bytes": {"json": manifest.payloads.json.bytes, "binary": manifest.payloads.binary.bytes},
        "digest": manifest.payloads.binary.digest,
    }
