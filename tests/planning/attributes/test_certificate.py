"""Certificates: a right plan passes, a damaged one is caught."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import stream
from planning.attributes import planner, program
from planning.attributes.plan import Plan
from planning.attributes.statistics import build
from planning.certifying import Contradiction, certify
from planning.examples import demo_definition, demo_statistics
from planning.streams import StreamDefinition, parse

KEYS = ["a", "b", "c", "d", "e"]


def case(seed: int, **parameters: Any) -> tuple[Plan, Any, StreamDefinition]:
    """A random stream with its statistics and its plan, with guarantees if the seed is odd."""
    rng = np.random.default_rng(seed)
    columns = stream(rng, 80, (5,), tuple(rng.uniform(0.3, 1.0, 3)))
    columns["key0"] = np.array(KEYS)[np.arange(len(columns["key0"])) % 5]
    attributes = [
        {"name": name, "type": "category", "values": KEYS} if name == "key0"
        else {"name": name, "domain": [-1e6, 1e6]} for name in columns
    ]  # fmt: skip
    given: dict[str, Any] = {"frontier_points": 4096, "method": "on_change", **parameters}
    if seed % 2:
        given["guarantees"] = {
            "value0": {"max_age": int(rng.integers(2, 9)), "priority": int(rng.integers(0, 2))},
            "value2": {"max_error": float(rng.uniform(0.2, 2.0))},
        }
    document = {"stream": "s", "family": "attributes", "attributes": attributes}
    definition = parse({**document, "parameters": given}, "s.yaml")
    statistics = build(columns, definition)
    return planner.plan(statistics, definition), statistics, definition


def certified(plan: Plan, statistics: Any, definition: StreamDefinition, status: str) -> Any:
    return certify(program.certifier(plan, statistics, definition), status, 60.0)


@pytest.mark.parametrize("seed", range(8))
def test_a_right_plan_is_optimal(seed: int) -> None:
    plan, statistics, definition = case(seed)
    assert planner.solver_status(plan, definition) == "exact"
    found = certified(plan, statistics, definition, "exact")
    assert found.status == "optimal"
    assert found.loads == found.of >= 10
    assert found.scope.startswith("optimal for these")
    again = Plan.from_bytes(plan.to_bytes())
    assert certified(again, statistics, definition, "exact").status == "optimal"


@pytest.mark.parametrize("method", ["selection", "periods", "paper"])
def test_a_plan_of_any_method_passes(method: str) -> None:
    plan, statistics, definition = case(2, method=method)
    status = planner.solver_status(plan, definition)
    found = certified(plan, statistics, definition, status)
    assert found.loads == found.of
    assert (found.status == "optimal") == (method != "paper")


@pytest.mark.parametrize("seed", [4, 5])
def test_a_plan_with_points_left_out_is_within_what_it_admits(seed: int) -> None:
    plan, statistics, definition = case(seed, frontier_points=12)
    status = planner.solver_status(plan, definition)
    found = certified(plan, statistics, definition, status)
    assert found.gap <= float(status.removeprefix("within "))
    with pytest.raises(Contradiction, match="found one with"):
        certified(plan, statistics, definition, "exact")


@pytest.mark.parametrize("sharing", ["pooled", "proportional"])
def test_streams_on_one_channel_are_certified(sharing: str) -> None:
    i, rng = np.arange(480), np.random.default_rng(2)
    kind = np.array(["air", "sea"])[i // 6 % 2]
    names = np.array(["a", "b", "c", "d", "e", "f"])
    columns = {"kind": kind, "key0": names[i % 6], "wind": rng.normal(size=480),
               "wave": np.cumsum(rng.normal(size=480))}  # fmt: skip
    categories = {"kind": ["air", "sea"], "key0": names.tolist()}
    attributes = [
        {"name": n, "type": "category", "values": categories[n]} if n in categories
        else {"name": n, "domain": [-1e6, 1e6]} for n in columns
    ]  # fmt: skip
    for guarantees in ({}, {"wind": {"max_age": 4, "streams": {"sea": {"max_age": 6}}}}):
        parameters = {"method": "periods", "stream_attribute": "kind", "inter_stream": sharing,
                      "frontier_points": 4096, "guarantees": guarantees}  # fmt: skip
        definition = parse({"stream": "s", "family": "attributes", "attributes": attributes,
                            "parameters": parameters}, "s.yaml")  # fmt: skip
        statistics = build(columns, definition)
        plan = planner.plan(statistics, definition)
        status = planner.solver_status(plan, definition)
        found = certified(plan, statistics, definition, status)
        assert found.status == "optimal" if status == "exact" else found.loads == found.of


def altered(plan: Plan, name: str, change: Any) -> Plan:
    array = np.array(getattr(plan, name))
    return replace(plan, **{name: change(array)})


def damaged(plan: Plan, kind: int, rng: np.random.Generator) -> Plan:
    """Return a plan with one thing wrong."""
    point = int(rng.integers(1, len(plan.ratio) - 1))
    item = int(rng.integers(0, plan.choice.shape[1]))

    def put(at: Any, value: Any) -> Any:
        def change(array: np.ndarray) -> np.ndarray:
            array[at] = value
            return array

        return change

    stream_ = plan.streams[0]
    guarded = plan.guarantees
    match kind:
        case 0:  # thresholds moved by 1 %
            return altered(plan, "option_band", lambda band: np.where(band > 0, band * 1.01, band))
        case 1:
            streams = (replace(stream_, scale=stream_.scale * 1.01), *plan.streams[1:])
            return replace(plan, streams=streams)
        case 2:  # budget off by 0.5 %
            return replace(plan, tuple_bytes=plan.tuple_bytes * float(rng.choice([0.995, 1.005])))
        case 3:
            return altered(plan, "ratio", lambda ratio: ratio * float(rng.choice([0.995, 1.005])))
        case 4:  # one point begins too early or too late
            low, high = plan.ratio[point - 1], plan.ratio[point + 1]
            moved = np.clip(plan.ratio[point] * float(rng.choice([0.995, 1.005])), low, high)
            return altered(plan, "ratio", put(point, moved))
        case 5:  # two points swapped
            other = (point + int(rng.integers(1, len(plan.ratio) - 1))) % len(plan.ratio)
            return altered(plan, "choice", put([point, other], plan.choice[[other, point]]))
        case 6:  # two attributes swapped
            order = np.roll(np.arange(plan.choice.shape[1]), 1)
            return altered(plan, "choice", lambda choice: choice[:, order])
        case 7:
            return altered(plan, "loss", put(point, plan.loss[point] + rng.choice([-1, 1]) * 1e-5))
        case 8:
            wrong = int(plan.thinning[point, 0]) + 1
            return altered(plan, "thinning", put(point, wrong))
        case 9:
            options = len(plan.option_period)
            wrong = (int(plan.choice[point, item]) + int(rng.integers(1, options))) % options
            return altered(plan, "choice", put((point, item), wrong))
        case 10:
            return altered(plan, "option_period", lambda every: np.where(every == 3, 2, every))
        case 11:
            streams = (replace(stream_, sizes=stream_.sizes + 1), *plan.streams[1:])
            return replace(plan, streams=streams)
        case 12:
            return _wrong(plan, at=lambda self, load: Plan.at(self, min(1.0, load * 1.01)))
        case 13:
            return _wrong(
                plan, predicted_quality=lambda self, z: Plan.predicted_quality(self, z) - 3e-6
            )
        case 14 if guarded:
            wrong = replace(guarded[0], holds_from=guarded[0].holds_from * 0.8)
            return replace(plan, guarantees=(wrong, *guarded[1:]))
        case 15 if guarded:
            return replace(plan, guarantees=(replace(guarded[0], value=99.0), *guarded[1:]))
        case 16 if guarded:
            return replace(plan, guarantees=guarded[1:])
        case _:
            return replace(plan, window=plan.window + 1)


def _wrong(plan: Plan, **methods: Any) -> Plan:
    values = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return type("Wrong", (Plan,), methods)(**values)


def moved(plan: Plan, wrong: Plan) -> float:
    """Return by how much quality or bytes differ at most, over loads that see every point."""
    breaks = {float(z) for z in (*plan.ratio, *wrong.ratio) if 0.0 < z < 1.0}
    loads = sorted({z + step for z in breaks for step in (0.0, -1e-8)} | {1.0})
    most = 0.0
    for load in loads:
        a, b = plan.at(load), wrong.at(load)
        most = max(most, abs(plan.predicted_quality(load) - wrong.predicted_quality(load)))
        most = max(most, abs(a.capacity_bytes - b.capacity_bytes))
        for name in ("tuple_rate", "period", "band", "header_bytes"):
            most = max(most, float(np.abs(getattr(a, name) - getattr(b, name)).max()))
    return most


@pytest.mark.parametrize("seed", range(6, 12))
def test_damaged_plans_are_caught(seed: int) -> None:
    """Six streams, eighteen kinds of damage each: 108 in all."""
    plan, statistics, definition = case(seed)
    rng = np.random.default_rng(seed)
    caught, harmless = 0, []
    for kind in range(18):
        wrong = damaged(plan, kind, rng)
        try:
            certified(wrong, statistics, definition, "exact")
        except Contradiction:
            caught += 1
        else:
            harmless.append((kind, moved(plan, wrong)))
    assert all(by <= 1e-6 for _, by in harmless), harmless
    assert caught >= 15


def test_what_cannot_be_solved_in_time_is_bounded() -> None:
    definition = demo_definition("attributes")
    plan = planner.plan(demo_statistics("attributes"), definition)
    one = program.certifier(plan, demo_statistics("attributes"), definition)
    check = one.check(0.5, 1e-6)
    assert check.bound >= check.objective - 1e-9
    found = certify(one, planner.solver_status(plan, definition), 1e-6)
    assert found.loads == 1
    assert "time limit" in found.reason
