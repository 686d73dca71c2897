import collections
import decimal
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planning import batches
from planning.errors import InvalidInput, StoreError
from planning.pacing import Pacer
from planning.runtime import SampleMarker, SampleWriter


@given(st.floats(0, 1), st.lists(st.integers(0, 200), max_size=20), st.integers(0, 2**40))
def test_batches_and_single_items_are_paced_alike(fraction, sizes, phase):
    batches, singles = Pacer(fraction, phase), Pacer(fraction, phase)
    together = [bool(b) for size in sizes for b in batches.next(size)]
    assert together == [singles.next_one() for _ in range(sum(sizes))]


@given(st.floats(0, 1), st.integers(0, 20_000))
def test_the_fraction_is_kept_at_every_moment(fraction, count):
    picked = np.cumsum(Pacer(fraction).next(count))
    expected = fraction * np.arange(1, count + 1)
    assert (picked <= expected + 1e-3).all()
    assert (picked >= expected - 1 - 1e-3).all()


def test_pace_none_all_and_far_along():
    assert not Pacer(0.0).next(1000).any()
    assert Pacer(1.0).next(1000).all()
    pacer = Pacer(0.3)
    for _ in range(10):
        pacer.next(1_000_000)
    assert int(pacer.next(1_000_000).sum()) in (300_000, 299_999)


def test_marks_are_even_repeatable_and_shifted_by_the_seed():
    marks = [SampleMarker(0.01, seed=seed).mark(10_000) for seed in (1, 1, 2)]
    assert (marks[0] == marks[1]).all()
    assert (marks[0] != marks[2]).any()
    gaps = np.diff(np.flatnonzero(marks[0]))
    assert set(gaps.tolist()) <= {100, 101}
    one = SampleMarker(0.01, seed=1)
    assert [one.mark_one() for _ in range(500)] == marks[0][:500].tolist()
    with pytest.raises(InvalidInput, match="sampling_fraction must lie in"):
        SampleMarker(2.0)


def landed(folder):
    return sorted(p for p in folder.iterdir() if not p.name.startswith("."))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_files_roll_by_count_and_by_age(tmp_path, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    writer = SampleWriter(tmp_path, node="edge-1", format=format, max_items=10, max_age_s=60.0)
    writer.add({"x": np.arange(8.0), "c": np.array(["a"] * 8)}, now_s=0.0)
    assert writer.roll(1.0) == []
    writer.add([{"x": 8.0, "c": "b"}, {"x": 9.0, "c": "b"}, {"x": 10.0, "c": "b"}], now_s=2.0)
    assert len(writer.roll(3.0)) == 1
    assert writer.roll(62.9) == []
    assert len(writer.roll(63.1)) == 1
    assert writer.landed == 11
    rows = [row for path in landed(tmp_path) for row in read(path)]
    assert sorted(row["x"] for row in rows) == [float(i) for i in range(11)]
    assert [row["c"] for row in sorted(rows, key=lambda r: r["x"])] == ["a"] * 8 + ["b"] * 3
    writer.add({"x": [11.0], "c": ["c"]}, now_s=70.0)
    assert len(writer.roll(70.0, force=True)) == 1
    assert len(landed(tmp_path)) == 3
    assert all(path.suffix == f".{format}" for path in landed(tmp_path))
    assert list(tmp_path.glob(".*")) == []


def read(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().rstrip("\n").split("\n")]
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).to_pylist()


def test_memory_is_bounded_and_the_loss_counted(tmp_path):
    writer = SampleWriter(tmp_path, node="n", format="jsonl", max_items=10, max_buffered=15)
    writer.add({"x": np.arange(12)}, 0.0)
    writer.add({"x": np.arange(12)}, 0.0)
    assert writer.lost == 9
    assert len(writer.roll(0.0, force=True)) == 2
    assert writer.landed == 15


def test_a_folder_that_takes_nothing_keeps_the_samples(tmp_path):
    blocked = tmp_path / "landing"
    blocked.write_text("a file")
    writer = SampleWriter(blocked, node="n", format="jsonl", max_items=2)
    writer.add({"x": [1, 2, 3]}, 0.0)
    with pytest.raises(StoreError, match="kept in memory"):
        writer.roll(0.0)
    blocked.unlink()
    assert len(writer.roll(0.0, force=True)) == 2
    assert [row["x"] for path in landed(blocked) for row in read(path)] == [1, 2, 3]


def test_no_reader_sees_half_a_file(tmp_path):
    """A writer is killed again and again; what has a proper name is whole."""
    script = (
        "import sys\n"
        "from planning.runtime import SampleWriter\n"
        "w = SampleWriter(sys.argv[1], node='n', format='jsonl', max_items=2000)\n"
        "print('go', flush=True)\n"
        "i = 0\n"
        "while True:\n"
        "    w.add([{'x': j} for j in range(2000)], float(i)); w.roll(float(i)); i += 1\n"
    )
    for i in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(0.05 + 0.013 * i)
        process.kill()
        process.wait()
    files = landed(tmp_path)
    assert len(files) > 4
    for path in files:
        assert [row["x"] for row in read(path)] == list(range(2000))


def test_a_file_gets_its_name_only_when_it_is_whole_and_on_disk(tmp_path, monkeypatch):
    seen = []

    def fsync(handle):
        seen.append((os.fstat(handle).st_ino, [p.name[0] for p in tmp_path.iterdir()]))

    monkeypatch.setattr(os, "fsync", fsync)
    writer = SampleWriter(tmp_path, node="n", format="jsonl", max_items=3)
    writer.add({"x": [1, 2, 3]}, 0.0)
    (path,) = writer.roll(0.0)
    assert seen == [(path.stat().st_ino, ["."])]


def test_jsonl_is_the_way_out_without_pyarrow(tmp_path, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name)
    )
    assert SampleWriter(tmp_path, node="n").format == "jsonl"


def test_nonsense_settings_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="max_items must be at least 1"):
        SampleWriter(tmp_path, node="n", max_items=0)
    with pytest.raises(InvalidInput, match="node must be a name"):
        SampleWriter(tmp_path, node="a/b")
    assert os.listdir(tmp_path) == []


# What arrives is not what was declared: every row lands or is counted, never both.


class Unknown:
    """A value of no known kind."""


class Broken:
    """An item that raises whatever is asked of it."""

    def __len__(self):
        raise RuntimeError("no length")

    def __iter__(self):
        raise RuntimeError("no items")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
    st.binary(max_size=5), st.decimals(), st.datetimes(), st.dates(),
    st.datetimes(timezones=st.timezones()), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.floats(), max_size=2), st.uuids(),
    st.sampled_from(
        [Unknown(), {1, 2}, "\ud800", 10**5000, np.float32(0.5), np.int8(7), np.bool_(True),
         np.datetime64("2026-01-02", "ns"), np.datetime64("NaT"), np.array([1, 2]),
         np.longdouble(0.5), 1j, "x" * 300]
    ),
)  # fmt: skip
RECORDS = st.one_of(
    st.dictionaries(st.sampled_from(["x", "y", "time", 3]), VALUES, max_size=3),
    st.sampled_from([5, None, "text", (1, 2), (1, 2, 3), b"b", {}, Broken()]),
)
ADDED = st.one_of(
    st.lists(RECORDS, max_size=8).map(lambda rows: (rows, len(rows))),
    st.lists(VALUES, min_size=1, max_size=6).map(lambda v: ({"x": v, "y": v}, len(v))),
    st.sampled_from(
        [
            ({"x": [1, 2, 3], "y": [1]}, 3), ({"x": 5}, 1), (None, 1), (7, 1), ("text", 4),
            (Broken(), 1), ({"x": "abc"}, 3), ({"x": np.zeros((2, 2))}, 2), ({}, 0), ([], 0),
            (np.zeros((4, 2)), 4), (np.zeros(3), 3), ({"x": np.ma.array([1, 2], mask=[0, 1])}, 2),
            (np.array([(1, b"a")], dtype=[("x", "i4"), ("y", "S1")]), 1),
        ]
    ),
)  # fmt: skip
STEPS = st.lists(
    st.one_of(ADDED, st.sampled_from(["roll", "roll broken", "roll weird", "clock"])), max_size=12
)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@given(steps=STEPS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_row_lands_or_is_counted(format, steps):
    """Landed files hold exactly ``landed`` rows, whatever is added and whatever fails."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        columns = ("x", "y")
        writer = SampleWriter(
            folder, node="n", format=format, columns=columns, max_items=5, max_buffered=20
        )
        added = 0

        def fail(error):
            def failing(*_):
                raise error

            return failing

        for now_s, step in enumerate(steps):
            if step == "roll":
                writer.roll(float(now_s))
            elif step == "clock":
                writer.add([{"x": 1}], float("nan"))
                writer.add([{"x": 1}], None)
                added += 2
            elif step == "roll broken":
                with patch.context() as inner:
                    inner.setattr(os, "fsync", fail(OSError("no space left")))
                    before = writer.buffered
                    with suppress(StoreError):
                        writer.roll(float(now_s), force=True)
                    assert writer.buffered <= before <= 20
            elif step == "roll weird":
                with patch.context() as inner:
                    inner.setattr(os, "fsync", fail(RuntimeError("never seen before")))
                    writer.roll(float(now_s), force=True)
                    assert writer.buffered == 0
            else:
                writer.add(step[0], float(now_s))
                added += step[1]
            assert writer.landed + writer.lost + writer.buffered == added
            assert writer.buffered <= 20
        writer.roll(1e6, force=True)
        assert writer.landed + writer.lost == added
        assert sum(len(read(path)) for path in landed(Path(folder))) == writer.landed
        assert not list(Path(folder).glob(".*"))
        assert bool(writer.last_error) or not writer.lost


MIXED = {
    "number, text": [5, "cheap", None, 2.5],
    "wide integer, fraction": [2**53 + 1, 0.5],
    "beyond 64 bits": [2**63, -(2**63) - 1, 1],
    "text, bytes, decimal": ["7", b"8", decimal.Decimal("9.50")],
    "moments": [datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), "2026-01-02T02:00"],
    "flags": [True, 1],
    "nested": [{"b": 1, "a": [np.int64(2)]}, (1, 2), 3],
}
AS_TEXT = {
    "number, text": ["5", "cheap", None, "2.5"],
    "wide integer, fraction": ["9007199254740993", "0.5"],
    "beyond 64 bits": ["9223372036854775808", "-9223372036854775809", "1"],
    "text, bytes, decimal": ["7", "8", "9.50"],
    "moments": ["2026-01-02T02:00:00+00:00", "2026-01-02T02:00"],
    "flags": ["true", "1"],
    "nested": ['{"a":[2],"b":1}', "[1,2]", "3"],
}


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", MIXED)
def test_a_column_of_several_types_is_text(tmp_path, format, name):
    writer = SampleWriter(tmp_path, node="n", format=format)
    values = MIXED[name]
    writer.add([{"x": value, "k": k} for k, value in enumerate(values)], 0.0)
    (path,) = writer.roll(0.0, force=True)
    assert [row["x"] for row in read(path)] == AS_TEXT[name]
    assert [row["k"] for row in read(path)] == list(range(len(values)))  # its own type, as it was


def test_columns_of_one_type_keep_it(tmp_path):
    import pyarrow.parquet

    moment = datetime(2026, 1, 2, 3, 4, 5)
    rows = {
        "f": [1, 2.5, None], "i": [1, 2**60, None], "b": [True, None, False], "n": [None] * 3,
        "t": [moment, np.datetime64(moment, "ns"), None], "m": np.array([moment] * 3, "M8[ns]"),
    }  # fmt: skip
    writer = SampleWriter(tmp_path, node="n", format="parquet")
    writer.add(rows, 0.0)
    (path,) = writer.roll(0.0, force=True)
    table = pyarrow.parquet.read_table(path)
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "f": "double", "i": "int64", "b": "bool", "n": "string",
        "t": "timestamp[us, tz=UTC]", "m": "timestamp[us, tz=UTC]",
    }  # fmt: skip
    utc = moment.replace(tzinfo=UTC)
    assert table["t"].to_pylist() == [utc, utc, None]
    assert table["m"].to_pylist() == [utc] * 3


def test_a_column_that_only_later_rows_have_is_there(tmp_path):
    writer = SampleWriter(tmp_path, node="n", format="parquet")
    writer.add([{"x": 1}, {"y": 2}], 0.0)
    (path,) = writer.roll(0.0, force=True)
    assert read(path) == [{"x": 1, "y": None}, {"x": None, "y": 2}]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_validation_quarantines_wrong_rows_and_keeps_the_others(tmp_path, format):
    """The rules see each wrong value as what it is; good rows of the same file stay good."""
    from upath import UPath

    from planning.examples import demo_definition
    from planning.samples import broken_rules, read_columns, read_json_lines

    writer = SampleWriter(tmp_path, node="n", format=format)
    prices = [5, "cheap", 101.0, None, np.float32(7.5), b"8", decimal.Decimal("9")]
    writer.add([{"price": price, "volume": 1} for price in prices], 0.0)
    (path,) = writer.roll(0.0, force=True)
    read_in = read_columns if format == "parquet" else read_json_lines
    columns = read_in(UPath(path), ["price", "volume"])
    broken = broken_rules(columns, demo_definition("sifter"))
    assert {reason: np.flatnonzero(rows).tolist() for reason, rows in broken.items()} == {
        "price is not a number": [1], "price is outside [0, 100]": [2], "price is missing": [3],
    }  # fmt: skip


def all_forms():
    import pandas
    import polars
    import pyarrow

    columns = {"x": [1.5, 2.5], "c": ["a", "b"]}
    rows = list(zip(*columns.values(), strict=True))
    point = collections.namedtuple("point", columns)
    return {
        "columns": columns, "arrays": {n: np.array(c) for n, c in columns.items()},
        "items": [{"x": 1.5, "c": "a"}, {"c": "b", "x": 2.5}], "rows": rows,
        "named tuples": [point(*row) for row in rows], "objects": np.array(rows, dtype=object),
        "structured": np.array(rows, dtype=[("x", "f8"), ("c", "U1")]),
        "table": pyarrow.table(columns), "chunks": pyarrow.table(columns).to_batches()[0],
        "pandas": pandas.DataFrame(columns), "polars": polars.DataFrame(columns),
        "series": {n: pandas.Series(c) for n, c in columns.items()},
        "polars series": {n: polars.Series(c) for n, c in columns.items()},
        "arrow columns": {n: pyarrow.array(c) for n, c in columns.items()},
        "read": batches.read(columns, batches.Schema(("x", "c"))),
    }  # fmt: skip


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_every_form_of_batch_is_taken(tmp_path, format):
    writer = SampleWriter(tmp_path, node="n", format=format, columns=("x", "c"))
    for name, batch in all_forms().items():
        writer.add(batch, 0.0)
        (path,) = writer.roll(0.0, force=True)
        assert read(path) == [{"x": 1.5, "c": "a"}, {"x": 2.5, "c": "b"}], name
    assert writer.lost == 0


def test_the_buffer_stays_bounded_while_a_file_cannot_be_written(tmp_path, monkeypatch):
    """What is being written counts as buffered, so it has its place when it comes back."""
    writer = SampleWriter(tmp_path, node="n", format="jsonl", max_items=3, max_buffered=4)
    writer.add({"x": [1, 2, 3, 4]}, 0.0)

    def fsync(_):
        writer.add({"x": [5, 6]}, 0.0)  # the data path goes on meanwhile
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(StoreError, match="kept in memory"):
            writer.roll(0.0)
    assert (writer.buffered, writer.lost_by["buffer full"], writer.landed) == (4, 2, 0)
    writer.roll(0.0, force=True)
    assert [row["x"] for path in landed(tmp_path) for row in read(path)] == [1, 2, 3, 4]


def test_the_writers_own_thread_writes_and_closing_lands_the_rest(tmp_path):
    writer = SampleWriter(tmp_path, node="n", format="jsonl", max_items=2)
    writer.start(every_s=0.01)
    writer.start(every_s=0.01)  # once is enough
    writer.add({"x": [1, 2, 3]}, time.time())
    deadline = time.monotonic() + 20.0
    while writer.landed < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert writer.landed == 2
    writer.close()
    assert (writer.landed, writer.buffered, writer.lost) == (3, 0, 0)
    assert sorted(row["x"] for path in landed(tmp_path) for row in read(path)) == [1, 2, 3]
    assert "headgate-samples" not in [thread.name for thread in threading.enumerate()]


def test_two_writers_of_one_node_never_overwrite_each_other(tmp_path):
    writers = [SampleWriter(tmp_path, node="n", format="jsonl") for _ in range(2)]
    for k, writer in enumerate(writers):
        writer.add({"x": [k]}, 0.0)
        writer.roll(0.0, force=True)
    assert sorted(row["x"] for path in landed(tmp_path) for row in read(path)) == [0, 1]
