"""Collect: a file counts once, whatever happens to it, to the run or to its neighbours."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from planning.errors import BatchRejected, StoreError
from planning.home import Home
from planning.sections import Retention
from planning.stages.collect import NothingNew, collect
from planning.stages.ledger import LandedFile, Ledger
from planning.stages.run import Run, prune
from planning.streams import StreamDefinition, parse


def definition(**samples: object) -> StreamDefinition:
    document = {
        "stream": "ticks",
        "family": "sifter",
        "attributes": [{"name": "price", "domain": [0, 100]}],
        "samples": {"settle_s": 5, **samples},
    }
    return parse(document, "ticks.yaml")


def land(home: Home, name: str, prices: list[float], landing: str = "landing/ticks") -> Path:
    path = Path(str(home.root)) / landing / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"price": prices}), path)
    return path


def age(path: Path, seconds: float) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - int(seconds * 1e9)))


def names(run: Run) -> list[str]:
    return [Path(f["path"]).name for f in run.read("collected")["files"]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path)


def test_each_file_is_used_once_and_late_files_come_next_time(home: Home) -> None:
    land(home, "a.parquet", [1.0])
    assert names(collect(home, definition(), "run-1")) == ["a.parquet"]
    late = land(home, "late.parquet", [2.0])
    age(late, 3600)
    assert names(collect(home, definition(), "run-2")) == ["late.parquet"]
    with pytest.raises(NothingNew, match="no new parquet files"):
        collect(home, definition(), "run-3")


def test_a_repeated_run_has_the_same_files_even_if_more_have_landed(home: Home) -> None:
    land(home, "a.parquet", [1.0])
    first = names(collect(home, definition(), "run-1"))
    land(home, "b.parquet", [2.0])
    assert names(collect(home, definition(), "run-1")) == first
    assert names(collect(home, definition(), "run-2")) == ["b.parquet"]


def test_a_copy_under_another_name_never_counts_twice(home: Home) -> None:
    original = land(home, "a.parquet", [1.0])
    collect(home, definition(), "run-1")
    (original.parent / "copy.parquet").write_bytes(original.read_bytes())
    with pytest.raises(NothingNew):
        collect(home, definition(), "run-2")
    aside = Run.of(home, "ticks", "run-2").read("collected")["set_aside"]
    assert "same content as" in aside[0]["reason"]


def test_a_file_still_being_written_is_left_alone_and_used_when_whole(home: Home) -> None:
    land(home, "whole.parquet", [1.0])
    growing = land(home, "growing.parquet", [2.0, 3.0])
    content = growing.read_bytes()
    growing.write_bytes(content[: len(content) // 2])
    run = collect(home, definition(), "run-1")
    assert names(run) == ["whole.parquet"]
    assert [Path(p).name for p in run.read("collected")["waiting"]] == ["growing.parquet"]
    growing.write_bytes(content)
    assert names(collect(home, definition(), "run-2")) == ["growing.parquet"]


def test_a_truncated_file_that_nobody_writes_is_set_aside_and_the_others_are_used(
    home: Home,
) -> None:
    broken = land(home, "broken.parquet", [2.0, 3.0])
    broken.write_bytes(broken.read_bytes()[:-20])
    age(broken, 60)
    land(home, "whole.parquet", [1.0])
    run = collect(home, definition(), "run-1")
    assert names(run) == ["whole.parquet"]
    assert "not a whole Parquet file" in run.read("collected")["set_aside"][0]["reason"]
    land(home, "broken.parquet", [2.0, 3.0])
    assert names(collect(home, definition(), "run-2")) == ["broken.parquet"]


def test_corruption_inside_a_file_is_found(home: Home) -> None:
    path = land(home, "a.parquet", [float(i % 7) for i in range(10_000)])
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    age(path, 60)
    with pytest.raises(BatchRejected, match=r"a\.parquet"):
        collect(home, definition(), "run-1")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"prize": [1.0]}, "lacks the columns price"),
        ({"price": pa.array([], pa.float64())}, "holds no rows"),
    ],
)
def test_unusable_files_say_why(home: Home, content: dict[str, object], reason: str) -> None:
    path = land(home, "a.parquet", [1.0])
    pq.write_table(pa.table(content), path)
    age(path, 60)
    with pytest.raises(BatchRejected, match=reason):
        collect(home, definition(), "run-1")


def test_json_lines_wait_until_they_have_settled(home: Home) -> None:
    folder = Path(str(home.root)) / "landing/ticks"
    folder.mkdir(parents=True)
    path = folder / "a.jsonl"
    path.write_text('{"price": 1}\n{"price": 2}\n', encoding="utf-8")
    with pytest.raises(NothingNew, match="1 still being written"):
        collect(home, definition(format="jsonl"), "run-1")
    age(path, 60)
    run = collect(home, definition(format="jsonl"), "run-2")
    assert run.read("collected")["files"][0]["rows"] == 2
    (folder / "b.jsonl").write_bytes(b"\x00\x01 not json\n" * 3)
    age(folder / "b.jsonl", 60)
    with pytest.raises(BatchRejected, match="no JSON object"):
        collect(home, definition(format="jsonl"), "run-3")


def test_a_file_that_grows_after_it_was_used_does_not_count_again(home: Home) -> None:
    folder = Path(str(home.root)) / "landing/ticks"
    folder.mkdir(parents=True)
    path = folder / "a.jsonl"
    path.write_text('{"price": 1}\n', encoding="utf-8")
    age(path, 60)
    collect(home, definition(format="jsonl"), "run-1")
    path.write_text('{"price": 1}\n{"price": 2}\n', encoding="utf-8")
    age(path, 30)
    with pytest.raises(BatchRejected, match="changed after run run-1 used it"):
        collect(home, definition(format="jsonl"), "run-2")


def test_force_uses_the_last_samples_again(home: Home) -> None:
    for name, price in (("a.parquet", 1.0), ("b.parquet", 2.0)):
        land(home, name, [price])
        collect(home, definition(), f"run with {name}")
    run = collect(home, definition(), "run-3", force=True)
    assert names(run) == ["b.parquet"]
    assert run.read("collected")["reused_from"] == "run with b.parquet"


def test_a_dry_run_leaves_the_samples_to_the_next_run(home: Home) -> None:
    land(home, "a.parquet", [1.0])
    bad = land(home, "bad.parquet", [2.0])
    bad.write_bytes(b"no Parquet")
    age(bad, 3600)
    land(home, "copy.parquet", [1.0])
    dry = collect(home, definition(), "run-1", dry_run=True)
    assert names(dry) == ["a.parquet"]
    assert Ledger(home.ledger).known("ticks") == {}
    used = collect(home, definition(), "run-2")
    assert used.read("collected") == dry.read("collected")
    with pytest.raises(NothingNew):
        collect(home, definition(), "run-3", dry_run=True)


def test_hidden_and_temporary_names_are_not_samples(home: Home) -> None:
    path = land(home, "a.parquet", [1.0])
    for name in (".a.parquet", "_a.parquet", "a.parquet.tmp", "a.parquet.part", "notes.txt"):
        (path.parent / name).write_bytes(path.read_bytes())
    assert names(collect(home, definition(), "run-1")) == ["a.parquet"]


def test_any_fsspec_url_can_be_the_landing_place(home: Home, tmp_path: Path) -> None:
    source = land(home, "a.parquet", [1.0], landing="elsewhere")
    UPath("memory://landing/a.parquet").write_bytes(source.read_bytes())
    run = collect(home, definition(landing="memory://landing"), "run-1")
    assert run.read("collected")["files"][0]["path"] == "memory://landing/a.parquet"


def test_an_unknown_file_system_is_a_clear_error(home: Home) -> None:
    with pytest.raises(StoreError, match=r"samples\.landing"):
        collect(home, definition(landing="nosuch://bucket/x"), "run-1")


def test_two_runs_at_once_never_share_a_file(home: Home, tmp_path: Path) -> None:
    for index in range(12):
        land(home, f"{index:02d}.parquet", [float(index)])
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_collect import *\n"
        "run = None\n"
        "try:\n    run = collect(Home.at(sys.argv[1]), definition(), sys.argv[3])\n"
        "except NothingNew:\n    pass\n"
        "print(' '.join(names(run)) if run else '')"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)]
    racers = [
        subprocess.Popen([*command, f"run-{i}"], stdout=subprocess.PIPE, text=True)
        for i in range(4)
    ]
    used = [name for racer in racers for name in racer.communicate()[0].split()]
    assert sorted(used) == [f"{index:02d}.parquet" for index in range(12)]


def test_the_ledger_names_a_place_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        Ledger(str(tmp_path / "file" / "ledger.sqlite"))
    with pytest.raises(StoreError, match="local disk"):
        Ledger("memory://x/ledger.sqlite")


def test_a_crash_between_claim_and_note_loses_nothing(home: Home) -> None:
    path = land(home, "a.parquet", [1.0])
    status = path.stat()
    claimed = LandedFile(str(path), status.st_size, status.st_mtime_ns, "d" * 64, rows=1)
    Ledger(home.ledger).claim("ticks", "run-1", [claimed])
    assert names(collect(home, definition(), "run-1")) == ["a.parquet"]


def test_a_run_that_cannot_be_written_uses_up_nothing(home: Home) -> None:
    land(home, "a.parquet", [1.0])
    blocked = Path(str(home.runs))
    blocked.write_text("a file where the folder of runs should be")
    with pytest.raises(StoreError, match="cannot be written"):
        collect(home, definition(), "run-1")
    blocked.unlink()
    assert names(collect(home, definition(), "run-2")) == ["a.parquet"]


def test_a_folder_among_the_files_is_set_aside(home: Home) -> None:
    land(home, "a.parquet", [1.0])
    inside = land(home, "spark.parquet/part-0.parquet", [2.0])
    age(inside.parent, 3600)
    run = collect(home, definition(), "run-1")
    assert names(run) == ["a.parquet"]
    [aside] = run.read("collected")["set_aside"]
    assert Path(aside["path"]).name == "spark.parquet"
    assert "directory" in aside["reason"]


def test_a_run_without_samples_leaves_no_folder(home: Home) -> None:
    land(home, "a.parquet", [1.0])
    collect(home, definition(), "run-1")
    with pytest.raises(NothingNew):
        collect(home, definition(), "run-2")
    assert [folder.name for folder in (home.runs / "ticks").iterdir()] == ["run-1"]


def test_folders_of_old_runs_go_whatever_became_of_the_runs(home: Home) -> None:
    few = definition().model_copy(update={"retention": Retention(runs=2)})
    for number in range(4):
        land(home, f"{number}.parquet", [float(number)])
        collect(home, few, f"run-{number}")
    kept = sorted(folder.name for folder in (home.runs / "ticks").iterdir())
    assert kept == ["run-2", "run-3"]


def test_the_newest_runs_are_kept_in_any_file_system(home: Home) -> None:
    for place in (home, Home.at("memory://pruned")):
        for name in ("b", "c", "a"):
            Run.of(place, "ticks", name).write("definition", {})
            time.sleep(0.01)
        prune(place, "ticks", keep=2)
        assert {path.name for path in (place.runs / "ticks").iterdir()} == {"a", "c"}


def test_runs_that_prune_at_the_same_time_do_not_disturb_each_other(home: Home) -> None:
    for number in range(40):
        for name in ("definition", "collected", "verdict"):
            Run.of(home, "ticks", f"run-{number}").write(name, {})
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(prune, home, "ticks", 2) for _ in range(8)]:
            done.result()
    prune(home, "ticks", keep=2)
    assert {path.name for path in (home.runs / "ticks").iterdir()} == {"run-38", "run-39"}


def test_a_known_file_is_not_opened_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    land(home, "a.parquet", [1.0])
    collect(home, definition(), "run-1")
    for reader in ("digest", "read_file"):
        monkeypatch.delattr(f"planning.stages.collect.{reader}")
    with pytest.raises(NothingNew):
        collect(home, definition(), "run-2")


def test_a_run_that_has_claimed_gets_nothing_new(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first = ledger.claim("ticks", "run-1", [LandedFile("a.parquet", 10, 1, "aa")])
    again = ledger.claim("ticks", "run-1", [LandedFile("b.parquet", 10, 2, "bb")])
    assert again == first
    [late] = ledger.claim("ticks", "run-2", [LandedFile("b.parquet", 10, 2, "bb")])
    assert late.status == "used"


def test_streams_do_not_take_samples_from_one_another(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for stream in ("ticks", "quotes"):
        [file] = ledger.claim(stream, "run-1", [LandedFile(f"{stream}.parquet", 10, 1, "aa")])
        assert file.status == "used"


def test_a_claim_waits_for_one_under_way_and_sees_what_it_took(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute(
        "INSERT INTO landed (stream, path, size, modified_ns, digest, status, run, rows, reason)"
        " VALUES ('ticks', 'a.parquet', 10, 1, 'aa', 'used', 'run-1', 1, '')"
    )
    with ThreadPoolExecutor() as pool:
        claim = pool.submit(ledger.claim, "ticks", "run-2", [LandedFile("b.parquet", 10, 2, "aa")])
        time.sleep(0.3)
        assert not claim.done()
        other.execute("COMMIT")
        [file] = claim.result(timeout=30)
    other.close()
    assert (file.status, file.reason) == ("duplicate", "same content as a.parquet")
