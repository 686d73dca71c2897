"""Tuples: every attribute of the definition, finite and inside its domain."""

from __future__ import annotations

from expectations.building import Suite, attribute_rules, suite, time_rules
from planning.streams import StreamDefinition


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are tuples of the definition's attributes."""
    columns = {attribute.name: attribute.type for attribute in definition.attributes}
    rules = [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    time_column = definition.samples.time_column
    if time_column is not None and time_column not in columns:
        columns[time_column] = "time"
        rules += time_rules(definition, time_column)
    return suite("tuples", definition, columns, rules)
