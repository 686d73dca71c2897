"""``headgate streams``: check, show and list stream definitions."""

from __future__ import annotations

import importlib
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
from planning.definition_errors import problem_of, read_yaml
from planning.errors import DefinitionError, Mistake, Problem
from planning.home import Home
from planning.query_files import locate, with_file, written_queries
from planning.sections import Attribute
from planning.streams import StreamDefinition, load

LONGEST_CELL = 300
AGE_LIMIT = {"$PARAMETER": "oldest_s"}

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
        problems = _outside_problems(definition)
        if problems:
            bad.append(DefinitionError(problems))
        else:
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
    typer.echo(f"schema version of the manifests: {definition.schema_version}")
    for name, value in long.items():
        typer.echo(f"{name}:\n{textwrap.indent(_yaml(value), '  ')}", nl=False)


def _domain(attribute: Attribute) -> str:
    if attribute.type in ("category", "text"):
        return ", ".join(attribute.values) or "any"
    low, high = attribute.bounds
    return f"[{low:.12g}, {high:.12g}]"


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None)


def _outside_problems(definition: StreamDefinition) -> list[Problem]:
    """Return what is wrong with a definition only in view of its query file and its suite."""
    problems = []
    for check in (_queries_fit, _suite_fits):
        try:
            check(definition)
        except Mistake as mistake:
            _, lines = read_yaml(Path(definition.source))
            problems.append(problem_of(mistake, definition.source, lines))
    return problems


def _queries_fit(definition: StreamDefinition) -> None:
    file = definition.queries.file
    if file is None:
        return
    path = locate(file, definition.source, Home.from_environment())
    if not path.exists():
        allowed = f"a file beside the definition, or {path}"
        raise Mistake("queries.file", allowed, repr(file), at=("queries", "file"))
    written_queries(with_file(definition, path))


def _suite_fits(definition: StreamDefinition) -> None:
    try:
        # By name: the library does not need the suites, only this check looks at them.
        rules = importlib.import_module("expectations.rules")
    except ModuleNotFoundError:
        return
    suite, age = rules.suite_for(definition), definition.samples.max_age_s
    aged = any(AGE_LIMIT in rule["kwargs"].values() for rule in suite["expectations"])
    if age is not None and not aged:
        allowed = "given with samples.time_column, the column that it looks at"
        at = ("samples", "max_age_s")
        raise Mistake("samples.max_age_s", allowed, f"{age:g} alone", at=at)


def _report(bad: list[DefinitionError]) -> None:
    for error in bad:
        typer.echo(str(error), err=True)
    if bad:
        raise typer.Exit(1)
