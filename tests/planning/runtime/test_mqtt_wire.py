"""What is in the messages, without a broker."""

import math
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("paho.mqtt.client")

from planning.runtime.mqtt import Twin, wire  # noqa: E402

VALUES = st.one_of(
    st.none(), st.booleans(), st.text(max_size=20), st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False), st.decimals(-10**6, 10**6, places=3).map(float),
)  # fmt: skip


@given(st.lists(VALUES, max_size=8))
def test_values_come_back(values):
    out = bytearray()
    for value in values:
        wire.put(out, value)
    at, found = 0, []
    while at < len(out):
        value, at = wire.take(bytes(out), at)
        found.append(value)
    assert found == values
    assert [isinstance(v, bool) for v in found] == [isinstance(v, bool) for v in values]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]), st.integers(0, 10**6),
            st.dictionaries(st.integers(0, 9), VALUES, max_size=10),
        ),
        max_size=20,
    ),
    st.integers(0, 20),
)  # fmt: skip
def test_a_birth_at_any_time_gives_what_the_reports_give(reports, born):
    columns = tuple("abcdefghij")
    source, known = Twin(columns), {}
    late = Twin.of(wire.decode_birth(wire.encode_birth(source.birth(1, 0))))
    for number, (name, millis, values) in enumerate(reports):
        if number == born:
            late = Twin.of(wire.decode_birth(wire.encode_birth(source.birth(1, number))))
        late.apply(source.report((name,), millis / 1000, values))
        row = known.setdefault((name,), {})
        row.update({columns[j]: (value, millis / 1000) for j, value in values.items()})
    assert late.rows() == source.rows() == known


@given(st.binary(max_size=40))
def test_damaged_reports_are_errors_and_nothing_else(data):
    twin = Twin(("a", "b"))
    twin.report(("x",), 1.0, {0: 1.5})
    with suppress(ValueError, IndexError, TypeError, msgspec.MsgspecError):
        twin.apply(data)
    assert all(len(row) <= 2 for row in twin.rows().values())


def test_single_precision_is_sent_with_its_decimals():
    out = bytearray()
    wire.put(out, wire.plain(np.float32(1013.3)))
    assert len(out) == 3
    assert np.float32(wire.take(bytes(out), 0)[0]) == np.float32(1013.3)
    assert wire.plain(math.nan) is None
