"""The receiver against a plain dictionary, tuple by tuple."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import Faults, stream
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.receiver import Receiver
from planning.attributes.shedder import Shedder

METHODS = ("paper", "selection", "periods", "on_change")


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


@pytest.mark.parametrize("method", METHODS)
def test_filling_forward_equals_a_dictionary(method: str) -> None:
    rng = np.random.default_rng(5)
    clean = stream(rng, cycles=60, lengths=(5,), persistence=(0.99, 0.5))
    clean["state"] = np.array(["on", "off"])[rng.integers(0, 2, 300)]
    samples = Faults(lost=0.03, doubled=0.03).apply(clean, rng)
    rows = len(samples["key0"])
    times = np.cumsum(rng.random(rows))
    plan = planned(samples, method=method)
    shedder, receiver = Shedder(plan, 0.55), Receiver(plan)
    memory: dict[tuple[str, str], tuple[Any, int, float]] = {}
    for start in range(0, rows, 23):
        batch = {name: column[start : start + 23] for name, column in samples.items()}
        sent = shedder.send(batch)
        got = receiver.accept(sent, times[start : start + 23])
        for k, i in enumerate(np.flatnonzero(sent.tuples)):
            key = str(batch["key0"][i])
            now = times[start + i]
            for j, name in enumerate(plan.attributes):
                value, age, then = memory.get((key, name), (None, -1, np.nan))
                if sent.keep[i, j]:
                    value, age, then = batch[name][i], 0, now
                elif age >= 0:
                    age += 1
                memory[key, name] = (value, age, then)
                assert got.staleness[k, j] == age
                if age < 0:
                    assert got.columns[name][k] is None or np.isnan(got.columns[name][k])
                    continue
                assert got.columns[name][k] == value
                assert got.staleness_s is not None
                assert got.staleness_s[k, j] == pytest.approx(now - then)


def test_nothing_is_stale_when_everything_is_sent() -> None:
    rng = np.random.default_rng(6)
    samples = stream(rng, cycles=20, lengths=(4,))
    plan = planned(samples)
    got = Receiver(plan).accept(Shedder(plan, 1.0).send(samples))
    assert not got.staleness.any()
    for name, column in samples.items():
        np.testing.assert_array_equal(got.columns[name], column)


def test_unknown_entities_beyond_memory_are_passed_on() -> None:
    rng = np.random.default_rng(7)
    samples = stream(rng, cycles=20, lengths=(4,))
    plan = planned(samples)
    got = Receiver(plan, max_entities=2).accept(Shedder(plan, 0.6).send(samples))
    assert len(got.columns["key0"]) == len(got.staleness)


def test_an_empty_batch_is_fine() -> None:
    samples = stream(np.random.default_rng(8), cycles=20, lengths=(4,))
    plan = planned(samples)
    got = Receiver(plan).accept(Shedder(plan, 0.5).send([]))
    assert got.staleness.shape == (0, len(plan.attributes))
