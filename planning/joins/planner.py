"""From the match histogram to the plan: value per comparison of every item, and their order."""

from __future__ import annotations

import numpy as np

from planning.arrays import frozen, frozen_ints, single_precision
from planning.errors import StatisticsError
from planning.families import Definition
from planning.joins.layout import Layout, vocabulary
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.statistics import Statistics

LEAST_HITS = 500  # matches, for a few dozen items
HALF = 0.5


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Solve the plan of a stream pair for every load."""
    parameters, layout = definition.parameters, Layout.of(definition)
    if statistics.windows != parameters.windows:
        raise StatisticsError(
            f"statistics must be over the windows of the definition, got {statistics.windows}; "
            "run the statistics stage again"
        )
    if not statistics.comparisons.sum():
        raise StatisticsError(
            "statistics must hold at least one pair of tuples within the windows, got none; "
            "sample more tuples or check the time attribute"
        )
    density, hits, made = statistics.settled(definition)
    counts = statistics.type_counts.astype(np.float64)
    totals = np.maximum(counts.sum(axis=1), 1.0)
    span = max(statistics.span_s, 1e-9)
    return Plan(
        windows=statistics.windows,
        condition=parameters.join_condition,
        vocabulary=vocabulary(definition),
        single_valued=parameters.single_valued,
        types=statistics.types,
        utilities=frozen(layout.utilities(parameters)),
        combine=parameters.combine,
        type_frequency=single_precision(counts / totals[:, None]),
        rates_per_s=(float(totals[0] / span), float(totals[1] / span)),
        hits=frozen_ints(hits),
        comparisons=frozen_ints(made),
        density=single_precision(density),
        sample_size=statistics.samples,
        span_s=statistics.span_s,
        unit_cost_s=parameters.unit_cost_s,
        valid_for_s=definition.validity.valid_for_s,
        monitor_fraction=parameters.monitor_fraction,
        load=parameters.load,
        layout=layout,
        lasting=statistics.lasting(definition)[0],
    )


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Say how good the plan is: sorting by density solves a fractional knapsack exactly."""
    return "exact"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Say what makes the plan unsound, and the remedy."""
    longest, hits = max(plan.windows.window_s), int(statistics.hits.sum())
    found = []
    if statistics.span_s < 2.0 * longest:
        found.append(
            f"the samples span {statistics.span_s:g} s, less than twice the longer window of "
            f"{longest:g} s, so that old basic windows were seldom full: collect longer stretches "
            "of both streams, or shorten window_s"
        )
    if hits < LEAST_HITS:
        found.append(
            f"the samples hold {hits} matches, fewer than {LEAST_HITS}, so that the order of the "
            "basic windows is mostly chance: collect more tuples of both streams"
        )
    if plan.lasting and np.mean(plan.lasting) < HALF:
        found.append(
            f"only {np.mean(plan.lasting):.0%} of what the first half of the samples promised was "
            "left in the second half: plan more often, and let push watch for drift"
        )
    return found
