"""``headgate reproduce``: the papers' figures and tables, made anew."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from planning import families
from planning.errors import InvalidInput
from planning.reproduction import REPRODUCED, claims_of, write_summary

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

    All of it takes about half an hour on two cores, with --quick a few minutes.

    Example: `headgate reproduce sifter --quick`
    """
    start = time.monotonic()

    def say(line: str) -> None:
        typer.echo(f"[{time.monotonic() - start:6.0f} s] {line}")

    chosen = [families.family(name) for name in names or families.NAMES]
    for family in chosen:
        if not family.has_room("reproduce"):
            raise InvalidInput(
                f"family must be one with a paper to reproduce, got {family.name!r}; "
                f"planning/{family.name} has no reproduce.py"
            )
    for family in chosen:
        family.room("reproduce").reproduce(
            folder, quick, lambda line, name=family.name: say(f"{name}: {line}")
        )
        page = folder / f"{family.name}.md"
        verdicts = [verdict for *_, verdict in claims_of(page)]
        good = sum(verdict == REPRODUCED for verdict in verdicts)
        say(f"{family.name}: {good} of {len(verdicts)} statements reproduced; see {page}")
    say(f"All statements side by side: {write_summary(folder)}")
