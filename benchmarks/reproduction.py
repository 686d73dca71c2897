"""Reproductions of the papers: a page per family, and the summary over all of them.

A page begins with what the paper states next to what was found here; below are the figures, as
plots (SVG) and as tables that are also stored next to the page as CSV.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure as Measured
from planning import families
from planning.pictures import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADER = ("figure", "paper states", "ours", "verdict")
SUMMARY = "README.md"
REPRODUCED = "reproduced"


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a paper, what was found here, and why it differs if it does.

    Examples
    --------
    >>> Claim("Table 1", "3/5", "3/5", True).verdict
    'reproduced'
    >>> Claim("Table 1", "3/5", "1/2", False, "the paper rounds").verdict
    'differs: the paper rounds'
    """

    figure: str
    stated: str
    ours: str
    holds: bool
    reason: str = ""

    @property
    def verdict(self) -> str:
        """``reproduced``, or ``differs`` and why."""
        return REPRODUCED if self.holds else f"differs: {self.reason}"


class Page:
    """Collects claims, sections, tables and plots of one family, and writes them.

    Parameters
    ----------
    folder
        Where the page, its tables and its plots go.
    family
        The family; its name begins every file's name.
    title, introduction
        What comes above the claims.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Page(Path(folder), "sifter", "NR sifters", "Made by `make reproduce`.")
    ...     page.claim(Claim("Table 1", "3/5", "3/5", True))
    ...     page.section("Table 1")
    ...     page.table("table-1", ["plan", "throughput"], [["optimal", 0.6]])
    ...     claims_of(page.write())
    [['Table 1', '3/5', '3/5', 'reproduced']]
    """

    def __init__(self, folder: Path, family: str, title: str, introduction: str) -> None:
        self.folder, self.family = Path(folder), family
        self.title, self.introduction = title, introduction
        self.claims: list[Claim] = []
        self._lines: list[str] = []
        self.folder.mkdir(parents=True, exist_ok=True)

    def claim(self, *claims: Claim) -> None:
        """Add rows to the table at the head of the page."""
        self.claims += claims

    def section(self, title: str, text: str = "") -> None:
        """Start a section."""
        self._lines += ["", f"## {title}"]
        if text:
            self.text(text)

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._lines += ["", text]

    def table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Show a table and write it as CSV."""
        cells = [[_plain(cell) for cell in row] for row in rows]
        path = self.folder / f"{self.family}-{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows([header, *cells])
        self._lines += ["", *markdown_table(header, cells)]

    def plot(self, name: str, draw: Callable[[Figure], None], width: float = 6.0) -> None:
        """Draw one figure into the folder and show it."""
        file = f"{self.family}-{name}.svg"
        (self.folder / file).write_bytes(svg(draw, width))
        self._lines += ["", f"![{name}]({file})"]

    def figure(self, figure: Measured, text: str = "") -> None:
        """Show a measured figure in its own section: its table, and its curves if it has any."""
        self.section(figure.title, text)
        self.table(figure.name, figure.columns, figure.rows)
        if figure.has_curves:
            self.plot(figure.name, figure.draw, width=5.0 + 3.5 * (len(figure.panels) - 1))

    def curves(
        self, name: str, x: Sequence[float], curves: Mapping[str, Sequence[float]], **axes: Any
    ) -> None:
        """Show curves over ``x`` as a plot and as a table; ``axes`` are properties of the axes."""
        rows = [[value, *(curve[k] for curve in curves.values())] for k, value in enumerate(x)]
        self.plot(name, lambda figure: draw_curves(figure, x, curves, **axes))
        self.table(name, [axes.get("xlabel", "x"), *curves], rows)

    def write(self) -> Path:
        """Write the page and return its path."""
        rows = [(c.figure, c.stated, c.ours, c.verdict) for c in self.claims]
        claims = ["", *markdown_table(HEADER, rows)] if rows else []
        lines = [f"# {self.title}", "", self.introduction, *claims, *self._lines]
        path = self.folder / f"{self.family}.md"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def draw_curves(
    figure: Figure, x: Sequence[float], curves: Mapping[str, Sequence[float]], **axes: Any
) -> None:
    """Draw curves over ``x`` with a legend.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> draw_curves(figure, [0.3, 0.5], {"plan": [0.8, 0.9], "random": [0.3, 0.5]}, xlabel="z")
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['plan', 'random']
    """
    plot = figure.add_subplot()
    for label, values in curves.items():
        plot.plot(x, values, marker="o", label=label)
    plot.set(**axes)
    plot.grid()
    plot.legend()


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table.

    >>> markdown_table(["a", "b"], [["1", "2|3"]])
    ['| a | b |', '| --- | --- |', '| 1 | 2/3 |']
    """
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines]


def claims_of(page: Path) -> list[list[str]]:
    """Return the rows of a page's table of claims; none if it has no such table.

    >>> claims_of(Path("no-such-page.md"))
    []
    """
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    head, rule = markdown_table(HEADER, [])
    rows: list[list[str]] = []
    for at, line in enumerate(lines):
        if line == head and lines[at + 1] == rule:
            for row in lines[at + 2 :]:
                if not row.startswith("|"):
                    return rows
                rows.append([cell.strip() for cell in row.strip("|").split("|")])
    return rows


def write_summary(folder: Path) -> Path:
    """Write the page that sets every family's claims side by side; return its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Page(Path(folder), "fit", "FIT", "")
    ...     page.claim(Claim("Table 1", "3/5", "3/5", True), Claim("Table 2", "6", "5", False))
    ...     _ = page.write()
    ...     lines = write_summary(Path(folder)).read_text().splitlines()
    >>> [line for line in lines if "[fit]" in line]
    ['| [fit](fit.md) | 2 | 1 |']
    """
    counts, rows = [], []
    for family in families.NAMES:
        claims = claims_of(folder / f"{family}.md")
        good = sum(verdict == REPRODUCED for *_, verdict in claims)
        counts.append([f"[{family}]({family}.md)", str(len(claims)), str(good)])
        rows += [[family, *claim] for claim in claims]
    lines = [
        "# The papers' results, reproduced",
        "",
        "Made by `make reproduce`. Every statement of the five papers about a figure or table "
        "that could be made anew, what was found, and why it differs where it does.",
        "",
        *markdown_table(["family", "statements", REPRODUCED], counts),
        "",
        *markdown_table(["family", *HEADER], rows),
    ]
    path = folder / SUMMARY
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _plain(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
