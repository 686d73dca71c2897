import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys, codec, files
from planning.errors import ArtifactError, InvalidInput, NoPlan, SignatureError, StoreError

GOLDEN = Path(__file__).parent / "golden"


def names(path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def test_the_layout_is_as_documented(house):
    told = house.publish("first")
    stream = house.store.root / "ticks"
    assert names(stream / "versions") == ["00000001.json"]
    payloads = {p.name: p.read_bytes() for p in (stream / "payloads").iterdir()}
    assert set(payloads) == {
        f"{told.payloads.json.digest}.json",
        f"{told.payloads.binary.digest}.bin",
    }
    for name, data in payloads.items():
        assert hashlib.sha256(data).hexdigest() == name.split(".")[0]
    assert told.payloads.binary.bytes == len(payloads[f"{told.payloads.binary.digest}.bin"])


def test_both_encodings_load_to_the_published_plan(house):
    house.publish("first", cuts=(0.0, 0.1))
    for encoding in ("json", "binary"):
        loaded = house.store.load("ticks", encoding=encoding)
        assert loaded.manifest.version == 1
        assert loaded.plan == house.tally.tally_plan("first", (0.0, 0.1))


def test_versions_count_up_and_the_parent_is_the_one_before(house):
    told = [house.publish(str(i)) for i in range(4)]
    assert [m.version for m in told] == [1, 2, 3, 4]
    assert [m.parent for m in told] == [None, 1, 2, 3]
    assert house.store.versions("ticks") == (1, 2, 3, 4)
    assert house.store.latest("ticks") == told[-1]
    assert house.store.manifest("ticks", 2) == told[1]
    assert [m.version for m in house.store.history("ticks")] == [4, 3, 2, 1]


def test_a_file_url_is_the_same_store(house):
    house.publish("one")
    store = Store(f"file://{house.store.root}", house.store.trusted)
    assert store.load("ticks").plan.label == "one"
    assert house.tally.publish(store, house.signer).version == 2
    assert house.store.verify("ticks").ok


def test_streams_are_listed_and_kept_apart(house):
    house.publish(stream="ticks")
    house.publish(stream="alarms")
    (house.store.root / "empty" / "versions").mkdir(parents=True)
    assert house.store.streams() == ("alarms", "ticks")
    assert house.store.latest("alarms").version == 1


def test_an_equal_plan_shares_its_payload(house):
    house.publish("same")
    house.publish("same")
    assert len(names(house.store.root / "ticks" / "payloads")) == 2


def test_a_damaged_payload_is_healed_by_publishing_the_plan_again(house):
    told = house.publish("same")
    path = house.store.payload_path("ticks", told.payloads.binary, "binary")
    path.write_bytes(b"rot")
    house.publish("same")
    assert house.store.load("ticks", 1).plan.label == "same"


def test_publishing_a_run_twice_gives_one_version(house):
    first = house.publish("a", run="run-1")
    house.publish("b", run="run-2")
    again = house.publish("a", run="run-1", created_at="2027-01-01T00:00:00Z")
    assert again == first
    assert house.store.versions("ticks") == (1, 2)
    assert house.publish("a").version == 3


def test_a_strangers_version_does_not_count_as_the_run(house, tmp_path):
    stranger = SigningKey.load_or_create(tmp_path / "stranger")
    house.tally.publish(house.store, stranger, run="run-1")
    assert house.publish("a", run="run-1").version == 2


def test_what_is_not_there_is_no_plan(house):
    with pytest.raises(NoPlan, match="stream ticks has no published plan in .*headgate plan ticks"):
        house.store.latest("ticks")
    assert house.store.streams() == ()
    house.publish()
    with pytest.raises(NoPlan, match="no version 7 in .*it has 1 to 1"):
        house.store.load("ticks", 7)


@pytest.mark.parametrize("stream", ["", "../ticks", "Ticks", "a/b", "7up", "x" * 64, "a.b"])
def test_a_stream_name_cannot_leave_the_store(house, stream):
    with pytest.raises(InvalidInput, match="stream must be a name"):
        house.store.latest(stream)
    with pytest.raises(InvalidInput, match="stream must be a name"):
        house.publish(stream=stream)


def test_no_truncation_of_a_payload_gets_through(house):
    told = house.publish()
    for encoding in ("json", "binary"):
        path = house.store.payload_path("ticks", told.payloads.of(encoding), encoding)
        data = path.read_bytes()
        for size in range(len(data)):
            path.write_bytes(data[:size])
            with pytest.raises(ArtifactError, match="does not match the digest"):
                house.store.load("ticks", encoding=encoding)
        path.write_bytes(data)
        assert house.store.load("ticks", encoding=encoding).manifest == told


def test_another_sound_plan_in_a_payloads_place_is_refused(house):
    one, two = house.publish("one"), house.publish("two")
    for encoding in ("json", "binary"):
        paths = [
            house.store.payload_path("ticks", m.payloads.of(encoding), encoding) for m in (one, two)
        ]
        assert paths[0].stat().st_size == paths[1].stat().st_size
        paths[1].write_bytes(paths[0].read_bytes())
        with pytest.raises(ArtifactError, match="does not match the digest"):
            house.store.load("ticks", 2, encoding)


def test_no_truncation_of_a_manifest_gets_through(house):
    house.publish()
    path = house.store.manifest_path("ticks", 1)
    data = path.read_bytes()
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(ArtifactError, match="is not a manifest"):
            house.store.latest("ticks")


def test_a_missing_payload_is_an_artifact_error(house):
    told = house.publish()
    house.store.payload_path("ticks", told.payloads.binary, "binary").unlink()
    with pytest.raises(ArtifactError, match="is missing"):
        house.store.load("ticks")


def test_a_manifest_moved_to_another_version_or_stream_is_refused(house):
    house.publish("one")
    house.publish(stream="alarms")
    source = house.store.manifest_path("ticks", 1)
    for path in (house.store.manifest_path("ticks", 2), house.store.manifest_path("alarms", 2)):
        path.write_bytes(source.read_bytes())
    for stream in ("ticks", "alarms"):
        with pytest.raises(ArtifactError, match="is the manifest of ticks version 1"):
            house.store.latest(stream)


def test_a_plan_of_another_family_than_the_manifest_says_is_refused(house):
    told = house.publish()
    lie = house.signer.sign(msgspec.structs.replace(told, family="sifter"))
    house.store.manifest_path("ticks", 1).write_bytes(msgspec.json.encode(lie, order="sorted"))
    with pytest.raises(ArtifactError, match="holds a tally plan, but .* says sifter"):
        house.store.load("ticks")


def test_a_plan_of_a_family_unknown_here_is_refused(house):
    told = house.publish()
    data = b'{"family":"sieve","headgate":1,"plan":{}}'
    payload = msgspec.structs.replace(
        told.payloads.json, digest=hashlib.sha256(data).hexdigest(), bytes=len(data)
    )
    lie = house.signer.sign(
        msgspec.structs.replace(
            told, family="sieve", payloads=msgspec.structs.replace(told.payloads, json=payload)
        )
    )
    house.store.manifest_path("ticks", 1).write_bytes(msgspec.json.encode(lie, order="sorted"))
    house.store.payload_path("ticks", payload, "json").write_bytes(data)
    with pytest.raises(ArtifactError, match="family that this reader does not know"):
        house.store.load("ticks", encoding="json")


def test_latest_does_not_skip_a_damaged_version_but_last_good_does_and_says_so(house):
    house.publish("one")
    house.publish("two")
    house.publish("three")
    house.store.manifest_path("ticks", 3).write_bytes(b"{}")
    with pytest.raises(ArtifactError):
        house.store.latest("ticks")
    good = house.store.last_good("ticks")
    assert good.published.plan.label == "two"
    assert [broken.name for broken in good.skipped] == ["00000003"]
    assert "is not a manifest" in good.skipped[0].problem
    assert house.store.last_good("ticks", after=2).published is None
    assert [b.name for b in house.store.history("ticks").broken] == ["00000003"]
    assert house.publish("four").version == 4


def test_rollback_is_a_publication(house):
    house.publish(
        "good",
        created_at="2026-01-01T00:00:00Z",
        validity={"not_after": "2026-01-08T00:00:00Z", "fallback": "uniform"},
        run="r1",
    )
    house.publish("bad", run="r2")
    told = house.store.rollback(
        "ticks", 1, signer=house.signer, created_at="2026-03-01T12:00:00Z", reason="v2 is bad"
    )
    assert (told.version, told.parent, told.rollback_of) == (3, 2, 1)
    assert told.reason == "v2 is bad"
    assert told.created_at == "2026-03-01T12:00:00Z"
    assert told.validity.not_after == "2026-03-08T12:00:00Z"
    assert house.store.load("ticks").plan.label == "good"
    assert house.store.verify("ticks").ok
    assert house.publish("again", run="r1") == house.store.manifest("ticks", 1)


def test_rollback_to_what_is_in_force_or_unsound_is_refused(house):
    told = house.publish("one")
    house.publish("two")
    options = {"signer": house.signer, "created_at": "2026-03-01T12:00:00Z", "reason": ""}
    with pytest.raises(InvalidInput, match="older than the newest"):
        house.store.rollback("ticks", 2, **options)
    with pytest.raises(NoPlan):
        house.store.rollback("ticks", 9, **options)
    house.store.payload_path("ticks", told.payloads.json, "json").write_bytes(b"rot")
    with pytest.raises(ArtifactError, match="digest"):
        house.store.rollback("ticks", 1, **options)
    assert house.store.versions("ticks") == (1, 2)


def test_a_codec_that_loses_something_cannot_publish(house, monkeypatch):
    other = house.tally.tally_plan("b").to_bytes()
    monkeypatch.setattr(type(house.tally.tally_plan()), "to_bytes", lambda self: other)
    with pytest.raises(ArtifactError, match="binary form .* decodes to another plan"):
        house.publish("a")
    assert house.store.versions("ticks") == ()


def test_old_temporary_files_are_swept_and_young_ones_left(house):
    house.publish()
    old = house.store.root / "ticks" / "versions" / ".tmp-1-old"
    young = house.store.root / "ticks" / "payloads" / ".tmp-1-young"
    for path in (old, young):
        path.write_bytes(b"half")
    hour_ago = time.time() - 3601
    os.utime(old, (hour_ago, hour_ago))
    house.publish()
    assert not old.exists()
    assert young.exists()
    assert house.store.versions("ticks") == (1, 2)


def test_a_store_that_cannot_be_written_says_where_and_what_to_do(house, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the store should be")
    with pytest.raises(StoreError, match=f"{blocked}.*check that the store's path"):
        house.tally.publish(Store(blocked, house.store.trusted), house.signer)
    with pytest.raises(StoreError, match=f"{blocked}.*check that the store's path"):
        Store(blocked / "x", house.store.trusted).latest("ticks")


def test_a_store_that_vanishes_while_publishing_is_a_store_error(house, monkeypatch):
    house.publish()
    make = files.make

    def make_then_lose(path):
        make(path)
        if path.name == "payloads":
            shutil.rmtree(path)

    monkeypatch.setattr(files, "make", make_then_lose)
    with pytest.raises(StoreError, match="payloads.*cannot be written"):
        house.publish("b")


def test_a_file_system_without_hard_links_is_named(house, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreError, match="without hard links"):
        house.publish()
    assert house.store.versions("ticks") == ()
    assert names(house.store.root / "ticks" / "versions") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_store_that_may_not_be_read_says_so(house):
    house.publish()
    house.store.manifest_path("ticks", 1).chmod(0)
    with pytest.raises(StoreError, match="cannot be read"):
        house.store.latest("ticks")


def test_an_object_store_works_alike(house, tally):
    """``memory://`` stands for every file system with conditional writes and no locks."""
    store = Store(f"memory://headgate-{time.time_ns()}/plans", TrustedKeys.of(house.signer))
    told = [tally.publish(store, house.signer, tally.tally_plan(str(i))) for i in range(3)]
    assert [m.version for m in told] == [1, 2, 3]
    assert store.load("ticks", 2, encoding="json").plan.label == "1"
    assert store.streams() == ("ticks",)
    assert store.verify("ticks").ok
    again = store.rollback(
        "ticks", 1, signer=house.signer, created_at="2026-03-01T12:00:00Z", reason=""
    )
    assert again.version == 4
    assert store.prune("ticks", 1).versions == (1, 2, 3)
    assert store.load("ticks").plan.label == "0"
    assert not files.create(store.manifest_path("ticks", 4), b"")
    store.manifest_path("ticks", 4).write_bytes(b"rot")
    with pytest.raises(ArtifactError):
        store.latest("ticks")


def test_a_lost_race_takes_the_next_version_signed_anew(house, monkeypatch):
    """Another publisher takes the version between looking and creating."""
    house.publish("one")
    create, stolen = files.create, []

    def race(path, data, mode=0o644):
        if not stolen:
            stolen.append(True)
            monkeypatch.setattr(files, "create", create)
            house.publish("rival")
        return create(path, data, mode)

    monkeypatch.setattr(files, "create", race)
    told = house.publish("mine")
    assert (told.version, told.parent) == (3, 2)
    assert [m.version for m in house.store.history("ticks")] == [3, 2, 1]
    assert house.store.load("ticks", 2).plan.label == "rival"
    assert house.store.load("ticks", 3).plan.label == "mine"


def test_reading_the_newest_survives_retention_in_between(house, monkeypatch):
    house.publish("one")
    read = Store.manifest

    def late(self, stream, version):
        monkeypatch.setattr(Store, "manifest", read)
        house.publish("two")
        house.store.prune("ticks", 1)
        return read(self, stream, version)

    monkeypatch.setattr(Store, "manifest", late)
    assert house.store.load("ticks").plan.label == "two"


def test_a_reader_needs_no_right_to_write(house):
    house.publish()
    before = sorted(str(p) for p in (house.store.root / "ticks").rglob("*"))
    reader = Store(house.store.root, house.store.trusted)
    reader.load("ticks")
    reader.history("ticks")
    reader.verify("ticks")
    assert sorted(str(p) for p in (house.store.root / "ticks").rglob("*")) == before


def test_the_sifter_is_published_like_any_family(house):
    plan_module = pytest.importorskip("planning.sifter.plan")
    document = json.loads((GOLDEN / "sifter" / "plan.json").read_bytes())["plan"]
    plan = plan_module.Plan.from_document(document)
    house.store.publish(
        "flights",
        plan,
        family="sifter",
        signer=house.signer,
        created_at="2026-01-02T03:04:05Z",
        predicted=[(z, plan.predicted_quality(z)) for z in (0.3, 0.5, 0.7)],
    )
    for encoding in ("json", "binary"):
        loaded = house.store.load("flights", encoding=encoding).plan
        assert codec.document(loaded) == codec.document(plan)
    assert house.store.verify("flights").ok
    with pytest.raises(SignatureError):
        Store(house.store.root).load("flights")
