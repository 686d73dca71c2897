"""The bars of the fit family: exactness, error bounds, plan counts, speed, D-FIT, real rates."""

from __future__ import annotations

from benchmarks.fit import exactness, servers, speed
from benchmarks.rows import Row, measure


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    parts = (
        exactness.optimum_equals_libraries,
        exactness.exact_plans,
        exactness.minimums,
        exactness.costs_over_decades,
        exactness.error_bounds,
        speed.regions_against_quadtree,
        speed.warm_against_glop,
        speed.selection_speed,
        servers.operator_move,
        servers.solver_w_plans,
        servers.end_to_end,
        servers.dfit_failures,
    )
    return measure(parts, quick)
