"""Pairs of streams to be joined: tuples of both, each with its stream, time, type and items."""

from __future__ import annotations

from expectations.building import CHOICE, Suite, attribute_rules, expectation, timed_suite
from planning.errors import Mistake
from planning.streams import StreamDefinition


def build_suite(definition: StreamDefinition) -> Suite:
    """Return the suite for samples that are tuples of two streams.

    Besides every attribute being inside its domain, both streams must occur in the batch: without
    the other stream there is nothing to join with.
    """
    from planning.joins.parameters import Parameters

    names = {attribute.name: attribute for attribute in definition.attributes}
    parameters = definition.parameters
    stream = parameters.stream if isinstance(parameters, Parameters) else "stream"
    if stream not in names or len(names[stream].values) != 2:
        raise Mistake(
            f"attributes of stream {definition.stream}",
            "a category with two values for the expectations 'pairs'",
            ", ".join(names),
            "name it in parameters.stream or choose the expectations 'tuples'",
            verb="name",
            at=CHOICE,
        )
    columns = {attribute.name: str(attribute.type) for attribute in definition.attributes}
    rules = [rule for attribute in definition.attributes for rule in attribute_rules(attribute)]
    rules.append(
        expectation(
            "expect_column_distinct_values_to_contain_set",
            column=stream,
            value_set=list(names[stream].values),
        )
    )
    return timed_suite("pairs", definition, columns, rules)
