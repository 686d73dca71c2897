"""Reports of entities: what names and orders a tuple is required, the rest may be null.

A measurement that is missing is information in a stream of reports, so only the attributes that
identify, order or must be kept are required; every value that is present must be in its domain.
"""

from __future__ import annotations

from expectations.building import Suite, attribute_rules, filled, timed_suite
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
    return timed_suite("reports", definition, columns, rules)
