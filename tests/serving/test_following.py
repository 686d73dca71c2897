"""Plan clients that follow real servers: killed, restarted, with tokens that go, behind nginx."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time

import pytest

from benchmarks.faults import Authority
from planning.artifacts.remote import Remote
from planning.errors import StoreError
from planning.examples import demo_samples
from planning.runtime import PlanClient, RunningShedder


def until(condition, what="it"):
    """Wait until something holds; two minutes are no promise, only an end."""
    ends = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < ends, what
        time.sleep(0.02)


def following(place, url, token=None, **options):
    options = {"poll_interval_s": 0.1, "max_backoff_s": 0.3, "heartbeat_s": 0.3, **options}
    return PlanClient(
        url, "ticks", trusted=place.trusted, token=token or place.node, node="edge-7", **options
    )


def heard(place):
    """Return what the store says of the node."""
    return next(iter(place.store.nodes("ticks")), None)


def test_a_killed_server_costs_nothing(place, tmp_path):
    batch = {name: column[:1000] for name, column in demo_samples("sifter").items()}
    with place.serving() as server:
        with following(place, server.url, memory=tmp_path / "memory") as client:
            shedder = RunningShedder(client, load=0.5)
            until(lambda: client.version == 1)
            shedder.offer(batch)
            until(lambda: heard(place) and heard(place).version == 1)
            server.process.kill()
            server.process.wait()
            place.publish()
            until(lambda: client.problem, "the problem is noticed")
            kept = shedder.offer(batch)
            assert 0 < kept.sum() < 1000
            status = client.status()
            assert (status.version, status.state) == (1, "in force")
            assert "cannot be read" in status.problem
            assert status.problem_since is not None
            assert heard(place).version == 1
            with place.serving(server.port):
                until(lambda: client.version == 2)
                shedder.offer(batch)
                until(lambda: heard(place).version == 2)
                until(lambda: not heard(place).problem and not client.status().report_error)
                place.publish()  # while it waits for news
                until(lambda: client.version == 3)


def test_a_wrong_token_is_said_clearly_and_can_be_mended(place):
    token = place.folder / "token"
    token.write_text("wrong")
    with place.serving() as server:
        with following(place, server.url, token.read_text) as client:
            until(lambda: client.problem)
            status = client.status()
            assert "answered 401" in status.problem
            assert "token is missing, wrong or expired" in status.problem
            assert status.state == "waiting"
            assert heard(place) is None
            token.write_text(place.other)
            until(lambda: "answered 403" in client.problem)
            token.write_text(f"{place.node}\n")
            until(lambda: client.version == 1)


def test_a_token_that_is_removed_while_its_node_waits(place):
    with place.serving() as server:
        with following(place, server.url) as client:
            until(lambda: client.version == 1)
            place.tokens.remove("edge-7")
            place.publish()
            until(lambda: "answered 401" in client.problem)
            assert client.version == 1
            client.store.token = place.tokens.add("edge-7", ("ticks",))
            until(lambda: client.version == 2)


def test_operators_read_statuses_through_the_same_address(place):
    with place.serving() as server:
        client = following(place, server.url)
        assert client.poll()
        assert client.status().report_error == ""
        operator = Remote(server.url, place.trusted, token=place.operator)
        [status] = operator.nodes("ticks")
        assert (status.node, status.version) == ("edge-7", 1)
        assert operator.versions("ticks") == (1,)
        assert operator.load("ticks").manifest == place.store.load("ticks").manifest


def answers(reader):
    try:
        return reader.versions("ticks")
    except StoreError:
        return ()


NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        location /plans/ {{
            proxy_pass http://127.0.0.1:{backend}/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 90s;
            client_max_body_size 16m;
            gzip off;
        }}
    }}
}}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_behind_nginx_with_tls(place, monkeypatch):
    authority = Authority(place.folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with place.serving() as server:
        config = place.folder / "nginx.conf"
        config.write_text(
            NGINX.format(
                folder=place.folder, port=port, backend=server.port,
                certificate=authority.issue("localhost"),
            )
        )  # fmt: skip
        nginx = subprocess.Popen(["nginx", "-p", place.folder, "-c", config])
        try:
            url = f"https://localhost:{port}/plans"
            operator = Remote(url, place.trusted, token=place.operator)
            until(lambda: answers(operator))
            with following(place, url, poll_interval_s=30.0) as client:
                until(lambda: client.version == 1)
                time.sleep(1.0)  # waits for news by now, and would look again in half a minute
                place.publish()
                began = time.monotonic()
                until(lambda: client.version == 2)
                assert time.monotonic() - began < 20
                until(lambda: heard(place) and heard(place).version == 2)
                assert client.status().problem == ""
        finally:
            nginx.terminate()
            nginx.wait()
