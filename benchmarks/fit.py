"""The bars of the fit family: exactness, error bounds, plan counts, speed, D-FIT, real rates.

``python -m benchmarks.fit`` prints the table; ``--quick`` uses fewer networks and points.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import fit_exactness, fit_servers, fit_speed
from benchmarks.fit_rows import Row


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    return [
        fit_exactness.optimum_equals_libraries(quick),
        fit_exactness.exact_plans(quick),
        *fit_exactness.error_bounds(quick),
        *fit_speed.regions_against_quadtree(quick),
        fit_speed.warm_against_glop(quick),
        *fit_speed.selection_speed(quick),
        fit_servers.operator_move(quick),
        fit_servers.solver_w_plans(quick),
        *fit_servers.end_to_end(quick),
        fit_servers.dfit_failures(quick),
    ]


def main() -> int:
    """Print the table; exit 1 if a bar is not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer networks and points")
    rows = run(parser.parse_args().quick)
    for entry in rows:
        met = {True: "yes", False: "NO", None: "reported"}[entry["met"]]
        print(f"[{met}] {entry['bar']}: {entry['required']} | {entry['measured']}")
    return int(any(entry["met"] is False for entry in rows))


if __name__ == "__main__":
    sys.exit(main())
