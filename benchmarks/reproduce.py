"""Reproduce the papers' figures and tables: ``make reproduce``.

All five families at full length take about twenty minutes on two cores and renew
``docs/reproduction``. A quick or partial run writes to ``var/reproduction``, so that it never
replaces the committed pages; ``--renew`` renews those of the families that it names.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reproduction import REPRODUCED, claims_of, write_summary
from planning import families
from planning.errors import PlanningError

ROOT = Path(__file__).parents[1]
COMMITTED, SCRATCH = ROOT / "docs" / "reproduction", ROOT / "var" / "reproduction"


def target(names: Sequence[str], quick: bool, renew: bool) -> Path:
    """Return the folder that a run may write to.

    >>> target(families.NAMES, quick=False, renew=False) == COMMITTED
    True
    >>> target(["lira"], quick=False, renew=False) == SCRATCH
    True
    >>> target(["lira"], quick=False, renew=True) == COMMITTED
    True
    """
    whole = set(names) == set(families.NAMES) and not quick
    return COMMITTED if whole or renew else SCRATCH


def reproduce(names: Sequence[str], quick: bool, folder: Path) -> None:
    """Write the pages of the named families, and the summary over all pages in the folder."""
    start = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - start:6.0f} s] {line}", flush=True)

    for name in names:
        module = importlib.import_module(f"benchmarks.{name}.reproduce")
        module.reproduce(folder, quick, lambda line, name=name: say(f"{name}: {line}"))
        page = folder / f"{name}.md"
        verdicts = [verdict for *_, verdict in claims_of(page)]
        good = sum(verdict == REPRODUCED for verdict in verdicts)
        say(f"{name}: {good} of {len(verdicts)} statements reproduced; see {page}")
    say(f"All statements side by side: {write_summary(folder)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Reproduce what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    parser.add_argument("families", nargs="*", help="families; all without")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and points")
    parser.add_argument("--renew", action="store_true", help="write to docs/reproduction")
    parser.add_argument("--folder", type=Path, help="write to this folder instead")
    arguments = parser.parse_args(argv)
    if arguments.quick and arguments.renew:
        parser.error("--renew writes committed pages, which a --quick run must not; leave one out")
    names = arguments.families or list(families.NAMES)
    unknown = sorted(set(names) - set(families.NAMES))
    if unknown:
        parser.error(f"families are {', '.join(families.NAMES)}, got {', '.join(unknown)}")
    folder = arguments.folder or target(names, arguments.quick, arguments.renew)
    try:
        reproduce(names, arguments.quick, folder)
    except PlanningError as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
