"""Quarantine, batch rules and the holdout split of the validate app."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batch_cases import CASES, NOW_S
from upath import UPath

pytestmark = pytest.mark.spark

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def good_rows(count: int) -> list[dict[str, Any]]:
    sides = ("buy", "sell")
    return [
        {"price": i * 7.25 % 100, "volume": i, "side": sides[i % 2], "note": f"n{i}"}
        for i in range(count)
    ]


BROKEN: list[tuple[Any, list[str]]] = [
    ({"price": 100.5, "volume": 1, "side": "buy"}, ["price is outside [0, 100]"]),
    ({"price": -0.001, "volume": 1, "side": "buy"}, ["price is outside [0, 100]"]),
    ({"price": math.nan, "volume": 1, "side": "buy"}, ["price is not finite"]),
    ({"price": -math.inf, "volume": 1, "side": "buy"}, ["price is not finite"]),
    ({"price": "1e400", "volume": 1, "side": "buy"}, ["price is not finite"]),
    ({"price": None, "volume": 1, "side": "buy"}, ["price is missing"]),
    ({"volume": 1, "side": "buy"}, ["price is missing"]),
    ({"price": "abc", "volume": 1, "side": "buy"}, ["price is not a number"]),
    ({"price": True, "volume": 1, "side": "buy"}, ["price is not a number"]),
    ({"price": 1, "volume": 1.5, "side": "buy"}, ["volume is not a whole number"]),
    ({"price": 1, "volume": [1], "side": "buy"}, ["volume is not a whole number"]),
    ({"price": 1, "volume": 1, "side": "hold"}, ["side is not one of buy, sell"]),
    ({"price": 101, "volume": -1}, [
        "price is outside [0, 100]", "volume is outside [0, 1000]", "side is missing",
    ]),
    ('{"price": 1, "volume": 1, "si', ["not a JSON object"]),
    ("[1, 2]", ["not a JSON object"]),
    ("not json at all", ["not a JSON object"]),
]  # fmt: skip


def clean_of(folder: UPath) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.parquet"), key=str)
    return [row for file in files for row in pq.read_table(str(file)).to_pylist()]


def without_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_order"} for row in rows]


def quarantine_of(folder: UPath) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.json"), key=str)
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def check(spark: Any, run: Any, now: dt.datetime = NOW) -> dict[str, Any]:
    from spark_apps.validate import validate

    report = validate(spark, run, run.folder / "data_docs", now.timestamp())
    assert run.read("validation") == report
    return report


@pytest.fixture
def judge(spark: Any) -> Iterator[Any]:
    """Return the judging step alone: rows with reasons, without Great Expectations."""
    from expectations import rules
    from spark_apps.validate import judge

    def judged(run: Any) -> Any:
        suite = rules.suite_for(run.definition())
        return judge(spark, run.read("collected")["files"], suite)

    yield judged
    spark.catalog.clearCache()


def test_every_kind_of_bad_row_is_quarantined_with_its_reasons(spark, make_run):
    rows = good_rows(40)
    run = make_run({"a.jsonl": [*rows[:20], *(row for row, _ in BROKEN), "", *rows[20:]]})
    report = check(spark, run)
    assert report["success"]
    assert (report["rows"], report["clean"]) == (40 + len(BROKEN), 40)
    assert report["reasons"] == Counter(r for _, reasons in BROKEN for r in reasons)
    found = quarantine_of(run.quarantine)
    assert [row["reasons"] for row in found] == [reasons for _, reasons in BROKEN]
    assert all(row["file"].endswith("/landing/a.jsonl") for row in found)
    assert found[0]["row"] == {"price": "100.5", "volume": "1", "side": "buy"}
    assert found[2]["row"]["price"] == "NaN"
    assert found[13]["line"] == BROKEN[13][0]
    assert "row" not in found[13]
    # Clean rows are exactly the good ones, without the column nobody asked for.
    kept = [{k: r[k] for k in ("price", "volume", "side")} for r in rows]
    both = without_order(clean_of(run.train) + clean_of(run.holdout))
    assert sorted(both, key=lambda r: r["volume"]) == kept
    assert (len(clean_of(run.train)), len(clean_of(run.holdout))) == (
        report["train"], report["holdout"],
    )  # fmt: skip
    index = UPath(report["data_docs"])
    assert index == run.folder / "data_docs" / "index.html"
    assert "ticks.rows" in index.read_text()
    pages = list(index.parent.rglob("validations/ticks/*/run_1/*/*.html"))
    assert len(pages) == 2


def test_parquet_of_wrong_and_differing_types(judge, make_run):
    floats = pa.table(
        {
            "price": pa.array([1.0, math.nan, None, 101.0]),
            "volume": pa.array([1, 2, 3, 4], pa.uint16()),
            "side": pa.array(["buy", "sell", "buy", "buy"]).dictionary_encode(),
            "extra": pa.array([[1], [2], [3], [4]]),
        }
    )
    texts = pa.table({"price": ["7.5", "x"], "volume": [2.0, 2.5], "side": ["buy", "sell"]})
    lacking = pa.table({"price": [1.5], "side": ["buy"]})
    odd = pa.table({"price": [[1.0]], "volume": [True], "side": [7]})
    run = make_run({f"{i}.parquet": t for i, t in enumerate([floats, texts, lacking, odd])})
    judged = judge(run)
    assert (judged.total, judged.clean, judged.missing) == (8, 2, [])
    rows = judged.rows.collect()
    assert sorted(tuple(r["_reasons"]) for r in rows if r["_reasons"]) == [
        ("price is missing",),
        ("price is not a number", "volume is not a whole number"),
        (
            "price is not a number",
            "volume is not a whole number",
            "side is not one of buy, sell",
        ),
        ("price is not finite",),
        ("price is outside [0, 100]",),
        ("volume is missing",),
    ]
    assert sorted(r["price"] for r in rows if not r["_reasons"]) == [1.0, 7.5]


def test_times_of_every_spelling_become_seconds(judge, make_run, ticks):
    moment = dt.datetime(2026, 3, 1, 11, 30, 0, 250_000, tzinfo=dt.UTC)
    tables = [
        pa.array([moment], pa.timestamp("ns", "UTC")),
        pa.array([moment], pa.timestamp("us", "Europe/Berlin")),
        pa.array([moment.replace(tzinfo=None)], pa.timestamp("ms")),
        pa.array([moment.timestamp()]),
        pa.array(["2026-03-01T11:30:00.25Z"]),
        pa.array(["2026-03-01 12:30:00.25+01:00"]),
    ]
    rows = {"price": [1.0], "volume": [1], "side": ["buy"]}
    files: dict[str, Any] = {
        f"{i}.parquet": pa.table({**rows, "at": array}) for i, array in enumerate(tables)
    }
    files["a.jsonl"] = [
        {"price": 1, "volume": 1, "side": "buy", "at": "2026-03-01T11:30:00.25Z"},
        {"price": 1, "volume": 1, "side": "buy", "at": moment.timestamp()},
        {"price": 1, "volume": 1, "side": "buy", "at": "yesterday"},
    ]
    judged = judge(make_run(files, ticks(samples={"time_column": "at"})))
    rows = judged.rows.collect()
    assert {r["at"] for r in rows if not r["_reasons"]} == {moment.timestamp()}
    assert judged.clean == 8
    assert [r["_reasons"] for r in rows if r["_reasons"]] == [
        ["at is not a time (seconds since 1970 or ISO 8601)"]
    ]


def test_positions_of_buses_and_vessels(judge, make_run, ticks, shared_data):
    definition = ticks(
        attributes=[
            {"name": "x", "domain": [-1e6, 1e6]},
            {"name": "y", "domain": [-1e6, 1e6]},
        ],
        queries={"inline": []},
        samples={"expectations": "positions"},
    )
    names = {"x_m": "x", "y_m": "y", "speed_mps": "speed", "timestamp": "time"}
    files = {}
    for file in ("austin_buses", "vessels_gulf_of_mexico_20220103"):
        table = pq.read_table(shared_data / "lira" / f"{file}.parquet")
        files[f"{file}.parquet"] = table.rename_columns(
            [names.get(n, n) for n in table.column_names]
        )
    judged = judge(make_run(files, definition))
    assert (judged.total, judged.clean) == (101_509 + 35_159, 101_509 + 35_159)
    ids = judged.rows.select("object_id").distinct().count()
    assert ids == 3330  # bus numbers are a subset of vessel numbers


def test_missing_columns_reject_the_batch_and_are_named(spark, make_run):
    table = pa.table({"price": [1.0] * 20})
    run = make_run({"a.parquet": table})
    report = check(spark, run)
    assert not report["success"]
    assert {f["column"] for f in report["failures"] if f["column"]} == {"volume", "side"}
    assert "the samples lack the columns volume, side in every row" in report["error"]
    assert not run.train.exists()
    assert UPath(report["data_docs"]).exists()


def test_missing_field_in_every_json_line(judge, make_run):
    run = make_run({"a.jsonl": [{"price": 1, "side": "buy"}] * 8})
    assert judge(run).missing == ["volume"]


def test_no_rows_name_the_files_set_aside(spark, make_run):
    aside = [{"path": "b.parquet", "reason": "is not a whole Parquet file"}]
    run = make_run({"a.jsonl": []}, set_aside=aside)
    report = check(spark, run)
    assert not report["success"]
    assert "there are no rows in the 1 collected files" in report["error"]
    assert "b.parquet (is not a whole Parquet file)" in report["error"]


def test_app_ends_with_3_and_one_paragraph_when_too_much_is_quarantined(spark, make_run, capsys):
    from spark_apps.validate import main

    bad = [{"price": 500, "volume": 1, "side": "buy"}] * 11
    run = make_run({"a.jsonl": good_rows(10) + bad})
    for folder in (run.train, run.holdout):  # left by an earlier attempt
        folder.mkdir(parents=True)
    code = main(["--run", run.uri])
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 3
    assert "allows 0.5 of the rows, got 11 of 21 quarantined: price is outside [0, 100] (11)" in (
        message
    )
    report = run.read("validation")
    assert not report["success"]
    assert message == f"validate: {report['error']}"
    kinds = {f["expectation"]: f for f in report["failures"]}
    between = kinds["expect_column_values_to_be_between"]
    assert (between["column"], between["unexpected"], between["rows"]) == ("price", 11, 21)
    assert "samples.max_quarantined" in kinds
    assert not run.train.exists()
    assert not run.holdout.exists()
    assert len(quarantine_of(run.quarantine)) == 11


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_batches_are_rejected_as_in_memory(spark, tmp_path, case):
    """The cases of tests/planning/stages/test_batch_rules.py, with the same words."""
    run = case.lay_out(tmp_path)
    report = check(spark, run, dt.datetime.fromtimestamp(NOW_S, dt.UTC))
    case.check(report)
    assert report["error"].count("\n") == 0
    assert run.train.exists() == run.holdout.exists() == (not case.said)
    spark.catalog.clearCache()


GATES: dict[str, dict[str, Any]] = {
    "any row": {},
    "objects": {"holdout_by": ["side", "volume"]},
    "newest by a column": {"holdout_by": ["volume"], "holdout_from": "end"},
    "last rows of every file": {"holdout_from": "end"},
}


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_spark_and_numpy_split_alike(spark, make_run, ticks, kind, gate):
    from planning.stages import local

    definition = ticks(samples={"format": kind}, gate=gate)
    names = ("price", "volume", "side")
    rows = [{n: row[n] for n in names} for row in good_rows(400)]
    rows[7]["price"] = 200.0
    rows[150:250] = [dict(rows[149])] * 100
    pieces = {f"a 1%.{kind}": rows[:90], f"b.{kind}": rows[90:300], f"c#.{kind}": rows[300:]}
    pieces[f"again.{kind}"] = rows[:90]  # the same content under another name
    landed: dict[str, Any] = pieces
    if kind == "jsonl":
        landed[f"b.{kind}"] = [*rows[90:200], "", "  ", *rows[200:300]]
    else:
        landed = {name: pa.Table.from_pylist(piece) for name, piece in pieces.items()}
    run = make_run(landed, definition)
    files = run.read("collected")["files"]
    run.write("collected", {"files": [f | {"rows": len(pieces[UPath(f["path"]).name])}
                                      for f in files], "set_aside": []})  # fmt: skip
    parts = []
    # Blocks of a few lines, and files in one piece.
    for size in ("1k", "128m"):
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
        sizes = check(spark, run)
        assert sizes["success"]
        parts.append([clean_of(run.train), clean_of(run.holdout)])
    for folder in (run.train, run.holdout, run.quarantine):
        folder.fs.rm(folder.path, recursive=True)
    local.validate(run)
    again = [clean_of(run.train), clean_of(run.holdout)]
    for train, holdout in parts:
        train.sort(key=lambda row: row["_order"])
        orders = [row.pop("_order") for part in (train, holdout) for row in part]
        assert sorted(set(orders)) == sorted(orders)
        assert [train, holdout] == again
    assert {k: sizes[k] for k in ("rows", "clean", "train", "holdout")} == {
        k: run.read("validation")[k] for k in ("rows", "clean", "train", "holdout")
    }
    if not gate:  # copies of a row are on both sides, and files of the same content split alike
        copies = [part.count(rows[149]) for part in again]
        assert min(copies) > 10
        assert sum(copies) == 101


def test_unknown_holdout_column_and_suite_are_errors_with_a_list(ticks):
    from expectations import rules
    from planning.errors import InvalidInput
    from spark_apps.validate import holdout_of

    columns = {"price": "float", "side": "category"}
    with pytest.raises(InvalidInput, match=r"\(price, side\), got volume"):
        holdout_of(ticks(gate={"holdout_by": ["volume"]}), columns)
    with pytest.raises(InvalidInput, match=r"\(price, volume, side\), got colour"):
        ticks(gate={"holdout_by": ["colour"]})
    with pytest.raises(InvalidInput, match="one of .*positions.*tuples.*, got 'trips'"):
        rules.suite_for(ticks(samples={"expectations": "trips"}))


OWN_SUITE = """
from expectations.building import expectation, filled, one_of, suite

def build_suite(definition):
    code = {"column": "trip.code no", "regex": "^[A-Z]{2}$"}
    mean = {"column": "price", "min_value": 1000.0, "max_value": None}
    rules = [
        expectation("expect_column_values_to_match_regex", **code),
        expectation("expect_column_values_to_be_between", "warning",
                    column="price", min_value=0, max_value=1),
        expectation("expect_column_mean_to_be_between", "warning", **mean),
        expectation("expect_column_unique_value_count_to_be_between",
                    column="trip.code no", min_value=3, max_value=None),
    ]
    return suite("trips", definition, {"price": "float", "trip.code no": "text"}, rules)
"""


def test_a_custom_suite_enforces_critical_rules_and_reports_warnings(
    spark, make_run, ticks, tmp_path, monkeypatch
):
    import expectations

    (tmp_path / "trips.py").write_text(OWN_SUITE)
    monkeypatch.setattr(expectations, "__path__", [*expectations.__path__, str(tmp_path)])
    definition = ticks(samples={"expectations": "trips"})
    rows = [{"price": i, "trip.code no": ("AB", "CD")[i % 2]} for i in range(30)]
    rows += [{"price": 1, "trip.code no": "abc"}]
    run = make_run({"a.jsonl": rows}, definition)
    report = check(spark, run)
    assert report["reasons"] == {"trip.code no does not match ^[A-Z]{2}$": 1}
    assert {f["expectation"] for f in report["warnings"]} == {
        "expect_column_values_to_be_between", "expect_column_mean_to_be_between",
    }  # fmt: skip
    assert [f["expectation"] for f in report["failures"]] == [
        "expect_column_unique_value_count_to_be_between"
    ]
    assert "of trip.code no allows {'min_value': 3}, observed 2" in report["error"]


def test_unusual_column_names_survive_to_the_statistics(spark, make_run, ticks):
    from spark_apps.region_frequencies import build
    from spark_apps.session import read_parquet

    names = ("bid.price", "Open qty, %")
    definition = ticks(
        attributes=[{"name": name, "domain": [0, 100]} for name in names],
        queries={"inline": []},
    )
    rows = [{names[0]: i, names[1]: 2.5 * i} for i in range(40)]
    run = make_run({"a.jsonl": rows}, definition)
    assert check(spark, run)["success"]
    both = without_order(clean_of(run.train) + clean_of(run.holdout))
    assert sorted(both, key=lambda r: r[names[0]]) == rows
    assert build(read_parquet(spark, run.train, names), definition).samples == len(
        clean_of(run.train)
    )


def test_file_that_vanished_after_collection_is_named(spark, make_run, capsys):
    from spark_apps.validate import main

    run = make_run({"a.parquet": pa.table({"price": [1.0]})})
    UPath(run.read("collected")["files"][0]["path"]).unlink()
    assert main(["--run", run.uri]) == 1
    assert "a.parquet cannot be read any more" in capsys.readouterr().err


def test_call_without_a_run_is_a_usage_error(capsys):
    from spark_apps.validate import main

    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "the following arguments are required: --run" in capsys.readouterr().err
