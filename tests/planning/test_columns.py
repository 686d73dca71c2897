"""Columns of any kind as numbers: the same value, the same number, everywhere."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

from planning import columns
from planning.columns import encode, length_of, row_keys, value_codes
from planning.errors import InvalidInput

WORDS = ["", "a", "B", "ä", "日本", "long " * 20, "a\tb"]


def test_text_has_one_code_in_every_container() -> None:
    pa = pytest.importorskip("pyarrow")
    want = encode(np.array(WORDS))
    for column in (
        np.array(WORDS, dtype=object), WORDS, pa.array(WORDS), pa.array(WORDS).dictionary_encode(),
        pa.chunked_array([WORDS[:3], WORDS[3:]]),
    ):  # fmt: skip
        coded = encode(column)
        np.testing.assert_array_equal(coded.values, want.values)
        assert coded.length is not None
        assert coded.length.tolist() == [len(w.encode()) for w in WORDS]
    assert len(set(want.values)) == len(WORDS)


def test_text_has_one_code_in_every_process() -> None:
    script = "from planning.columns import encode; print(encode(['station']).values[0])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(out.stdout) == encode(["station"]).values[0]


def test_nulls_of_every_kind_become_nan() -> None:
    pa = pytest.importorskip("pyarrow")
    for column in (
        [1.0, None], [None, "x"][::-1], np.array([1.0, np.nan]), pa.array([1, None]),
        pa.array(["x", None]), pa.array(["x", None]).dictionary_encode(),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[s]"),
    ):  # fmt: skip
        assert np.isnan(encode(column).values).tolist() == [False, True]


def test_numbers_stay_numbers() -> None:
    pa = pytest.importorskip("pyarrow")
    for column in ([1, 2], np.array([1, 2], dtype=np.int8), np.array([True, False]) + 1,
                   pa.array([1, 2]), np.array([1, 2], dtype=np.float32)):  # fmt: skip
        assert encode(column).numeric
    assert encode(pa.array([True, False])).values.tolist() == [1.0, 0.0]
    assert not encode(["1", "2"]).numeric


def test_hashes_of_many_words_differ() -> None:
    words = np.array([f"entity {i}" for i in range(200_000)])
    assert len(np.unique(encode(words).values)) == len(words)


def test_keys_depend_on_every_column_and_its_place() -> None:
    a, b = encode([1, 1, 2]), encode([1, 2, 1])
    keys = row_keys([a, b], 3)
    assert len(set(keys)) == 3
    assert keys[1] != keys[2]
    assert row_keys([encode([0.0])], 1) == row_keys([encode([-0.0])], 1)


def test_keys_equal_a_plain_loop() -> None:
    """Published statistics depend on these very numbers."""
    first, second = [1.5, -0.0, float("nan"), 3e300], [7.0, 0.0, -2.0, 1.0]
    word = 2**64 - 1
    for a, b, key in zip(first, second, row_keys([encode(first), encode(second)], 4), strict=True):
        code = 17
        for value in (a, b):
            (bits,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
            code = (code * 0x9E3779B97F4A7C15 + bits) & word
            code = ((code ^ (code >> 31)) * 0x94D049BB133111EB) & word
            code ^= code >> 29
        assert int(key) & word == code


def test_text_hashes_equal_a_plain_loop() -> None:
    word = 2**64 - 1
    for text, value in zip(WORDS, encode(np.array(WORDS)).values, strict=True):
        code = 0xCBF29CE484222325
        for point in text:
            code = ((code ^ ord(point)) * 0x100000001B3) & word
        code = ((code ^ (code >> 29)) * 0xBF58476D1CE4E5B9) & word
        assert value == code >> 11


def test_every_layout_of_text_has_one_code_and_one_compiled_form() -> None:
    want = encode(np.array(WORDS)).values
    readonly = np.array(WORDS)
    readonly.flags.writeable = False
    for column in (
        readonly, np.array(WORDS).astype(f">U{max(map(len, WORDS))}"), np.repeat(WORDS, 2)[::2],
        np.array(WORDS, dtype="U200"), np.array(WORDS, dtype=np.dtypes.StringDType()),
        np.array([word.encode() for word in WORDS]),
    ):  # fmt: skip
        np.testing.assert_array_equal(encode(column).values, want)
    assert len(columns._hash_text.signatures) == 1


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one length"):
        length_of({"a": [1], "b": [1, 2]})


def test_values_are_named_as_they_are_written() -> None:
    assert list(value_codes(np.array([2.0, 10.0, 2.0]))) == ["10", "2"]
    assert list(value_codes(np.array(["b", "a"]))) == ["a", "b"]


def test_arrow_is_not_imported_for_other_columns() -> None:
    script = (
        "import sys; from planning.columns import encode; encode([1, 'x']);"
        "print('pyarrow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
