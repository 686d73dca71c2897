"""``headgate streams``: check, show and list stream definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planning.commands.options import (
    DEFAULT_STREAMS,
    JsonOption,
    StreamArgument,
    StreamsOption,
    definition_of,
    print_json,
    print_table,
)
from planning.errors import DefinitionError
from planning.streams import load, load_folder

app = typer.Typer(help="Check, show and list stream definitions.", no_args_is_help=True)


@app.command("list")
def list_streams(folder: StreamsOption = DEFAULT_STREAMS, as_json: JsonOption = False) -> None:
    """List the streams that are defined.

    Example: `headgate streams list --json`
    """
    good, bad = load_folder(folder)
    if as_json:
        print_json([{"stream": d.stream, "family": d.family, "file": d.source} for d in good])
    else:
        rows = [
            [d.stream, d.family, d.schedule or "by hand", len(d.attributes), d.owner, d.description]
            for d in good
        ]
        print_table(["stream", "family", "schedule", "attributes", "owner", "description"], rows)
    _report(bad)


@app.command()
def check(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files to check; all of the folder without.")
    ] = None,
    folder: StreamsOption = DEFAULT_STREAMS,
) -> None:
    """Check definitions; every mistake is named with file, line, field and what is allowed.

    Example: `headgate streams check dags/streams/ticks.yaml`
    """
    if paths:
        good, bad = [], []
        for path in paths:
            try:
                good.append(load(path))
            except DefinitionError as error:
                bad.append(error)
    else:
        good, bad = load_folder(folder)
    for definition in good:
        typer.echo(f"{definition.source}: ok ({definition.stream}, {definition.family})")
    _report(bad)


@app.command()
def show(
    stream: StreamArgument, folder: StreamsOption = DEFAULT_STREAMS, as_json: JsonOption = False
) -> None:
    """Show a definition with every default filled in, and what its parameters mean.

    Example: `headgate streams show ticks`
    """
    definition = definition_of(stream, folder)
    document = definition.model_dump(mode="json")
    if as_json:
        print_json(document)
        return
    typer.echo(f"{definition.stream} ({definition.family}): {definition.description}")
    print_table(
        ["attribute", "type", "domain or values", "unit"],
        [[a.name, a.type, list(a.values) or list(a.bounds), a.unit] for a in definition.attributes],
    )
    described = type(definition.parameters).model_fields
    print_table(
        ["parameter", "value", "meaning"],
        [
            [name, value, described[name].description]
            for name, value in document["parameters"].items()
        ],
    )
    for part in ("samples", "queries", "gate", "validity", "retention"):
        typer.echo(f"{part}: " + ", ".join(f"{k}={v}" for k, v in document[part].items()))
    typer.echo(f"schedule: {definition.schedule or 'by hand'}")


def _report(bad: list[DefinitionError]) -> None:
    for error in bad:
        typer.echo(str(error), err=True)
    if bad:
        raise typer.Exit(1)
