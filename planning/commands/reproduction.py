"""``headgate reproduce``: the papers' figures and tables, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from planning import families
from planning.errors import InvalidInput
from planning.reproduction import write_summary

DEFAULT_FOLDER = Path("docs/reproduction")


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Families; all without.", metavar="[FAMILY]...")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where tables and plots go.")] = DEFAULT_FOLDER,
    quick: Annotated[bool, typer.Option(help="Fewer seeds and points, to see how it goes.")] = (
        False
    ),
) -> None:
    """Regenerate the figures and tables of the papers, ours beside the stated ones.

    Example: `headgate reproduce sifter --quick`
    """
    console = Console()
    chosen = [families.family(name) for name in names or families.NAMES]
    for family in chosen:
        if not family.has_room("reproduce"):
            raise InvalidInput(
                f"family must be one with a paper to reproduce, got {family.name!r}; "
                f"planning/{family.name} has no reproduce.py"
            )
    for family in chosen:
        console.print(f"{family.name}: reproducing into {folder}")
        room = family.room("reproduce")
        room.reproduce(folder, quick, lambda line: console.print(f"  {line}", highlight=False))
    console.print(f"Summary: {write_summary(folder)}", highlight=False)
