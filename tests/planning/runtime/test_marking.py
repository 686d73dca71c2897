import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        return [json.loads(line) for line in path.read_text().splitlines()]
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
