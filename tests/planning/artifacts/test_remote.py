"""A client against a server that does everything wrong: it says what, keeps its plan, recovers."""

from __future__ import annotations

import re
import time

import pytest

from benchmarks.faults import FAULTS, Authority, Fault, FaultyServer
from planning.artifacts import SigningKey, Store, TrustedKeys, remote
from planning.artifacts.remote import Remote
from planning.errors import InvalidInput, StoreError
from planning.examples import demo_plan
from planning.runtime import PlanClient

TOKEN = "a-secret-that-must-not-go-elsewhere"


@pytest.fixture(scope="module")
def signer(tmp_path_factory):
    return SigningKey.load_or_create(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def publish(tmp_path, signer):
    """Publish a version of ``ticks`` (or of another stream)."""
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))

    def publish(stream="ticks"):
        return store.publish(
            stream, demo_plan("sifter"), family="sifter", signer=signer,
            created_at="2026-01-02T03:04:05Z",
        ).version  # fmt: skip

    for _ in range(2):
        publish("other")
    publish()
    return publish


@pytest.fixture
def server(tmp_path, publish):
    with FaultyServer(tmp_path / "plans") as server:
        yield server


@pytest.fixture
def follow(tmp_path, signer):
    """Make a client with short limits."""

    def follow(server, clock=time.time, **options):
        reader = Remote(
            server.url, TrustedKeys.of(signer), token=TOKEN, timeout_s=0.4, wait_s=0.2, clock=clock
        )
        return PlanClient(reader, "ticks", node="edge-7", memory=False, clock=clock, **options)

    return follow


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_the_plan_stays_until_it_ends(name, server, follow, publish):
    fault = FAULTS[name]
    client = follow(server)
    assert client.poll()
    publish()
    if name == "an older version":
        assert client.poll()
    before = client.version
    with FaultyServer(server.root) as elsewhere:
        server.elsewhere = elsewhere.url
        server.fault = fault
        assert not client.poll()
        assert not elsewhere.requests
    status = client.status()
    assert re.search(fault.said, status.problem), status.problem
    assert TOKEN not in status.problem
    assert (status.version, status.state) == (before, "in force")
    assert status.problem_since is not None
    assert not client.poll()
    assert client.status().problem_since == status.problem_since
    server.fault = None
    publish()
    assert client.poll()
    status = client.status()
    assert (status.version, status.problem, status.problem_since) == (3, "", None)


def test_another_streams_plan_is_refused_with_its_reason(server, follow, publish):
    client = follow(server)
    client.poll()
    publish()
    server.fault = FAULTS["another stream"]
    client.poll()
    [(version, reason)] = client.status().refused.items()
    assert version == 2
    assert "is the manifest of other version 2" in reason


def test_a_newest_version_that_is_not_there_is_refused_and_the_others_are_taken(
    server, follow, publish
):
    client = follow(server)
    client.poll()
    publish()

    def lie(handler, server):
        good = server.good(handler.path, handler.headers)
        said = {"Headgate-Version": "7"} if "ETag" in good.headers else {}
        handler.answer(good._replace(headers=good.headers | said))

    server.fault = Fault("", lie)
    assert client.poll()
    status = client.status()
    assert status.version == 2
    assert "versions/7 is the manifest of ticks version 2" in status.refused[7]
    assert status.problem == status.refused[7]
    server.fault = None
    client.store._latest.clear()
    client.poll()
    assert client.status().problem == ""


def test_a_plan_that_was_changed_on_the_way_is_refused(server, follow, publish):
    client = follow(server)
    client.poll()
    publish()
    [payload] = (server.root / "ticks/payloads").glob("*.bin")
    payload.write_bytes(payload.read_bytes()[:-1] + b"?")
    client.poll()
    assert "does not match the digest" in client.status().refused[2]
    assert client.version == 1


def test_an_answer_that_never_changes_is_found_out(server, follow, publish, monkeypatch):
    client = follow(server)
    client.poll()
    publish()
    server.fault = Fault(
        "",
        lambda handler, server: handler.answer(
            server.good(handler.path, handler.headers)._replace(code=304, body=b"")
        ),
    )
    assert not client.poll()
    assert client.status().problem == ""  # nothing tells it from a stream that rests
    monkeypatch.setattr(remote, "RENEW_S", 0.0)
    assert not client.poll()
    assert "answered 304 to a request without a condition" in client.status().problem
    server.fault = None
    assert client.poll()


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_off_is_measured(hours, server, follow, publish):
    client = follow(server, clock=lambda: time.time() + 3600 * hours)
    assert client.poll()
    assert abs(client.status().clock_skew_s - 3600 * hours) < 5
    publish()
    assert client.poll()


def test_a_clock_that_is_right_is_not_complained_about(server, follow):
    client = follow(server)
    client.poll()
    assert client.status().clock_skew_s == 0


def test_a_server_that_does_not_wait_is_not_asked_again_at_once(server, follow):
    server.fault = Fault(
        "",
        lambda handler, server: handler.answer(
            server.good(handler.path.partition("?")[0], handler.headers)
        ),
    )
    with follow(server, poll_interval_s=30.0) as client:
        while len(server.requests) < 4:  # newest, versions, plan, and the wait
            time.sleep(0.01)
        time.sleep(0.5)
    assert len(server.requests) == 4
    assert client.version == 1


def test_a_stop_does_not_wait_for_news(server, follow):
    client = follow(server)
    client.store.wait_s = 25.0
    server.fault = Fault(
        "",
        lambda handler, server: (
            time.sleep(3)
            if "wait" in handler.path
            else handler.answer(server.good(handler.path, handler.headers))
        ),
    )
    client.start()
    threads = client._threads
    while not any("wait" in path for path, _ in server.requests):
        time.sleep(0.01)
    client.stop()
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize(
    ("host", "days", "said"),
    [
        ("localhost", -1, "certificate has expired"),
        ("plans.example", 1, "Hostname mismatch, certificate is not valid for 'localhost'"),
    ],
)
def test_certificates(host, days, said, tmp_path, follow, publish, monkeypatch):
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    with FaultyServer(tmp_path / "plans", authority.issue("localhost")) as server:
        client = follow(server)
        assert client.poll()
        publish()
        with FaultyServer(tmp_path / "plans", authority.issue(host, days)) as bad:
            good_port, client.store._port = client.store._port, int(bad.url.rpartition(":")[2])
            assert not client.poll()
            assert not bad.requests
        status = client.status()
        assert said in status.problem
        assert "see to the server's certificate" in status.problem
        assert (status.version, status.state) == (1, "in force")
        client.store._port = good_port
        assert client.poll()
        assert client.status().problem == ""


def test_an_unknown_authority_is_not_trusted(tmp_path, follow, publish):
    with FaultyServer(tmp_path / "plans", Authority(tmp_path).issue("localhost")) as server:
        client = follow(server)
        assert not client.poll()
        assert not server.requests
        assert "unable to get local issuer certificate" in client.status().problem


@pytest.mark.parametrize(
    "url",
    ["http://", "https://me:secret@plans.example", "http://plans.example:port", "http://a/?b=c"],
)
def test_an_address_that_is_none(url):
    with pytest.raises(InvalidInput, match="url must") as raised:
        Remote(url)
    assert "secret" not in str(raised.value)


def test_a_name_that_nobody_has():
    with pytest.raises(StoreError, match="cannot be read"):
        Remote("http://nobody.invalid").versions("ticks")


def test_a_token_is_asked_for_every_time_and_never_shown(server, signer):
    tokens = iter(["first\n", "second", "not a\nheader"])
    reader = Remote(server.url, TrustedKeys.of(signer), token=lambda: next(tokens))
    reader.versions("ticks")
    reader.versions("ticks")
    sent = [headers["Authorization"] for _, headers in server.requests]
    assert sent == ["Bearer first", "Bearer second"]
    with pytest.raises(InvalidInput, match="token must be printable") as raised:
        reader.versions("ticks")
    assert "not a" not in str(raised.value)
