"""From statistics to a plan: one sort (see :mod:`planning.sifter.path`)."""

from __future__ import annotations

from typing import Any

from planning.errors import StatisticsError
from planning.sifter.plan import Plan, single_precision
from planning.sifter.space import Space
from planning.sifter.statistics import Statistics


def plan(statistics: Statistics, definition: Any) -> Plan:
    """Return the plan whose setting at every z is optimal for the statistics."""
    if not statistics.frequency.sum() > 0:
        raise StatisticsError("frequency must hold some data, got 0 in every region")
    parameters = definition.parameters
    return Plan(
        space=Space.of(definition),
        partition=statistics.partition,
        frequency=single_precision(statistics.frequency),
        region_qos=single_precision(statistics.region_qos),
        queried=statistics.queried,
        base_qos=statistics.base_qos,
        fairness_threshold=parameters.fairness_threshold,
        throttle_fraction=parameters.throttle_fraction,
    )
