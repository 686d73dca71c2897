"""``headgate reproduce``: the papers' figures and tables, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from planning import families
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
    for name in names or families.NAMES:
        room = families.family(name).room("reproduce")
        console.print(f"{name}: reproducing into {folder}")
        room.reproduce(folder, quick, lambda line: console.print(f"  {line}", highlight=False))
    console.print(f"Summary: {write_summary(folder)}", highlight=False)
