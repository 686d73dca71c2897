"""Commands on published plans: show, history, diff, rollback, verify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from planning import assurances, loads
from planning.artifacts import SigningKey, Store
from planning.commands.options import (
    DEFAULT_HOME,
    LOAD_HELP,
    HomeOption,
    JsonOption,
    StreamArgument,
    print_json,
)
from planning.console import print_table
from planning.exit_codes import EXIT_BAD_INPUT, EXIT_UNTRUSTED
from planning.families import Setting
from planning.home import Home

SHOWN_CHARACTERS = 40
SHOWN_VALUES = 24
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Version; the newest without.")
]


def _fields(setting: Setting | Mapping[str, float]) -> dict[str, Any]:
    """Return a setting's fields: a mapping as it is, else the fields of a dataclass."""
    if isinstance(setting, Mapping):
        return dict(setting)
    return {field.name: getattr(setting, field.name) for field in fields(setting)}


def _plain(value: Any) -> Any:
    """Return arrays as lists."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _digest(value: Any) -> str:
    """Return the values of an array if they are few, else their number and range."""
    if not isinstance(value, np.ndarray):
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    if value.dtype == np.bool_:
        return f"{np.count_nonzero(value)} of {value.size} true"
    flat = value.ravel()
    if flat.size <= SHOWN_VALUES:
        return "  ".join(f"{number:.4g}" for number in flat.tolist())
    return f"{flat.size} values from {flat.min():.4g} to {flat.max():.4g}, mean {flat.mean():.4g}"


def show(
    stream: StreamArgument,
    version: VersionOption = None,
    at: Annotated[
        str | None, typer.Option("--at", help=f"Also show the setting here. {LOAD_HELP}")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Show a published plan: its manifest, summary and, with --at, its setting at a load.

    Example: `headgate show ticks --at 0.5`
    """
    store = Home.at(home).store()
    published = store.load(stream, version)
    manifest = msgspec.to_builtins(published.manifest)
    summary = published.plan.summary()
    load: Any = None if at is None else loads.parse(at, published.plan)
    setting = None if at is None else _fields(published.plan.at(load))
    kept = assurances.guarantees(published, [load] if isinstance(load, float) else [])
    if as_json:
        plain = None if setting is None else {k: _plain(value) for k, value in setting.items()}
        shown = {"manifest": manifest, "summary": summary, "load": load, "setting": plain}
        print_json(shown | ({"guarantees": msgspec.to_builtins(kept)} if kept else {}))
        return
    sizes = ", ".join(f"{k} {p['bytes']} bytes" for k, p in manifest["payloads"].items())
    rows = [
        ["stream", manifest["stream"]],
        ["family", manifest["family"]],
        ["version", f"{manifest['version']} (parent {manifest['parent'] or 'none'})"],
        ["created", manifest["created_at"]],
        ["payloads", sizes],
        ["gate", f"{manifest['gate']['decision']}: {manifest['gate']['reason']}"],
        *[["warning", warning] for warning in manifest["gate"].get("warnings", ())],
        ["certificate", assurances.certificate(published.manifest)],
        ["valid until", manifest["validity"]["not_after"] or "replaced"],
        ["signed by", manifest["key_id"]],
        *[[name, value] for name, value in summary.items()],
    ]
    print_table(["field", "value"], rows)
    if kept:
        print_table(*assurances.table(kept), title="Guarantees, and what is predicted at loads")
    asked = assurances.queries(store, published)
    if asked[1]:
        print_table(*asked, title="Completeness predicted for the queries that lose most")
    tried = [*(step / 10 for step in range(1, 11)), *([] if at is None else [load])]
    print_table(
        ["load", "predicted quality"],
        [[loads.as_text(load), str(published.promised(load))] for load in tried],
    )
    if setting is not None:
        print_table(
            [f"setting at {loads.as_text(load)}", "value"],
            [[name, _digest(value)] for name, value in setting.items()] or [["nothing shed", ""]],
        )
        typer.echo(f"docs/families/{manifest['family']}.md explains it; --json has every value.")


def history(
    stream: StreamArgument, home: HomeOption = DEFAULT_HOME, as_json: JsonOption = False
) -> None:
    """List the versions of a stream, newest first.

    Example: `headgate history ticks`
    """
    listing = Home.at(home).store().history(stream)
    if as_json:
        print_json([msgspec.to_builtins(m) for m in listing])
    else:
        print_table(
            ["version", "created", "bytes", "kind", "reason"],
            [
                [
                    m.version,
                    m.created_at,
                    m.payloads.binary.bytes,
                    f"rollback to {m.rollback_of}" if m.rollback_of else m.gate.decision,
                    m.reason or m.gate.reason,
                ]
                for m in listing
            ],
        )
    for broken in listing.broken:
        typer.echo(f"version {broken.name}: {broken.problem}", err=True)
    if listing.broken:
        raise typer.Exit(EXIT_UNTRUSTED)


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
    difference = Home.at(home).store().diff(stream, old, new)
    if as_json:
        print_json(msgspec.to_builtins(difference))
        return
    rows = [
        [c.path, _short(c.old), _short(c.new), c.count_changed or None, c.max_abs_change or None]
        for c in (*difference.plan, *difference.manifest)
        if not c.path.startswith("gate.outcomes")
    ]
    columns = ["field", f"version {old}", f"version {new}", "values changed", "largest change"]
    print_table(columns, rows)


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def rollback(
    stream: StreamArgument,
    to: Annotated[int, typer.Option("--to", min=1, help="Version whose plan comes back.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the manifest.")],
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Publish the plan of an older version again, as a new version.

    Example: `headgate rollback ticks --to 3 --reason "v4 starves the alarms"`
    """
    place = Home.at(home)
    manifest = place.store().rollback(
        stream,
        to,
        signer=SigningKey.load_or_create(place.keys),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=reason,
    )
    if as_json:
        print_json(msgspec.to_builtins(manifest))
    else:
        typer.echo(f"{stream}: version {manifest.version} is the plan of version {to} again")


def verify(
    stream: StreamArgument,
    version: VersionOption = None,
    every: Annotated[bool, typer.Option("--all", help="Every kept version.")] = False,
    optimality: Annotated[
        bool, typer.Option("--optimality", help="Solve again from the kept statistics instead.")
    ] = False,
    limit_s: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds for --optimality; gate.certificate_s without."),
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Verify signature, digests and that both encodings decode to the same plan.

    Example: `headgate verify ticks --all`, `headgate verify ticks --optimality`
    """
    if every and (version is not None or optimality):
        other = "--optimality" if version is None else "--version"
        raise typer.BadParameter(f"either {other} or --all, got both")
    store = Home.at(home).store()
    if optimality:
        _verify_optimality(store, stream, version, limit_s, as_json)
        return
    newest = store.newest(stream)
    versions = store.versions(stream) if every else [version or newest]
    reports = [store.verify(stream, number) for number in versions]
    if as_json:
        print_json([msgspec.to_builtins(report) for report in reports])
    else:
        print_table(
            ["version", "check", "result", "detail"],
            [
                [report.version, check.name, "good" if check.passed else "BAD", check.detail]
                for report in reports
                for check in report.checks
            ],
        )
    if not all(check.passed for report in reports for check in report.checks):
        raise typer.Exit(EXIT_UNTRUSTED)


def _verify_optimality(
    store: Store, stream: str, version: int | None, limit_s: float | None, as_json: bool
) -> None:
    from planning.certifying import NOT_CERTIFIED, Contradiction, at
    from planning.stages.certify import repeat

    try:
        number, found = repeat(store, stream, version, limit_s)
    except Contradiction as error:
        typer.echo(f"headgate: {error}", err=True)
        raise typer.Exit(EXIT_UNTRUSTED) from None
    if as_json:
        print_json({"stream": stream, "version": number, **msgspec.to_builtins(found)})
    else:
        print_table(
            ["load", "objective", "solver's best", "bound", "gap"],
            [
                [at(c.load), *(f"{x:.8f}" for x in (c.objective, c.best, c.bound)), c.gap]
                for c in found.checks
            ],
        )
        words = assurances.verdict(found) if found.loads else f"{found.status}: {found.reason}"
        typer.echo(f"{stream}: version {number} is {words}")
        if found.checks:
            reason = f"; {found.reason}" if found.reason else ""
            typer.echo(f"{found.loads} of {found.of} loads by {found.solver}{reason}")
    if found.status == NOT_CERTIFIED:
        raise typer.Exit(EXIT_BAD_INPUT)
