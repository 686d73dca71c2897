"""Commands for and about source nodes: nodes, warm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from planning import loads
from planning.artifacts import Reader
from planning.artifacts.fleet import Fleet, Node, fleet, span
from planning.artifacts.remote import Remote
from planning.commands.options import DEFAULT_HOME, HomeOption, JsonOption, print_json
from planning.console import print_table
from planning.errors import InvalidInput, StoreError
from planning.exit_codes import EXIT_BAD_INPUT
from planning.home import Home


def nodes(
    stream: Annotated[str | None, typer.Argument(help="Name of the stream; all without.")] = None,
    home: HomeOption = DEFAULT_HOME,
    url: Annotated[
        str | None, typer.Option(help="Address of a plan API or `headgate serve`, not a home.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that --url asks for.")
    ] = None,
    as_json: JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a node does not follow.")
    ] = False,
    within: Annotated[
        float, typer.Option(min=0, help="Seconds that --check allows a node to need.")
    ] = 60.0,
) -> None:
    """Show which nodes follow, the silent and refusing ones on top, and why others do not.

    Example: `headgate nodes ticks --check --within 120`
    """
    reader: Reader = Reader(Home.at(home).plans)
    if url is not None:
        if stream is None:
            raise InvalidInput("stream must be named with --url, got none")
        reader = Remote(url, token=None if token_file is None else _token(token_file))
    elif not reader.there():
        raise StoreError(f"{reader.root} is missing; name the right home with --home")
    fleets = {name: fleet(reader, name) for name in ([stream] if stream else reader.streams())}
    if as_json:
        print_json([_told(s, f, node) for s, f in fleets.items() for node in f.nodes])
    else:
        rows = [_row(s, f, node) for s, f in fleets.items() for node in f.nodes]
        columns = ["stream", "node", "state", "version", "load", "kept", "heard"]
        if rows:
            print_table(columns, rows)
        for name, one in fleets.items():
            typer.echo(f"{name}: {one.summary()}.")
    if check and any(one.late(within) for one in fleets.values()):
        raise typer.Exit(EXIT_BAD_INPUT)


def _token(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"--token-file must name a file with a token ({error})") from None


def _row(stream: str, fleet: Fleet, node: Node) -> list[Any]:
    status, share = node.status, node.kept_share
    if status is None:
        return [stream, node.name, node.sentence, "", "", "", ""]
    return [
        stream, node.name, node.sentence, f"{status.version} of {fleet.newest}",
        loads.as_text(status.load), "" if share is None else f"{share:.1%}",
        f"{span(status.age_s)} ago",
    ]  # fmt: skip


def _told(stream: str, fleet: Fleet, node: Node) -> dict[str, Any]:
    return {
        "stream": stream,
        "node": node.name,
        "newest": fleet.newest,
        "state": node.state,
        "sentence": node.sentence,
        "lasting_s": node.lasting_s if math.isfinite(node.lasting_s) else None,
        "kept_share": node.kept_share,
        "status": msgspec.to_builtins(node.status, str_keys=True),
    }


def warm(
    families: Annotated[
        list[str] | None, typer.Argument(metavar="FAMILY", help="Families; all by default.")
    ] = None,
) -> None:
    """Compile ahead what shedders need, so that a node does not when its first plan arrives.

    A node without this command runs `python -m planning.runtime.warm`.

    Example: `headgate warm sifter`
    """
    from planning.runtime.warm import report

    report(families or ())
