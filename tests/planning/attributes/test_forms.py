"""Batches of every form: the same tuples, the same decisions; what is missing is visible."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from benchmarks.attributes.workload import stream
from planning import batches, columns
from planning.attributes import kernels
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.attributes.shedder import Shedder

METHODS = ("paper", "selection", "periods", "on_change")


def samples_with_text(streams: int = 1) -> dict[str, Any]:
    """Return two streams in turn if asked, with numbers, text and nulls."""
    rng = np.random.default_rng(1)
    samples: dict[str, Any] = stream(rng, cycles=60, lengths=(5,), persistence=(0.99, 0.5))
    rows = len(samples["key0"])
    samples["state"] = np.array(["on", "off", "über"])[rng.integers(0, 3, rows)]
    samples["value1"][::17] = np.nan
    if streams > 1:
        samples["line"] = np.array(["a", "b"])[np.arange(rows) // 5 % 2]
    return samples


SAMPLES = samples_with_text()
PLANS = {m: plan_samples(SAMPLES, Parameters(method=m)) for m in METHODS}


def forms(samples: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the same batch in every form; mappings and frames in another order of columns."""
    named = {name: samples[name] for name in reversed(plan.attributes)}
    lists = {name: [None if x != x else x for x in c.tolist()] for name, c in named.items()}
    rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    ordered = [tuple(row[name] for name in plan.attributes) for row in rows]
    record = namedtuple("record", list(lists))  # noqa: PYI024
    table = np.empty((len(rows), len(plan.attributes)), dtype=object)
    table[:] = ordered
    readonly = {name: c.copy() for name, c in named.items()}
    for column in readonly.values():
        column.flags.writeable = False
    given = {
        "lists": lists,
        "objects": {name: c.astype(object) for name, c in named.items()},
        "read-only": readonly,
        "strided": {name: np.repeat(c, 2)[::2] for name, c in named.items()},
        "items": rows,
        "tuples": ordered,
        "named tuples": [record(**row) for row in rows],
        "rows": table,
        "structured": np.rec.fromarrays(list(named.values()), names=list(named)),
        "text of numbers": {name: c.astype(np.str_) for name, c in named.items()},
    }
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table(lists)
    coded = arrow.set_column(0, arrow.column_names[0], arrow.column(0).dictionary_encode())
    given |= {"Arrow": arrow, "Arrow batch": arrow.combine_chunks().to_batches()[0],
              "Arrow dictionary": coded}  # fmt: skip
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(named)
    given |= {"pandas": frame, "pandas category": frame.astype({"state": "category"})}
    given["polars"] = pytest.importorskip("polars").DataFrame(lists)
    return given


@pytest.mark.parametrize("method", METHODS)
def test_every_form_decides_alike(method: str) -> None:
    plan = PLANS[method]
    want = Shedder(plan, 0.5).send(SAMPLES)
    assert want.keep.any()
    for form, batch in forms(SAMPLES, plan).items():
        sent = Shedder(plan, 0.5).send(batch)
        np.testing.assert_array_equal(sent.keep, want.keep, form)
        np.testing.assert_array_equal(sent.bytes, want.bytes, form)
        rows = sent.rows()
        assert len(rows) == want.tuples.sum(), form
        named = {str(row["key0"]) for row in rows}
        assert named == {str(row["key0"]) for row in want.rows()}, form


def test_every_form_finds_the_stream() -> None:
    samples = samples_with_text(streams=2)
    plan = plan_samples(samples, Parameters(method="periods", stream_attribute="line"))
    assert [s.name for s in plan.streams] == ["a", "b"]
    want = Shedder(plan, 0.5).offer(samples)
    assert want.any()
    for form, batch in forms(samples, plan).items():
        np.testing.assert_array_equal(Shedder(plan, 0.5).offer(batch), want, form)


def test_streams_that_are_numbers_are_found_as_numbers_and_as_text() -> None:
    samples = samples_with_text(streams=2)
    samples["line"] = np.where(samples["line"] == "a", 7, 12)
    plan = plan_samples(samples, Parameters(method="periods", stream_attribute="line"))
    want = Shedder(plan, 0.5).offer(samples)
    for line in (samples["line"].astype(float), samples["line"].astype(str)):
        np.testing.assert_array_equal(Shedder(plan, 0.5).offer({**samples, "line": line}), want)
    shedder = Shedder(plan, 0.5)
    assert not shedder.offer({**samples, "line": np.full(len(samples["line"]), 8)}).any()
    assert shedder.counters.unreadable == len(samples["line"])


def test_only_what_names_the_entity_is_required() -> None:
    plan = PLANS["periods"]
    shedder = Shedder(plan, 0.9)
    assert shedder.schema.columns == shedder.parts == plan.attributes
    few = {name: SAMPLES[name] for name in ("key0", "value1")}
    read = batches.read({**few, "valu0": SAMPLES["value0"]}, shedder.schema)
    assert (set(read.missing), read.unknown) == ({"value0", "state"}, 1)
    keep = shedder.decide(read).keep
    there = [plan.attributes.index(name) for name in few]
    absent = [j for j in range(len(plan.attributes)) if j not in there]
    assert keep[:, there].any(axis=0).all()
    assert not keep[:, absent].any()
    assert shedder.counters.unknown_attributes == 1
    assert shedder.counters.unreadable == 0
    nameless = {name: column for name, column in SAMPLES.items() if name != "key0"}
    assert not shedder.offer(nameless).any()
    assert shedder.counters.unreadable == len(SAMPLES["key0"])


@pytest.mark.parametrize(
    "batch",
    [
        {"key0": np.zeros((2, 2)), "value0": np.zeros(2)},
        {"key0": np.arange(3), "value0": np.arange(2)},
        {"value0": np.arange(3)},
        {"key0": np.array([np.zeros(2), np.ones(2), np.ones(3)], dtype=object)},
        [None] * 4,
        [(1, 2)] * 4,
        "text",
        42,
        None,
    ],
)
def test_an_unreadable_batch_is_dropped_and_counted(batch: Any) -> None:
    shedder = Shedder(PLANS["periods"], 0.5)
    keep = shedder.offer(batch)
    assert keep.shape == (batches.size(batch), 4)
    assert not keep.any()
    assert shedder.counters.unreadable == len(keep)
    assert shedder.send(batch).rows() == []
    assert shedder.offer(SAMPLES).any()


def test_empty_batches_and_odd_items_have_the_mask_of_the_family() -> None:
    shedder = Shedder(PLANS["periods"], 0.5)
    for batch in ({}, [], {name: column[:0] for name, column in SAMPLES.items()}):
        assert shedder.offer(batch).shape == (0, 4)
        assert shedder.send(batch).keep.shape == (0, 4)
    for item in ({}, None, 3, "text", (), {"key0": "a"}):
        kept = shedder.offer_one(item)
        assert isinstance(kept, np.ndarray)
        assert kept.shape == (4,)


def test_units_are_the_bytes_before_shedding() -> None:
    plan = PLANS["on_change"]
    shedder = Shedder(plan, 0.5)
    read = batches.read(SAMPLES, shedder.schema)
    expected = 0
    for j, name in enumerate(plan.attributes):
        for value in SAMPLES[name]:
            text = plan.kinds[j] == "text"
            expected += len(str(value).encode()) if text else int(plan.streams[0].sizes[j])
    assert shedder.units(read) == shedder.units(read) == expected
    decision = shedder.decide(read)
    assert decision.units == shedder.counters.sent_bytes > 0
    assert shedder.counters.offered_bytes == expected


@pytest.mark.parametrize("method", METHODS)
def test_a_probe_compiles_all_that_any_batch_needs(method: str) -> None:
    plan = Plan.from_bytes(PLANS[method].to_bytes())  # arrays as a node has them
    shedder = Shedder(plan, 0.5)
    keep = shedder.offer(shedder.probe(300))
    assert keep.shape == (300, 4)
    assert keep.any()
    assert shedder.offer(shedder.probe(1)).shape == (1, 4)
    compiled = kernels.decide, kernels.find_slots, columns._hash_text
    assert [len(kernel.signatures) for kernel in compiled] == [1, 1, 1]
    draws = np.arange(len(SAMPLES["key0"]), dtype=np.uint32)
    draws.flags.writeable = False
    for load in (0.0, 0.05, 0.5, 1.0):
        shedder.set_load(load)
        for form, batch in forms(SAMPLES, plan).items():
            read = batches.read(batch, shedder.schema)
            for given in (None, draws):
                for most in (1 << 62, 500, 0):
                    decision = shedder.decide(read, draws=given, most=most)
                    assert decision.units <= most, form
    assert [len(kernel.signatures) for kernel in compiled] == [1, 1, 1]
