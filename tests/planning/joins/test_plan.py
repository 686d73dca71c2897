"""The plan: parametric in the load, and the same in both encodings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.joins.definitions import pair_definition
from planning.errors import ArtifactError, InvalidInput, StatisticsError
from planning.joins import demo, planner, statistics
from planning.joins.model import Condition, Windows
from planning.joins.plan import Plan, PlanDocument
from planning.joins.shedder import Shedder
from planning.joins.statistics import Statistics


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1))
def test_a_setting_spends_its_load(
    plan_of: Callable[..., Plan], seed: int, load: float
) -> None:
    plan = plan_of(seed)
    setting = plan.at(load)
    assert (setting.take * plan.volumes).sum() == pytest.approx(load, abs=1e-12)
    assert np.all((setting.fractions >= 0) & (setting.fractions <= 1 + 1e-12))


def test_everything_at_one_and_nothing_at_zero(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(1)
    assert plan.at(1.0).take.min() == 1.0
    assert (plan.at(0.0).take * plan.volumes).sum() == 0.0
    assert plan.predicted_quality(1.0) == 1.0
    assert plan.predicted_quality(0.0) == 0.0
    with pytest.raises(InvalidInput, match=r"load must lie in \[0, 1\], got 7"):
        plan.at(7)


def test_predicted_quality_is_concave_and_above_random(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(2)
    loads = np.linspace(0, 1, 101)
    quality = np.array([plan.predicted_quality(r) for r in loads])
    assert np.all(quality >= loads - 1e-12)
    assert np.all(np.diff(quality, 2) <= 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_both_encodings_hold_the_same_plan(plan_of: Callable[..., Plan], seed: int) -> None:
    plan = plan_of(seed, types=1 + seed)
    document = plan.to_document()
    again = Plan.from_document(json.loads(json.dumps(document)))
    assert Plan.from_bytes(plan.to_bytes()).to_document() == document == again.to_document()
    assert plan.to_bytes() == again.to_bytes()
    schema = msgspec.json.schema(PlanDocument)
    jsonschema.validate(json.loads(json.dumps(document)), schema)


def test_large_counts_survive(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(4)
    large = replace(plan, comparisons=plan.comparisons * 2**33)
    again = Plan.from_bytes(large.to_bytes())
    np.testing.assert_array_equal(again.comparisons, large.comparisons)
    assert len(plan.to_bytes()) < len(large.to_bytes())


def test_damaged_plans_are_refused(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(3)
    payload = plan.to_bytes()
    for cut in (0, 3, 10, len(payload) // 2, len(payload) - 1):
        with pytest.raises(ArtifactError):
            Plan.from_bytes(payload[:cut])
    broken: list[Callable[[dict[str, Any]], Any]] = [
        lambda d: d.pop("density"),
        lambda d: d.update(extra=1),
        lambda d: d["density"].append(0.5),
        lambda d: d["order"].reverse(),
        lambda d: d.update(format=9),
        lambda d: d.update(combine="odd"),
        lambda d: d["density"].__setitem__(0, float("nan")),
        lambda d: d["utilities"].pop(),
        lambda d: d["utilities"].__setitem__(0, float("nan")),
        lambda d: d["comparisons"].__setitem__(0, -(10**9)),
        lambda d: d["comparisons"].__setitem__(0, -1),
        lambda d: d["hits"].__setitem__(0, -1),
        lambda d: d["type_frequency"][0].__setitem__(0, -0.5),
        lambda d: d.update(rates_per_s=[float("inf"), 1.0]),
        lambda d: d.update(monitor_fraction=float("nan")),
        lambda d: d.update(load=7.0),
        lambda d: d["layout"].update(items=[]),
        lambda d: d["layout"].update(weights=["one"]),
        lambda d: d.update(
            comparisons=[0] * len(d["comparisons"]), type_frequency=[[0.0] * 3] * 2
        ),
    ]
    for spoil in broken:
        document = json.loads(json.dumps(plan.to_document()))
        spoil(document)
        with pytest.raises(ArtifactError):
            Plan.from_document(document)


def test_a_plan_that_cannot_be_evaluated_is_no_shedder(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(3)
    empty = replace(plan, comparisons=plan.comparisons * 0, type_frequency=plan.type_frequency * 0)
    for spoiled in (empty, replace(plan, comparisons=-plan.comparisons)):
        with pytest.raises(InvalidInput, match="positive total"):
            Shedder(spoiled, 0.5)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_grants_are_nested_and_the_passed_fraction_counts_them(
    plan_of: Callable[..., Plan], seed: int, loads: list[float]
) -> None:
    plan = plan_of(seed, 1 + seed % 3)
    low, high = sorted(loads)
    assert plan.not_nested == ()
    assert np.all(plan.at(low).take <= plan.at(high).take)
    assert plan.passed_fraction(low) <= plan.passed_fraction(high)
    assert (plan.passed_fraction(0.0), plan.passed_fraction(1.0)) == (0.0, 1.0)
    granted = possible = 0.0
    for i, rate in enumerate(plan.rates_per_s):  # of the stream that probes window 1 - i
        for z in range(len(plan.types)):
            for j in range(plan.windows.counts[1 - i]):
                possible += rate * plan.type_frequency[i, z]
                granted += rate * plan.type_frequency[i, z] * plan.at(low).take[1 - i, z, j]
    assert plan.passed_fraction(low) == pytest.approx(granted / possible, abs=1e-9)


def test_the_plan_carries_what_the_operator_needs(news: Callable[..., Any]) -> None:
    definition = news(monitor_fraction=0.02, unit_cost_s=1e-8)
    columns = {k: np.asarray(v) for k, v in demo.rows(0, definition).items()}
    made = planner.plan(statistics.build(columns, definition), definition)
    document = made.to_document()
    assert document["windows"] == {
        "window_s": [20.0, 20.0], "basic_window_s": 1.0, "origin_s": 0.0,
    }  # fmt: skip
    assert document["unit_cost_s"] == 1e-8
    assert document["monitor_fraction"] == 0.02
    assert document["sample_size"] == made.sample_size > 10_000
    assert sum(document["comparisons"]) > sum(document["hits"]) > 0
    assert document["layout"]["items"] == list(definition.parameters.items)
    assert np.array(document["type_frequency"]).sum(axis=1) == pytest.approx([1, 1], abs=1e-6)


def test_no_pair_of_tuples_gives_no_plan(news: Callable[..., Any]) -> None:
    windows = Windows((2.0, 2.0), 1.0)
    empty = Statistics(
        windows, ("a",), np.zeros((2, 3, 1, 1)), np.zeros((2, 3, 1)), np.ones((2, 1)), 1.0
    )
    definition = pair_definition(windows, Condition(), vocabulary=9, items=1)
    with pytest.raises(StatisticsError, match="at least one pair"):
        planner.plan(empty, definition)
    with pytest.raises(StatisticsError, match="windows of the definition"):
        planner.plan(empty, news())
