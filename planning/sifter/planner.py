"""From statistics to a plan: one sort (see :mod:`planning.sifter.path`)."""

from __future__ import annotations

from dataclasses import replace

from planning.arrays import frozen_ints, single_precision
from planning.errors import StatisticsError
from planning.families import Definition
from planning.sifter import queries
from planning.sifter.model import Space
from planning.sifter.parameters import Parameters
from planning.sifter.plan import Plan
from planning.sifter.statistics import Statistics

FEW_REGIONS = 0.5  # of those asked for
FEW_PER_REGION = 10  # sampled tuples


def plan(statistics: Statistics, definition: Definition[Parameters]) -> Plan:
    """Return the plan whose setting at every z is optimal for the statistics."""
    if not statistics.frequency.sum() + statistics.pinned_fraction > 0:
        raise StatisticsError("frequency must hold some data, got 0 in every region")
    parameters = definition.parameters
    return Plan(
        space=Space.of(definition),
        partition=replace(statistics.partition, seen=frozen_ints([])),
        frequency=single_precision(statistics.frequency),
        region_qos=single_precision(statistics.region_qos),
        queried=statistics.queried,
        base_qos=statistics.base_qos,
        fairness_threshold=parameters.fairness_threshold,
        throttle_fraction=parameters.throttle_fraction,
        pins=queries.pins_of(definition),
        pinned_fraction=statistics.pinned_fraction,
        min_keep=parameters.min_keep,
        budget_tolerance=parameters.budget_tolerance,
    )


def solver_status(plan: Plan, definition: Definition[Parameters]) -> str:
    """Return ``exact``: the path is the optimum of Equation 10 for the plan's regions at every z.

    How the space is divided into regions is not part of that program.
    """
    return "exact"


def warnings(
    plan: Plan, statistics: Statistics, definition: Definition[Parameters]
) -> list[str]:
    """Return what makes the plan worse than it could be, each with the remedy."""
    asked, size = definition.parameters.regions, statistics.sample_size
    if plan.regions >= FEW_REGIONS * asked and size >= FEW_PER_REGION * plan.regions:
        return []
    found = f"{plan.regions} of {asked} regions were made from {size} sampled tuples"
    if size < statistics.samples:
        remedy = f"raise sample_size, {statistics.samples} tuples are there"
    elif size < FEW_PER_REGION * asked:
        remedy = "collect more samples, or ask for fewer regions"
    else:
        remedy = "ask for fewer regions, because no other cut gains anything"
    return [f"{found}, so the plan sheds less precisely than it could; {remedy}"]
