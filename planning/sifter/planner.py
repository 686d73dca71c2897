"""From statistics to a plan: one sort (see :mod:`planning.sifter.path`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planning.arrays import frozen_ints, single_precision
from planning.errors import StatisticsError
from planning.sifter import queries
from planning.sifter.plan import Pins, Plan
from planning.sifter.space import Space
from planning.sifter.statistics import Statistics


def plan(statistics: Statistics, definition: Any) -> Plan:
    """Return the plan whose setting at every z is optimal for the statistics."""
    if not statistics.frequency.sum() + statistics.pinned_fraction > 0:
        raise StatisticsError("frequency must hold some data, got 0 in every region")
    parameters = definition.parameters
    space = Space.of(definition)
    pins = queries.pins_of(definition)
    return Plan(
        space=space,
        partition=replace(statistics.partition, seen=frozen_ints([])),
        frequency=single_precision(statistics.frequency),
        region_qos=single_precision(statistics.region_qos),
        queried=statistics.queried,
        base_qos=statistics.base_qos,
        fairness_threshold=parameters.fairness_threshold,
        throttle_fraction=parameters.throttle_fraction,
        pins=Pins.of(pins.low, pins.high, len(space.axes)),
        pinned_fraction=statistics.pinned_fraction,
    )
