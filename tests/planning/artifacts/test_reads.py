"""Reads are bounded: no file in the store can block a reader, flood it, or hide other versions."""

import errno
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from planning.artifacts import SigningKey, Store, TrustedKeys, files
from planning.artifacts.reading import Published
from planning.errors import ArtifactError, InvalidInput, PlanningError, StoreError

WATCHDOG_S = 60


def guarded(action):
    """Run an action that must not block; fail if it does."""
    outcome = []

    def run():
        try:
            outcome.append((action(), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WATCHDOG_S)
    assert outcome, "the read blocks"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def folder(path):
    path.mkdir()
    (path / "inside").write_bytes(b"{}")


def sparse(path):
    path.touch()
    os.truncate(path, 3 * 2**30)


def unix_socket(path):
    # A socket's address is short, whatever the length of the temporary folder's path.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


OBSTACLES = {
    "fifo": os.mkfifo,
    "folder": folder,
    "socket": unix_socket,
    "3 GiB": sparse,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "fifo behind a link": lambda path: (
        os.mkfifo(path.parent / "pipe"), path.symlink_to(path.parent / "pipe")),
    "dangling link": lambda path: path.symlink_to(path.parent / "nowhere"),
    "loop of links": lambda path: path.symlink_to(path),
    "nothing": lambda path: path.touch(),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "deep nesting": lambda path: path.write_bytes(b"[" * 100_000),
}  # fmt: skip
FAILURES = {
    "permission": PermissionError(errno.EACCES, "Permission denied"),
    "broken disk": OSError(errno.EIO, "Input/output error"),
    "stale handle": OSError(errno.ESTALE, "Stale file handle"),
    "folder": IsADirectoryError(errno.EISDIR, "Is a directory"),
    "time": TimeoutError("timed out"),
    "text": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "wordless": RuntimeError(),
}


def local(path: UPath):
    return files.local(path)


@pytest.fixture
def three(house):
    """Three versions, and the paths of the newest one's manifest and payload."""
    told = [house.publish(label) for label in ("one", "two", "three")]
    newest = told[-1]
    paths = {
        "manifest": local(house.store.manifest_path("ticks", 3)),
        "payload": local(house.store.payload_path("ticks", newest.payloads.binary, "binary")),
    }
    return SimpleNamespace(store=house.store, house=house, paths=paths)


@pytest.mark.parametrize("part", ["manifest", "payload"])
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_the_newest_sound_version_is_taken_past_any_file(three, part, obstacle):
    path = three.paths[part]
    path.unlink()
    OBSTACLES[obstacle](path)
    good = guarded(lambda: three.store.last_good("ticks"))
    assert good.published.plan.label == "two"
    assert [broken.name for broken in good.skipped] == ["00000003"]
    assert good.skipped[0].problem
    with pytest.raises(PlanningError):
        guarded(lambda: three.store.load("ticks"))
    assert three.store.newest("ticks") == 3
    assert guarded(lambda: three.store.last_good("ticks", after=2)).published is None
    if obstacle != "dangling link":  # then there is no version 3 to speak of
        assert not guarded(lambda: three.store.verify("ticks", 3)).ok
    if part == "manifest":
        history = guarded(lambda: three.store.history("ticks"))
        assert [m.version for m in history] == [2, 1]
        assert [broken.name for broken in history.broken] == ["00000003"]


@pytest.mark.parametrize("part", ["manifest", "payload"])
@pytest.mark.parametrize("failure", FAILURES)
def test_whatever_the_file_system_raises_the_next_version_is_read(
    three, part, failure, monkeypatch
):
    """Stands for files without permission too, which root would be allowed to read."""
    system = os.open

    def failing(path, *rest, **named):
        if str(path) == str(three.paths[part]):
            raise FAILURES[failure]
        return system(path, *rest, **named)

    monkeypatch.setattr(os, "open", failing)
    good = three.store.last_good("ticks")
    assert good.published.plan.label == "two"
    [broken] = good.skipped
    assert (str(FAILURES[failure]) or "RuntimeError") in broken.problem
    with pytest.raises(StoreError, match="cannot be read"):
        three.store.load("ticks")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("part", ["manifest", "payload"])
def test_a_file_without_permission_is_skipped(three, part):
    three.paths[part].chmod(0)
    good = three.store.last_good("ticks")
    assert good.published.plan.label == "two"
    assert "Permission denied" in good.skipped[0].problem


def test_candidates_come_newest_first_and_are_read_one_at_a_time(three, monkeypatch):
    three.paths["manifest"].unlink()
    os.mkfifo(three.paths["manifest"])
    opened = []
    read = files.read

    def noting(path, *limit):
        opened.append(path.name)
        return read(path, *limit)

    monkeypatch.setattr(files, "read", noting)
    candidates = three.store.newer("ticks")
    assert opened == []
    broken = guarded(lambda: next(candidates))
    assert (broken.name, opened) == ("00000003", ["00000003.json"])
    assert "must be a regular file" in broken.problem
    second = next(candidates)
    assert isinstance(second, Published)
    assert second.plan.label == "two"
    assert [name for name in opened if name.endswith(".json")] == ["00000003.json", "00000002.json"]
    assert next(candidates).manifest.version == 1
    assert next(candidates, None) is None
    assert list(three.store.newer("ticks", after=3)) == []


def test_names_that_are_no_versions_are_ignored(three):
    versions = three.paths["manifest"].parent
    os.mkfifo(versions / "fifo")
    other = "notes.txt 3.json 00000000.json 000000004.json ٠٠٠٠٠٠٠٩.json 00000009.json~ 00000009"
    for name in (*other.split(), "9999999999999999.json", ".tmp-00000009.json"):
        (versions / name).write_bytes(b"{}")
    (versions / os.fsdecode(b"\xff0000009.json")).write_bytes(b"")
    (versions / "0000000x.json").mkdir()
    assert three.store.versions("ticks") == (1, 2, 3)
    good = guarded(lambda: three.store.last_good("ticks"))
    assert (good.published.plan.label, good.skipped) == ("three", ())
    assert three.house.publish("four").version == 4


def test_a_file_at_its_bound_is_read_and_one_byte_more_is_not(tmp_path):
    path = UPath(tmp_path / "file")
    path.write_bytes(b"x" * 100)
    assert files.read(path, 100) == b"x" * 100
    with pytest.raises(ArtifactError, match="must have at most 99 bytes, got 100; it is damaged"):
        files.read(path, 99)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = UPath(tmp_path / "file")
    path.write_bytes(b"x" * 100)
    look = os.fstat

    def then_grow(handle):
        status = look(handle)
        os.truncate(files.local(path), 3 * 2**30)
        return status

    monkeypatch.setattr(os, "fstat", then_grow)
    with pytest.raises(ArtifactError, match="at most 200 bytes, got 201"):
        files.read(path, 200)


def test_a_payload_is_bounded_by_the_size_in_its_manifest(three):
    path = three.paths["payload"]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ArtifactError, match=f"at most {size} bytes, got {size + 1}"):
        three.store.load("ticks")


def test_what_readers_would_refuse_is_not_published(house, monkeypatch):
    monkeypatch.setattr(files, "PAYLOAD_BYTES", 40)
    with pytest.raises(InvalidInput, match="the json plan must have at most 40 bytes"):
        house.publish("a")
    monkeypatch.undo()
    monkeypatch.setattr(files, "SMALL_BYTES", 500)
    with pytest.raises(InvalidInput, match="the manifest must have at most 500 bytes"):
        house.publish("a")
    assert house.store.versions("ticks") == ()


@pytest.mark.parametrize("obstacle", [o for o in OBSTACLES if o != "dangling link"])
def test_keys_and_statuses_are_bounded_too(three, obstacle):
    key = three.house.keys / "trusted" / "other.pem"
    OBSTACLES[obstacle](key)
    with pytest.raises((ArtifactError, StoreError)):
        guarded(lambda: TrustedKeys.load(three.house.keys))
    private = three.house.keys / "signing.pem"
    private.unlink()
    OBSTACLES[obstacle](private)
    with pytest.raises((ArtifactError, StoreError)):
        guarded(lambda: SigningKey.load(three.house.keys))
    nodes = local(three.store.folder("ticks", "nodes"))
    nodes.mkdir()
    OBSTACLES[obstacle](nodes / "edge-7.json")
    listing = guarded(lambda: three.store.nodes("ticks"))
    assert [broken.name for broken in listing.broken] == ["edge-7.json"]


def test_a_status_behind_a_dangling_link_is_listed(three):
    nodes = local(three.store.folder("ticks", "nodes"))
    nodes.mkdir()
    (nodes / "edge-7.json").symlink_to("nowhere")
    assert [b.name for b in three.store.nodes("ticks").broken] == ["edge-7.json"]


@pytest.mark.parametrize("obstacle", ["fifo", "3 GiB", "endless device", "loop of links"])
def test_publishing_the_plan_again_heals_a_payload(three, obstacle):
    three.paths["payload"].unlink()
    OBSTACLES[obstacle](three.paths["payload"])
    assert guarded(lambda: three.house.publish("three")).version == 4
    assert three.store.load("ticks", 3).plan.label == "three"


def test_retention_goes_on_past_folders_and_publication_past_unreadable_versions(three):
    first = local(three.store.manifest_path("ticks", 1))
    first.unlink()
    folder(first)
    os.mkfifo(first.parent.parent / "payloads" / "pipe")
    assert guarded(lambda: three.house.publish("four", run="r")).version == 4
    assert guarded(lambda: three.house.publish("four", run="r")).version == 4
    pruned = guarded(lambda: three.store.prune("ticks", 2))
    assert (pruned.versions, three.store.versions("ticks")) == ((2,), (1, 3, 4))
    three.paths["manifest"].unlink()
    os.mkfifo(three.paths["manifest"])
    assert "must be a regular file" in guarded(lambda: three.store.prune("ticks", 2)).note


class TestObjectStore:
    """``memory://`` stands for every file system that is not local."""

    @pytest.fixture
    def remote(self, house, tally):
        store = Store(f"memory://headgate-{time.time_ns()}/plans", TrustedKeys.of(house.signer))
        for label in ("one", "two", "three"):
            tally.publish(store, house.signer, tally.tally_plan(label))
        return store

    def test_a_large_object_is_refused_unread(self, remote, monkeypatch):
        newest = str(remote.manifest_path("ticks", 3).path)
        info, content = MemoryFileSystem.info, MemoryFileSystem.cat_file
        asked = []

        def large(self, path, **options):
            told = info(self, path, **options)
            return {**told, "size": 3 * 2**30} if path.endswith(newest) else told

        def noting(self, path, start=None, end=None, **options):
            asked.append((path, end))
            return content(self, path, start, end, **options)

        monkeypatch.setattr(MemoryFileSystem, "info", large)
        monkeypatch.setattr(MemoryFileSystem, "cat_file", noting)
        good = remote.last_good("ticks")
        assert good.published.plan.label == "two"
        assert "must have at most" in good.skipped[0].problem
        assert asked
        assert not any(path.endswith(newest) for path, _ in asked)
        assert all(end <= files.SMALL_BYTES + 1 for _, end in asked)

    def test_an_object_of_unknown_size_is_read_up_to_its_bound(self, remote, monkeypatch):
        info = MemoryFileSystem.info

        def unknown(self, path, **options):
            return {**info(self, path, **options), "size": None}

        monkeypatch.setattr(MemoryFileSystem, "info", unknown)
        path = remote.payload_path("ticks", remote.latest("ticks").payloads.binary, "binary")
        path.write_bytes(path.read_bytes() * 1000)
        good = remote.last_good("ticks")
        assert good.published.plan.label == "two"
        size = remote.latest("ticks").payloads.binary.bytes
        assert f"at most {size} bytes, got {size + 1}" in good.skipped[0].problem

    def test_a_folder_an_empty_object_and_a_missing_one(self, remote):
        path = remote.manifest_path("ticks", 3)
        path.write_bytes(b"")
        assert "is not a manifest" in remote.last_good("ticks").skipped[0].problem
        path.unlink()
        (path / "inside").write_bytes(b"")
        assert "must be a regular file" in remote.last_good("ticks").skipped[0].problem
        payload = remote.manifest("ticks", 2).payloads.binary
        remote.payload_path("ticks", payload, "binary").unlink()
        good = remote.last_good("ticks")
        assert good.published.plan.label == "one"
        assert "is missing" in good.skipped[1].problem

    def test_whatever_it_raises_the_next_version_is_read(self, remote, monkeypatch):
        newest = str(remote.manifest_path("ticks", 3).path)
        content = MemoryFileSystem.cat_file
        for error in FAILURES.values():

            def failing(self, path, *rest, error=error, **options):
                if path.endswith(newest):
                    raise error
                return content(self, path, *rest, **options)

            monkeypatch.setattr(MemoryFileSystem, "cat_file", failing)
            good = remote.last_good("ticks")
            assert good.published.plan.label == "two"
            assert len(good.skipped) == 1
