"""Reports of entities: what names and orders a tuple is there, the rest may be null.

A measurement that is missing is information in a stream of reports, so only the attributes that
identify, order or must be kept are required; every value that is there must lie in its domain.
"""

from __future__ import annotations

from expectations.building import Suite, attribute_rules, filled, suite, time_rules
from planning.streams import StreamDefinition


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are reports of entities."""
    columns = {attribute.name: attribute.type for attribute in definition.attributes}
    rules = []
    for attribute in definition.attributes:
        there = filled(attribute.name)
        rules += [
            rule
            for rule in attribute_rules(attribute)
            if rule != there or attribute.name not in definition.nullable
        ]
    time_column = definition.samples.time_column
    if time_column is not None and time_column not in columns:
        columns[time_column] = "time"
        rules += time_rules(definition, time_column)
    return suite("reports", definition, columns, rules)
