import base64
import json

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st

from planning.artifacts import Manifest, SigningKey, Store, TrustedKeys, manifest
from planning.errors import ArtifactError, InvalidInput


def test_the_file_holds_every_field_of_the_publication(house):
    house.publish()
    told = house.publish(
        inputs={"statistics": "ab" * 32},
        parameters={"regions": 16, "nested": {"x": [1, 2.5, None, "é"]}},
        predicted=[(0.5, 0.75), {"load": 1.0, "quality": 1.0}],
        gate={"decision": "publish", "reason": "first", "outcomes": [{"load": 0.5, "q": 0.7}]},
        validity={"not_after": "2026-02-02T00:00:00+00:00", "fallback": "uniform"},
        solver_status="OPTIMAL",
        reason="nightly",
        run="run-7",
    )
    read = json.loads(house.store.manifest_path("ticks", 2).read_bytes())
    assert read["stream"] == "ticks"
    assert (read["family"], read["version"], read["parent"]) == ("tally", 2, 1)
    assert read["created_at"] == "2026-01-02T03:04:05Z"
    assert read["parameters"] == {"regions": 16, "nested": {"x": [1, 2.5, None, "é"]}}
    assert read["predicted"] == [{"load": 0.5, "quality": 0.75}, {"load": 1.0, "quality": 1.0}]
    assert read["gate"]["outcomes"] == [{"load": 0.5, "q": 0.7}]
    assert read["validity"] == {"not_after": "2026-02-02T00:00:00Z", "fallback": "uniform"}
    assert (read["solver_status"], read["reason"], read["run"]) == ("OPTIMAL", "nightly", "run-7")
    assert read["rollback_of"] is None
    assert len(read["code_digest"]) == 64
    assert read["planning_version"]
    assert house.store.latest("ticks") == told


def test_another_language_verifies_without_serialising_anything(house):
    """The recipe of docs/artifacts.md: cut the signature out of the bytes, nothing else."""
    house.publish(parameters={"signature": "a decoy", "z": '"signature":"'})
    raw = house.store.manifest_path("ticks", 1).read_bytes()
    start = raw.rindex(b'"signature":"') + len(b'"signature":"')
    end = raw.index(b'"', start)
    key = load_pem_public_key(next((house.keys / "trusted").glob("*.pem")).read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    key.verify(base64.b64decode(raw[start:end]), raw[:start] + raw[end:])


def test_a_manifest_in_another_spelling_is_refused(house):
    house.publish()
    path = house.store.manifest_path("ticks", 1)
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=1))
    with pytest.raises(ArtifactError, match="canonical"):
        house.store.latest("ticks")


def test_an_unknown_field_is_refused(house):
    house.publish()
    path = house.store.manifest_path("ticks", 1)
    document = json.loads(path.read_bytes()) | {"zebra": 1}
    with pytest.raises(ArtifactError, match="zebra"):
        manifest.decode(json.dumps(document).encode(), "m.json")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_give_a_manifest_or_an_artifact_error(data):
    with pytest.raises(ArtifactError, match=r"m\.json is"):
        manifest.decode(data, "m.json")


@given(data=st.data())
def test_any_damage_to_a_manifest_is_noticed(data, golden_manifest):
    raw, trusted = golden_manifest
    damaged = bytearray(raw)
    damaged[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ArtifactError):
        trusted.verify(manifest.decode(bytes(damaged), "m.json"), "m.json")


@pytest.fixture(scope="module")
def golden_manifest(tally, tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    signer = SigningKey.load_or_create(folder / "keys")
    store = Store(folder / "plans", TrustedKeys.of(signer))
    tally.publish(store, signer)
    return store.manifest_path("ticks", 1).read_bytes(), store.trusted


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("created_at", "yesterday", "created_at must be a time"),
        ("created_at", "2026-01-02T03:04:05", "created_at must be a time in UTC"),
        ("created_at", "2026-01-02T03:04:05+02:00", "created_at must be a time in UTC"),
        ("validity", {"not_after": "soon"}, "not_after must be a time"),
        ("validity", {"fallback": "panic"}, "fallback"),
        ("predicted", [(0.5, float("nan"))], "predicted"),
        ("parameters", {"x": float("inf")}, "finite numbers"),
        ("parameters", {"x": object()}, "manifest cannot be written"),
        ("inputs", {"x": 7}, "inputs"),
        ("reason", "\ud800", "cannot be written"),
    ],
)
def test_what_a_manifest_cannot_hold_is_refused_and_nothing_is_published(
    house, field, value, message
):
    with pytest.raises(InvalidInput, match=message):
        house.publish(**{field: value})
    assert house.store.versions("ticks") == ()


def test_the_manifest_type_is_immutable(house):
    published = house.publish()
    with pytest.raises(AttributeError):
        published.version = 9
    assert msgspec.structs.replace(published, version=9).version == 9
    assert isinstance(published, Manifest)
