"""Run the benchmarks of the families and of the runtime, and write docs/benchmarks.md.

Each module offers ``run(quick) -> rows`` with the keys bar, required, measured and met.
Timings are ratios within one run, because machines differ and are noisy. A bar that is not met is
a finding, not a failure: the table and the last line name it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

from planning import families
from planning.console import print_table

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
VERSIONS = ("numpy", "numba", "ortools", "scipy", "pyspark")
NAMES = (
    *families.NAMES, "predictions", "runtime", "node", "keys", "metrics", "leases", "stores",
    "serving", "consumers", "streaming", "mqtt",
)  # fmt: skip
COLUMNS = ["family", "bar", "required", "measured", "met"]
MET, NOT_MET, REPORTED = "yes", "NO", "reported"


def measure(names: list[str], quick: bool) -> list[list[str]]:
    """Run the named benchmarks, saying which one is running."""
    rows = []
    for name in names:
        print(f"measuring {name}", flush=True)
        for row in importlib.import_module(f"benchmarks.{name}").run(quick):
            rows.append(_row(name, row))
    return rows


def _row(name: str, row: dict[str, Any]) -> list[str]:
    met = {True: MET, False: NOT_MET, None: REPORTED}[row["met"]]
    return [name, str(row["bar"]), str(row["required"]), str(row["measured"]), met]


def page(rows: list[list[str]], minutes: float) -> str:
    """Return the Markdown page: counts by family first, then every row."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in VERSIONS)
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; every figure was measured in that one run, timings as ratios.",
        f"Machine: {machine()}. {versions}. The run took {minutes:.0f} minutes.",
        "",
        *_markdown(["family", "met", "not met", "only reported"], counts(rows)),
        "",
        closing(rows),
        "",
        *_markdown(COLUMNS, rows),
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Name the processor, its cores and memory, and the Python version."""
    model, cpuinfo = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def counts(rows: list[list[str]]) -> list[list[str]]:
    """Count the rows of each family that are met, not met, and only reported."""
    found = Counter((row[0], row[-1]) for row in rows)
    return [
        [family, *(str(found[family, met]) for met in (MET, NOT_MET, REPORTED))]
        for family in dict.fromkeys(row[0] for row in rows)
    ]


def closing(rows: list[list[str]]) -> str:
    """Say how many bars are met, and name those that are not."""
    met = sum(row[-1] == MET for row in rows)
    missed = [f"{row[0]}, {row[1]}" for row in rows if row[-1] == NOT_MET]
    named = f" Not met: {'; '.join(missed)}." if missed else ""
    return f"{met} of {met + len(missed)} bars are met.{named}"


def _markdown(header: list[str], rows: list[list[str]]) -> list[str]:
    cells = (" | ".join(cell.replace("|", "/") for cell in row) for row in rows)
    return [f"| {' | '.join(header)} |", "|" + "---|" * len(header), *(f"| {c} |" for c in cells)]


def main() -> int:
    """Measure, print the table, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("families", nargs="*", help="families to measure, or runtime; all without")
    parser.add_argument("--quick", action="store_true", help="fewer seeds; writes no page")
    arguments = parser.parse_args()
    names = arguments.families or list(NAMES)
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        parser.error(f"there are {', '.join(NAMES)}, got {', '.join(unknown)}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as memory:
        os.environ["HEADGATE_MEMORY"] = memory  # what the measured nodes remember
        rows = measure(names, arguments.quick)
    print_table(COLUMNS, [list(row) for row in rows])
    print(closing(rows))
    if not arguments.quick and not arguments.families:
        PAGE.write_text(page(rows, (time.monotonic() - start) / 60), encoding="utf-8")
        print(f"written to {PAGE.relative_to(PAGE.parents[1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
