"""Errors of query results, by their definition."""

from __future__ import annotations

import numpy as np

from planning.lira.queries import queries_of, query_errors


def test_query_errors_by_the_definition():
    rng = np.random.default_rng(4)
    corner = rng.uniform(0, 800, (12, 2))
    queries = np.hstack([corner, corner + rng.uniform(150, 300, (12, 1))])
    correct = rng.uniform(0, 1000, (3, 80, 2))
    shed = correct + rng.normal(0, 30, correct.shape)
    correct[1, :5], shed[1, :5] = np.nan, np.nan
    containment, position = np.zeros(12), np.zeros(12)
    for k in range(3):
        for q, (x0, y0, x1, y1) in enumerate(queries):
            inside = [
                {i for i, (x, y) in enumerate(view[k]) if x0 <= x <= x1 and y0 <= y <= y1}
                for view in (correct, shed)
            ]
            containment[q] += len(inside[0] ^ inside[1]) / max(len(inside[0]), 1) / 3
            gaps = [np.hypot(*(shed[k, i] - correct[k, i])) for i in inside[1]]
            position[q] += np.mean(gaps) / 3 if gaps else 0.0
    errors = query_errors(queries, correct, shed)
    np.testing.assert_allclose(errors[0], containment)
    np.testing.assert_allclose(errors[1], position)


def test_empty_results_have_defined_errors():
    queries = np.array([[0.0, 0.0, 1.0, 1.0], [500.0, 500.0, 500.0, 500.0]])
    far = np.array([[[900.0, 900.0]]])
    near = np.array([[[0.5, 0.5]]])
    assert query_errors(queries, far, far)[0].tolist() == [0.0, 0.0]
    assert query_errors(queries, far, near)[0].tolist() == [1.0, 0.0]  # one extra item
    assert query_errors(queries, near, far)[1].tolist() == [0.0, 0.0]
    assert query_errors(np.zeros((0, 4)), near, far)[0].size == 0
    assert query_errors(queries, near[:0], far[:0])[0].tolist() == [0.0, 0.0]


def test_an_absent_axis_means_all_of_it(define):
    definition = define()
    inline = definition.queries.inline[0].model_copy(update={"ranges": {"y": (500.0, 600.0)}})
    queries = definition.queries.model_copy(update={"inline": (inline,)})
    rows, weights = queries_of(definition.model_copy(update={"queries": queries}))
    assert rows.tolist() == [[0.0, 500.0, 3000.0, 600.0]]
    assert weights.tolist() == [1.0]
