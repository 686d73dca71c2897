"""What ``headgate serve`` answers, to whom, and what it keeps to itself."""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import socket
import threading

import msgspec
import pytest

from planning.artifacts import Status, files
from planning.artifacts.status import encode

STREAM = "/streams/ticks"


def test_the_newest_manifest_byte_for_byte(shared):
    place, server = shared
    code, headers, body = server.ask(f"{STREAM}/latest", place.node)
    newest = place.store.newest("ticks")
    assert (code, body) == (200, place.store.manifest_path("ticks", newest).read_bytes())
    assert headers["Headgate-Version"] == str(newest)
    assert headers["ETag"] == f'"{hashlib.sha256(body).hexdigest()}"'
    assert headers["Cache-Control"] == "private, no-cache"
    for known in (headers["ETag"], f"W/{headers['ETag']}", f'"x", {headers["ETag"]}', "*"):
        assert server.ask(f"{STREAM}/latest", place.node, If_None_Match=known)[::2] == (304, b"")
    assert server.ask(f"{STREAM}/latest", place.node, If_None_Match='"x"')[2] == body


def test_versions_and_plans(shared):
    place, server = shared
    versions = json.loads(server.ask(f"{STREAM}/versions", place.node)[2])
    assert versions == list(place.store.versions("ticks"))
    manifest = place.store.manifest("ticks", versions[0])
    code, _, body = server.ask(f"{STREAM}/versions/{versions[0]}", place.node)
    assert (code, body) == (200, place.store.manifest_bytes("ticks", versions[0]))
    for encoding, suffix in (("binary", "bin"), ("json", "json")):
        digest = manifest.payloads.of(encoding).digest
        address = f"{STREAM}/payloads/{digest}.{suffix}"
        code, headers, body = server.ask(address, place.node)
        assert (code, hashlib.sha256(body).hexdigest()) == (200, digest)
        assert headers["Cache-Control"] == "private, max-age=31536000, immutable"
        assert server.ask(address, place.node, If_None_Match=headers["ETag"])[0] == 304


@pytest.mark.parametrize(
    ("path", "code", "kind"),
    [
        ("/versions/99", 404, "NoFile"),
        (f"/payloads/{'0' * 64}.bin", 404, "NoFile"),
        ("/versions/one", 422, "InvalidInput"),
        ("/versions/0", 422, "InvalidInput"),
        (f"/versions/{'9' * 400}", 422, "InvalidInput"),
        ("/payloads/..%2f..%2f..%2ftokens.json", 404, None),
        ("/payloads/tokens.json", 422, "InvalidInput"),
        ("/latest?wait=soon", 422, "Mistake"),
        ("/latest?wait=nan", 422, "Mistake"),
        ("/latest?wait=-1", 422, "Mistake"),
        ("/latest/", 404, None),
        ("/", 404, None),
    ],
)
def test_what_is_not_there_or_not_asked_well(shared, path, code, kind):
    place, server = shared
    got, _, body = server.ask(f"{STREAM}{path}", place.node)
    assert got == code
    assert kind is None or json.loads(body)["error"] == kind
    assert str(place.folder).encode() not in body


def test_nothing_published_yet(shared):
    place, server = shared
    code, _, body = server.ask("/streams/fleet-1/latest", place.other)
    assert (code, json.loads(body)) == (404, {"error": "NoPlan", "detail": "nothing is published"})
    code, _, body = server.ask("/streams/fleet-1/latest?wait=0.2", place.other)
    assert (code, json.loads(body)["error"]) == (404, "NoPlan")
    told = json.loads(server.ask("/streams/fleet-1/latest", place.operator)[2])["detail"]
    assert str(place.store.root) in told


def test_a_damaged_manifest_is_passed_on(place):
    place.publish()
    place.store.manifest_path("ticks", 2).write_bytes(b"half a manif")
    with place.serving() as server:
        assert server.ask(f"{STREAM}/latest", place.node)[2] == b"half a manif"
        place.store.manifest_path("ticks", 2).unlink()
        place.store.manifest_path("ticks", 2).mkdir()
        code, headers, body = server.ask(f"{STREAM}/latest", place.node)
        assert (code, headers["Headgate-Version"], body) == (200, "2", b"")
        [payload] = place.store.folder("ticks", "payloads").glob("*.bin")
        payload.write_bytes(b"changed")
        code, headers, body = server.ask(f"{STREAM}/payloads/{payload.name}", place.node)
        assert (code, body, headers["Cache-Control"]) == (200, b"changed", "no-store")


def test_health_says_nothing(shared):
    _, server = shared
    code, _, body = server.ask("/health")
    assert (code, body) == (200, b"")


PATHS = [
    (method, f"/streams/{stream}/{part}")
    for stream in ("ticks", "nobody", "..", "%00")
    for method, part in (
        ("GET", "latest?wait=30"), ("GET", "versions"), ("GET", "versions/1"),
        ("GET", "versions/9"), ("GET", f"payloads/{'0' * 64}.bin"), ("GET", "nodes"),
        ("PUT", "nodes/edge-7"), ("DELETE", "latest"), ("GET", "nothing"),
    )
]  # fmt: skip


@pytest.mark.parametrize("token", [None, "", "wrong", "Ä", "x" * 5000])
def test_without_a_token_everything_looks_the_same(shared, token):
    _, server = shared
    if token == "Ä":
        token = "Ä".encode().decode("latin-1")
    answers = set()
    for method, path in [*PATHS, ("GET", "/"), ("GET", "/docs")]:
        code, headers, body = server.ask(path, token, method)
        kept = [(name, value) for name, value in headers.items() if name != "date"]
        answers.add((code, str(kept), body))
    [(code, headers, body)] = answers
    assert code == 401
    assert "('www-authenticate', 'Bearer')" in headers
    assert (
        body == b'{"error":"Unauthorized","detail":"send a valid token as Authorization: Bearer"}'
    )


def test_with_another_streams_token_everything_looks_the_same(shared):
    place, server = shared
    answers = {
        (code, body)
        for code, _, body in (server.ask(path, place.other, method) for method, path in PATHS)
    }
    assert answers == {(403, b'{"error":"Forbidden","detail":"this token is not for this"}')}


def test_a_token_is_not_taken_from_elsewhere(shared):
    place, server = shared
    assert server.ask(f"{STREAM}/latest?token={place.node}")[0] == 401
    assert server.ask(f"{STREAM}/latest", Authorization=f"Basic {place.node}")[0] == 401
    assert server.ask(f"{STREAM}/latest", Authorization=f"bearer  {place.node}")[0] == 200


def status(**changes):
    fields = {"node": "edge-7", "stream": "ticks", "at": "2026-01-02T03:04:05Z", "version": 1}
    return Status(**fields | changes)


def test_a_status_arrives_and_operators_see_it(shared):
    place, server = shared
    sent = status(refused={2: "its signature does not match"}, counters={"kept": 3}, age_s=77.0)
    code, _, body = server.ask(f"{STREAM}/nodes/edge-7", place.node, "PUT", encode(sent))
    assert (code, body) == (204, b"")
    [stored] = place.store.nodes("ticks")
    assert (stored.refused, stored.counters) == (sent.refused, sent.counters)
    code, _, body = server.ask(f"{STREAM}/nodes", place.operator)
    [told] = msgspec.json.decode(body, type=list[Status])
    assert code == 200
    assert msgspec.structs.replace(told, age_s=0) == msgspec.structs.replace(sent, age_s=0)
    assert told.age_s < 60
    assert server.ask(f"{STREAM}/nodes", place.node)[0] == 403


@pytest.mark.parametrize(
    ("node", "body", "code"),
    [
        ("edge-8", encode(status(node="edge-8")), 403),
        ("edge-7", encode(status(node="edge-8")), 422),
        ("edge-7", encode(status(stream="other")), 422),
        ("edge-7", encode(status(stream=None)), 422),
        ("edge-7", b"", 422),
        ("edge-7", b"[" * 100_000, 422),
        ("edge-7", b'{"node":"edge-7","stream":"ticks","at":"yesterday"}', 422),
        ("edge-7", b" " * (files.SMALL_BYTES + 1), 413),
    ],
)
def test_a_status_that_is_not_taken(shared, node, body, code):
    place, server = shared
    before = sorted(place.store.root.rglob("*"))
    got, _, said = server.ask(f"{STREAM}/nodes/{node}", place.node, "PUT", body)
    assert got == code
    assert str(place.folder).encode() not in said
    assert [path for path in sorted(place.store.root.rglob("*")) if path not in before] == []


def test_an_operator_reports_for_nobody(shared):
    place, server = shared
    sent = encode(status(node="anna"))
    assert server.ask(f"{STREAM}/nodes/anna", place.operator, "PUT", sent)[0] == 403


def test_endless_headers_are_cut_off(shared):
    _, server = shared
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            raw.sendall(b"X-Filler: ....\r\n" * 2**20)


def test_a_store_that_is_missing_is_not_an_empty_one(place):
    with place.serving() as server:
        plans = files.local(place.store.root)
        plans.rename(plans.with_name("away"))
        for path in ("latest", "latest?wait=5", "versions", "versions/1"):
            code, _, body = server.ask(f"{STREAM}/{path}", place.node)
            assert (code, json.loads(body)["error"]) == (503, "StoreError"), path
            assert str(place.folder).encode() not in body
        sent = encode(status())
        assert server.ask(f"{STREAM}/nodes/edge-7", place.node, "PUT", sent)[0] == 503
        assert not plans.exists()
        plans.with_name("away").rename(plans)
        assert server.ask(f"{STREAM}/latest", place.node)[0] == 200


def test_waiting_ends_with_news_with_time_and_with_the_server(place):
    with place.serving() as server:
        tag = server.ask(f"{STREAM}/latest", place.node)[1]["ETag"]
        short = server.ask(f"{STREAM}/latest?wait=0.3", place.node, If_None_Match=tag)
        assert short[0] == 304
        answers = []

        def wait(path, token, **headers):
            thread = threading.Thread(
                target=lambda: answers.append(server.ask(path, token, **headers)[0])
            )
            thread.start()
            return thread

        news = wait(f"{STREAM}/latest?wait=60", place.node, If_None_Match=tag)
        first = wait("/streams/fleet-1/latest?wait=60", place.other)
        revoked = wait("/streams/other/latest?wait=60", place.other)
        place.publish()
        place.publish("fleet-1")
        news.join(20)
        first.join(20)
        assert answers == [200, 200]
        place.tokens.remove("edge-8")
        place.publish("other")
        revoked.join(20)
        assert answers == [200, 200, 401]
        tag = server.ask(f"{STREAM}/latest", place.node)[1]["ETag"]
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        headers = {"If-None-Match": tag, "Authorization": f"Bearer {place.node}"}
        connection.request("GET", f"{STREAM}/latest?wait=60", headers=headers)
        server.ask("/health")  # is answered after the other has come
        server.process.terminate()
        assert connection.getresponse().status == 304
        connection.close()
        assert server.process.wait(20) in (0, -signal.SIGTERM)


def test_prometheus_is_told_of_all_nodes_by_an_operators_token_alone(place):
    place.store.report(
        "ticks", Status(node="edge-7", at="2026-01-02T03:04:05Z", version=1, heartbeat_s=30)
    )
    some = place.tokens.add("bert", ("ticks",), "operator")
    with place.serving() as server:
        code, headers, body = server.ask("/metrics", place.operator)
        assert (code, headers.get_content_type()) == (200, "text/plain")
        assert b'headgate_node_version{node="edge-7",stream="ticks"} 1.0' in body
        assert b'headgate_node_silent{node="edge-7",stream="ticks"} 0.0' in body
        assert [server.ask("/metrics", token)[0] for token in (None, place.node, some)] == [
            401, 403, 403
        ]  # fmt: skip
