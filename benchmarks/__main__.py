"""Run the families' benchmarks and write docs/benchmarks.md.

Each family's module offers ``run(quick) -> rows`` with the keys bar, required, measured and met.
Timings are ratios within one run, because machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from planning import families
from planning.console import print_table

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
VERSIONS = ("numpy", "numba", "ortools", "scipy", "pyspark")
COLUMNS = ["family", "bar", "required", "measured", "met"]


def measure(names: list[str], quick: bool) -> list[list[str]]:
    """Run the benchmarks of the named families, saying which one is at work."""
    rows = []
    for name in names:
        print(f"measuring {name}", flush=True)
        for row in importlib.import_module(f"benchmarks.{name}").run(quick):
            rows.append(_row(name, row))
    return rows


def _row(name: str, row: dict[str, Any]) -> list[str]:
    met = {True: "yes", False: "NO", None: "reported"}[row["met"]]
    return [name, str(row["bar"]), str(row["required"]), str(row["measured"]), met]


def page(rows: list[list[str]]) -> str:
    """Return the Markdown page."""
    machine = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in VERSIONS)
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; every figure was measured in that one run, timings as ratios.",
        f"Machine: {machine}. {versions}.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print the table, write the page; exit 1 if a bar is not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("families", nargs="*", help="families to measure; all without")
    parser.add_argument("--quick", action="store_true", help="fewer seeds; writes no page")
    arguments = parser.parse_args()
    names = arguments.families or list(families.NAMES)
    rows = measure(names, arguments.quick)
    print_table(COLUMNS, [list(row) for row in rows])
    if not arguments.quick and not arguments.families:
        PAGE.write_text(page(rows), encoding="utf-8")
        print(f"written to {PAGE.relative_to(PAGE.parents[1])}")
    return int(any(row[-1] == "NO" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
