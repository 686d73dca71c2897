"""Nodes on the plan API: plans over HTTP, statuses back, and both on the Plans page."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

pytestmark = pytest.mark.airflow

API = "/headgate/api/streams/ticks"
AT = "2026-01-03T00:00:00Z"


@pytest.fixture(scope="module")
def app(repository):
    """Airflow's API server with the plugin."""
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb

    initdb()
    return create_app(apps="core")


@pytest.fixture(scope="module")
def server(app):
    from fastapi.testclient import TestClient

    with TestClient(app, base_url="http://testserver") as client:
        yield client


@pytest.fixture(scope="module")
def address(app):
    """Return where uvicorn serves the application, in a thread of this process."""
    import uvicorn

    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on")
    uvicorn_server = uvicorn.Server(config)
    thread = threading.Thread(target=uvicorn_server.run)
    thread.start()
    until(lambda: uvicorn_server.started)
    (socket,) = uvicorn_server.servers[0].sockets
    yield f"http://127.0.0.1:{socket.getsockname()[1]}/headgate/api"
    uvicorn_server.should_exit = True
    thread.join()


def until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def token(name: str, role: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=name, role=role))


def as_user(name: str, role: str = "viewer", **headers: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(name, role)}", **headers}


def body(node: str, **said) -> bytes:
    from planning.artifacts import Status
    from planning.artifacts.status import encode

    return encode(Status(node=node, stream=said.pop("stream", "ticks"), at=AT, **said))


def page_of(server, path: str = "/headgate/streams/ticks") -> str:
    answer = server.get(path, headers=as_user("reader", Accept="text/html"))
    assert answer.status_code == 200, answer.text
    return " ".join(answer.text.split())


def publish_again(home) -> int:
    from planning.artifacts import SigningKey

    told = home.store().rollback(
        "ticks", 1, signer=SigningKey.load(home.keys), created_at="2026-01-05T00:00:00Z", reason=""
    )
    return told.version


def test_a_client_follows_the_plan_api_and_the_page_shows_it(app, address, server, home, tmp_path):
    from planning.artifacts import TrustedKeys
    from planning.runtime import PlanClient

    with PlanClient(
        address, "ticks", trusted=TrustedKeys.load(home.keys), node="edge-9",
        token=lambda: token("edge-9", "viewer"), memory=tmp_path / "memory", poll_interval_s=0.05,
    ) as client:  # fmt: skip
        until(lambda: client.version == 2)
        until(lambda: "edge-9 runs version 2" in page_of(server))
        publish_again(home)
        until(lambda: client.version == 3)
        until(lambda: "edge-9 runs version 3" in page_of(server))
        (home.plans / "ticks" / "versions" / "00000004.json").write_bytes(b"rot")
        until(lambda: client.refused)
        refusal = "edge-9 refuses version 4"
        until(lambda: refusal in page_of(server))
        assert (client.version, client.status().report_error) == (3, "")
    assert "0 of 3 nodes run version 4; edge-9 refuses version 4: " in page_of(server)
    listed = server.get(f"{API}/nodes", headers=as_user("reader")).json()
    assert [node["node"] for node in listed] == ["edge-1", "edge-2", "edge-9"]
    assert "not a manifest" in listed[2]["refused"]["4"]


def test_a_wrong_token_is_said_and_changes_nothing(address, home, tmp_path):
    from planning.artifacts import TrustedKeys
    from planning.runtime import PlanClient

    client = PlanClient(
        address, "ticks", trusted=TrustedKeys.load(home.keys), token="wrong", node="edge-9",
        memory=tmp_path / "memory",
    )  # fmt: skip
    assert not client.poll()
    assert "answered 401" in client.status().problem
    assert "401" in client.status().report_error
    assert not (home.plans / "ticks" / "nodes" / "edge-9.json").exists()


def test_latest_waits_without_a_thread_until_there_is_news(app, home):
    """More requests wait at once than the server has worker threads."""
    import anyio.to_thread
    from headgate_airflow import plan_api
    from httpx import ASGITransport, AsyncClient

    async def run() -> None:
        waiting = int(anyio.to_thread.current_default_thread_limiter().total_tokens) + 20
        inside = ASGITransport(app)
        async with AsyncClient(transport=inside, base_url="http://testserver") as client:
            first = await client.get(f"{API}/latest", headers=as_user("reader"))
            assert first.headers["Headgate-Version"] == "2"
            known = as_user("reader", **{"If-None-Match": first.headers["ETag"]})
            assert (await client.get(f"{API}/latest?wait=0.1", headers=known)).status_code == 304
            asked = [
                asyncio.create_task(client.get(f"{API}/latest?wait=60", headers=known, timeout=60))
                for _ in range(waiting)
            ]
            streams = plan_api._watch()._streams
            while "ticks" not in streams or streams["ticks"].waiting < waiting:
                await asyncio.sleep(0.01)
            # Routes with a thread of their own are still answered.
            assert not any(task.done() for task in asked)
            versions = await client.get(f"{API}/versions", headers=as_user("reader"), timeout=20)
            assert versions.json() == [1, 2]
            publish_again(home)
            answers = await asyncio.gather(*asked)
            assert {answer.headers["Headgate-Version"] for answer in answers} == {"3"}
            assert {answer.json()["version"] for answer in answers} == {3}

    asyncio.run(asyncio.wait_for(run(), 50))


def test_a_damaged_manifest_is_passed_on_as_it_is(server, home):
    (home.plans / "ticks" / "versions" / "00000003.json").write_bytes(b"rot")
    answer = server.get(f"{API}/latest", headers=as_user("reader"))
    assert (answer.status_code, answer.content) == (200, b"rot")
    assert answer.headers["Headgate-Version"] == "3"


def test_payloads_by_digest(server, home):
    manifest = server.get(f"{API}/latest", headers=as_user("reader")).json()
    for encoding, suffix in (("json", "json"), ("binary", "bin")):
        name = f"{manifest['payloads'][encoding]['digest']}.{suffix}"
        answer = server.get(f"{API}/payloads/{name}", headers=as_user("reader"))
        assert answer.content == (home.plans / "ticks" / "payloads" / name).read_bytes()
        assert "immutable" in answer.headers["Cache-Control"]
    missing = server.get(f"{API}/payloads/{64 * '0'}.bin", headers=as_user("reader"))
    assert (missing.status_code, missing.json()["error"]) == (404, "NoFile")


@pytest.mark.parametrize(
    ("name", "role", "node", "status"),
    [
        ("edge-9", "viewer", "edge-9", 204),
        ("edge-9", "viewer", "edge-1", 403),
        ("operator", "user", "edge-1", 204),
        ("boss", "admin", "edge-1", 204),
    ],
)
def test_a_user_reports_as_itself_and_an_editor_for_anyone(server, home, name, role, node, status):
    file = home.plans / "ticks" / "nodes" / f"{node}.json"
    before = file.read_bytes() if file.exists() else b""
    sent = body(node, version=1, problem="a new problem")
    answer = server.put(f"{API}/nodes/{node}", content=sent, headers=as_user(name, role))
    assert answer.status_code == status, answer.text
    assert (file.read_bytes() if file.exists() else b"") == (sent if status == 204 else before)


@pytest.mark.parametrize(
    ("node", "content", "status"),
    [
        ("edge-9", b"", 422),
        ("edge-9", b"[1]", 422),
        ("edge-9", b"\xff\xfe", 422),
        ("edge-9", body("edge-8"), 422),
        ("edge-9", body("edge-9", stream="orders"), 422),
        ("..", body("edge-9"), 404),
        ("edge-9", b" " * (16 * 2**20 + 1), 413),
    ],
    ids=["empty", "list", "not UTF-8", "other node", "other stream", "path", "too large"],
)
def test_a_wrong_report_is_refused(server, home, node, content, status):
    before = sorted(path.name for path in (home.plans / "ticks" / "nodes").iterdir())
    answer = server.put(f"{API}/nodes/{node}", content=content, headers=as_user("boss", "admin"))
    assert answer.status_code == status, answer.text
    assert sorted(path.name for path in (home.plans / "ticks" / "nodes").iterdir()) == before
    assert server.put(f"{API}/nodes/{node}", content=content).status_code in (401, 404)


def test_the_page_shows_impossible_values_and_escapes_them(server, home):
    folder = home.plans / "ticks" / "nodes"
    evil = "<script>alert(1)</script>"
    strange = [
        {"version": 10**300, "counters": {"kept": 10**400, "offered": 1, evil: evil}},
        {"load": {evil: 1e308}, "heartbeat_s": 1e308, "clock_skew_s": -1e308},
        {"at": "0001-01-01T00:00:00Z", "since": "9999-12-31T23:59:59Z"},
        {"problem": evil, "problem_since": "9999-12-31T23:59:59Z", "error": evil},
        {"refused": {"-7": "x", str(10**30): evil}, "counters": {"kept": "many", "offered": 0}},
        {"version": -1},
        {"load": "full"},
        {"refused": {"seven": "x"}},
    ]
    for i, said in enumerate(strange):
        text = json.dumps({"node": f"odd-{i}", "at": AT, **said})
        (folder / f"odd-{i}.json").write_text(text)
    (folder / "odd-9.json").write_bytes(b"{")
    page = page_of(server)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    for i in (*range(len(strange)), 9):
        assert f"odd-{i}" in page
    assert page.count("has no readable status: ") >= 4
    assert "<script>alert" not in page_of(server, "/headgate/")
    listed = server.get(f"{API}/nodes", headers=as_user("reader"))
    assert [node["node"] for node in listed.json() if "odd" in node["node"]] == [
        f"odd-{i}" for i in range(5)
    ]


def test_a_folder_of_nodes_that_cannot_be_listed_hides_no_plan(server, home):
    import shutil

    folder = home.plans / "ticks" / "nodes"
    shutil.rmtree(folder.path)
    folder.write_text("no folder")
    assert "The nodes cannot be listed." in page_of(server)
    assert "cannot be listed" in page_of(server, "/headgate/")
