"""The profile against direct computation, and what bad samples get."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import stream
from planning.attributes import kernels
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.statistics import Statistics, build, loops, profile_observed
from planning.errors import StatisticsError
from planning.streams import StreamDefinition, parse


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


def profiled(samples: Any, **parameters: Any) -> Statistics:
    return profile_observed(samples, Parameters(**parameters))


def attribute(statistics: Statistics, name: str) -> Any:
    return next(a for a in statistics.streams[0].attributes if a.name == name)


def test_hold_error_equals_really_holding(rng: np.random.Generator) -> None:
    """H(k) averaged over phases, against sending every k-th report of every entity."""
    samples = stream(rng, cycles=600, lengths=(3,), persistence=(0.95,))
    profile = attribute(profiled(samples), "value0")
    series = samples["value0"].reshape(-1, 3)
    for k in (2, 5, 24):
        errors = []
        for phase in range(k):
            start = np.arange(phase, len(series))
            held = series[phase + (start - phase) // k * k]
            errors.append(((series[start] - held) ** 2).mean())
        direct = np.mean(errors) / (2 * series.var(axis=0, ddof=1).mean())
        assert profile.hold_error(k) == pytest.approx(direct, rel=0.02)


def test_scores_are_free_of_units(rng: np.random.Generator) -> None:
    samples = stream(rng, cycles=100, lengths=(3,), persistence=(0.9,))
    samples["scaled"] = samples["value0"] * 1e4 + 273.0
    statistics = profiled(samples)
    one, other = attribute(statistics, "value0"), attribute(statistics, "scaled")
    np.testing.assert_allclose(one.lag_error, other.lag_error, rtol=1e-6)
    np.testing.assert_allclose(one.band_error, other.band_error, rtol=1e-6)
    assert other.deviation == pytest.approx(1e4 * one.deviation, rel=1e-6)


def test_differences_between_entities_do_not_count(rng: np.random.Generator) -> None:
    """The paper's deviation measures them; the information score must not."""
    entity = np.arange(1200) % 4
    samples = {"key": entity, "level": entity * 100.0, "moving": rng.normal(size=1200)}
    statistics = profiled(samples)
    assert attribute(statistics, "level").deviation > attribute(statistics, "moving").deviation
    assert attribute(statistics, "level").score == 0.0
    assert attribute(statistics, "moving").score > 0.0


def test_an_independent_value_has_error_one(rng: np.random.Generator) -> None:
    samples = {"key": np.arange(6000) % 3, "number": rng.normal(size=6000),
               "word": np.array(list("abcd"))[rng.integers(0, 4, 6000)]}  # fmt: skip
    statistics = profiled(samples)
    for name in ("number", "word"):
        np.testing.assert_allclose(attribute(statistics, name).lag_error, 1.0, atol=0.1)


def test_dead_bands_equal_a_plain_loop(rng: np.random.Generator) -> None:
    series = np.cumsum(rng.normal(size=500))
    series[rng.random(500) < 0.05] = np.nan
    followed = np.repeat(rng.integers(0, 3, 25), 20).astype(np.float64)
    block = np.column_stack([series, followed, np.arange(500.0)])
    scale = np.array([5.0, 1.0, 1.0])
    bands = np.array([0.0, 0.3, 1.5])
    numeric = np.array([True, False, True])
    roles = np.array([kernels.SHEDDABLE, kernels.FOLLOWED, kernels.KEPT])
    sent, error, tuples = loops.dead_band_sums(block, numeric, roles, scale, bands, 20)
    for b, band in enumerate(bands):
        last, age, count, total = np.nan, 0, 0, 0.0
        due = set(np.flatnonzero(np.diff(followed, prepend=followed[0])).tolist())
        for t, now in enumerate(series):
            age += 1
            if np.isnan(now) or np.isnan(last):
                moved = float(np.isnan(now) != np.isnan(last))
            else:
                moved = abs(now - last) / 5.0
            if t == 0 or age >= 20 or moved > band:
                last, age, count = now, 0, count + 1
                due.add(t)
            else:
                total += moved**2
        assert (sent[b, 0], error[b, 0]) == (count, pytest.approx(total))
        assert tuples[b] == len(due)


def test_all_null_and_constant_attributes_are_shed_first(rng: np.random.Generator) -> None:
    samples = {"key": np.arange(900) % 3, "null": np.full(900, np.nan), "constant": np.ones(900),
               "moving": rng.normal(size=900)}  # fmt: skip
    plan = planned(samples, method="periods")
    shed = plan.shed_set(0.75)
    assert set(shed) == {"null", "constant"}
    assert plan.predicted_quality(0.75) == pytest.approx(1.0)


def test_text_is_charged_by_its_length(rng: np.random.Generator) -> None:
    words = np.array(["a", "bbb", "ccccc"])
    samples = {"key": np.arange(900) % 3, "word": words[rng.integers(0, 3, 900)]}
    profile = attribute(profiled(samples), "word")
    assert profile.kind == "text"
    assert profile.size == int(np.ceil(np.char.str_len(samples["word"]).mean()))


def test_json_round_trip(rng: np.random.Generator) -> None:
    document = profiled(stream(rng, cycles=40)).to_document()
    again = Statistics.from_document(json.loads(json.dumps(document)))
    assert again.to_document() == document


def test_unordered_and_repeated_samples_give_the_same_profile(rng: np.random.Generator) -> None:
    samples = stream(rng, cycles=80, lengths=(5,))
    samples["sequence"] = np.arange(400)
    options = {"order_by": ("sequence",), "sizes": {"sequence": 0}}
    want = profiled(samples, **options).to_document()
    index = np.concatenate([rng.permutation(400), rng.integers(0, 400, 50)])
    shuffled = {name: column[index] for name, column in samples.items()}
    assert profiled(shuffled, **options).to_document() == want


def test_without_a_cycle_all_tuples_are_one_entity(rng: np.random.Generator) -> None:
    statistics = profiled({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    assert statistics.streams[0].cycle.cid == ()
    assert statistics.streams[0].entities == 1
    assert planned({"x": rng.normal(size=300), "y": np.ones(300)}).window == 64


def test_a_named_cid_wins(rng: np.random.Generator) -> None:
    samples = {"who": rng.integers(0, 9, 900), "x": rng.normal(size=900)}
    profile = profiled(samples, cid=("who",)).streams[0]
    assert (profile.cycle.cid, profile.cycle.length, profile.entities) == (("who",), 9, 9)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_tuples_are_refused(rows: int) -> None:
    with pytest.raises(StatisticsError, match="at least two tuples"):
        profiled({"key": np.arange(rows), "x": np.ones(rows)})


def definition() -> StreamDefinition:
    attributes = [
        {"name": "sequence", "type": "int", "domain": [0, 1e12]},
        {"name": "x", "domain": [0, 1]},
    ]
    return parse({"stream": "s", "family": "attributes", "attributes": attributes}, "s.yaml")


def test_text_where_numbers_are_declared_is_refused() -> None:
    with pytest.raises(StatisticsError, match="attribute x must hold numbers"):
        build({"sequence": np.arange(2), "x": np.array(["a", "b"])}, definition())


def test_a_missing_attribute_is_refused() -> None:
    with pytest.raises(StatisticsError, match="samples must hold every attribute"):
        build({"sequence": np.arange(10)}, definition())
