"""The bars of the sifter family: exactness, configuring, construction, quality, speed, size.

``python -m benchmarks.sifter`` prints the table; ``--quick`` uses fewer seeds and repetitions.
Timings are processor time, the best of several repetitions, compared within one run.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.sifter_planning import configuring, construction, exactness
from benchmarks.sifter_quality import gains, other_spaces, quality, real_data, reproduction
from benchmarks.sifter_rows import Row
from benchmarks.sifter_runtime import budget, compactness, speed


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    parts = (
        exactness, configuring, construction, speed, compactness, budget, reproduction, quality,
        gains, other_spaces, real_data,
    )  # fmt: skip
    rows = []
    for part in parts:
        print(f"  sifter: {part.__name__}", file=sys.stderr, flush=True)
        rows += part(quick)
    return rows


def main() -> int:
    """Print the table; exit 1 if a bar is not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sifter", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rows = run(parser.parse_args().quick)
    for found in rows:
        met = {True: "yes", False: "NO", None: "-"}[found["met"]]
        print(f"{met:>4}  {found['bar']}: {found['measured']} (required: {found['required']})")
    return 0 if all(found["met"] is not False for found in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
