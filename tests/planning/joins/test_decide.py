"""Decisions on batches against plain loops: every form, limits, keys, and new plans."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning import batches
from planning.joins.engine import WindowedJoin, bitmaps, compile_all, probe, storage
from planning.joins.model import Condition, Tuples, Windows, tuples
from planning.joins.plan import Plan
from planning.joins.shedder import Shedder

ONE = 2**32
PlanMaker = Callable[..., Plan]
seeds = st.integers(0, 10_000)
loads = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.5, 1.0]))


def rows_for(plan: Plan, seed: int, size: int) -> list[dict[str, Any]]:
    """Return rows of both streams, some of neither, some of unknown type, with sets of items."""
    rng = np.random.default_rng(seed)
    layout = plan.layout
    rows = []
    for k in range(size):
        row: dict[str, Any] = {
            layout.stream: str(rng.choice([*layout.streams, "odd"], p=[0.5, 0.4, 0.1]))
        }
        row[layout.time] = k / 2**12  # all between two ticks
        if layout.type:
            row[layout.type] = str(rng.choice([*layout.types, "odd"]))
        row |= {name: int(rng.integers(-1, 4)) for name in layout.items}
        rows.append(row)
    return rows


def item_of(plan: Plan, row: dict[str, Any]) -> tuple[int, int] | None:
    """Return the window and the class that decide on a row, in so many words."""
    layout = plan.layout
    if row[layout.stream] not in layout.streams:
        return None
    window = 1 if row[layout.stream] == layout.streams[0] else 0
    cheapest = int(np.argmin(plan.utilities)) // (len(layout.sizes) + 1)
    label = row[layout.type] if layout.type else None
    kind = (
        layout.types.index(label)
        if label in layout.types
        else 0
        if layout.type is None
        else cheapest
    )
    size = len({row[name] for name in layout.items} - {-1})
    part = sum(size > bound for bound in layout.sizes)
    return window, kind * (len(layout.sizes) + 1) + part


def by_credits(plan: Plan, load: float, rows: list[dict[str, Any]]) -> np.ndarray:
    """Decide tuple by tuple: a credit per item grows by its share, and a carry grants."""
    take = plan.at(load).take
    credit: Counter[tuple[int, int, int]] = Counter()
    mask = np.zeros((len(rows), plan.windows.most), dtype=bool)
    for k, row in enumerate(rows):
        item = item_of(plan, row)
        if item is None:
            continue
        for j in range(plan.windows.counts[item[0]]):
            credit[*item, j] += int(Fraction(float(take[*item, j])) * ONE)
            if credit[*item, j] >= ONE:
                credit[*item, j] -= ONE
                mask[k, j] = True
    return mask


def by_draws(plan: Plan, load: float, rows: list[dict[str, Any]], draws: np.ndarray) -> np.ndarray:
    take = plan.at(load).take
    mask = np.zeros((len(rows), plan.windows.most), dtype=bool)
    for k, row in enumerate(rows):
        item = item_of(plan, row)
        for j in range(plan.windows.counts[item[0]] if item else 0):
            drop = -(-(1 - Fraction(float(take[*item, j]))) * ONE // 1)  # rounded up
            mask[k, j] = int(draws[k]) >= drop
    return mask


def read(shedder: Shedder, rows: Any) -> batches.Batch:
    return batches.read(rows, shedder.schema)


@settings(max_examples=60, deadline=None)
@given(seeds, loads, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_batches_decide_as_a_plain_loop_does(
    plan_of: PlanMaker, seed: int, load: float, sizes: list[int]
) -> None:
    plan = plan_of(seed, 1 + seed % 3, (0, 2) if seed % 2 else ())
    rows = rows_for(plan, seed, sum(sizes))
    shedder, ends = Shedder(plan, load), np.cumsum([0, *sizes])
    parts = [shedder.offer(rows[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    wanted = by_credits(plan, load, rows)
    np.testing.assert_array_equal(np.concatenate(parts), wanted)
    one = Shedder(plan, load)
    np.testing.assert_array_equal([one.offer_one(row) for row in rows], wanted)
    items = [item_of(plan, row) for row in rows]
    counters = shedder.counters
    assert counters == one.counters
    assert counters.offered == len(rows)
    assert counters.compared == wanted.sum()
    assert counters.dropped == sum(not row.any() for row in wanted)
    assert counters.unknown_streams == items.count(None)
    offered = sum(plan.windows.counts[item[0]] for item in items if item)
    assert counters.possible == offered == shedder.units(read(shedder, rows))
    assert shedder.parts == tuple(f"basic window {j}" for j in range(plan.windows.most))


@settings(max_examples=60, deadline=None)
@given(seeds, loads, loads, st.integers(1, 60))
def test_keyed_decisions_are_pure_and_nested(
    plan_of: PlanMaker, seed: int, load: float, other: float, size: int
) -> None:
    plan = plan_of(seed, 1 + seed % 3, (0, 2) if seed % 2 else ())
    rows = rows_for(plan, seed, size)
    draws = np.random.default_rng(seed).integers(0, ONE, size, dtype=np.uint32)
    draws[: size // 3] = np.random.default_rng(seed).choice(
        np.array([0, 1, ONE - 1, ONE // 2], dtype=np.uint32), size // 3
    )
    shedder = Shedder(plan, load)
    credit = shedder._grants.credit.copy()
    decision = shedder.decide(read(shedder, rows), draws=draws)
    np.testing.assert_array_equal(decision.keep, by_draws(plan, load, rows, draws))
    assert (decision.units, decision.cut) == (decision.keep.sum(), 0)
    assert shedder.counters.compared == decision.units
    np.testing.assert_array_equal(shedder._grants.credit, credit)
    shedder.offer(rows)  # unkeyed decisions in between leave no trace
    backwards = shedder.decide(read(shedder, rows[::-1]), draws=draws[::-1]).keep
    np.testing.assert_array_equal(backwards[::-1], decision.keep)
    shedder.set_load(other)
    again = shedder.decide(read(shedder, rows), draws=draws).keep
    np.testing.assert_array_equal(again, by_draws(plan, other, rows, draws))
    fewer, more = (decision.keep, again) if load <= other else (again, decision.keep)
    assert np.all(fewer <= more)


@settings(max_examples=80, deadline=None)
@given(seeds, loads, st.integers(1, 60), st.integers(-1, 400), st.booleans())
def test_a_limit_cuts_what_is_worth_least(
    plan_of: PlanMaker, seed: int, load: float, size: int, most: int, keyed: bool
) -> None:
    plan = plan_of(seed, 1 + seed % 3)
    rows = rows_for(plan, seed, size)
    draws = np.random.default_rng(seed).integers(0, ONE, size, dtype=np.uint32)
    given_draws = draws if keyed else None
    free, tight = Shedder(plan, load), Shedder(plan, load)
    batch = read(free, rows)
    wanted = free.decide(batch, draws=given_draws).keep
    decision = tight.decide(batch, draws=given_draws, most=most)
    assert decision.keep.shape == wanted.shape
    assert decision.units == decision.keep.sum() == min(wanted.sum(), max(most, 0))
    assert decision.units + decision.cut == wanted.sum()
    assert np.all(decision.keep <= wanted)
    assert tight.counters.compared == decision.units
    assert tight.counters.dropped == sum(not row.any() for row in decision.keep)
    np.testing.assert_array_equal(tight._grants.credit, free._grants.credit)
    # The pairs that pass are the first ones in the plan's order.
    turn = {int(flat): position for position, flat in enumerate(plan.order)}
    items = [item_of(plan, row) for row in rows]
    shape = plan.density.shape

    def turns(mask: np.ndarray) -> list[int]:
        return [
            turn[int(np.ravel_multi_index((*items[k], j), shape))]
            for k, j in np.argwhere(mask).tolist()
        ]

    assert sorted(turns(decision.keep)) == sorted(turns(wanted))[: decision.units]
    if not decision.units or not decision.cut:
        return
    # Of the one item that is cut in part, tuples pass evenly, or by their draws.
    partly = max(turns(decision.keep))
    window, kind, j = np.unravel_index(plan.order[partly], shape)
    tuples_of_it = [k for k, item in enumerate(items) if item == (window, kind) and wanted[k, j]]
    passed = decision.keep[tuples_of_it, j]
    if keyed:
        assert draws[tuples_of_it][passed].min() >= draws[tuples_of_it][~passed].max(initial=0)
    else:
        share = passed.mean() * np.arange(1, passed.size + 1)
        assert np.abs(np.cumsum(passed) - share).max() <= 1.0


def test_a_limit_that_does_not_bite_changes_nothing(plan_of: PlanMaker) -> None:
    plan = plan_of(5)
    rows = rows_for(plan, 5, 200)
    free, limited = Shedder(plan, 0.3), Shedder(plan, 0.3)
    for _ in range(3):
        batch = read(free, rows)
        keep = free.decide(batch).keep
        np.testing.assert_array_equal(limited.decide(batch, most=int(keep.sum())).keep, keep)


class Row(NamedTuple):
    stream: Any
    time_s: float
    item_0: int
    item_1: int


def numeric_plan(plan_of: PlanMaker) -> Plan:
    """Return a plan whose two streams are called 0 and 1, so that rows can be numbers."""
    plan = plan_of(11, 1, (0, 1))
    layout = replace(plan.layout, items=("item_0", "item_1"))
    return replace(plan, layout=layout)


def forms(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    table = pyarrow.table(columns)
    halves = pyarrow.concat_tables([table.slice(0, 7), table.slice(7)])
    encoded = table.set_column(0, "stream", table.column("stream").dictionary_encode())
    numbers = np.array([[float(value) for value in row.values()] for row in rows])
    return {
        "columns": {name: np.array(column) for name, column in columns.items()},
        "lists": columns,
        "objects": {name: np.array(column, dtype=object) for name, column in columns.items()},
        "mappings": rows,
        "tuples": [tuple(row.values()) for row in rows],
        "named tuples": [Row(**row) for row in rows],
        "rows of numbers": numbers,
        "rows of objects": np.array([list(row.values()) for row in rows], dtype=object),
        "structured": np.array(
            [tuple(row.values()) for row in rows],
            dtype=[("stream", "U3"), ("time_s", "f8"), ("item_0", "i8"), ("item_1", "i8")],
        ),
        "pandas": pandas.DataFrame(columns),
        "pandas categories": pandas.DataFrame(columns).astype({"stream": "category"}),
        "polars": polars.DataFrame(columns),
        "Arrow table": table,
        "Arrow in pieces": halves,
        "Arrow dictionary": encoded,
        "Arrow batch": table.to_batches()[0],
    }


def test_every_form_gives_the_same_decisions(plan_of: PlanMaker) -> None:
    plan = numeric_plan(plan_of)
    rows = [row for row in rows_for(plan, 2, 150) if row["stream"] != "odd"]
    wanted = by_credits(plan, 0.4, rows)
    assert 0 < wanted.sum() < wanted.size
    for name, form in forms(rows).items():
        shedder = Shedder(plan, 0.4)
        np.testing.assert_array_equal(shedder.offer(form), wanted, err_msg=name)
        assert shedder.counters.rejected == shedder.counters.unknown_streams == 0, name


def test_bad_batches_are_compared_with_nothing_and_counted(plan_of: PlanMaker) -> None:
    plan = plan_of(11, 2, (0, 1))
    rows = rows_for(plan, 2, 20)
    shedder = Shedder(plan, 1.0)
    n = plan.windows.most
    for nothing in ([], None, {}, np.zeros((0, 4)), pandas.DataFrame(), 7):
        assert shedder.offer(nothing).shape == (0, n)
    for nothing in ({}, None, (), 7):
        assert shedder.offer_one(nothing).tolist() == [False] * n
    before = shedder.counters
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    without = {name: column for name, column in columns.items() if name != "item_3"}
    words = columns | {"item_3": ["word"] * 20}
    for bad in (without, words, [(1, 2, 3)] * 20):
        mask = shedder.offer(bad)
        assert mask.shape == (20, n)
        assert not mask.any()
    assert shedder.counters.rejected - before.rejected == 60
    assert shedder.counters.offered - before.offered == 60
    assert shedder.counters.dropped - before.dropped == 60
    holes = columns | {"item_3": [None, "x", float("nan"), 1e300, -(10**30), *[3] * 15]}
    assert shedder.offer(holes)[5:].any()
    assert shedder.counters.rejected - before.rejected == 60


def test_probes_are_ordinary_tuples_of_every_class(plan_of: PlanMaker) -> None:
    plan = plan_of(4, 3, (0, 2))
    shedder = Shedder(plan, 1.0)
    for rows in (1, 300):
        mask = shedder.offer(shedder.probe(rows))
        assert mask.shape == (rows, plan.windows.most)
        assert mask.any(axis=1).all()
    assert (shedder.counters.unknown_types, shedder.counters.unknown_streams) == (0, 0)
    assert tuple(shedder.probe(1)) == shedder.schema.columns
    columns = {name: column.tolist() for name, column in shedder.probe(300).items()}
    items = [
        item_of(plan, dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]
    assert len(set(items)) == 2 * len(plan.types)
    weighted = replace(plan, layout=replace(plan.layout, weights=("weight_0",)))
    assert Shedder(weighted).offer(Shedder(weighted).probe(5)).all(axis=1).any()


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(0.05, 0.95))
def test_credits_and_counters_go_on_under_a_new_plan(
    plan_of: PlanMaker, seed: int, load: float
) -> None:
    plan = plan_of(seed)
    rows = rows_for(plan, seed, 120)
    whole, old = Shedder(plan, load), Shedder(plan, load)
    wanted = whole.offer(rows)
    first = old.offer(rows[:50])
    fresh = Shedder(replace(plan, load=0.5), load)
    fresh.decide(read(fresh, fresh.probe(100)))  # probes leave no trace
    fresh.adopt(old)
    np.testing.assert_array_equal(np.concatenate([first, fresh.offer(rows[50:])]), wanted)
    assert fresh.counters == whole.counters


def test_classes_are_known_by_their_names(plan_of: PlanMaker) -> None:
    plan = plan_of(3)
    old = Shedder(plan, 0.5)
    old._grants.credit[:] = np.arange(old._grants.credit.size).reshape(old._grants.credit.shape)
    names = (plan.types[2], "new", plan.types[0])
    fresh = Shedder(replace(plan, types=names), 0.5)
    fresh.adopt(old)
    rows = old._grants.credit.reshape(-1, plan.windows.most)
    z = len(names)
    for i in range(2):
        np.testing.assert_array_equal(fresh._grants.credit[i * z], rows[i * z + 2])
        np.testing.assert_array_equal(fresh._grants.credit[i * z + 1], 0)
        np.testing.assert_array_equal(fresh._grants.credit[i * z + 2], rows[i * z])
    other = plan_of(8)
    assert other.windows != plan.windows
    elsewhere = Shedder(other, 0.5)
    elsewhere.adopt(old)
    assert not elsewhere._grants.credit.any()
    assert elsewhere.offer(rows_for(other, 1, 5)).shape == (5, other.windows.most)


def test_a_refused_load_changes_nothing(plan_of: PlanMaker) -> None:
    plan = plan_of(3)
    rows = rows_for(plan, 3, 80)
    shedder, untouched = Shedder(plan, 0.4), Shedder(plan, 0.4)
    for nonsense in (float("nan"), 7.0, None, -0.1):
        with pytest.raises(Exception, match="load"):
            shedder.set_load(nonsense)  # type: ignore[arg-type]
    np.testing.assert_array_equal(shedder.offer(rows), untouched.offer(rows))
    assert shedder.load == 0.4


def test_a_node_that_only_decides_loads_no_compiler() -> None:
    """Nothing is compiled or imported at the first batch, because nothing is compiled at all."""
    script = (
        "import sys; from planning.examples import demo_plan; from planning.joins import Shedder\n"
        "shedder = Shedder(demo_plan('joins'), 0.3); before = set(sys.modules)\n"
        "shedder.offer(shedder.probe(300)); shedder.set_load(0.5)\n"
        "print('numba' in sys.modules, sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split(" ", 1)[1].strip() == "[]", done.stdout


def signatures() -> dict[str, int]:
    return {
        f"{module.__name__}.{name}": len(kernel.signatures)
        for module in (probe, storage, bitmaps)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures")
    }


def sliced(batch: Tuples) -> Tuples:
    """Return the same tuples in arrays that are read-only and not contiguous."""
    arrays = []
    for array in (batch.time, batch.first, batch.items, batch.weights, batch.kind):
        wide = np.zeros((array.size, 2), dtype=array.dtype)
        wide[:, 0] = array
        wide.flags.writeable = False
        arrays.append(wide[:, 0])
    return Tuples(*arrays)


def test_once_compiled_no_push_compiles_again(plan_of: PlanMaker) -> None:
    compile_all()
    before = signatures()
    assert before["planning.joins.engine.probe.process"] >= 1
    for condition, access in (
        (Condition("overlap", 2), "bitset"), (Condition("subset"), "inverted"),
        (Condition("equality"), "hash"), (Condition("inner_product", 1.0), "bitset"),
    ):  # fmt: skip
        join = WindowedJoin(Windows((3.0, 5.0), 0.5), condition, vocabulary=50, access=access)
        for k in range(24):  # the arrays grow, and time goes back once
            batch = tuples(np.full(700, k - 200 * (k == 20)), [{k % 50}] * 700)
            join.push(k % 2, sliced(batch) if k % 3 else batch)
        assert join.state.time.shape[1] > 1024
        join.populations()
        join.advance_to(1e3)
    plan = plan_of(3)
    old = Shedder(plan, 0.5, engine=True)
    for _ in range(2):
        for k in range(30):
            old.push(k % 2, tuples(k / 8 + np.arange(20) / 200, [{1, 2, 3}] * 20))
            old.set_load(k / 30)
        fresh = Shedder(replace(plan, utilities=plan.utilities / 2), 0.5, engine=True)
        fresh.adopt(old)
        old = fresh
    assert signatures() == before
