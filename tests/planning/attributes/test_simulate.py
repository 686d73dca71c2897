"""The simulation: tuple dropping at equal bytes, and the bars on real weather in small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.attributes import recorded
from benchmarks.attributes.experiments import full_bytes, window_bytes
from benchmarks.attributes.workload import stream
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan, plan_samples
from planning.attributes.shedder import Shedder
from planning.attributes.simulate import Trace, drop_tuples, measure, tuples_kept
from planning.attributes.statistics import build


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


HALF = 17_532 * 12  # two of the four years


@pytest.fixture(scope="module")
def split(weather: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    train = {n: c.slice(0, HALF) for n, c in weather.items()}
    test = {n: c.slice(HALF) for n, c in weather.items()}
    return train, test


def ratio(split: Any, method: str, load: float) -> float:
    train, test = split
    definition = recorded.definition(method=method)
    made = plan(build(train, definition), definition)
    trace = Trace.of(made, test)
    sent = Shedder(made, load).send(trace.batch(0, trace.rows))
    mine, other = measure(made, trace, sent.keep), drop_tuples(made, trace, load)
    assert window_bytes(sent.bytes, made.window).max() <= made.capacity_bytes(load)
    assert sent.bytes.sum() <= other.passed_fraction * full_bytes(made, trace) * 1.001
    return other.loss / mine.loss


def test_the_papers_ranking_loses_to_tuple_dropping(split: Any) -> None:
    assert ratio(split, "paper", 0.8) < 0.3


@pytest.mark.parametrize(
    ("method", "load", "least"),
    [("periods", 0.8, 5.0), ("periods", 0.5, 1.5), ("on_change", 0.5, 10.0)],
)
def test_the_better_forms_win(split: Any, method: str, load: float, least: float) -> None:
    assert ratio(split, method, load) >= least


def test_hold_error_is_counted_by_hand() -> None:
    samples = {"key": np.array([0, 1] * 50), "x": np.repeat(np.arange(50.0), 2)}
    plan = planned(samples, method="periods", cid=("key",))
    trace = Trace.of(plan, samples)
    keep = np.zeros((100, 2), dtype=bool)
    keep[::4] = True  # every other report of entity 0, nothing of entity 1
    result = measure(plan, trace, keep)
    unit = 2 * np.arange(50.0).var(ddof=1)
    assert result.hold_error[0, 1] == pytest.approx((25 * 1.0 / unit + 50 * 1.0) / 100)
    assert result.loss == pytest.approx(result.hold_error[0, 1])
    np.testing.assert_allclose(result.lost[:4], [0.0, 1.0, 1.0 / unit, 1.0])


def test_tuple_dropping_keeps_the_fraction_of_every_entity() -> None:
    samples = stream(np.random.default_rng(11), cycles=200, lengths=(12,))
    plan = planned(samples)
    trace = Trace.of(plan, samples)
    for load in (0.2, 0.5, 0.8, 1.0):
        kept = tuples_kept(trace, load).reshape(200, 12)
        np.testing.assert_allclose(kept.mean(axis=0), load, atol=0.01)
        assert drop_tuples(plan, trace, load).passed_fraction == pytest.approx(load, rel=0.01)
    changing = tuples_kept(trace, (0.25, 1.0)).reshape(200, 12)
    np.testing.assert_allclose(changing[:100].mean(axis=0), 0.25, atol=0.02)
    assert changing[100:].all()
