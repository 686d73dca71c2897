"""Tuples: every attribute of the definition, finite and inside its domain."""

from __future__ import annotations

from expectations.building import Suite, attribute_rules, timed_suite
from planning.streams import StreamDefinition


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are tuples of the definition's attributes."""
    columns = {attribute.name: attribute.type for attribute in definition.attributes}
    rules = [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    return timed_suite("tuples", definition, columns, rules)
