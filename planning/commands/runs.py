"""Commands that plan and try plans: plan, simulate."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from planning.commands.options import (
    DEFAULT_HOME,
    DEFAULT_STREAMS,
    LOAD_HELP,
    HomeOption,
    JsonOption,
    StreamArgument,
    StreamsOption,
    definition_of,
    print_json,
)
from planning.console import print_table
from planning.errors import InvalidInput
from planning.exit_codes import EXIT_NOT_PUBLISHED
from planning.home import Home
from planning.loads import as_text

DEFAULT_LOADS = ("0.1", "0.3", "0.5", "0.7", "0.9")


def plan(
    stream: StreamArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a parameter, as name=value; may be repeated."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Publish nothing; the samples stay for the next run.")
    ] = False,
    force: Annotated[
        bool, typer.Option(help="Plan from the last samples if none are new; overrule the gate.")
    ] = False,
    folder: StreamsOption = DEFAULT_STREAMS,
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Run all stages here and now, without Airflow and Spark (for small data).

    Example: `headgate plan ticks --set regions=32 --dry-run`
    """
    from planning.stages import collect, gate, local, publish, solve

    definition = definition_of(stream, folder).with_parameters(_parsed(changes or []))
    place = Home.at(home)
    now = datetime.now(UTC)
    console = Console(stderr=True)
    with console.status("collect") as status:
        try:
            run_id = f"cli-{now:%Y%m%dT%H%M%S%f}"
            run = collect.collect(place, definition, run_id, force=force, dry_run=dry_run)
        except collect.NothingNew as nothing:
            typer.echo(f"headgate: {nothing}", err=True)
            raise typer.Exit(EXIT_NOT_PUBLISHED) from None
        status.update("validate")
        local.validate(run)
        status.update("statistics")
        local.statistics(run)
        status.update("solve")
        summary = solve.solve(run)
        status.update("gate")
        verdict = gate.gate(place, run, force=force)
        status.update("publish")
        created_at = now.isoformat(timespec="seconds")
        published = publish.publish(place, run, created_at=created_at, dry_run=dry_run)
    result = {"run": run.uri, "summary": summary, "verdict": verdict, "published": published}
    if as_json:
        print_json(result)
    else:
        _print_outcomes(verdict["outcomes"])
        version = f"version {published['version']}" if published else "not published"
        for warning in verdict["warnings"]:
            typer.echo(f"warning: {warning}")
        typer.echo(f"{stream}: {version}; {verdict['reason']}")
    if published is None and not dry_run:
        raise typer.Exit(EXIT_NOT_PUBLISHED)


def simulate(
    stream: StreamArgument,
    samples: Annotated[
        Path | None,
        typer.Option(help="File of Parquet or JSON lines, or a folder of Parquet; only demo "
                     "streams make their own."),
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option("--at", help=f"{LOAD_HELP} May be repeated.")
    ] = None,
    loads: Annotated[
        str | None, typer.Option(help="Fractions to try, separated by commas.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Version; newest without.")] = None,
    folder: StreamsOption = DEFAULT_STREAMS,
    home: HomeOption = DEFAULT_HOME,
    as_json: JsonOption = False,
) -> None:
    """Shed fresh samples with a published plan at any loads, and compare with random dropping.

    Example: `headgate simulate ticks --samples fresh.parquet --loads 0.2,0.4,0.8`
    """
    from planning import trial

    wanted = [*(at or ()), *(loads.split(",") if loads else ())] or DEFAULT_LOADS
    definition = definition_of(stream, folder)
    rows = trial.outcomes(Home.at(home), definition, at=wanted, samples=samples, version=version)
    if as_json:
        print_json(rows)
    else:
        _print_outcomes(rows)


def _print_outcomes(rows: list[dict[str, Any]]) -> None:
    print_table(
        ["load", "predicted", "achieved", "random dropping", "simple alternatives", "passed"],
        [
            ["changing" if r["schedule"] else as_text(r["load"]), r["predicted_quality"],
             r["quality"], r["random_quality"],
             ", ".join(f"{name} {quality:.3f}" for name, quality in r["baselines"].items()),
             r["passed_fraction"]]
            for r in rows
        ],
    )


def _parsed(changes: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or not name:
            raise InvalidInput(f"--set must be name=value, got {change!r}")
        try:
            parsed[name] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name] = value
    return parsed
