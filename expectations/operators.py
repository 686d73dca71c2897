"""Counts per element of a query network: who, in which period, how many tuples, how much CPU."""

from __future__ import annotations

from expectations.building import Suite, attribute_rules, expectation, require, timed_suite
from planning.streams import StreamDefinition

COLUMNS = ("period", "element", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are counts of inputs and operators.

    Every element must be one of the network's, and every input must occur in the batch: without
    all of them there is no rate vector to plan with.
    """
    from planning.fit.parameters import Parameters

    require(definition, COLUMNS, "operators", "name them, or choose the expectations 'tuples'")
    columns = {attribute.name: str(attribute.type) for attribute in definition.attributes}
    rules = [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    if isinstance(definition.parameters, Parameters):
        rules.append(
            expectation(
                "expect_column_distinct_values_to_contain_set",
                column="element",
                value_set=list(definition.parameters.query_network.input_ids),
            )
        )
    return timed_suite("operators", definition, columns, rules)
