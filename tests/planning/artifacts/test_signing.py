import os
import stat
import subprocess
import sys

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from planning.artifacts import UNVERIFIED, SigningKey, Store, TrustedKeys
from planning.errors import SignatureError, StoreError


def test_a_key_is_made_once_with_private_mode(tmp_path):
    first = SigningKey.load_or_create(tmp_path)
    again = SigningKey.load_or_create(tmp_path)
    assert first.key_id == again.key_id == SigningKey.load(tmp_path).key_id
    assert stat.S_IMODE((tmp_path / "signing.pem").stat().st_mode) == 0o600
    assert [p.name for p in (tmp_path / "trusted").iterdir()] == [f"{first.key_id}.pem"]
    assert set(TrustedKeys.load(tmp_path).keys) == {first.key_id}
    assert sorted(os.listdir(tmp_path)) == ["signing.pem", "trusted"]


def test_a_lost_public_key_is_written_again(tmp_path):
    key = SigningKey.load_or_create(tmp_path)
    (tmp_path / "trusted" / f"{key.key_id}.pem").unlink()
    SigningKey.load_or_create(tmp_path)
    assert set(TrustedKeys.load(tmp_path).keys) == {key.key_id}


def test_processes_that_start_together_end_up_with_one_key(tmp_path):
    script = (
        "import sys, time\n"
        "from planning.artifacts import SigningKey\n"
        "time.sleep(max(0.0, float(sys.argv[2]) - time.time()))\n"
        "for i in range(20):\n"
        "    print(SigningKey.load_or_create(f'{sys.argv[1]}/{i}').key_id)\n"
    )
    import time

    start = str(time.time() + 1.5)
    command = [sys.executable, "-c", script, str(tmp_path), start]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    seen = [process.communicate()[0].split() for process in processes]
    assert len(seen[0]) == 20
    assert seen[0] == seen[1] == seen[2]
    for i in range(20):
        assert len(TrustedKeys.load(tmp_path / str(i)).keys) == 1


def test_a_private_key_that_others_may_read_is_refused(tmp_path):
    SigningKey.load_or_create(tmp_path)
    (tmp_path / "signing.pem").chmod(0o640)
    with pytest.raises(StoreError, match="mode 640.*chmod 600"):
        SigningKey.load_or_create(tmp_path)


def test_keys_of_another_kind_are_refused(tmp_path):
    SigningKey.load_or_create(tmp_path)
    other = generate_private_key(SECP256R1())
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "trusted" / "other.pem").write_bytes(public)
    with pytest.raises(SignatureError, match=r"other\.pem must be an Ed25519 public key"):
        TrustedKeys.load(tmp_path)
    (tmp_path / "trusted" / "other.pem").write_text("nonsense")
    with pytest.raises(SignatureError, match=r"other\.pem must be an Ed25519 public key"):
        TrustedKeys.load(tmp_path)
    private = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "signing.pem").write_bytes(private)
    with pytest.raises(SignatureError, match="Ed25519 private key"):
        SigningKey.load(tmp_path)


def test_loading_a_key_that_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(SignatureError, match="no key to sign with"):
        SigningKey.load(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_without_keys_reads_nothing_unless_it_asks_to(house):
    house.publish()
    with pytest.raises(SignatureError, match="trusts no key"):
        Store(house.store.root).load("ticks")
    assert Store(house.store.root, UNVERIFIED).load("ticks").manifest.version == 1


def test_an_unsigned_manifest_is_refused(house):
    signed = house.publish()
    unsigned = msgspec.structs.replace(signed, signature="")
    house.store.manifest_path("ticks", 1).write_bytes(msgspec.json.encode(unsigned, order="sorted"))
    with pytest.raises(SignatureError, match="is not signed"):
        house.store.latest("ticks")


def test_a_manifest_of_an_unknown_key_is_refused(house, tmp_path):
    stranger = SigningKey.load_or_create(tmp_path / "stranger")
    house.tally.publish(house.store, stranger)
    with pytest.raises(SignatureError, match=f"signed by key {stranger.key_id}"):
        house.store.latest("ticks")


def test_a_stranger_cannot_borrow_a_trusted_key_id(house, tmp_path):
    stranger = SigningKey.load_or_create(tmp_path / "stranger")
    forged = msgspec.structs.replace(
        stranger.sign(house.publish()), key_id=house.signer.key_id
    )
    house.store.manifest_path("ticks", 1).write_bytes(msgspec.json.encode(forged, order="sorted"))
    with pytest.raises(SignatureError, match="does not match its content"):
        house.store.latest("ticks")


@pytest.mark.parametrize("signature", ["%%%", "AAAA", "A" * 88])
def test_what_is_not_a_signature_is_refused(house, signature):
    forged = msgspec.structs.replace(house.publish(), signature=signature)
    house.store.manifest_path("ticks", 1).write_bytes(msgspec.json.encode(forged, order="sorted"))
    with pytest.raises(SignatureError, match="does not match its content"):
        house.store.latest("ticks")


def test_two_trusted_keys_may_sign_one_stream(house, tmp_path):
    second = SigningKey.load_or_create(tmp_path / "second")
    house.publish()
    house.tally.publish(house.store, second)
    both = Store(house.store.root, TrustedKeys.of(house.signer, second))
    assert [m.key_id for m in both.history("ticks")] == [second.key_id, house.signer.key_id]
