"""Measured costs, selectivities and rates from counted samples."""

from __future__ import annotations

import json

import numpy as np
import pytest

from planning.errors import StatisticsError
from planning.fit import QueryNetwork, demo, statistics


def columns_of(rows: list[tuple[int, str, int, int, int, int]]) -> dict[str, np.ndarray]:
    names = ("period", "element", "tuples_in", "tuples_in_1", "tuples_out", "cpu_us")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True),
                                                           strict=True)}  # fmt: skip


def test_measured_costs_and_selectivities_by_hand(define):
    document = demo.figure_1().to_document()
    document["operators"][1] = {
        "id": "b1", "node": "B", "type": "join", "cost": 1.0, "selectivity": 0.5,
        "inputs": ["a1", "a2"], "windows": [10.0, 20.0],
    }  # fmt: skip
    given = define(QueryNetwork.from_document(document), period_s=2.0)
    made = statistics.build(
        columns_of(
            [
                (0, "i1", 0, 0, 10, 0), (0, "i2", 0, 0, 4, 0), (1, "i1", 0, 0, 30, 0),
                (1, "i2", 0, 0, 8, 0), (2, "i1", 0, 0, 99, 0),  # period 2 lacks an input
                (0, "a1", 40, 0, 20, 80_000), (1, "a1", 60, 0, 30, 120_000),
                (0, "b1", 10, 5, 60, 30_000_000),
            ]
        ),
        given,
    )  # fmt: skip
    assert made.periods == 2
    assert made.mean_rates.tolist() == [10.0, 3.0]
    assert made.highest_rates.tolist() == [15.0, 4.0]
    assert sorted(made.rates.tolist()) == [[5.0, 2.0], [15.0, 4.0]]
    a1, b1 = made.network.operator["a1"], made.network.operator["b1"]
    assert (a1.cost, a1.selectivity) == (0.002, 0.5)
    assert (b1.cost, b1.selectivity) == (2.0, 60 / (10 * 20 + 5 * 10))
    assert made.network.operator["a2"].cost == 2.0  # not seen: as declared
    again = statistics.Statistics.from_document(json.loads(json.dumps(made.to_document())))
    assert again.to_document() == made.to_document()


def test_statistics_are_bounded_and_independent_of_row_order(definition, samples):
    made = statistics.build(samples, definition)
    assert len(made.rates) <= definition.parameters.rate_sample
    order = np.random.default_rng(0).permutation(len(samples["period"]))
    shuffled = {name: values[order] for name, values in samples.items()}
    assert statistics.build(shuffled, definition).to_document() == made.to_document()
    for operator in demo.network().operators:
        measured = made.network.operator[operator.id]
        assert measured.cost == pytest.approx(operator.cost, rel=0.02)
        assert measured.selectivity == pytest.approx(operator.selectivity, rel=0.05)


def test_no_complete_period_is_an_error(define):
    given = define(demo.figure_1())
    with pytest.raises(StatisticsError, match="i1, i2"):
        statistics.build(columns_of([(0, "i1", 0, 0, 10, 0)]), given)
