"""The shedder against its decision as a plain loop over tuples, with keys and without."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.attributes.workload import stream
from planning import batches
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder

METHODS = ("paper", "selection", "periods", "on_change")


def decided(
    plan: Plan, load: float, samples: dict[str, Any], draws: Any = None
) -> tuple[np.ndarray, list[int], int]:
    """Return (mask, bytes per tuple, bytes cut by the window) of a fresh shedder.

    One stream with one CID attribute, every column there and of the plan's kind.
    """
    (stream,), setting = plan.streams, plan.at(load)
    (cid,) = stream.cid
    names, window, capacity = plan.attributes, plan.window, setting.capacity_bytes
    pace = max(capacity / window, 1e-9)
    cycle = min(window, stream.cycle_length)
    rate = float(setting.tuple_rate[0])
    header = int(setting.header_bytes[0])
    depth = max(pace * window, stream.full_bytes + header)
    spacing = max(1, round(1 / max(rate, 1e-6)))
    entities: dict[Any, dict[str, Any]] = {}
    charged = [0] * window
    credit, gain, planned = 0.0, 0.0, 0
    rows = len(samples[cid])
    keep = np.zeros((rows, len(names)), dtype=bool)
    sent = []
    for i in range(rows):
        value = {n: samples[n][i] for n in names}
        number = len(entities)
        entity = entities.setdefault(
            value[cid],
            {"number": number, "age": {}, "last": {},
             "share": (spacing - 1 - number % spacing) / spacing},
        )  # fmt: skip
        size = {
            n: len(str(value[n]).encode()) if plan.kinds[j] == "text" else int(stream.sizes[j])
            for j, n in enumerate(names)
        }
        need = header + sum(size[n] for j, n in enumerate(names) if stream.kept[j])
        due = []
        still = plan.method != "paper"  # the receiver has what is never shed
        for j, n in enumerate(names):
            if stream.kept[j]:
                followed = n != cid and stream.sizes[j] > 0
                still &= n in entity["age"] and not (followed and value[n] != entity["last"][n])
                continue
            worth = _worth(plan, setting, j, n, value[n], entity, size[n], gain, draws is not None)
            if capacity < 0:
                worth = 0.0
            if worth is not None:
                due.append((-worth, j, n))
        wanted = sum(size[n] for _, _, n in due)
        room = capacity - sum(charged[1:])
        passes = True
        if capacity >= 0:
            credit = min(credit + pace, depth)
            if rate < 1 and draws is not None:
                passes = int(draws[i]) >= math.ceil((1 - rate) * 2**32)
            elif rate < 1:
                entity["share"] += rate
                passes = entity["share"] >= 1 - 1e-9
                entity["share"] -= passes
            idle = still and not due
            if passes and draws is None:
                excess = min(1.0, (0 if idle else need + wanted) / pace - 0.9)
                gain = min(6.0, max(-0.5, gain + 2.0 / max(cycle, 12) * excess))
            passes &= not idle
            if passes:
                planned += need + wanted
                if need > room or capacity == 0:
                    passes = False
                    entity["share"] = min(1.0, entity["share"] + 1)
        spent = 0
        if passes:
            spent = need
            budget = wanted if capacity < 0 else min(room, max(credit, need)) - need
            for j in range(len(names)):
                keep[i, j] = stream.kept[j]
            for _, j, n in sorted(due) if wanted > budget else due:
                if size[n] <= budget:
                    keep[i, j] = True
                    budget -= size[n]
                    spent += size[n]
                    still = False
            if still and capacity >= 0:
                keep[i], spent = False, 0
                entity["share"] = min(1.0, entity["share"] + 1)
        if capacity < 0:
            planned += spent
        else:
            credit -= spent
        phase = entity["number"] if draws is None else int(draws[i])
        for j, n in enumerate(names):
            if keep[i, j]:
                period = int(setting.period[0, j])
                first = n not in entity["age"]
                start = phase + (j if setting.band[0, j] < 0 else 0)
                entity["age"][n] = start % period if first and period > 1 else 0
                entity["last"][n] = value[n]
            elif n in entity["age"]:
                entity["age"][n] += 1
        charged = [*charged[1:], spent]
        sent.append(spent)
    return keep, sent, planned - sum(sent) if draws is not None else 0


def _worth(
    plan: Plan, setting: Any, j: int, name: str, value: Any, entity: dict[str, Any], size: int,
    gain: float, keyed: bool,
) -> float | None:  # fmt: skip
    """Return the score of an attribute that is due, or None."""
    stream = plan.streams[0]
    if name not in entity["age"]:
        return 1e12
    reports = entity["age"][name] + 1
    period = int(setting.period[0, j])
    if 0 < period <= reports:
        overdue = plan.refresh > 0 and reports >= plan.refresh
        information = float(stream.score[j] * plan.weight[j])
        return reports * information + (1e6 * reports if overdue else 0.0)
    band = float(setting.band[0, j])
    if band < 0:
        return None
    last = entity["last"][name]
    if plan.kinds[j] == "number" and stream.scale[j] > 0:
        moved = abs(value - last) / float(stream.scale[j])
    else:
        moved = float(value != last)
    if moved > max(band, 0.01) * (1.0 if keyed else math.exp(gain)):
        return float(plan.weight[j]) * moved * moved / max(size, 1)
    return None


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_batches_of_any_cut_equal_the_plain_loop(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    samples: dict[str, Any] = stream(
        rng, 30, (data.draw(st.integers(2, 9)),), tuple(rng.random(data.draw(st.integers(2, 5))))
    )
    rows = len(samples["key0"])
    if data.draw(st.booleans()):
        words = np.array(["", "x", "a longer text", "ü" * 20])
        samples["text"] = words[rng.integers(0, 4, rows)]
    parameters = Parameters(
        method=data.draw(st.sampled_from(METHODS)),
        window_tuples=data.draw(st.sampled_from([None, 1, 20, 1000])),
        refresh_reports=data.draw(st.sampled_from([0, 2, 24])),
        cid=("key0",),
        must_keep=("value0",) if data.draw(st.booleans()) else (),
    )
    plan = plan_samples(samples, parameters)
    draws = None
    if data.draw(st.booleans()):
        draws = rng.integers(0, 2**32, rows).astype(np.uint32)
    load = data.draw(st.sampled_from([0.0, 0.03, 0.1, 0.3, 0.6, 0.9, 1.0]))
    keep, sent, beyond = decided(plan, load, samples, draws)
    shedder = Shedder(plan, load)
    start = units = cut = 0
    while start < rows:
        stop = min(rows, start + data.draw(st.integers(1, 90)))
        part = {name: column[start:stop] for name, column in samples.items()}
        decision = shedder.decide(
            batches.read(part, shedder.schema), draws=None if draws is None else draws[start:stop]
        )
        np.testing.assert_array_equal(decision.keep, keep[start:stop])
        units, cut = units + decision.units, cut + decision.cut
        start = stop
    assert (units, cut) == (sum(sent), beyond)
