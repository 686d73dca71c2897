"""What definitions promise: terms, tenants, QoS lines, and what is refused before there is data."""

import numpy as np
import pytest

from planning import streams
from planning.errors import DefinitionError
from planning.sifter import queries
from planning.sifter.queries import terms
from planning.sifter.queries.lines import Bends


def define(inline, loads=(0.3, 0.5, 0.7), parameters=None, **more):
    return streams.parse(
        {
            "stream": "t", "family": "sifter", "attributes": [{"name": "x", "domain": [0, 1]}],
            "queries": {"inline": inline, **more}, "gate": {"loads": list(loads)},
            "parameters": parameters or {},
        },
        "t.yaml",
    )  # fmt: skip


def test_guarantees_are_listed_by_priority_and_the_gap_last():
    found = terms.of(
        define(
            [
                {"name": "low", "ranges": {"x": [0, 0.1]}, "min_completeness": 0.5},
                {"name": "high", "ranges": {"x": [0, 0.1]}, "min_completeness": 0.6, "priority": 3},
                {"name": "a", "ranges": {"x": [0, 0.2]}, "tenant": "acme", "weight": 3},
                {"ranges": {"x": [0, 0.3]}, "tenant": "acme"},
                {"ranges": {"x": [0, 0.3]}, "tenant": "other"},
            ],
            tenants={"acme": {"max_loss": 0.25, "priority": 1}},
            tenant_gap=0.1,
        )
    )
    assert [(one.name, one.limit, one.value, one.priority) for one in found.guarantees] == [
        ("query high", "min_completeness", 0.6, 3),
        ("tenant acme", "max_loss", 0.25, 1),
        ("query low", "min_completeness", 0.5, 0),
        ("tenants", "tenant_gap", 0.1, -1),
    ]
    assert found.level.tolist() == [0, 1, 2, 3]
    assert [promise.asked for promise in found.promises] == [0.6, 0.75, 0.5]
    acme = found.promises[1]
    assert acme.query.tolist() == [2, 3]
    assert acme.weight.tolist() == [0.75, 0.25]


def test_a_tenant_whose_queries_weigh_nothing_has_an_even_mean():
    inline = [{"weight": w, "tenant": "a", "ranges": {"x": [0, 0.1]}} for w in (0, 0)]
    found = terms.of(define([*inline, {"weight": 1}], tenants={"a": {"max_loss": 0.1}}))
    assert found.promises[0].weight.tolist() == [0.5, 0.5]


def test_a_tenant_weighs_what_it_is_given():
    inline = [{"tenant": "a", "weight": 1}, {"tenant": "a", "weight": 4}, {"weight": 5}]
    made = queries.of(define(inline, tenants={"a": {"weight": 15}}))
    assert made.weight.tolist() == pytest.approx([0.15, 0.6, 0.25])


def test_a_line_is_its_chord_and_what_its_corners_lift():
    corners = [[0, 0.1], [0.2, 0.5], [0.7, 0.9], [1, 1]]
    made = queries.of(define([{"qos": corners}, {}]))
    assert made.slope.tolist() == pytest.approx([0.9, 1.0])
    for c in np.linspace(0, 1, 41):
        lifted = float(made.bends.lift(np.array([c, 0.3])).sum())
        assert 1 - 0.9 * (1 - c) + lifted == pytest.approx(np.interp(c, *np.transpose(corners)))
        slope = made.bends.slopes(np.array([c, 0.3]), made.slope)
        expected = 2.0 if c < 0.2 else 0.8 if c < 0.7 else 1 / 3
        assert slope.tolist() == pytest.approx([expected, 1.0])


def test_a_straight_line_has_no_corner():
    assert not Bends.of([(0, [(0, 0), (0.5, 0.5), (1, 1)])]).at.size


@pytest.mark.parametrize(
    ("inline", "more", "message"),
    [
        ([{"name": "all", "min_completeness": 0.9}], {},
         "query all: min_completeness must be at most 0.7, because no such query gets more than"),
        ([{"tenant": "a"}, {"tenant": "a"}], {"tenants": {"a": {"max_loss": 0.1}}},
         "tenant a: max_loss must be at least 0.3"),
        ([{"tenant": "a"}, {"tenant": "a"}], {"tenant_gap": 0.1},
         "tenant_gap must be absent, or there be two tenants, got fewer"),
        ([{"qos": [[0, 0], [0.5, 0.2], [1, 1]]}], {}, "whose rises never grow"),
        ([{"max_delta": 5}], {}, "max_delta must be absent: family sifter does not plan for it"),
    ],
)  # fmt: skip
def test_what_no_data_can_meet_is_refused_with_the_definition(inline, more, message):
    with pytest.raises(DefinitionError, match=message):
        define(inline, **more)


def test_without_room_between_regions_no_query_gets_more_than_the_load():
    inline = [{}, {"name": "late", "ranges": {"x": [0.8, 1]}, "min_completeness": 0.95}]
    with pytest.raises(DefinitionError, match=r"query late: .* raise gate.loads or fairness_thr"):
        define(inline, parameters={"fairness_threshold": 0.0})
    define(inline, parameters={"fairness_threshold": 0.1})  # data decide
    define(inline[1:], parameters={"fairness_threshold": 0.0})  # other regions may go first
    define(inline, parameters={"fairness_threshold": 0.0, "pins": ["x > 0.8"]})
    define(inline, loads=(0.3, 0.96), parameters={"fairness_threshold": 0.0})
