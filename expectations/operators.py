"""Counts per element of a query network: who, in which period, how many tuples, how much CPU."""

from __future__ import annotations

from expectations.building import Suite, attribute_rules, expectation, timed_suite
from planning.errors import InvalidInput
from planning.streams import StreamDefinition

COLUMNS = ("period", "element", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are counts of inputs and operators.

    Every element must be one of the network's, and every input must occur in the batch: without
    all of them there is no rate vector to plan with.
    """
    attributes = {attribute.name: attribute for attribute in definition.attributes}
    missing = [name for name in COLUMNS if name not in attributes]
    if missing:
        raise InvalidInput(
            f"attributes of stream {definition.stream} must name {', '.join(missing)} for the "
            f"expectations 'operators', got {', '.join(attributes)}"
        )
    columns = {attribute.name: str(attribute.type) for attribute in definition.attributes}
    rules = [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    network = getattr(definition.parameters, "query_network", None)
    if network is not None:
        rules.append(
            expectation(
                "expect_column_distinct_values_to_contain_set",
                column="element",
                value_set=list(network.input_ids),
            )
        )
    return timed_suite("operators", definition, columns, rules)
