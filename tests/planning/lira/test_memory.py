"""Objects are found again under every name they have, in every form a batch has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.lira import kernels
from planning.lira.memory import Fleet
from planning.lira.shedder import Shedder
from planning.lira.simulate import in_order

NAMES = ("object_id", "time", "x", "y")
ids = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**64),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from(["7", "007", "-0", "", "bus", "٣", b"7", b"bus", 7, 7.0, 7.5, np.float32(7)]),
)


def name_of(value: Any) -> str | None:
    """Return what makes an object the same, in plain words; None for no object."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (float, np.floating)):
        if value != value:
            return None
        return str(int(value)) if abs(value) != np.inf and value == int(value) else str(value)
    return None if value is None or value == "" else str(value)


def fill(fleet: Fleet, known: dict[str, int], values: list[Any], column: Any) -> None:
    """Look a column up and compare with a dictionary of names."""
    slots = fleet.find(column).tolist()
    for value, slot in zip(values, slots, strict=True):
        name = name_of(value)
        assert slot == (-1 if name is None else known.setdefault(name, slot))
    assert len(set(known.values())) == len(known) == fleet.objects
    assert len(fleet.nodes) >= fleet.objects
    fleet.nodes[: fleet.objects, 2] = 0.0  # each has been heard of


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(ids, min_size=1, max_size=8), max_size=6))
def test_every_name_has_one_slot(batches):
    fleet, known = Fleet(), {}
    for batch in batches:
        column = np.empty(len(batch), dtype=object)
        column[:] = batch
        fill(fleet, known, batch, column)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-5, 2**63 - 1), min_size=1, max_size=30), st.randoms())
def test_columns_of_every_type_name_the_same_objects(numbers, random):
    """Numbers, texts and dictionaries, with and without nulls, in any order."""
    holes = [None if random.random() < 0.2 else n for n in numbers]
    texts = [None if n is None else str(n) for n in holes]
    columns = [
        (numbers, np.array(numbers, dtype=np.int64)),
        (numbers, np.array(numbers, dtype=np.int64)[::-1][::-1]),
        (numbers, np.array([str(n) for n in numbers])),
        (numbers, np.array([str(n).encode() for n in numbers])),
        (holes, pa.array(holes, pa.int64())),
        (texts, pa.array(texts, pa.string())),
        (texts, pa.array(texts, pa.large_string())),
        (texts, pa.array(texts, pa.string()).dictionary_encode()),
    ]
    small = [n % 1000 for n in numbers]
    columns += [
        (small, np.array(small, dtype=np.float64)),
        (small, np.array(small, dtype=np.uint16)),
        (small, pa.array(small, pa.float32())),
    ]
    random.shuffle(columns)
    fleet, known = Fleet(), {}
    for values, column in columns:
        fill(fleet, known, values, column)


def test_thousands_of_objects_keep_their_slots_while_the_table_grows():
    fleet, known = Fleet(), {}
    rng = np.random.default_rng(4)
    for size in (3, 5000, 1, 900, 20_000, 7):
        values = rng.integers(-(2**62), 2**62, size)
        values[::3] = rng.integers(0, 4000, len(values[::3]))
        fill(fleet, known, values.tolist(), values)
        words = [f"car {n}" for n in values[:50]]
        fill(fleet, known, words, np.array(words))
    large = np.array([2**64 - 1, 2**63, 5], dtype=np.uint64)
    fill(fleet, known, large.tolist(), large)


@pytest.mark.parametrize("texts", [False, True])
def test_who_is_silent_is_forgotten_and_its_slot_used_again(texts):
    """Ten cars stay; a hundred thousand others come once each. Who is known keeps its state."""
    fleet = Fleet(silence_s=100.0)
    for tick in range(1000):
        ids = np.concatenate([np.arange(10), 1000 + 100 * tick + np.arange(100)])
        slots = fleet.find(ids.astype(str) if texts else ids)
        fresh = np.isnan(fleet.nodes[slots, 2])
        assert fresh.tolist() == [tick == 0] * 10 + [True] * 100
        assert tick == 0 or (fleet.nodes[slots[:10], 0] == np.arange(10)).all()
        fleet.nodes[slots, 2] = float(tick)
        fleet.nodes[slots, 0] = ids
        fleet.nodes[slots, kernels.WAITS] = 0.0
        assert len(set(slots.tolist())) == 110
    assert fleet.objects < 25_000
    assert len(fleet.nodes) < 50_000
    assert len(fleet._names) <= fleet.objects


def test_a_few_wrong_clocks_do_not_make_the_others_look_silent():
    fleet = Fleet(silence_s=100.0)
    slots = fleet.find(np.arange(2000))
    fleet.nodes[slots, 2], fleet.nodes[slots, kernels.WAITS] = 5.0, 0.0
    fleet.nodes[slots[:100], 2] = 1e300
    assert fleet.find(np.arange(2001)).max() == 2000
    assert fleet.objects == 2001


def test_the_rest_of_a_large_dictionary_gets_no_slots():
    column = pa.array([f"car {n}" for n in range(1000)]).dictionary_encode()[10:13]
    fleet = Fleet()
    assert fleet.find(column).tolist() == [0, 1, 2]
    assert fleet.objects == 3


def forms(rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return positions in every form that a batch may have."""
    items = [dict(zip(NAMES, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    text = [str(int(n)) for n in rows["object_id"]]
    when = [datetime.fromtimestamp(t, UTC) for t in rows["time"]]
    kinds = [(n, rows[n].dtype) for n in NAMES]
    return {
        "columns": rows,
        "lists": {n: v.tolist() for n, v in rows.items()},
        "rows": np.column_stack([rows[n].astype(float) for n in NAMES]),
        "structured": np.array(list(zip(*rows.values(), strict=True)), dtype=kinds),
        "mappings": items,
        "tuples": [tuple(item.values()) for item in items],
        "table": pa.table(rows),
        "batch": pa.RecordBatch.from_pydict({**rows, "object_id": text, "time": when}),
        "dictionary": pa.table({**rows, "object_id": pa.array(text).dictionary_encode()}),
        "pandas": pd.DataFrame(rows),
        "pandas with times": pd.DataFrame({**rows, "object_id": text, "time": when}),
        "nullable": pd.DataFrame(rows).convert_dtypes(),
        "polars": pl.DataFrame(rows),
        "text": {**rows, "object_id": np.array(text)},
        "bytes": {**rows, "object_id": np.array(text).astype("S")},
        "other columns": {"speed": rows["x"], **{n: rows[n] for n in reversed(NAMES)}},
    }


@pytest.mark.parametrize("options", [{}, {"correct": False}])
def test_every_form_decides_alike(plan, samples, options):
    """The forms take turns with one shedder, next to another one that is given columns only."""
    rows = {n: v[:12_000] for n, v in in_order(samples).items()}
    rows["object_id"] = rows["object_id"].astype(np.int64)
    whole, mixed = Shedder(plan, 0.5, **options), Shedder(plan, 0.5, **options)
    shedders = {name: Shedder(plan, 0.5, **options) for name in forms(rows)}
    for turn, start in enumerate(range(0, 12_000, 750)):
        part = {n: v[start : start + 750] for n, v in rows.items()}
        wanted = whole.offer(part).tolist()
        given = forms(part)
        for name, shedder in shedders.items():
            assert shedder.offer(given[name]).tolist() == wanted, name
        turns = list(given)
        assert mixed.offer(given[turns[turn % len(turns)]]).tolist() == wanted
    assert {shedder.counters for shedder in shedders.values()} == {whole.counters}
    assert mixed.counters == whole.counters
    assert whole.counters.objects == 150
    assert 0 < whole.counters.dropped < 12_000


def test_positions_without_a_name_are_invalid_and_mixed_names_are_fine(plan):
    shedder = Shedder(plan, 1.0)
    names = [7, None, "bus", 7.5, float("nan"), b"7", ""]
    place = {"time": range(7), "x": [10.0] * 7, "y": [10.0] * 7}
    assert shedder.offer({"object_id": names, **place}).tolist() == [
        True, False, True, True, False, False, False,
    ]  # fmt: skip
    assert (shedder.counters.invalid, shedder.counters.objects) == (3, 3)
    assert shedder.offer({"object_id": [[1], {}, 2j], **{n: v[:3] for n, v in place.items()}}).all()


def test_nothing_compiles_after_the_probe(plan, samples):
    """Every kernel has one signature, whatever comes."""
    rows = {n: v[:60] for n, v in in_order(samples).items()}
    shedder = Shedder(plan, 0.5)
    for size in (0, 1, 300):
        shedder.offer(shedder.probe(size))
    for form in forms(rows).values():
        shedder.offer(form)
    shedder.offer({n: v[::-1] for n, v in rows.items()})
    shedder.offer_one({"object_id": 7, "time": np.float32(1e6), "x": 1, "y": True})
    assert len(kernels.decide.signatures) == len(kernels.find.signatures) == 1
