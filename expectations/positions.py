"""Positions of moving objects: who, when, where, how fast, and any further attribute."""

from __future__ import annotations

from expectations.building import (
    LARGEST,
    Suite,
    attribute_rules,
    between,
    filled,
    suite,
    time_rules,
)
from planning.errors import InvalidInput
from planning.streams import StreamDefinition

OBJECT = "object_id"
SPEED = "speed"
AXES = ("x", "y")


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are positions.

    The definition's attributes must give the domains of x and y; a domain for ``speed`` is
    optional, without one any speed from 0 upwards is accepted.
    """
    attributes = {attribute.name: attribute for attribute in definition.attributes}
    missing = [axis for axis in AXES if axis not in attributes]
    if missing:
        raise InvalidInput(
            f"attributes of stream {definition.stream} must name {' and '.join(missing)} with "
            f"their domain for the expectations 'positions', got {', '.join(attributes)}; "
            "rename the columns or choose the expectations 'tuples'"
        )
    time_column = definition.samples.time_column or "time"
    columns = {OBJECT: "text", time_column: "time"}
    columns |= {name: attribute.type for name, attribute in attributes.items()}
    rules = [filled(OBJECT), *time_rules(definition, time_column)]
    rules += [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    if SPEED not in columns:
        columns[SPEED] = "float"
        rules += [filled(SPEED), between(SPEED, 0.0, LARGEST)]
    return suite("positions", definition, columns, rules)
