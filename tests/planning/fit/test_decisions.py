"""Decisions on read batches: forms, keys, weights, limits and arrivals, against plain loops."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fit import examples
from planning import batches
from planning.fit import Plan, demo
from planning.fit.kernels import drops, lookup
from planning.fit.planner import plan_network
from planning.fit.shedder import SCHEMA, Shedder
from planning.fit.simplex import warm

LABELS = ("images", "pages->crawl", "icons->parse_icons", "visits", "nowhere", "pages")


@pytest.fixture(scope="module")
def requests() -> Plan:
    """Return the demo's plan, as a node reads it."""
    return Plan.from_bytes(plan_network(demo.network()).to_bytes())


def read(items: list[Any]) -> batches.Batch:
    return batches.read({"arc": items}, SCHEMA)


def draws_for(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)


def test_every_form_is_decided_alike(requests: Plan):
    labels = [*LABELS, None] * 50
    table = pa.table({"stream": labels})
    forms = [
        labels,
        [(label,) for label in labels],
        [{"element": label} for label in labels],
        {"input": labels},
        {"arc": np.array(labels, dtype=object)},
        {"arc": np.array([str(label) for label in labels])},
        np.array(labels, dtype=object),
        np.array([str(label) for label in labels])[:, None],
        table,
        table.to_batches()[0],
        pa.table({"stream": table["stream"].dictionary_encode()}),
        pd.DataFrame({"arc": labels, "price": range(len(labels))}),
        pl.DataFrame({"element": labels}),
    ]
    masks = [Shedder(requests, 0.5).offer(form).tolist() for form in forms]
    assert 0 < sum(masks[0]) < len(labels)
    assert all(mask == masks[0] for mask in masks)
    single = Shedder(requests, 0.5)
    assert [single.offer_one({"arc": label}) for label in labels] == masks[0]


def test_nothing_is_compiled_after_construction(requests: Plan):
    compiled = (drops.decide, lookup.select_region, warm._follow)
    shedder = Shedder(requests, 1.0)
    before = [list(kernel.signatures) for kernel in compiled]
    batch = read(list(LABELS))
    for load in (0.0, 0.5, requests.network.max_rates * 7.0, np.zeros(6), 1.0):
        shedder.set_load(load)
        shedder.decide(batch)
        shedder.decide(batch, draws=draws_for(len(LABELS)), most=2, weighted=True)
        shedder.decide(read([]))
        shedder.offer(pa.table({"arc": list(LABELS)}))
    successor = Shedder(requests, 0.3)
    successor.adopt(shedder)
    successor.decide(batch)
    assert [list(kernel.signatures) for kernel in compiled] == before
    assert len(drops.decide.signatures) == 1


def test_the_setting_is_a_pure_function_of_the_load(requests: Plan):
    rows = np.random.default_rng(1).uniform(0.0, 3.0, (200, 6)) * requests.network.max_rates
    shedder = Shedder(requests, 1.0)
    steps = []
    for row in rows:
        shedder.set_load(row)
        steps.append(shedder._steps.copy())
    for k in reversed(range(len(rows))):
        shedder.set_load(rows[k])
        assert shedder._steps.tolist() == steps[k].tolist()
    for k in (0, 70, 140):
        fresh = Shedder(Plan.from_bytes(requests.to_bytes()), rows[k])
        assert fresh._steps.tolist() == steps[k].tolist()
    np.testing.assert_allclose(
        [requests.fractions(row) for row in rows], requests.at_many(rows), atol=1e-9
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(LABELS), min_size=1, max_size=60), st.integers(0, 20), st.data())
def test_keys_decide_by_the_fraction_of_the_arc(items: list[str], twentieths: int, data: Any):
    plan = plan_network(demo.network())
    shedder = Shedder(plan, twentieths / 20)
    draws = np.array(data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(items),
                                        max_size=len(items))), dtype=np.uint32)  # fmt: skip
    setting, network = shedder.setting, plan.network
    expected, weights = [], []
    for item, draw in zip(items, draws.tolist(), strict=True):
        if item in network.arc_index:
            drop = setting.get(item, 0.0)
        else:
            arcs = network.arcs_from.get(item, ())
            drop = min((setting.get(network.arcs[a].name, 0.0) for a in arcs), default=0.0)
        expected.append(Fraction(draw, 2**32) >= Fraction(drop))
        weights.append(1 / (1 - drop) if drop < 1 else 0.0)
    done = shedder.decide(read(items), draws=draws, weighted=True)
    assert done.keep.tolist() == expected
    assert (done.units, done.cut) == (sum(expected), 0)
    assert done.weight is not None
    kept = np.where(expected, weights, 0.0)
    rounding = 1e-6 + 2**-31 * kept  # a fraction is decided by 32 bits
    np.testing.assert_array_less(np.abs(done.weight - kept), kept * rounding + 1e-12)
    split = shedder.decide(read(items[:7]), draws=draws[:7])
    assert split.keep.tolist() == expected[:7]
    assert shedder.counters.offered.sum() == len(items) + len(items[:7])


def test_keyed_items_that_are_kept_stay_kept_at_higher_loads(requests: Plan):
    names = [arc.name for arc in requests.network.arcs if arc.name not in requests.not_nested]
    batch, draws = read(names * 200), draws_for(200 * len(names))
    kept = np.zeros(batch.rows, dtype=bool)
    for z in np.linspace(0.0, 1.0, 41):
        now = Shedder(requests, float(z)).decide(batch, draws=draws).keep
        assert not (kept & ~now).any()
        kept = now


@pytest.mark.parametrize("keyed", [False, True])
def test_weights_are_unbiased(requests: Plan, keyed: bool):
    """Weighted counts of kept items per arc estimate what was offered."""
    count = 40_000
    for label in ("images", "pages->clicks:0", "visits->compress"):
        shedder = Shedder(requests, 0.5)
        done = shedder.decide(
            read([label] * count), draws=draws_for(count) if keyed else None, weighted=True
        )
        assert done.weight is not None
        assert done.units < count
        kept = done.units / count
        deviation = np.sqrt(count * (1 - kept) / kept) if keyed else 4
        assert abs(done.weight.sum() - count) <= 4 * deviation
    assert Shedder(requests, 0.5).decide(read(["nowhere"]), weighted=True).weight == [1.0]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(LABELS), max_size=80),
    st.integers(0, 90),
    st.integers(0, 10),
    st.booleans(),
)
def test_a_limit_cuts_the_least_valuable_items(
    items: list[str], most: int, tenths: int, keyed: bool
):
    plan = plan_network(demo.network())
    draws = draws_for(len(items)) if keyed else None
    free, limited = Shedder(plan, tenths / 10), Shedder(plan, tenths / 10)
    without = free.decide(read(items), draws=draws)
    done = limited.decide(read(items), draws=draws, most=most)
    assert done.units == done.keep.sum() == min(without.units, most)
    assert done.cut == without.units - done.units
    assert not (done.keep & ~without.keep).any()
    assert limited.counters.dropped.sum() == len(items) - done.units
    assert limited.counters.offered.tolist() == free.counters.offered.tolist()
    values = worths(plan, free.setting)
    cut = [values[items[k]] for k in np.flatnonzero(without.keep & ~done.keep)]
    kept = [values[item] for item, keep in zip(items, done.keep, strict=True) if keep]
    if cut and kept:
        assert max(cut) <= min(kept) + 1e-12
    again = [
        limited.decide(read(items), draws=draws).keep,
        free.decide(read(items), draws=draws).keep,
    ]
    assert again[0].tolist() == again[1].tolist()  # the cut leaves the plan's credits alone


@pytest.mark.parametrize("keyed", [False, True])
def test_weights_make_up_for_what_a_limit_cuts(requests: Plan, keyed: bool):
    """Of the arcs that are cut in part, what is left stands for the others."""
    items = ["images"] * 30_000 + ["icons"] * 30_000
    shedder = Shedder(requests, 0.6)
    draws = draws_for(len(items)) if keyed else None
    free = Shedder(requests, 0.6).decide(read(items), draws=draws, weighted=True)
    done = shedder.decide(read(items), draws=draws, most=free.units - 9000, weighted=True)
    assert done.weight is not None
    assert free.weight is not None
    assert done.cut == 9000
    assert not done.weight[~done.keep].any()
    for part in (slice(0, 30_000), slice(30_000, None)):
        if done.keep[part].any():
            assert done.weight[part].sum() == pytest.approx(free.weight[part].sum(), rel=0.002)


def worths(plan: Plan, setting: dict[str, float]) -> dict[str, float]:
    """Return the loss of throughput when one of 1000 items at each place is missing."""
    network = plan.network
    arcs = {arc.name: arc for arc in network.arcs}

    def after(stream: str) -> float:
        return sum(
            (1 - setting.get(arc.name, 0.0)) * through(arc.name)
            for arc in network.arcs
            if arc.stream == stream
        )

    def through(name: str) -> float:
        arc = arcs[name]
        if arc.to_output:
            return next(o.weight for o in network.outputs if o.id == arc.consumer)
        return network.operator[arc.consumer].gain(arc.port or 0) * after(arc.consumer)

    found = {name: through(name) for name in arcs}
    for stream in network.streams:
        kept = max((1 - setting.get(a.name, 0.0) for a in network.arcs if a.stream == stream),
                   default=0.0)  # fmt: skip
        found[stream] = after(stream) / kept if kept else 0.0
    return {**found, "nowhere": 0.0}


def test_a_limit_thins_the_last_arc_evenly_but_keeps_windows_whole(requests: Plan, windowed: Any):
    keep = Shedder(requests, 1.0).decide(read(["images"] * 100), most=50).keep
    assert [int(part.sum()) for part in np.split(keep, 10)] == [5] * 10
    plan = plan_network(windowed(5))
    keep = Shedder(plan, 1.0).decide(read(["x->m"] * 100), most=50).keep
    assert keep[:50].all()


def test_higher_priorities_are_cut_last():
    document = examples.figure_1().to_document()
    document["outputs"][0].update(weight=0.001, priority=1)
    document["outputs"][1].update(weight=1000.0, priority=0)
    shedder = Shedder(plan_network(type(examples.figure_1()).from_document(document)), 1.0)
    keep = shedder.decide(read(["i1", "i2"] * 10), most=10).keep
    assert keep.reshape(-1, 2).tolist() == [[True, False]] * 10


def test_arrivals_count_the_items_of_a_stream_once(requests: Plan):
    shedder = Shedder(requests, 0.5)
    counts = shedder.arrivals(
        read(["images"] * 3 + ["nowhere", "pages->crawl", "icons->parse_icons"])
    )
    assert counts == dict.fromkeys(requests.network.input_ids, 0) | {"images": 3, "icons": 1}
    assert shedder.counters.offered.sum() == 0
    split = plan_network(examples.figure_7())
    document = split.network.to_document()
    document["operators"].append({**document["operators"][0], "id": "second"})
    network = type(split.network).from_document(document)
    two = Shedder(plan_network(network), 0.5)
    assert two.arrivals(read(["i->common", "i->second"] * 5)) == {"i": 5}
    two.set_load({name: float(n) for name, n in two.arrivals(read([])).items()})
    assert two.setting == {}
