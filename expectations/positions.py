"""Positions of moving objects: who, when, where, how fast, and any further attribute."""

from __future__ import annotations

from expectations.building import (
    Suite,
    attribute_rules,
    between,
    filled,
    require,
    suite,
    time_rules,
)
from planning.samples import LARGEST, time_column
from planning.streams import StreamDefinition

OBJECT = "object_id"
SPEED = "speed"
AXES = ("x", "y")


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are positions.

    The definition's attributes must give the domains of x and y; a domain for ``speed`` is
    optional, without one any speed from 0 upwards is accepted.
    """
    remedy = "rename the columns or choose the expectations 'tuples'"
    require(definition, AXES, "positions", remedy)
    time = time_column(definition) or "time"
    columns = {OBJECT: "text", time: "time"}
    columns |= {attribute.name: attribute.type for attribute in definition.attributes}
    rules = [filled(OBJECT), *time_rules(definition, time)]
    rules += [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    if SPEED not in columns:
        columns[SPEED] = "float"
        rules += [filled(SPEED), between(SPEED, 0.0, LARGEST)]
    return suite("positions", definition, columns, rules)
