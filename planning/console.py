"""Tables on the terminal, or in a log."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNATTENDED_WIDTH = 110


def print_table(columns: list[str], rows: list[list[Any]], title: str = "") -> None:
    """Print rows as a table that fits the terminal."""
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=UNATTENDED_WIDTH)
    console.print(table)


def _cell(value: Any) -> Text:
    """Return a value as text, in which square brackets are no markup."""
    if isinstance(value, float):
        return Text(f"{value:.4g}")
    return Text("" if value is None else str(value))
