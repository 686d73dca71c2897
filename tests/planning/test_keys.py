"""The key hash equals XXH64 of the xxhash package, in every form a column may come in."""

from __future__ import annotations

import math
import random
import struct
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from planning import keys
from planning.errors import InvalidInput
from planning.keys import draws, drop_step, hash_one, hashes
from planning.pacing import ONE

TEXTS = ["", "a", "user-17", "naïve", "日本語" * 4, "🎈 up", "x" * 31, "y" * 32, "z\0z", "w" * 100]
LONGS = [0, 1, -1, 42, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
KERNELS = ("hash_long", "hash_bytes", "fold_longs", "fold_doubles", "fold_texts")


def plain_hash(forms: list[int | float | bytes | None]) -> int:
    """Chain the package's XXH64 over values that are in canonical form already."""
    hashed = 42
    for form in forms:
        if isinstance(form, int):
            hashed = xxhash.xxh64_intdigest(struct.pack("<q", form), hashed)
        elif isinstance(form, float):
            hashed = xxhash.xxh64_intdigest(struct.pack("<d", form), hashed)
        elif form is not None:
            hashed = xxhash.xxh64_intdigest(form, hashed)
    return hashed


def plain(column: list[Any]) -> list[int]:
    return [plain_hash([form]) for form in column]


@pytest.mark.parametrize("seed", [None, 7])
def test_bytes_of_every_length(seed: int | None) -> None:
    data = random.Random(5).randbytes(100)
    pieces = [data[:n] for n in range(101)]
    expected = [plain_hash([seed, piece]) for piece in pieces]
    assert hashes([pieces], salt=seed).tolist() == expected
    assert hashes([pa.array(pieces)], salt=seed).tolist() == expected
    assert [hash_one([piece], salt=seed) for piece in pieces] == expected


@pytest.mark.parametrize(
    ("key", "spark"),
    [
        (["Spark"], -4294468057691064905),
        ([42], -6876166290308861218),
        ([0.5], 3031145945194818975),
        ([42, "Spark"], 9108643724139316808),
        ([None], 42),
    ],
)
def test_values_that_spark_gives(key: list[Any], spark: int) -> None:
    """Answers of Spark 4 to ``select xxhash64('Spark')``, ``xxhash64(42L)`` and so on."""
    assert hash_one(key) == spark % 2**64


@pytest.mark.parametrize("kind", [np.bool_, *"bhilqBHILQefd", ">i4", ">f8"])
def test_numbers_of_every_width(kind: Any) -> None:
    array = np.array([0, 1, 1, 0], dtype=kind)
    assert hashes([array]).tolist() == plain([0, 1, 1, 0])
    assert hashes([array[::2]]).tolist() == plain([0, 1])
    assert [hash_one([x]) for x in array] == plain([0, 1, 1, 0])


def test_whole_numbers_are_longs_whatever_carries_them() -> None:
    for number in LONGS:
        assert hash_one([number]) == plain_hash([number])
        assert hash_one([Decimal(number)]) == plain_hash([number])
    for carrier in (5, 5.0, np.float32(5), np.uint8(5), Decimal("5.00"), pa.scalar(5)):
        assert hash_one([carrier]) == plain_hash([5])
    assert hash_one([-0.0]) == hash_one([0]) == hash_one([False])
    unsigned = np.array([5, 2**63, 2**64 - 1], dtype=np.uint64)
    for form in (
        unsigned,
        unsigned.tolist(),
        pa.array(unsigned),
        [Decimal(int(x)) for x in unsigned],
    ):
        assert hashes([form]).tolist() == plain([5, -(2**63), -1])
    assert hash_one([2**64]) == plain_hash([b"18446744073709551616"])
    assert hash_one([-(2**63) - 1]) == plain_hash([b"-9223372036854775809"])


def test_other_numbers_are_their_bits() -> None:
    column = [0.1, -2.5, 2.0**63, -(2.0**63), 1e300, 5e-324, math.inf, -math.inf, math.nan]
    expected = plain([*column[:3], -(2**63), *column[4:8], None])
    for form in (column, np.array(column), pa.array(column), pl.Series(column), pd.Series(column)):
        assert hashes([form]).tolist() == expected
    assert [hash_one([x]) for x in column] == expected
    assert hash_one([Decimal("1E-8")]) == plain_hash([b"0.00000001"])


def test_null_leaves_the_seed() -> None:
    for null in (None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"),
                 np.timedelta64("NaT"), Decimal("NaN"), pa.scalar(None, pa.int64())):  # fmt: skip
        assert hash_one([null]) == 42
        assert hash_one([null, 7, null]) == plain_hash([7])
        assert hashes([[null, 1], ["a", null]]).tolist() == [plain_hash([b"a"]), plain_hash([1])]
    for empty in (pa.nulls(2), pa.array([None, None], pa.string()), pd.Series([pd.NaT, pd.NaT])):
        assert hashes([empty]).tolist() == [42, 42]


def test_text_in_every_form() -> None:
    column: list[str | None] = [*TEXTS, None, *TEXTS]
    expected = plain([None if text is None else text.encode() for text in column])
    arrow = pa.array(column)
    forms = {
        "list": column,
        "objects": np.array(column, dtype=object),
        "numpy strings": np.array(column, dtype=np.dtypes.StringDType(na_object=None)),
        "arrow": arrow,
        "large": arrow.cast(pa.large_string()),
        "view": arrow.cast(pa.string_view()),
        "binary": arrow.cast(pa.binary()),
        "binary view": arrow.cast(pa.binary_view()),
        "dictionary": arrow.dictionary_encode(),
        "chunks": pa.chunked_array([arrow[:3], arrow[3:3], arrow[3:]]),
        "dictionaries": pa.chunked_array(
            [arrow[:5].dictionary_encode(), arrow[5:].dictionary_encode()]
        ),
        "pandas": pd.Series(column),
        "pandas string": pd.Series(column, dtype="string[python]"),
        "pandas arrow": pd.Series(column, dtype="string[pyarrow]"),
        "pandas category": pd.Series(column, dtype="category"),
        "polars": pl.Series(column),
        "polars category": pl.Series(column, dtype=pl.Categorical),
    }
    numbers = list(range(len(column)))
    chained = [
        plain_hash([i, None if text is None else text.encode()])
        for i, text in zip(numbers, column, strict=True)
    ]
    for name, form in forms.items():
        assert hashes([form]).tolist() == expected, name
        assert hashes([form[4:15]]).tolist() == expected[4:15], f"{name}, sliced"
        assert hashes([numbers, form]).tolist() == chained, f"{name}, second"
    assert [hash_one([text]) for text in column] == expected


def test_numpy_text_and_bytes() -> None:
    ascii_only = [text for text in TEXTS if text.isascii()]
    for texts in (ascii_only, TEXTS, ["a", "é"]):
        expected = plain([text.encode() for text in texts])
        for array in (np.array(texts), np.array(texts).astype(">U100"), np.repeat(texts, 2)[::2]):
            assert hashes([array]).tolist() == expected
    stored = np.array([b"", b"ab", b"a\0b", b"x" * 50])
    assert hashes([stored]).tolist() == plain(stored.tolist())
    assert hashes([np.empty(0, "U3")]).tolist() == hashes([np.empty(0, "S0")]).tolist() == []
    assert hashes([np.array(["", ""])]).tolist() == plain([b"", b""])


def test_half_a_surrogate_pair_is_replaced() -> None:
    expected = plain(["a\ufffd".encode(), b"b"])
    for form in (["a\ud800", "b"], np.array(["a\udfff", "b"])):
        assert hashes([form]).tolist() == expected


def test_dictionaries_with_nulls_and_few_rows() -> None:
    codes = pa.array([0, 2, None, 1], pa.int8())
    words = pa.array(["a", None, "é", *map(str, range(125))])
    column = pa.DictionaryArray.from_arrays(codes, words)
    assert hashes([column]).tolist() == plain([b"a", "é".encode(), None, None])
    rows = pa.concat_arrays([column] * 50)
    assert hashes([rows]).tolist() == plain([b"a", "é".encode(), None, None]) * 50
    assert hashes([rows[3:6]]).tolist() == plain([None, b"a", "é".encode()])
    numbers = pa.array([7, None, 7]).dictionary_encode()
    assert hashes([numbers]).tolist() == plain([7, None, 7])
    assert hashes([pa.array([None], pa.dictionary(pa.int32(), pa.string()))]).tolist() == [42]


def test_arrow_numbers_keep_their_digits_beside_nulls() -> None:
    column = pa.array([2**53 + 1, None, *range(20)])
    assert hashes([column]).tolist() == plain(column.to_pylist())
    assert hashes([column[1:19]]).tolist() == plain(column.to_pylist()[1:19])
    assert hashes([pd.Series(column.to_pylist(), dtype="Int64")]).tolist() == plain(
        column.to_pylist()
    )
    assert hashes([pl.Series(column.to_pylist())]).tolist() == plain(column.to_pylist())
    flags = pa.array([True, None, False])
    assert hashes([flags]).tolist() == plain([1, None, 0])
    half = pa.array(np.array([1.5, 2.0], np.float16))
    assert hashes([half]).tolist() == plain([1.5, 2])


def test_time_is_microseconds_in_utc() -> None:
    micros = [0, 1, -1, 1_700_000_000_123_456, -62_135_596_800_000_000]
    naive = [datetime(1970, 1, 1) + timedelta(microseconds=m) for m in micros]
    east = timezone(timedelta(hours=9))
    aware = [t.replace(tzinfo=UTC) for t in naive[:-1]]
    assert hashes([naive]).tolist() == plain(micros)
    assert hashes([aware]).tolist() == plain(micros[:-1])
    assert hashes([[t.astimezone(east) for t in aware]]).tolist() == plain(micros[:-1])
    assert hashes([np.array(naive, "M8[us]")]).tolist() == plain(micros)
    assert hashes([pa.array(naive)]).tolist() == plain(micros)
    assert hashes([pa.array(aware, pa.timestamp("us", "Asia/Tokyo"))]).tolist() == plain(
        micros[:-1]
    )
    assert hashes([pl.Series(naive)]).tolist() == plain(micros)
    stamps = pd.Series(aware)
    for form in (stamps, stamps.dt.tz_convert(east), stamps.dt.tz_localize(None), stamps.tolist()):
        assert hashes([form]).tolist() == plain(micros[:-1])


def test_nanoseconds_are_floored_and_coarse_units_are_exact() -> None:
    nanos = np.array([1_999, -1, -1_001, 0, "NaT"], dtype="M8[ns]")
    expected = plain([1, -1, -2, 0, None])
    assert hashes([nanos]).tolist() == expected
    assert hashes([pa.array(nanos)]).tolist() == expected
    assert hashes([pd.Series(nanos)]).tolist() == expected
    assert hashes([list(pd.Series(nanos))]).tolist() == expected
    assert hashes([list(nanos)]).tolist() == expected
    for unit, micros in (("s", 10**6), ("ms", 1000), ("us", 1)):
        column = pa.array([3, None], pa.timestamp(unit))
        assert hashes([column]).tolist() == plain([3 * micros, None])
        assert hashes([pa.array([3, None], pa.duration(unit))]).tolist() == plain(
            [3 * micros, None]
        )
    days = [date(1970, 1, 2), None, date(1969, 12, 31)]
    expected = plain([86_400_000_000, None, -86_400_000_000])
    for form in (days, pa.array(days), pa.array(days, pa.date64()), np.array(days, "M8[D]"),
                 pl.Series(days), pd.Series(days), pd.Series(pd.to_datetime(days))):  # fmt: skip
        assert hashes([form]).tolist() == expected
    assert hash_one([timedelta(milliseconds=-1)]) == hash_one([np.timedelta64(-1, "ms")])


def test_other_objects_are_their_text() -> None:
    number = uuid.UUID(int=7)
    odd: list[Any] = [number, Decimal("1.50"), (1, 2), {"a": 1}, bytearray(b"ab"), 3.5, 4, None]
    expected = plain([str(number).encode(), b"1.50", b"(1, 2)", b"{'a': 1}", b"ab", 3.5, 4, None])
    assert hashes([odd]).tolist() == expected
    assert [hash_one([value]) for value in odd] == expected
    decimals = pa.array([Decimal("1.50"), None, Decimal("2.00")])
    assert hashes([decimals]).tolist() == plain([b"1.50", None, 2])


values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.binary(),
    st.datetimes(timezones=st.none() | st.just(UTC)), st.dates(), st.decimals(places=2),
)  # fmt: skip


@given(
    st.lists(st.tuples(values, values), max_size=8), st.none() | st.integers(-(2**63), 2**63 - 1)
)
def test_a_batch_equals_its_items(rows: list[tuple[Any, Any]], salt: int | None) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], []]
    expected = [hash_one(row, salt) for row in rows]
    assert hashes(columns, salt).tolist() == expected
    assert [plain_hash([salt, *map(keys.canonical, row)]) for row in rows] == expected


def test_a_salt_is_a_leading_long() -> None:
    assert hash_one(["a"], salt=-3) == hash_one([-3, "a"])
    assert hashes([pa.array(["a", None])], salt=9).tolist() == [
        plain_hash([9, b"a"]),
        plain_hash([9]),
    ]
    assert hashes([pa.array(["a", "a"]).dictionary_encode()], salt=9)[1] == plain_hash([9, b"a"])


def test_decisions_are_unbiased_and_nested() -> None:
    items = np.arange(2_000)
    shares = [(draws(hashes([items], salt)) < drop_step(0.3)).mean() for salt in range(200)]
    error = math.sqrt(0.3 * 0.7 / (items.size * len(shares)))
    assert abs(np.mean(shares) - 0.3) < 3 * error
    assert np.std(shares) == pytest.approx(math.sqrt(0.3 * 0.7 / items.size), rel=0.2)
    draw = draws(hashes([items]))
    assert draw.min() >= 0
    assert draw.max() < ONE
    assert [drop_step(d) for d in (0.0, 1e-12, 0.5, 1.0)] == [0, 1, ONE // 2, ONE]
    dropped = [set(items[draw < drop_step(d)].tolist()) for d in (0.0, 1e-12, 0.2, 0.5, 1.0)]
    assert not dropped[0]
    assert dropped[-1] == set(items.tolist())
    assert all(less <= more for less, more in zip(dropped, dropped[1:], strict=False))


@pytest.mark.parametrize(
    ("columns", "salt", "message"),
    [
        ([], None, "at least one column"),
        ([[1], [1, 2]], None, "one length"),
        ([np.zeros((2, 2))], None, "1-D"),
        ([np.array(1)], None, "1-D"),
        ([[1]], 2**63, "salt must be a long"),
    ],
)
def test_refusals_name_the_remedy(columns: list[Any], salt: int | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        hashes(columns, salt)


def test_inputs_stay_as_they_are() -> None:
    column = np.arange(5)
    column.flags.writeable = False
    hashes([column, column])
    assert column.tolist() == [0, 1, 2, 3, 4]


def test_nothing_is_compiled_after_warming() -> None:
    kernels = keys.warm()
    for form in (
        np.arange(3),
        np.arange(6)[::2],
        np.arange(3.0),
        ["a", None],
        pa.array(["a", None]),
    ):
        hashes([form, form], salt=3)
    hash_one([2**63 + 1, "a", 2.5], salt=-1)
    assert {len(getattr(kernels, name).signatures) for name in KERNELS} == {1}


def test_importing_is_light() -> None:
    script = (
        "import sys, planning.keys\n"
        "heavy = {'numba', 'pyarrow', 'pandas', 'polars', 'planning.key_kernels'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    call = [sys.executable, "-c", script]
    assert subprocess.run(call, capture_output=True, text=True, check=True).stdout == "[]\n"
