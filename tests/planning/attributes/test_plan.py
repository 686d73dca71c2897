"""The plan: parametric in C, and what each method puts in it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import stream
from planning.attributes import planner
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_profiles, plan_samples
from planning.attributes.statistics import Statistics, profile_observed
from planning.errors import InvalidInput, StatisticsError
from planning.examples import demo_definition, demo_statistics

METHODS = ("paper", "selection", "periods", "on_change")
SAMPLES = stream(np.random.default_rng(9), cycles=80, lengths=(6,),
                 persistence=(0.99, 0.9, 0.6, 0.2, 0.0))  # fmt: skip


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


def profiled(samples: Any, **parameters: Any) -> Statistics:
    return profile_observed(samples, Parameters(**parameters))


@pytest.mark.parametrize("method", METHODS)
def test_quality_rises_with_the_capacity(method: str) -> None:
    plan = planned(SAMPLES, method=method)
    quality = [plan.predicted_quality(load) for load in np.linspace(0, 1, 101)]
    assert np.all(np.diff(quality) >= -1e-12)
    assert quality[-1] == 1.0


def test_the_paper_sheds_from_the_least_deviation() -> None:
    statistics = profiled(SAMPLES, method="paper")
    plan = plan_profiles(statistics, Parameters(method="paper"))
    deviation = {a.name: a.deviation for a in statistics.streams[0].attributes}
    values = sorted((n for n in deviation if n.startswith("value")), key=deviation.__getitem__)
    for count in range(1, 5):
        load = 1 - count * 8 / plan.tuple_bytes
        assert set(plan.shed_set(load)) == set(values[:count])
        assert set(plan.shed_set(load + 0.01)) == set(values[: count])


def test_selection_equals_brute_force_over_subsets() -> None:
    """Without refresh and thinning, the frontier is the best subset for every capacity."""
    statistics = profiled(SAMPLES, method="selection", refresh_reports=0)
    plan = plan_profiles(statistics, Parameters(method="selection", refresh_reports=0,
                                                frontier_points=4096))  # fmt: skip
    attributes = statistics.streams[0].attributes
    items = plan.streams[0].items
    for load in np.linspace(0.3, 0.99, 24):
        budget = load * plan.tuple_bytes - plan.streams[0].kept_bytes
        best = min(
            sum(attributes[j].hold_error(0) for j in items if j not in kept)
            for r in range(len(items) + 1)
            for kept in itertools.combinations(items, r)
            if sum(attributes[j].size for j in kept) <= budget + 1e-9
        )
        assert 1 - plan.predicted_quality(load) <= best / len(items) + 1e-9


def test_periods_never_lose_more_than_selection() -> None:
    periods, selection = planned(SAMPLES, method="periods"), planned(SAMPLES, method="selection")
    for load in np.linspace(0.3, 1, 40):
        assert periods.predicted_quality(load) >= selection.predicted_quality(load) - 1e-9


def test_pooling_never_loses_more_than_proportion() -> None:
    rng = np.random.default_rng(10)
    slow = stream(rng, cycles=100, lengths=(4,), persistence=(0.999, 0.99))
    fast = stream(rng, cycles=100, lengths=(4,), persistence=(0.3, 0.0))
    rows = len(slow["key0"])
    samples: dict[str, Any] = {
        "stream": np.tile(np.repeat(["slow", "fast"], 4), rows // 4),
        "key": np.tile(np.arange(4), rows // 2),
    }
    for prefix, source in (("slow", slow), ("fast", fast)):
        for k in (0, 1):
            column = np.full(2 * rows, np.nan)
            column[samples["stream"] == prefix] = source[f"value{k}"]
            samples[f"{prefix}{k}"] = column
    plans = {}
    for sharing in ("pooled", "proportional"):
        options = {"method": "periods", "stream_attribute": "stream", "inter_stream": sharing}
        plans[sharing] = planned(samples, **options)
        assert [s.name for s in plans[sharing].streams] == ["fast", "slow"]
        assert [s.present.sum() for s in plans[sharing].streams] == [4, 4]
    for load in np.linspace(0.2, 1.0, 30):
        pooled = plans["pooled"].predicted_quality(load)
        assert pooled >= plans["proportional"].predicted_quality(load) - 2e-3
    assert 1 - plans["pooled"].predicted_quality(0.7) < 0.5 * (
        1 - plans["proportional"].predicted_quality(0.7)
    )


@pytest.mark.parametrize("load", [-0.5, 2.0, float("nan")])
def test_loads_outside_the_range_are_refused(load: float) -> None:
    with pytest.raises(InvalidInput, match="load must lie in"):
        planned(SAMPLES).at(load)


def test_free_attributes_are_never_shed() -> None:
    plan = planned(SAMPLES, method="periods", sizes={"value0": 0})
    assert "value0" not in plan.shed_set(0.1)
    assert plan.streams[0].kept[plan.attributes.index("value0")]


def test_statistics_of_other_attributes_are_refused() -> None:
    definition, statistics = demo_definition("attributes"), demo_statistics("attributes")
    document = statistics.to_document()
    gone = document["streams"][0]["attributes"].pop()["name"]
    with pytest.raises(StatisticsError, match=f"must profile the attributes .*{gone}, got "):
        planner.plan(Statistics.from_document(document), definition)


def falling(plan: Plan) -> set[tuple[str, str]]:
    """Return what is sent less often at a higher load, from the published tables alone."""
    tables = []
    for p in range(len(plan.ratio)):
        if p + 1 < len(plan.ratio) and plan.ratio[p + 1] <= plan.ratio[p] or plan.ratio[p] >= 1:
            continue  # never in force
        ends = plan.ratio[p], max(plan.ratio[p], min(1.0, *plan.ratio[p + 1 : p + 2]) - 2e-9)
        for load in ends:
            tables.append({})
            places = iter(plan.choice[p])
            for s, one in enumerate(plan.streams):
                apart = int(plan.thinning[p, s])
                mine = [int(next(places)) for _ in one.items]
                if len(plan.streams) == 1 and apart > 1 and not any(mine):
                    fit = plan.capacity_bytes(float(load)) // one.full_bytes
                    apart = min(apart, 1 / min(1.0, (fit - 1) / plan.window)) if fit > 1 else apart
                for j in np.flatnonzero(one.present):
                    option = mine[list(one.items).index(j)] if j in one.items else 0
                    k, band = int(plan.option_period[option]), float(plan.option_band[option])
                    if option == 0:
                        how = (apart, 0.0, apart)
                    else:
                        how = (k * apart if k else np.inf, np.inf if band < 0 else max(band, 0.01),
                               apart)  # fmt: skip
                        how = (how[0], 0.0, apart) if how[0] == 1 else how
                    tables[-1][one.name, plan.attributes[j]] = how
    found = set()
    for lower, higher in itertools.pairwise(tables):
        for name, (every, band, apart) in higher.items():
            before = lower[name]
            slower = apart > before[2] and band < np.inf
            if every > before[0] or band > before[1] or slower:
                found.add(name)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("refresh", [0, 24])
def test_the_plan_lists_what_is_sent_less_often_at_a_higher_load(method: str, refresh: int) -> None:
    plan = planned(SAMPLES, method=method, refresh_reports=refresh, frontier_points=40)
    assert set(plan.not_nested) == {name for _, name in falling(plan)}
    assert plan.summary()["not_nested"] == list(plan.not_nested)
    if method == "paper":  # an order of attributes: more capacity, more of them
        assert plan.not_nested == ()


def test_a_channel_lists_them_by_stream() -> None:
    samples = {**SAMPLES, "line": np.array(["a", "b"])[np.arange(len(SAMPLES["key0"])) // 6 % 2]}
    plan = planned(samples, method="periods", stream_attribute="line", frontier_points=60)
    expected = {f"{stream}.{name}" for stream, name in falling(plan)}
    assert expected
    assert set(plan.not_nested) == expected


def test_the_load_is_the_share_of_bytes() -> None:
    plan = planned(SAMPLES, method="on_change")
    assert [plan.passed_fraction(load) for load in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]
