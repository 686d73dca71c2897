"""A plan on positions it has not seen, compared with random dropping."""

from __future__ import annotations

from planning.lira.simulate import evaluate


def test_evaluate_beats_random_dropping(plan, samples, define):
    outcomes = evaluate(plan, samples, define(), (0.3, 0.5, 0.8))
    for outcome in outcomes:
        assert outcome.quality > outcome.random_quality
        assert 0.97 * outcome.load <= outcome.passed_fraction <= outcome.load + 1e-9
