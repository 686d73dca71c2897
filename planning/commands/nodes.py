"""Commands for source nodes: warm."""

from __future__ import annotations

from typing import Annotated

import typer


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
