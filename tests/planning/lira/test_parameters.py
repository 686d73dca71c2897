"""What a definition of this family must have, and how its mistakes are reported."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from planning.errors import DefinitionError
from planning.lira.parameters import Parameters
from planning.streams import parse

COLUMNS = ("object_id", "time", "x", "y", "speed")


def document(columns=COLUMNS, **more):
    attributes = [{"name": name, "domain": [0, 1000]} for name in columns]
    return {"stream": "cars", "family": "lira", "attributes": attributes, **more}


def test_thresholds_are_in_order():
    expected = "lowest_threshold must be below highest_threshold, got 50 and 20"
    with pytest.raises(ValidationError, match=expected):
        Parameters(lowest_threshold=50, highest_threshold=20)
    with pytest.raises(ValidationError):
        Parameters(regions=0)


@pytest.mark.parametrize(
    ("wrong", "line", "told"),
    [
        ({"columns": COLUMNS[:-1]}, 3, "attributes object_id, time, x, y, speed, got none called"),
        ({"queries": {"inline": [{"ranges": {"x": [0, 9], "speed": [0, 9]}}]}}, 5, "got x, speed"),
        ({"queries": {"inline": [{"where": "x < 9"}]}}, 5, "must be ranges of x and y, got where"),
        ({"parameters": {"lowest_threshold": 500}}, 7, "must be below highest_threshold"),
    ],
)
def test_a_mistake_is_reported_with_its_line(wrong, line, told):
    lines = {("attributes",): 3, ("queries", "inline", 0): 5, ("parameters", "lowest_threshold"): 7}
    with pytest.raises(DefinitionError) as caught:
        parse(document(**wrong), "cars.yaml", lines)
    (problem,) = caught.value.problems
    assert problem.line == line
    assert told in str(problem)
