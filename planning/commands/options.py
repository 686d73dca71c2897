"""Options that several commands share, and how they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from planning.errors import DefinitionError, InvalidInput
from planning.streams import StreamDefinition, load_folder

HomeOption = Annotated[
    str,
    typer.Option(
        "--home", envvar="HEADGATE_HOME", help="Folder or URL of landing/, plans/, keys/, runs/."
    ),
]
StreamsOption = Annotated[
    Path,
    typer.Option("--streams", envvar="HEADGATE_STREAMS", help="Folder of stream definitions."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
StreamArgument = Annotated[str, typer.Argument(help="Name of the stream.")]

LOAD_HELP = "Load: a fraction (0.5), or the rates of all inputs (i1=200,i2=50) for a plan of rates."
DEFAULT_HOME = "var/headgate"
DEFAULT_STREAMS = Path("dags/streams")


def definitions_in(folder: Path) -> tuple[list[StreamDefinition], list[DefinitionError]]:
    """Return the definitions of a folder and the errors in others; raise if there is none."""
    good, bad = load_folder(folder)
    if not good and not bad:
        raise InvalidInput(
            f"the folder of stream definitions must hold at least one *.yaml file, got {folder}; "
            "name the right folder with --streams or HEADGATE_STREAMS, or start headgate in the "
            "checkout"
        )
    return good, bad


def definition_of(stream: str, folder: Path) -> StreamDefinition:
    """Return the definition of ``stream``; raise if it is unknown or its file has mistakes."""
    good, bad = definitions_in(folder)
    for definition in good:
        if definition.stream == stream:
            return definition
    for error in bad:
        if Path(error.problems[0].file).stem == stream:
            raise error
    known = ", ".join(d.stream for d in good) or "none"
    raise InvalidInput(f"stream must be one that {folder} defines ({known}), got {stream!r}")


def print_json(value: Any) -> None:
    """Print a value as JSON with stable order."""
    typer.echo(json.dumps(value, indent=2, sort_keys=True, default=str))
