"""From the match histogram to the plan: value per comparison of every item, and their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from planning.arrays import FloatArray, frozen, frozen_ints, single_precision
from planning.errors import StatisticsError
from planning.joins import selection
from planning.joins.layout import Layout
from planning.joins.model import Combine, Condition, combine_utilities
from planning.joins.plan import Plan
from planning.joins.statistics import Statistics


def plan(statistics: Statistics, definition: Any) -> Plan:
    """Solve the plan of a stream pair for every load."""
    parameters = definition.parameters
    if statistics.windows != parameters.windows:
        raise StatisticsError(
            f"statistics must be over the windows of the definition, got {statistics.windows}; "
            "run the statistics stage again"
        )
    layout = Layout.of(definition)
    items = [a for a in definition.attributes if a.name in parameters.items]
    return solve(
        statistics,
        parameters.join_condition,
        utilities=np.repeat(
            np.asarray(parameters.utilities or (1.0,) * len(layout.types)), len(layout.sizes) + 1
        ),
        combine=parameters.combine,
        vocabulary=1 + int(max(a.bounds[1] for a in items)),
        single_valued=parameters.single_valued,
        load=parameters.load,
        monitor_fraction=parameters.monitor_fraction,
        unit_cost_s=parameters.unit_cost_s,
        valid_for_s=definition.validity.valid_for_s,
        prior_hits=parameters.prior_hits,
        layout=layout,
    )


def solve(
    statistics: Statistics,
    condition: Condition,
    *,
    utilities: FloatArray,
    combine: Combine = "max",
    vocabulary: int | None = None,
    single_valued: bool = False,
    load: float = 0.1,
    monitor_fraction: float = 0.015,
    unit_cost_s: float | None = None,
    valid_for_s: float | None = None,
    prior_hits: float = 30.0,
    layout: Layout | None = None,
) -> Plan:
    """Solve a plan from a histogram and utilities."""
    if not statistics.comparisons.sum():
        raise StatisticsError(
            "statistics must hold at least one pair of tuples within the windows, got none; "
            "sample more tuples or check the time attribute"
        )
    values = combine_utilities(utilities, combine)
    value = np.einsum("ijab,ab->iaj", statistics.hits.astype(np.float64), values)
    hits = np.moveaxis(statistics.hits.sum(axis=3), 1, 2)
    comparisons = np.moveaxis(statistics.comparisons, 1, 2)
    density = selection.shrunk_density(
        value, hits.astype(np.float64), comparisons.astype(np.float64), prior_hits
    )
    density = np.where(_present(statistics)[:, None, :], density, 0.0)
    counts = statistics.type_counts.astype(np.float64)
    totals = np.maximum(counts.sum(axis=1), 1.0)
    span = max(statistics.span_s, 1e-9)
    return Plan(
        windows=statistics.windows,
        condition=condition,
        vocabulary=vocabulary,
        single_valued=single_valued,
        types=statistics.types,
        utilities=frozen(utilities),
        combine=combine,
        type_frequency=single_precision(counts / totals[:, None]),
        rates_per_s=(float(totals[0] / span), float(totals[1] / span)),
        hits=frozen_ints(hits),
        comparisons=frozen_ints(comparisons),
        density=single_precision(density),
        sample_size=statistics.samples,
        span_s=statistics.span_s,
        unit_cost_s=unit_cost_s,
        valid_for_s=valid_for_s,
        monitor_fraction=monitor_fraction,
        load=load,
        layout=layout or _plain(statistics.types),
    )


def _plain(types: tuple[str, ...]) -> Layout:
    """Return the layout of rows with one item column, for plans made without a definition."""
    kind = "type" if len(types) > 1 else None
    return Layout("stream", ("0", "1"), "time_s", kind, types, ("item",))


def _present(statistics: Statistics) -> FloatArray:
    """Which basic windows exist: the shorter window has fewer."""
    return np.asarray(statistics.windows.extents_s > 0)
