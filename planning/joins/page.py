"""The reproduction's page: Markdown, its tables as CSV and its plots as SVG, in one folder."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = "joins"
HEAD = 3  # lines before the summary


class Page:
    """Collects sections, tables and plots, and writes them."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick = folder, quick
        command = f"headgate reproduce {NAME}" + (" --quick" if quick else "")
        self.lines = [
            "# Stream-join shedding, reproduced",
            "",
            f"Made by `{command}`. Output comes from the deterministic cost model: a processor "
            "that makes 750,000 comparisons per second unless said otherwise, input buffers of one "
            "second, plans from other random tuples than they are tried on.",
        ]
        self.claims: list[tuple[str, str, str, str]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def claim(self, figure: str, paper: str, ours: str, differs: str = "") -> None:
        """Set what the paper's text says of a figure beside what was found here.

        ``differs`` says why, where the two do not agree.
        """
        verdict = f"differs: {differs}" if differs else "reproduced"
        self.claims.append((figure, paper, ours, verdict))

    def section(self, title: str, text: str) -> None:
        """Start a section."""
        self.lines += ["", f"## {title}", "", text]

    def table(self, name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write a table to the page and as CSV."""
        cells = [[_plain(cell) for cell in row] for row in rows]
        path = self.folder / f"{NAME}-{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *cells])
        self.lines += [
            "",
            "| " + " | ".join(header) + " |",
            "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in cells),
        ]

    def plot(self, name: str, draw: Callable[[Any], None], width: float = 6.0) -> None:
        """Draw one figure into the folder and show it on the page."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context({"svg.hashsalt": "headgate", "font.size": 9}):
            figure = Figure(figsize=(width, 3.6), layout="constrained")
            draw(figure)
            figure.savefig(self.folder / f"{NAME}-{name}.svg", metadata={"Date": None})
        self.lines += ["", f"![{name}]({NAME}-{name}.svg)"]

    def curves(
        self, name: str, x: Sequence[float], curves: Mapping[str, Sequence[float]], **labels: str
    ) -> None:
        """Show curves as a table and a plot."""
        header = [labels.get("xlabel", "x"), *curves]
        rows = [[value, *(c[k] for c in curves.values())] for k, value in enumerate(x)]
        self.table(name, header, rows)

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            for label, values in curves.items():
                axes.plot(x, values, marker="o", markersize=3, label=label)
            axes.set(**labels)
            axes.grid(alpha=0.3)
            axes.legend()

        self.plot(name, draw)

    def write(self) -> None:
        """Write the page."""
        summary = [
            "",
            "| figure | paper states | ours | verdict |",
            "|---|---|---|---|",
            *("| " + " | ".join(claim) + " |" for claim in self.claims),
        ]
        text = "\n".join(self.lines[:HEAD] + summary + self.lines[HEAD:]) + "\n"
        (self.folder / f"{NAME}.md").write_text(text, encoding="utf-8")


def _plain(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
