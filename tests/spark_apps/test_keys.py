"""The key hash in Spark SQL equals the one of planning.keys, bit for bit."""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from planning import keys
from planning.errors import InvalidInput
from spark_apps.keys import draw, key_hash, key_sql

pytestmark = pytest.mark.spark

ROWS = 1000
EDGES = [0.0, -0.0, 1.0, -1.5, 0.1, 2.0**53, 2.0**63, -(2.0**63), -(2.0**63) - 2048, 1e300, 5e-324,
         math.inf, -math.inf, math.nan]  # fmt: skip
UNSIGNED = [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]
ALPHABET = "aZ09 é\0日🎈"

Draw = Callable[[random.Random], Any]


def integer(bits: int) -> Draw:
    return lambda r: r.choice([r.getrandbits(bits) - (1 << bits - 1), r.randrange(-9, 9)])


def double(r: random.Random) -> float:
    any_bits = struct.unpack("<d", r.randbytes(8))[0]
    return r.choice(
        [r.choice(EDGES), any_bits, r.gauss(0, 99), float(r.randrange(-(10**6), 10**6))]
    )


def single(r: random.Random) -> float:
    return r.choice([r.choice(EDGES[:8]), float(np.float32(r.gauss(0, 99))), math.nan])


def moment(r: random.Random) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=r.randrange(-(10**16), 10**16))


def text(r: random.Random) -> str:
    return "".join(r.choices(ALPHABET, k=r.randrange(80)))


COLUMNS: dict[str, tuple[pa.DataType, Draw]] = {
    "a tiny.int": (pa.int8(), integer(8)),
    "small": (pa.int16(), integer(16)),
    "int": (pa.int32(), integer(32)),
    "long": (pa.int64(), integer(64)),
    "flag": (pa.bool_(), lambda r: r.random() < 0.5),
    "float": (pa.float32(), single),
    "double": (pa.float64(), double),
    "text": (pa.string(), text),
    "bytes": (pa.binary(), lambda r: r.randbytes(r.randrange(80))),
    "day": (pa.date32(), lambda r: date.fromordinal(r.randrange(1, 3_652_059))),
    "at": (pa.timestamp("us", "UTC"), lambda r: moment(r).replace(tzinfo=UTC)),
    "naive at": (pa.timestamp("us"), moment),
    "price": (pa.decimal128(12, 2), lambda r: Decimal(r.randrange(-(10**4), 10**4)) / 100),
    "number": (pa.decimal128(20, 0), lambda r: Decimal(r.choice([*UNSIGNED, r.getrandbits(66)]))),
    "ratio": (
        pa.decimal128(38, 30),
        lambda r: Decimal(r.randrange(-30, 30)).scaleb(r.choice([-30, -29, 0])),
    ),
    "nothing": (pa.null(), lambda r: None),
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Return a column of every type, a tenth of it null."""
    r = random.Random(11)
    return pa.table(
        {
            name: pa.array([None if r.random() < 0.1 else make(r) for _ in range(ROWS)], kind)
            for name, (kind, make) in COLUMNS.items()
        }
    )


@pytest.fixture(scope="module")
def rows(spark: Any, table: pa.Table) -> Any:
    return spark.createDataFrame(table).cache()


def hashed(rows: Any, *names: str, salt: int | None = None) -> list[int]:
    column = rows.select(key_hash(rows, *names, salt=salt).alias("hash")).toArrow()["hash"]
    return np.asarray(column).view(np.uint64).tolist()


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type(rows: Any, table: pa.Table, name: str) -> None:
    found = hashed(rows, name)
    assert found == keys.hashes([table[name]]).tolist()
    assert found == [keys.hash_one([value]) for value in table[name].to_pylist()]


@pytest.mark.parametrize("salt", [None, 0, 7, -(2**63), 2**63 - 1])
def test_all_columns_in_turn(rows: Any, table: pa.Table, salt: int | None) -> None:
    for names in (list(COLUMNS), list(COLUMNS)[::-1]):
        expected = keys.hashes([table[name] for name in names], salt).tolist()
        assert hashed(rows, *names, salt=salt) == expected


def test_settings_of_the_session_change_nothing(spark: Any, rows: Any, table: pa.Table) -> None:
    kept = {
        name: spark.conf.get(name)
        for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    }
    names = [name for name in COLUMNS if name != "ratio"]
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        assert hashed(rows, *names) == keys.hashes([table[name] for name in names]).tolist()
    finally:
        for name, value in kept.items():
            spark.conf.set(name, value)


def test_a_collation_changes_nothing(spark: Any) -> None:
    rows = spark.sql("select 'Ab' collate UTF8_LCASE as word")
    assert hashed(rows, "word") == [keys.hash_one(["Ab"])]


def test_draws(rows: Any, table: pa.Table) -> None:
    found = rows.select(draw(key_hash(rows, "text")).alias("draw")).toArrow()["draw"].to_pylist()
    assert found == keys.draws(keys.hashes([table["text"]])).tolist()


def test_refusals_name_the_remedy(spark: Any) -> None:
    rows = spark.sql("select array(1) as list, 1 as number")
    with pytest.raises(InvalidInput, match="list must be one of .*cast it"):
        key_hash(rows, "list")
    with pytest.raises(InvalidInput, match="must be of list, number, got absent"):
        key_hash(rows, "number", "absent")
    with pytest.raises(InvalidInput, match="got none"):
        key_hash(rows)


def test_the_documented_statement(spark: Any) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "keys.md"
    (statement,) = re.findall(
        r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    expression = key_sql({"id": "bigint", "name": "string"})
    assert statement.count(expression) == 2
    hashed = keys.hash_one([42, "Spark"])
    assert spark.sql(statement).collect() == [(hashed, hashed >> 32)]


@pytest.mark.parametrize("kind", ["boolean", "int", "bigint", "string", "date", "double"])
def test_the_documented_table(kind: str) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "keys.md").read_text(encoding="utf-8")
    form = key_sql({"x": kind}).removeprefix("xxhash64(")[:-1].replace("`", "")
    assert re.search(rf"\| [^|]*\b{kind}\b[^|]* \| `{re.escape(form)}` \|", page)
