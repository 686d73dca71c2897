"""Publish: the candidate becomes the stream's next version, once per run."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

from planning.artifacts import Manifest, SigningKey, Store, TrustedKeys, Validity
from planning.errors import NoPlan
from planning.home import Home
from planning.stages.run import Run
from planning.stages.solve import candidate
from planning.streams import StreamDefinition


def publish(
    home: Home, run: Run, *, created_at: str, dry_run: bool = False
) -> dict[str, Any] | None:
    """Publish the run's candidate if the gate let it pass; return the new version's summary.

    Nothing is published twice: a run that is repeated finds its own version by the digest of its
    inputs. Returns None for a dry run or a refused plan.
    """
    verdict = run.read("verdict")
    if dry_run or verdict["decision"] != "publish":
        return None
    definition = run.definition()
    document = run.read("candidate")
    signer = SigningKey.load_or_create(home.keys)
    store = Store(home.plans, TrustedKeys.load(home.keys))
    inputs = {name: _digest(run.read(name)) for name in ("collected", "statistics", "candidate")}
    inputs["run"] = hashlib.sha256(run.folder.name.encode()).hexdigest()
    manifest = _already_published(store, definition.stream, inputs) or store.publish(
        definition.stream,
        candidate(run),
        family=definition.family,
        signer=signer,
        created_at=created_at,
        inputs=inputs,
        parameters=definition.model_dump(mode="json")["parameters"],
        predicted=[
            {"load": o["load"], "quality": o["predicted_quality"]} for o in verdict["outcomes"]
        ],
        gate={k: verdict[k] for k in ("decision", "reason", "outcomes")},
        validity=Validity(
            not_after=_not_after(definition, created_at), fallback=definition.validity.fallback
        ),
        solver=str(document["summary"].get("status", "exact")),
    )
    store.prune(definition.stream, definition.retention.versions)
    _prune_runs(home, definition)
    summary = _summary(manifest)
    run.write("published", summary)
    return summary


def _already_published(store: Store, stream: str, inputs: dict[str, str]) -> Manifest | None:
    try:
        history = store.history(stream)
    except NoPlan:
        return None
    return next((m for m in history if m.inputs == inputs), None)


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _not_after(definition: StreamDefinition, created_at: str) -> str | None:
    seconds = definition.validity.valid_for_s
    if seconds is None:
        return None
    return (datetime.fromisoformat(created_at) + timedelta(seconds=seconds)).isoformat()


def _prune_runs(home: Home, definition: StreamDefinition) -> None:
    runs = [f for f in (home.runs / definition.stream).iterdir() if f.is_dir()]
    runs.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in runs[definition.retention.runs :]:
        folder.fs.rm(folder.path, recursive=True)


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {
        "stream": manifest.stream,
        "family": manifest.family,
        "version": manifest.version,
        "parent": manifest.parent,
        "created_at": manifest.created_at,
        "bytes": {name: payload.bytes for name, payload in manifest.payloads.items()},
        "digest": manifest.payloads["binary"].digest,
    }
