"""Every input form x every family x every state: equal decisions, or a counted refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from planning import batches, families
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_definition, demo_plan, demo_samples
from planning.runtime import PlanClient, RunningShedder

ROWS = 300
Columns = dict[str, np.ndarray]


def plain(columns: Columns) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def listed(columns: Columns) -> dict[str, list[Any]]:
    return {name: column.tolist() for name, column in columns.items()}


def records(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in plain(columns)]


def structured(columns: Columns) -> np.ndarray:
    kinds = [(name, column.dtype) for name, column in columns.items()]
    table = np.empty(len(next(iter(columns.values()))), dtype=kinds)
    for name, column in columns.items():
        table[name] = column
    return table


FORMS: dict[str, Callable[[Columns], Any]] = {
    "columns": lambda c: c,
    "columns as lists": listed,
    "columns, other order and more": lambda c: {
        "surplus": np.arange(3),
        **dict(reversed(list(c.items()))),
    },
    "columns as objects": lambda c: {name: column.astype(object) for name, column in c.items()},
    "strided columns": lambda c: {name: np.repeat(column, 2)[::2] for name, column in c.items()},
    "read-only columns": lambda c: {name: _frozen(column) for name, column in c.items()},
    "big-endian columns": lambda c: {
        name: column.astype(">f8") if column.dtype.kind == "f" else column
        for name, column in c.items()
    },
    "records": records,
    "rows by position": plain,
    "lists by position": lambda c: [list(row) for row in plain(c)],
    "array of rows": lambda c: np.array(plain(c), dtype=object),
    "structured array": structured,
    "Arrow table": lambda c: pa.table(listed(c)),
    "Arrow batch": lambda c: pa.table(listed(c)).combine_chunks().to_batches()[0],
    "Arrow table in chunks": lambda c: pa.concat_tables(
        [pa.table(listed(c)).slice(0, 100), pa.table(listed(c)).slice(100)]
    ),
    "Arrow columns": lambda c: {name: pa.array(column) for name, column in listed(c).items()},
    "pandas": pd.DataFrame,
    "pandas, other order": lambda c: pd.DataFrame(c)[list(c)[::-1]],
    "pandas, other index": lambda c: pd.DataFrame(c).set_index(np.arange(ROWS)[::-1]),
    "pandas columns": lambda c: {name: pd.Series(column) for name, column in c.items()},
    "polars": lambda c: pl.DataFrame(listed(c)),
    "polars columns": lambda c: {name: pl.Series(column) for name, column in listed(c).items()},
}


def _frozen(column: np.ndarray) -> np.ndarray:
    view = column.view()
    view.flags.writeable = False
    return view


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    folder = tmp_path_factory.mktemp("plans")
    signer = SigningKey.load_or_create(folder / "keys")
    built = {}
    for name in families.NAMES:
        store = built[name] = Store(folder / name, TrustedKeys.of(signer))
        validity = {"not_after": "2026-01-02T03:30:00Z", "fallback": "uniform"}
        store.publish(
            "lasting", demo_plan(name), family=name, signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip
        store.publish(
            "expired", demo_plan(name), family=name, signer=signer, validity=validity,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip
    return built


def running(store: Store, state: str, **options: Any) -> RunningShedder:
    stream = "expired" if state == "expired" else "lasting"
    client = PlanClient(store, stream, node="n", clock=lambda: 4e9)
    if state != "before the first plan":
        assert client.poll(), client.last_error
    return RunningShedder(client, load=0.4, **options)


def parts_of(store: Store) -> tuple[str, ...]:
    shedder = running(store, "in force")
    shedder.offer([])
    assert shedder.shedder is not None
    return shedder.shedder.parts


def columns_for(name: str, store: Store) -> Columns:
    shedder = running(store, "in force")
    shedder.offer([])
    samples = demo_samples(name)
    assert shedder.shedder is not None
    schema = shedder.shedder.schema
    wanted = (*[c for c in schema.any_of if c in samples], *schema.columns)
    rows = np.arange(len(next(iter(samples.values()))))
    if name == "lira":  # first positions always pass: take many of few objects
        few = np.unique(samples["object_id"])[:5]
        rows = np.flatnonzero(np.isin(samples["object_id"], few))
    return {column: samples[column][rows[:ROWS]] for column in wanted}


@pytest.mark.parametrize("state", ["before the first plan", "in force", "expired"])
@pytest.mark.parametrize("name", families.NAMES)
def test_every_form_gives_the_same_decisions(
    stores: dict[str, Store], name: str, state: str
) -> None:
    columns = columns_for(name, stores[name])
    named = {"parts": parts_of(stores[name])}
    expected = running(stores[name], state, **named).offer(columns)
    assert 0 < expected.sum() < expected.size
    for form, build in FORMS.items():
        shedder = running(stores[name], state, **named)
        keep = shedder.offer(build(columns))
        np.testing.assert_array_equal(keep, expected, err_msg=f"{name}, {state}: {form}")
        assert (shedder.counters.errors, shedder.counters.refused_items) == (0, 0), form
        single = running(stores[name], state, **named)
        ones = [single.offer_one(item) for item in records(columns)]
        assert np.shape(ones) == expected.shape
    if name in ("sifter", "fit"):
        np.testing.assert_array_equal(np.array(ones), expected)


@pytest.mark.parametrize("state", ["before the first plan", "in force", "expired"])
@pytest.mark.parametrize("name", families.NAMES)
def test_what_cannot_be_read_is_refused_and_counted(
    stores: dict[str, Store], name: str, state: str
) -> None:
    columns = columns_for(name, stores[name])
    first = next(iter(columns))
    parts = parts_of(stores[name])
    bad: dict[str, tuple[Any, int]] = {
        "nothing": (None, 0),
        "a number": (7, 0),
        "a text": ("hello", 5),
        "a generator": ((x for x in range(3)), 0),
        "other names": ({f"{key}_": column for key, column in columns.items()}, ROWS),
        "no such frame": (pd.DataFrame({"a": [1.0, 2.0]}), 2),
        "empty items": ([{}, {}], 2),
        "a column that is None": ({**columns, first: None}, ROWS),
        "columns of two lengths": (
            {key: column[: ROWS - (key == first)] for key, column in columns.items()}, ROWS
        ),
        "lists in a column": (
            {key: pa.array([[1]] * ROWS) for key in columns}, ROWS
        ),
        "a cube": (np.zeros((5, 2, 2)), 5),
        "too many values": ([(0.0,) * 99] * 4, 4),
    }  # fmt: skip
    for what, (batch, rows) in bad.items():
        if len(columns) == 1 and what in ("columns of two lengths", "a column that is None"):
            continue  # with its only column, the number of items is gone
        shedder = running(stores[name], state, parts=parts)
        keep = shedder.offer(batch)
        assert keep.shape == ((rows, len(parts)) if parts else (rows,)), what
        counters = shedder.counters
        assert (counters.offered, counters.errors) == (rows, 0), what
        if state != "before the first plan":
            assert counters.refused_items == rows, what
            assert shedder.status()["refused_batch"], what
        assert (keep.any(axis=1) if parts else keep).sum() <= np.ceil(0.4 * rows), what
    shedder = running(stores[name], "in force", parts=parts)
    shedder.offer(bad["other names"][0])
    assert shedder.counters.missing_columns >= 1


@pytest.mark.parametrize("name", families.NAMES)
def test_a_definition_names_family_and_parts(stores: dict[str, Store], name: str) -> None:
    definition = demo_definition(name)
    waiting = running(stores[name], "before the first plan", definition=definition)
    columns = columns_for(name, stores[name])
    before = waiting.offer(columns)
    assert waiting.client.poll(), waiting.client.last_error
    after = waiting.offer(columns)
    assert before.shape == after.shape
    assert waiting.shedder is not None
    assert (waiting.family, waiting.parts) == (name, waiting.shedder.parts)


@pytest.mark.parametrize("state", ["before the first plan", "in force", "expired"])
@pytest.mark.parametrize("name", families.NAMES)
def test_masks_have_one_shape_in_every_state(
    stores: dict[str, Store], name: str, state: str
) -> None:
    parts = parts_of(stores[name])
    shedder = running(stores[name], state, family=name, parts=parts)
    for empty in ([], {}, None, np.zeros((0, 4)), pd.DataFrame(), pa.table({}), pl.DataFrame()):
        assert shedder.offer(empty).shape == ((0, len(parts)) if parts else (0,))
    for item in ({}, None, (), 7, "x"):
        kept = shedder.offer_one(item)
        assert np.shape(kept) == ((len(parts),) if parts else ())
    assert shedder.counters.errors == 0


def test_values_that_are_no_numbers_do_not_spoil_a_batch(
    stores: dict[str, Store], tmp_path: Path
) -> None:
    columns = columns_for("sifter", stores["sifter"])
    first = next(iter(columns))
    mixed = columns[first].astype(object)
    mixed[::7] = "?"
    shedder = running(stores["sifter"], "in force")
    keep = shedder.offer({**columns, first: mixed})
    clean = np.where(np.arange(ROWS) % 7 == 0, np.nan, columns[first])
    expected = running(stores["sifter"], "in force").offer({**columns, first: clean})
    np.testing.assert_array_equal(keep, expected)
    assert shedder.counters.refused_items == 0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (np.array(["2026-01-01T00:00:01.5"], "M8[ms]"), 1767225601.5),
        (pa.array([1767225601500], pa.timestamp("ms", "UTC")), 1767225601.5),
        (pd.Series(pd.to_datetime(["2026-01-01T01:00:01.5+01:00"])), 1767225601.5),
        (pl.Series(["2026-01-01T00:00:01.5"]).str.to_datetime(), 1767225601.5),
        (["12.5"], 12.5),
        (np.ma.masked_array([1.0], [True]), np.nan),
        (pd.array([None], "Int64"), np.nan),
        (pd.array([True], "boolean"), 1.0),
    ],
)
def test_numbers_and_times_come_out_alike(given: Any, seconds: float) -> None:
    read = batches.read({"t": given}, batches.Schema(("t",)))
    np.testing.assert_array_equal(read.numbers("t"), [seconds])


@pytest.mark.parametrize(
    "ids",
    [
        [2**53, None, 2**53 + 1],
        pl.Series([2**53, None, 2**53 + 1]),
        pd.Series([2**53, None, 2**53 + 1], dtype="Int64"),
        pa.array([2**53, None, 2**53 + 1]),
    ],
)
def test_large_numbers_with_nulls_stay_apart(stores: dict[str, Store], ids: Any) -> None:
    shedder = running(stores["lira"], "in force")
    shedder.offer({"object_id": ids, "time": [0.0] * 3, "x": [1.0] * 3, "y": [1.0] * 3})
    assert shedder.shedder is not None
    counters: Any = shedder.shedder.counters
    assert (counters.objects, counters.invalid) == (2, 1)
