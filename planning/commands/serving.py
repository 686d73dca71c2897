"""Commands of delivery over HTTP: serve, tokens."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from headgate_serve.tokens import Role, Tokens

from planning.artifacts import Reader
from planning.commands.options import DEFAULT_HOME, HomeOption, JsonOption, print_json
from planning.console import print_table
from planning.errors import InvalidInput, MissingExtra
from planning.home import Home

DEFAULT_TOKENS = Path("tokens.json")
TokensOption = Annotated[
    Path, typer.Option("--tokens", envvar="HEADGATE_TOKENS", help="File of tokens, mode 600.")
]
app = typer.Typer(help="Tokens of nodes and operators.", no_args_is_help=True)


def serve(
    home: HomeOption = DEFAULT_HOME,
    store: Annotated[
        str | None, typer.Option("--store", help="Folder or URL of the plans instead of a home.")
    ] = None,
    tokens: TokensOption = DEFAULT_TOKENS,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8740,
) -> None:
    """Serve published plans over HTTP, and take in the nodes' statuses.

    Example: `headgate serve --home /srv/headgate --tokens /etc/headgate/tokens.json`
    """
    try:
        from headgate_serve import server
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"headgate serve needs {error.name}; run `pip install 'headgate[serve]'`"
        ) from None
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    reader = Reader(store or Home.at(home).plans)
    allowed = Tokens(tokens)
    if not allowed.load():
        raise InvalidInput(
            f"the file of tokens must hold at least one, got {allowed.path} with none; run "
            f"`headgate tokens add NODE --stream STREAM --tokens {tokens}`"
        )
    server.serve(reader, allowed, host, port, typer.echo)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the token; by default also of its node.")],
    streams: Annotated[
        list[str], typer.Option("--stream", help="Stream, or a pattern such as 'fleet-*'.")
    ],
    node: Annotated[str | None, typer.Option(help="Node that may report with it.")] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="May read the statuses of nodes, and report none.")
    ] = False,
    not_after: Annotated[
        str | None, typer.Option(help="When it ends, such as 2027-01-02T03:04:05Z.")
    ] = None,
    tokens: TokensOption = DEFAULT_TOKENS,
) -> None:
    """Make a token and print it, this once.

    Example: `headgate tokens add edge-7 --stream ticks`
    """
    role: Role = "operator" if operator else "node"
    typer.echo(Tokens(tokens).add(name, tuple(streams), role, node, not_after))


@app.command("list")
def list_tokens(tokens: TokensOption = DEFAULT_TOKENS, as_json: JsonOption = False) -> None:
    """List the tokens: whose they are and what for, not the tokens themselves."""
    kept = Tokens(tokens).load()
    if as_json:
        print_json([msgspec.to_builtins(token) for token in kept])
        return
    print_table(
        ["name", "role", "node", "streams", "until"],
        [[t.name, t.role, t.node, ", ".join(t.streams), t.not_after] for t in kept],
    )


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of the token.")],
    tokens: TokensOption = DEFAULT_TOKENS,
) -> None:
    """Remove a token; it stops working at once, also on a running server."""
    Tokens(tokens).remove(name)
