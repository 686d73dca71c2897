"""``headgate streams``: check, show and list stream definitions."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from planning.commands.options import (
    DEFAULT_STREAMS,
    JsonOption,
    StreamArgument,
    StreamsOption,
    definition_of,
    definitions_in,
    print_json,
)
from planning.console import print_table
from planning.definition_errors import read_yaml
from planning.errors import DefinitionError, Problem
from planning.query_files import locate
from planning.sections import Attribute
from planning.streams import StreamDefinition, load

LONGEST_CELL = 300

app = typer.Typer(help="Check, show and list stream definitions.", no_args_is_help=True)


@app.command("list")
def list_streams(folder: StreamsOption = DEFAULT_STREAMS, as_json: JsonOption = False) -> None:
    """List the streams that are defined.

    Example: `headgate streams list --json`
    """
    good, bad = definitions_in(folder)
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
        good, bad = definitions_in(folder)
    for definition in good:
        absent = _absent_queries(definition)
        if absent is None:
            typer.echo(f"{definition.source}: ok ({definition.stream}, {definition.family})")
        else:
            bad.append(absent)
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
    document["samples"]["landing"] = definition.landing
    typer.echo(f"{definition.stream} ({definition.family}): {definition.description}".rstrip(": "))
    print_table(
        ["attribute", "type", "domain or values", "unit"],
        [[a.name, a.type, _domain(a), a.unit] for a in definition.attributes],
    )
    long: dict[str, Any] = {}
    for part in ("parameters", "samples", "queries", "gate", "validity", "retention"):
        described = type(getattr(definition, part)).model_fields
        rows = []
        for name, value in document[part].items():
            if len(str(value)) > LONGEST_CELL:
                long[f"{part}.{name}"] = value
                value = "below"
            rows.append([name, value, described[name].description])
        print_table([part, "value", "meaning"], rows)
    typer.echo(f"schedule: {definition.schedule or 'by hand'}")
    for name, value in long.items():
        typer.echo(f"{name}:\n{textwrap.indent(_yaml(value), '  ')}", nl=False)


def _domain(attribute: Attribute) -> str:
    if attribute.type == "category":
        return ", ".join(attribute.values)
    low, high = attribute.bounds
    return f"[{low:.12g}, {high:.12g}]"


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None)


def _absent_queries(definition: StreamDefinition) -> DefinitionError | None:
    """Return the problem of a definition whose file of queries is not there."""
    file, source = definition.queries.file, definition.source
    if file is None or (path := locate(file, source)).exists():
        return None
    _, lines = read_yaml(Path(source))
    line = lines.get(("queries", "file"), 1)
    allowed = f"a file beside the definition, or {path}"
    return DefinitionError([Problem(source, line, "queries.file", allowed, repr(file))])


def _report(bad: list[DefinitionError]) -> None:
    for error in bad:
        typer.echo(str(error), err=True)
    if bad:
        raise typer.Exit(1)
