"""Samples in memory: one type per kind of column, whatever the file held."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from batch_cases import ATTRIBUTES
from upath import UPath

from planning.errors import StatisticsError
from planning.samples import broken_rules, in_domain, read_columns, read_json_lines, typed
from planning.streams import parse

MOMENT = datetime(2024, 2, 29, 12, 30, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_are_seconds_since_1970(tmp_path, unit, zone):
    moment = MOMENT.replace(microsecond=0) if unit == "s" else MOMENT
    given = moment if zone else moment.replace(tzinfo=None)
    column = pa.array([given, None], pa.timestamp(unit, zone))
    pq.write_table(pa.table({"time": column}), tmp_path / "a.parquet")
    read = read_columns(UPath(tmp_path), ["time"])["time"]
    assert read[0] == moment.timestamp()
    assert np.isnan(read[1])


def test_dates_and_iso_texts_are_times_too(tmp_path):
    pq.write_table(pa.table({"day": [date(1970, 1, 2)]}), tmp_path / "a.parquet")
    assert read_columns(UPath(tmp_path), ["day"])["day"].tolist() == [86400.0]
    (tmp_path / "a.jsonl").write_text('{"time": "2024-02-29T12:30:00Z"}\n{"time": null}\n')
    read = read_json_lines(UPath(tmp_path / "a.jsonl"), ["time"])["time"]
    assert read[0] == MOMENT.replace(microsecond=0).timestamp()
    assert np.isnan(read[1])


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"price": 1.0}\n{"price": ')
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(StatisticsError, match=r"a\.jsonl does not hold one JSON object per line"):
        read_json_lines(UPath(tmp_path / "a.jsonl"), ["price"])
    with pytest.raises(StatisticsError, match=r"a\.parquet is not a whole Parquet file"):
        read_columns(UPath(tmp_path / "a.parquet"), ["price"])


def test_numbers_are_floats_and_null_is_nan(tmp_path):
    table = pa.table({"count": pa.array([1, None]), "flag": pa.array([True, None])})
    pq.write_table(table, tmp_path / "a.parquet")
    read = read_columns(UPath(tmp_path), ["count", "flag"])
    for values in read.values():
        assert values.dtype == np.float64
        assert values[0] == 1.0
        assert np.isnan(values[1])


def test_categories_are_texts(tmp_path):
    column = pa.array(["buy", "sell", "buy"]).dictionary_encode()
    pq.write_table(pa.table({"side": column}), tmp_path / "a.parquet")
    assert read_columns(UPath(tmp_path), ["side"])["side"].tolist() == ["buy", "sell", "buy"]


def plant(*attributes):
    """Return a definition of machines, whose name alone is required."""
    document = {"stream": "plant", "family": "attributes", "parameters": {"cid": ["machine"]}}
    return parse({**document, "attributes": attributes}, "plant.yaml")


HEAT = {"name": "heat", "domain": [0, 100]}


def test_what_may_be_null_is_in_its_domain():
    definition = plant(
        {"name": "machine", "type": "category", "values": ["a", "b"]},
        {"name": "state", "type": "category", "values": ["on", "off"]},
        HEAT,
    )
    assert definition.nullable == {"state", "heat"}
    columns = {
        "machine": np.array(["a", "b", None, "a"], dtype=object),
        "state": np.array(["on", None, "on", "broken"], dtype=object),
        "heat": np.array([1.0, np.nan, 1.0, 1.0]),
    }
    assert in_domain(columns, definition).tolist() == [True, True, False, False]
    nothing = {name: values[:0] for name, values in columns.items()}
    assert in_domain(nothing, definition).tolist() == []


def test_texts_in_a_number_column_are_numbers_or_outside_the_domain():
    definition = plant({"name": "machine", "type": "category", "values": ["1", "2"]}, HEAT)
    given = {
        "machine": np.array(["1", "2", "1", "2"], dtype=object),
        "heat": np.array(["7.5", "warm", None, 8.0], dtype=object),
    }
    columns = typed(given, definition)
    assert columns["heat"].dtype == np.float64
    assert columns["machine"].tolist() == ["1", "2", "1", "2"]
    assert in_domain(columns, definition).tolist() == [True, False, True, True]
    assert {reason: rows.tolist() for reason, rows in broken_rules(given, definition).items()} == {
        "heat is not a number": [False, True, False, False]
    }


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("price", 100.5, "price is outside [0, 100]"),
        ("price", None, "price is missing"),
        ("price", "abc", "price is not a number"),
        ("price", "1e400", "price is not finite"),
        ("volume", 1.5, "volume is not a whole number"),
        ("volume", "1.5", "volume is not a whole number"),
        ("side", "hold", "side is not one of buy, sell"),
        ("side", None, "side is missing"),
        ("at", "yesterday", "at is not a time (seconds since 1970 or ISO 8601)"),
        ("at", None, "at is missing"),
        ("at", 2000.0, "at is outside (-inf, 1300]"),
    ],
)
def test_a_bad_value_has_the_reason_that_spark_gives(name, value, reason):
    samples = {"time_column": "at", "max_age_s": 60}
    document = {"stream": "ticks", "family": "sifter", "attributes": ATTRIBUTES}
    definition = parse({**document, "samples": samples}, "ticks.yaml")
    row = {"price": "7.5", "volume": 3.0, "side": "buy", "at": "1970-01-01T00:16:40Z"}
    good = {n: np.array([v], dtype=object) for n, v in row.items()}
    assert broken_rules(good, definition, latest_s=1300.0) == {}
    assert typed(good, definition)["at"].tolist() == [1000.0]
    bad = {**good, name: np.array([value], dtype=object)}
    assert list(broken_rules(bad, definition, latest_s=1300.0)) == [reason]


def test_files_of_different_types_are_named(tmp_path):
    pq.write_table(pa.table({"price": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"price": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(StatisticsError, match="must have the same type in every column"):
        read_columns(UPath(tmp_path), ["price"])


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_file_without_a_column_is_named(tmp_path, name):
    if name.endswith("parquet"):
        pq.write_table(pa.table({"price": [1.0]}), tmp_path / name)
    else:
        (tmp_path / name).write_text('{"price": 1.0}\n')
    read = read_columns if name.endswith("parquet") else read_json_lines
    with pytest.raises(StatisticsError, match=rf"{name} must hold .* got none called volume"):
        read(UPath(tmp_path / name), ["price", "volume"])
