"""Errors of a set of query results."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.bench import QueryErrors


def test_errors_are_means_and_deviations_over_queries():
    containment, position = np.array([0.1, 0.2, 0.6]), np.array([1.0, 2.0, 6.0])
    errors = QueryErrors.of(containment, position)
    assert errors.containment == pytest.approx(0.3)
    assert errors.position == pytest.approx(3.0)
    assert errors.containment_deviation == pytest.approx(containment.std())
    assert errors.containment_variation == pytest.approx(containment.std() / 0.3)


def test_without_queries_or_errors_nothing_varies():
    assert QueryErrors.of(np.zeros(0), np.zeros(0)) == QueryErrors(0.0, 0.0, 0.0)
    assert QueryErrors.of(np.zeros(3), np.ones(3)).containment_variation == 0.0
