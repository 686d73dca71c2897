"""Commands on published plans: show, history, diff, rollback, verify."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.commands.options import (
    DEFAULT_HOME,
    HomeOption,
    JsonOption,
    StreamArgument,
    home_at,
    print_json,
    print_table,
)
from planning.home import Home

VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Version; the newest without.")
]


def _store(home: Home) -> Store:
    return Store(home.plans, TrustedKeys.load(home.keys))


def show(
    stream: StreamArgument,
    version: VersionOption = None,
    load: Annotated[
        float | None, typer.Option("--at", help="Also show the setting at this load.")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Show a published plan: its manifest, summary and, with --at, its setting at a load.

    Example: `headgate show ticks --at 0.5`
    """
    published = _store(home_at(home)).load(stream, version)
    manifest = msgspec.to_builtins(published.manifest)
    summary = published.plan.summary()
    setting = None if load is None else msgspec.to_builtins(published.plan.at(load).to_document())
    if as_json:
        print_json({"manifest": manifest, "summary": summary, "setting": setting})
        return
    sizes = ", ".join(f"{k} {p['bytes']} bytes" for k, p in manifest["payloads"].items())
    rows = [
        ["stream", manifest["stream"]],
        ["family", manifest["family"]],
        ["version", f"{manifest['version']} (parent {manifest['parent'] or 'none'})"],
        ["created", manifest["created_at"]],
        ["payloads", sizes],
        ["gate", f"{manifest['gate'].get('decision')}: {manifest['gate'].get('reason')}"],
        ["valid until", manifest["validity"]["not_after"] or "replaced"],
        ["signed by", manifest["key_id"]],
        *[[name, value] for name, value in summary.items()],
    ]
    print_table(["field", "value"], rows)
    print_table(
        ["load", "predicted quality"],
        [[f"{step / 10:g}", published.plan.predicted_quality(step / 10)] for step in range(1, 11)],
    )
    if setting is not None:
        print_json(setting)


def history(
    stream: StreamArgument, home: HomeOption = DEFAULT_HOME, as_json: JsonOption = False
) -> None:
    """List the versions of a stream, newest first.

    Example: `headgate history ticks`
    """
    manifests = _store(home_at(home)).history(stream)
    if as_json:
        print_json([msgspec.to_builtins(m) for m in manifests])
        return
    rows = [
        [
            m.version,
            m.created_at,
            m.payloads["binary"].bytes,
            f"rollback to {m.rollback_of}" if m.rollback_of else m.gate.get("decision"),
            m.reason or m.gate.get("reason"),
        ]
        for m in manifests
    ]
    print_table(["version", "created", "bytes", "kind", "reason"], rows)


def diff(
    stream: StreamArgument,
    old: Annotated[int, typer.Argument(min=1, help="Older version.")],
    new: Annotated[int, typer.Argument(min=1, help="Newer version.")],
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Show what changed between two versions.

    Example: `headgate diff ticks 3 4`
    """
    changes = _store(home_at(home)).diff(stream, old, new)
    if as_json:
        print_json([msgspec.to_builtins(change) for change in changes])
        return
    print_table(["field", f"version {old}", f"version {new}"], [[c.path, c.old, c.new] for c in changes])


def rollback(
    stream: StreamArgument,
    to: Annotated[int, typer.Option("--to", min=1, help="Version whose plan comes back.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the manifest.")],
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Publish the plan of an older version again, as a new version.

    Example: `headgate rollback ticks --to 3 --reason "v4 starves the alarms"`
    """
    place = home_at(home)
    manifest = _store(place).rollback(
        stream,
        to,
        signer=SigningKey.load_or_create(place.keys),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=reason,
    )
    typer.echo(f"{stream}: version {manifest.version} is the plan of version {to} again")


def verify(
    stream: StreamArgument,
    version: VersionOption = None,
    every: Annotated[bool, typer.Option("--all", help="Every kept version.")] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Verify signature, digests and that both encodings decode to the same plan.

    Example: `headgate verify ticks --all`
    """
    store = _store(home_at(home))
    versions = store.versions(stream) if every else [version or store.latest(stream).version]
    for number in versions:
        store.verify(stream, number)
        typer.echo(f"{stream} version {number}: signature, digests and both encodings are good")
