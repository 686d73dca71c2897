import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning.artifacts import codec
from planning.errors import ArtifactError, InvalidInput

finite = st.floats(allow_nan=False, allow_infinity=False)
cuts = st.lists(finite, min_size=1, max_size=20).map(tuple)
pytestmark = pytest.mark.usefixtures("tally")


@given(label=st.text(max_size=40), cuts=cuts)
def test_both_encodings_decode_to_the_same_plan_and_encode_to_the_same_bytes(tally, label, cuts):
    plan = tally.tally_plan(label, cuts)
    for encoding in ("json", "binary"):
        data = codec.encode(plan, "tally", encoding)
        family, decoded = codec.decode(data, encoding)
        assert family == "tally"
        assert codec.document(decoded) == codec.document(plan)
        assert codec.encode(decoded, "tally", encoding) == data


def test_the_binary_envelope_is_eight_bytes_and_as_documented(tally):
    plan = tally.tally_plan()
    data = codec.encode_binary(plan, "tally")
    payload = plan.to_bytes()
    assert len(data) == len(payload) + 8
    assert data[:4] == b"HG\x01\xfa"
    assert data[8:] == payload
    assert struct.unpack("<I", data[4:8])[0] == zlib.crc32(data[:4] + payload)


def test_the_json_envelope_is_as_documented(tally):
    data = codec.encode_json(tally.tally_plan("a", (1.0,)), "tally")
    assert data == b'{"family":"tally","headgate":1,"plan":{"cuts":[1.0],"label":"a"}}'


@given(st.binary(max_size=200))
def test_any_bytes_raise_nothing_but_an_artifact_error(data):
    for encoding in ("json", "binary"):
        with pytest.raises(ArtifactError, match="ticks is"):
            codec.decode(data, encoding, "ticks")


def sealed(family_id: int, payload: bytes, version: int = 1) -> bytes:
    start = b"HG" + bytes([version, family_id])
    return start + struct.pack("<I", zlib.crc32(start + payload)) + payload


@given(payload=st.binary(max_size=80), family_id=st.sampled_from([250, 1, 2, 3, 4, 5, 77]))
def test_any_payload_under_a_valid_seal_gives_a_plan_or_an_artifact_error(payload, family_id):
    try:
        family, plan = codec.decode_binary(sealed(family_id, payload))
    except ArtifactError:
        return
    assert codec.FAMILY_IDS[family] == family_id
    assert codec.document(plan)


@given(data=st.data())
def test_any_change_to_a_binary_plan_is_noticed(tally, data):
    encoded = bytearray(codec.encode_binary(tally.tally_plan(), "tally"))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ArtifactError):
        codec.decode_binary(bytes(encoded))


@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_every_truncation_is_noticed(tally, encoding):
    data = codec.encode(tally.tally_plan(), "tally", encoding)
    for size in range(len(data)):
        with pytest.raises(ArtifactError):
            codec.decode(data[:size], encoding)
    with pytest.raises(ArtifactError):
        codec.decode(data + b"\0", encoding)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"headgate":2,"family":"tally","plan":{}}', "format version 2.*update Headgate"),
        (b'{"headgate":1,"family":"sieve","plan":{}}', "family.*does not know.*'sieve'"),
        (b'{"headgate":1,"family":"tally","plan":{"cuts":[1.0]}}', "label"),
        (b'{"headgate":1,"family":"tally","plan":{"cuts":"x","label":""}}', "cuts"),
        (b'{"headgate":1,"family":"tally"}', "plan"),
        (b"[" * 100_000, "not a plan's JSON envelope"),
        (b'{"headgate":1,"family":"\xff\xfe"}', "not a plan's JSON envelope"),
    ],
)
def test_json_of_another_kind_is_refused_with_the_reason(data, message):
    with pytest.raises(ArtifactError, match=message):
        codec.decode_json(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sealed(250, b"\x00", version=2), "format version 2.*update Headgate"),
        (sealed(99, b"\x00"), "family.*does not know.*number 99"),
        (sealed(250, b"\x01"), "does not hold a tally plan"),
        (b"PK\x03\x04zip archive", "not a binary plan.*PK"),
    ],
)
def test_binary_of_another_kind_is_refused_with_the_reason(data, message):
    with pytest.raises(ArtifactError, match=message):
        codec.decode_binary(data)


def test_a_plan_that_json_cannot_carry_is_refused(tally):
    with pytest.raises(InvalidInput, match=r"Plan\.to_document"):
        codec.encode_json(tally.tally_plan("a", (object(),)), "tally")
    with pytest.raises(InvalidInput, match="family must be one of"):
        codec.encode_json(tally.tally_plan(), "sieve")
