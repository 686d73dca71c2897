"""Stores on S3: a moto server in its own process, real publisher processes, answers that get lost.

``server`` is reached directly, ``proxy`` counts requests and does harm on the way.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("s3fs", reason="needs headgate[s3]")
pytest.importorskip("moto", reason="needs moto")

from object_store import CREDENTIALS, Proxy, Server
from upath import UPath

from planning.artifacts import SigningKey, Store, TrustedKeys, files, history
from planning.errors import NoPlan, SignatureError, StoreError
from planning.runtime import PlanClient

PUBLISHER = Path(__file__).parent / "publisher.py"
RACERS, EACH = 16, 4
PUBLICATION = ["PUT", "PUT", "LIST", "PUT", "HEAD", "LIST"]


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def proxy(server):
    made = Proxy(server)
    yield made
    made.stop()


@pytest.fixture
def home(server, proxy, tally, tmp_path):
    """A signer, an empty bucket, and its stores: one reached directly, one through the proxy."""
    bucket = server.bucket()
    signer = SigningKey.load_or_create(tmp_path / "keys")

    def at(url, **options):
        return UPath(f"s3://{bucket}/some/plans", **reached(url, **options))

    def publish(store, label="a", **options):
        return tally.publish(store, signer, tally.tally_plan(label), **options)

    trusted = TrustedKeys.of(signer)
    return SimpleNamespace(
        bucket=bucket,
        signer=signer,
        trusted=trusted,
        at=at,
        publish=publish,
        direct=Store(at(server.url), trusted),
        store=Store(at(proxy.url), trusted),
        folder=tmp_path,
    )


def reached(url, **options):
    return {"endpoint_url": url, "key": "testing", "secret": "testing", **options}


def kinds(requests):
    return [request.split()[0] for request in requests]


class TestOperations:
    def test_every_operation_and_its_requests(self, home, proxy):
        """No operation looks around, creates buckets, or lists more than its own folder."""
        store, table = home.store, {}

        def noted(name, action):
            with proxy.counted() as requests:
                result = action()
            table[name] = " ".join(kinds(requests))
            return result

        assert noted("nothing there", lambda: store.versions("ticks")) == ()
        assert noted("first", lambda: home.publish(store)).version == 1
        assert noted("second", lambda: home.publish(store, "b", run="r")).version == 2
        assert noted("same run", lambda: home.publish(store, "b", run="r")).version == 2
        assert noted("newest", lambda: store.newest("ticks")) == 2
        assert noted("streams", store.streams) == ("ticks",)
        assert noted("load", lambda: store.load("ticks")).plan.label == "b"
        assert noted("load 1", lambda: store.load("ticks", 1, "json")).plan.label == "a"
        again = {"signer": home.signer, "created_at": "2026-03-01T12:00:00Z", "reason": ""}
        noted("rollback", lambda: store.rollback("ticks", 1, **again))
        assert [m.rollback_of for m in store.history("ticks")] == [1, None, None]
        assert [change.path for change in store.diff("ticks", 1, 2).plan] == ["label"]
        for version in (1, 2, 3):
            assert store.verify("ticks", version).ok
        assert noted("prune", lambda: store.prune("ticks", 2)).versions == (1,)
        assert store.versions("ticks") == (2, 3)
        assert table == {
            "nothing there": "LIST",
            "first": " ".join(PUBLICATION),
            "second": "PUT PUT LIST GET PUT HEAD LIST",
            "same run": "PUT PUT LIST GET",
            "newest": "LIST",
            "streams": "LIST LIST",
            "load": "LIST GET GET",
            "load 1": "GET GET",
            "rollback": "LIST GET GET GET PUT GET PUT LIST PUT HEAD LIST",
            # Two lists of versions, two manifests kept, one deleted, payloads that are still named,
            # inputs.
            "prune": "LIST LIST GET GET DELETE LIST LIST",
        }
        inside = f"/{home.bucket}/some/plans/"
        assert all(request.split()[1].startswith(inside) for request in proxy.requests)

    def test_keys_may_lie_there_too(self, home, proxy):
        keys = home.at(proxy.url) / "keys"
        with pytest.raises(SignatureError, match="no key to sign with"):
            SigningKey.load(keys)
        signer = SigningKey.load_or_create(keys)
        assert SigningKey.load_or_create(keys).key_id == SigningKey.load(keys).key_id
        store = Store(home.at(proxy.url), TrustedKeys.load(keys))
        assert list(store.trusted.keys) == [signer.key_id]

    def test_the_root_of_a_bucket_is_a_store_as_well(self, home, server):
        for location in (f"s3://{home.bucket}", f"s3://{home.bucket}/"):
            store = Store(UPath(location, **reached(server.url)), home.trusted)
            home.publish(store)
        assert store.versions("ticks") == (1, 2)
        assert store.streams() == ("ticks",)

    def test_folders_empty_objects_and_large_ones(self, home, server):
        for label in "abcde":
            home.publish(home.direct, label)
        folder = home.direct.folder("ticks", "versions")
        folder.fs.rm_file((folder / "00000005.json").path)
        (folder / "00000005.json" / "inside").write_bytes(b"x")
        (folder / "00000004.json").write_bytes(b"")
        payload = home.direct.manifest("ticks", 3).payloads.binary
        home.direct.payload_path("ticks", payload, "binary").write_bytes(b"x" * 100_000)
        good = home.direct.last_good("ticks")
        assert good.published.manifest.version == 2
        problems = [broken.problem for broken in good.skipped]
        assert "must be a regular file" in problems[0]
        assert "is not a manifest" in problems[1]
        assert f"at most {payload.bytes} bytes" in problems[2]

    @pytest.mark.slow
    def test_more_versions_than_one_answer_lists(self, home, server):
        folder = home.direct.folder("ticks", "versions")
        many = {(folder / f"{version:08d}.json").path: b"x" for version in range(1, 1102)}
        folder.fs.pipe(many)
        assert home.direct.versions("ticks") == tuple(range(1, 1102))
        assert home.publish(home.direct).version == 1102

    def test_a_large_object_is_written_in_parts_and_whole(self, home, proxy):
        data = os.urandom(2**20) * 101
        path = home.at(proxy.url) / "large"
        with proxy.counted() as requests:
            files.replace(path, data)
        assert kinds(requests) == ["POST", "PUT", "PUT", "PUT", "POST"]
        assert files.read(path, len(data)) == data

    def test_retention_goes_by_the_clock_of_the_store(self, home, monkeypatch):
        for label in "abc":
            home.publish(home.direct, label)
        now = time.time()
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: now + 1e6)
            assert home.direct.prune("ticks", 1) == history.Pruned((1, 2), 0)
        with monkeypatch.context() as patch:
            patch.setattr(history, "PAYLOAD_GRACE_S", 0.0)
            assert home.direct.prune("ticks", 1) == history.Pruned((), 4)
        assert home.direct.verify("ticks").ok

    def test_what_a_plan_was_made_from_lies_there_too(self, home, monkeypatch):
        store = home.direct
        first = home.publish(store, "a", inputs={"statistics": b"old", "collected": "ab" * 32})
        home.publish(store, "b", inputs={"statistics": b"new"})
        assert store.input(first, "statistics") == b"old"
        again = {"signer": home.signer, "created_at": "2026-03-01T12:00:00Z", "reason": ""}
        back = store.rollback("ticks", 1, **again)
        monkeypatch.setattr(history, "PAYLOAD_GRACE_S", 0.0)
        assert store.prune("ticks", 1) == history.Pruned((1, 2), 2, inputs=1)
        assert store.input(back, "statistics") == b"old"

    def test_a_client_sees_what_another_process_publishes(self, home, proxy, publishers):
        client = PlanClient(home.store, "ticks", node="edge-1")
        client.poll()
        assert client.version == 0
        for version in (1, 2):
            publishers.start(f"log-{version}", count=1)
            publishers.reap()
            assert client.poll()
            assert client.version == version
        with proxy.counted() as requests:
            assert not client.poll()
        assert f"LIST /{home.bucket}/some/plans/ticks/versions/" in requests
        assert set(kinds(requests)) == {"LIST"}


class TestWhatIsWrong:
    def test_a_bucket_that_is_missing_is_an_error_and_is_not_created(self, home, server):
        root = UPath("s3://no-such-bucket/plans", **reached(server.url))
        store = Store(root, home.trusted)
        for action in (
            lambda: store.versions("ticks"),
            lambda: store.load("ticks", 1),
            lambda: home.publish(store),
            lambda: SigningKey.load(root / "keys"),
            lambda: SigningKey.load_or_create(root / "keys"),
            lambda: TrustedKeys.load(root / "keys"),
        ):
            with pytest.raises(StoreError, match="bucket does not exist"):
                action()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{server.url}/no-such-bucket")

    def test_a_missing_prefix_is_nothing_published(self, home):
        with pytest.raises(NoPlan, match="has no published plan"):
            home.direct.load("ticks")

    def test_credentials_that_are_not_accepted(self, home):
        strict = Server(INITIAL_NO_AUTH_ACTION_COUNT="1")
        try:
            bucket = strict.bucket()
            root = UPath(f"s3://{bucket}/plans", **reached(strict.url, secret="wrong"))
            store = Store(root, home.trusted)
            for action in (lambda: store.versions("ticks"), lambda: home.publish(store)):
                with pytest.raises(StoreError, match="(Access Key Id|Access Denied|signature)"):
                    action()
        finally:
            strict.stop()

    def test_an_endpoint_that_is_not_there(self, home):
        store = Store(home.at("http://127.0.0.1:1"), home.trusted)
        for action in (lambda: store.versions("ticks"), lambda: home.publish(store)):
            with pytest.raises(StoreError, match="Could not connect to the endpoint"):
                action()

    def test_an_endpoint_that_never_answers(self, home, proxy, monkeypatch):
        monkeypatch.setattr(files, "S3_LIMITS", files.S3_LIMITS | {"read_timeout": 0.2})
        over = threading.Event()
        proxy.fault = lambda number, request: over.wait(60) and None
        store = Store(home.at(proxy.url), home.trusted)
        with pytest.raises(StoreError, match="[Tt]imeout"):
            store.versions("ticks")
        attempts = len(proxy.requests)
        over.set()
        assert attempts == files.S3_LIMITS["retries"]["total_max_attempts"]

    def test_limits_of_ones_own_stay(self, home, server):
        own = {"connect_timeout": 1}
        path = files.folder(home.at(server.url, config_kwargs=own))
        assert path.storage_options["config_kwargs"] == own
        assert path.fs.retries == type(path.fs).retries
        ours = files.folder(home.at(server.url))
        assert ours.storage_options["config_kwargs"] == files.S3_LIMITS
        assert files.folder(ours / "below").storage_options == ours.storage_options

    @pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL"])
    def test_the_environment_names_the_endpoint(self, home, server, variable):
        home.publish(home.direct)
        code = (
            "import sys; from planning.artifacts import Store;"
            "print(Store(sys.argv[1]).versions('ticks'))"
        )
        told = subprocess.run(
            [sys.executable, "-c", code, f"s3://{home.bucket}/some/plans"],
            env={**os.environ, **CREDENTIALS, variable: server.url},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.strip() == "(1,)"

    def test_without_s3fs_the_extra_is_named(self):
        code = (
            "import sys; sys.modules['s3fs'] = None\n"
            "from planning.artifacts import Store\nfrom planning.errors import MissingExtra\n"
            "try: Store('s3://bucket/plans')\nexcept MissingExtra as error: print(error)"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "pip install 'headgate[s3]'" in told.stdout, told.stderr


class TestFaults:
    @pytest.mark.parametrize("fault", ["lose", "cut", "500", "503"])
    def test_a_fault_at_any_request_publishes_once(self, home, proxy, fault):
        home.publish(home.direct, "first")
        for step in range(1, len(PUBLICATION) + 1):
            before = home.direct.newest("ticks")
            done = len(proxy.requests)
            proxy.fault = lambda number, _: fault if number == done + step else None  # noqa: B023
            told = home.publish(home.store, f"{fault} {step}")
            assert len(proxy.requests) > done + len(PUBLICATION), "the fault was not repaired"
            assert told.version == before + 1
            assert home.direct.versions("ticks") == tuple(range(1, before + 2))
            assert home.direct.manifest("ticks", told.version) == told
            assert home.direct.verify("ticks").ok

    def test_half_an_answer_is_an_error_or_repaired_and_never_a_double(self, home, proxy):
        home.publish(home.direct, "first")
        for step in range(1, len(PUBLICATION) + 1):
            done = len(proxy.requests)
            proxy.fault = lambda number, _: "half" if number == done + step else None  # noqa: B023
            try:
                home.publish(home.store, "half", run=f"run-{step}")
            except StoreError:
                home.publish(home.store, "half", run=f"run-{step}")
        runs = [m.run for m in reversed(home.direct.history("ticks"))]
        assert runs == ["", *(f"run-{step}" for step in range(1, len(PUBLICATION) + 1))]

    def test_an_equal_publication_of_another_is_not_ones_own(self, home, proxy):
        """Same plan, same key, same second: the manifests have the same bytes."""
        rival = []

        def fault(number, request):
            if "/versions/" in request and request.startswith("PUT") and not rival:
                rival.append(home.publish(home.direct, "same"))

        proxy.fault = fault
        told = home.publish(home.store, "same")
        assert [rival[0].version, told.version] == [1, 2]
        assert home.direct.versions("ticks") == (1, 2)

    def test_a_conflict_that_leaves_nothing_behind_is_tried_again(self, home, proxy):
        """S3 answers 409 when two conditional writes, or one and a deletion, meet."""
        home.publish(home.direct, "first")
        proxy.fault = lambda number, _: "409" if number == 4 else None
        assert home.publish(home.store, "mine").version == 2
        assert kinds(proxy.requests) == [*PUBLICATION[:5], *PUBLICATION[2:]]
        assert home.direct.versions("ticks") == (1, 2)

    def test_an_endpoint_that_stays_away_is_told(self, home, proxy):
        home.publish(home.direct)
        gone = []

        def fault(number, request):
            if "/versions/" in request and request.startswith("PUT"):
                gone.append(True)
            return "cut" if gone else None

        proxy.fault = fault
        with pytest.raises(StoreError, match="cannot be created"):
            home.publish(home.store, "b")
        assert home.direct.versions("ticks") == (1,)

    def test_a_publisher_that_stalls_does_not_take_a_pruned_number_again(self, home, proxy):
        """Retention has no lock on S3: it may free the number that a publisher is about to take."""
        home.publish(home.direct, "one")
        stalled = []

        def fault(number, request):
            if "/versions/" in request and request.startswith("PUT") and not stalled:
                stalled.append(True)
                for label in "abcd":
                    home.publish(home.direct, label)
                home.direct.prune("ticks", 2)

        proxy.fault = fault
        told = home.publish(home.store, "stalled")
        assert told.version == 6
        assert home.direct.versions("ticks") == (4, 5, 6)
        assert home.direct.load("ticks").plan.label == "stalled"


class Publishers:
    """The process that forks publishers on request; they reach the store through the proxy."""

    def __init__(self, home, url):
        self.home, self.folder = home, home.folder
        self.process = subprocess.Popen(
            [sys.executable, str(PUBLISHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": url},
        )

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def start(self, log, count):
        root = f"s3://{self.home.bucket}/some/plans"
        return int(self.ask(f"{root} {self.folder}/keys ticks {self.folder / log} {count} 0"))

    def reap(self):
        assert self.ask("") == "reaped"

    def told(self, log):
        path = self.folder / log
        return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.fixture
def publishers(home, proxy):
    made = Publishers(home, proxy.url)
    yield made
    made.process.stdin.close()
    made.process.wait()
    made.process.stdout.close()


class TestProcesses:
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_killed_at_every_request(self, home, proxy, publishers, when):
        """SIGKILL, before or after the server has acted on the first, second, ... request."""
        home.publish(home.direct, "first")
        seen = []
        for step in range(1, 20):
            newest = home.direct.newest("ticks")
            done, started, child = len(proxy.requests), threading.Event(), []

            def kill():
                started.wait(60)  # noqa: B023
                os.kill(child[0], signal.SIGKILL)  # noqa: B023
                return "cut"

            def fault(number, request):
                if number == done + step:  # noqa: B023
                    seen.append(request.split()[0])
                    return kill() if when == "before" else kill  # noqa: B023
                return None

            proxy.fault = fault
            child.append(publishers.start(f"log-{step}", count=1))
            started.set()
            publishers.reap()
            told = publishers.told(f"log-{step}")
            versions = home.direct.versions("ticks")
            assert versions == tuple(range(1, versions[-1] + 1))
            # The manifest is the fourth request: with it, and only with it, the version is there.
            published = step > 4 or (step == 4 and when == "after")
            assert versions[-1] == newest + published
            assert home.direct.load("ticks").manifest.version == versions[-1]
            assert home.direct.verify("ticks").ok
            assert home.publish(home.direct, f"next {step}").version == versions[-1] + 1
            if step > len(PUBLICATION):
                assert told == [newest + 1]
                break
            assert told == []
        assert seen == PUBLICATION
        assert not home.direct.history("ticks").broken

    @pytest.mark.slow
    def test_racing_publishers_share_no_version_and_lose_none(self, home, publishers):
        logs = [f"log-{i}" for i in range(RACERS)]
        for log in logs:
            publishers.start(log, count=EACH)
        publishers.reap()
        told = [publishers.told(log) for log in logs]
        assert [len(versions) for versions in told] == [EACH] * RACERS
        assert all(versions == sorted(versions) for versions in told)
        every = list(range(1, RACERS * EACH + 1))
        assert sorted(sum(told, [])) == every == list(home.direct.versions("ticks"))
        found = home.direct.history("ticks")
        assert not found.broken
        assert [m.parent for m in found] == [*every[-2::-1], None]
        assert home.direct.verify("ticks").ok
