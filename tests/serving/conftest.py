"""A store, tokens for it, and real ``headgate serve`` processes."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from headgate_serve.tokens import Tokens

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_plan


class Place:
    """A store with two streams, and a file of tokens."""

    def __init__(self, folder):
        self.folder = folder
        self.signer = SigningKey.load_or_create(folder / "keys")
        self.trusted = TrustedKeys.of(self.signer)
        self.store = Store(folder / "plans", self.trusted)
        self.tokens = Tokens(folder / "tokens.json")
        self.node = self.tokens.add("edge-7", ("ticks",))
        self.other = self.tokens.add("edge-8", ("other", "fleet-*"))
        self.operator = self.tokens.add("anna", ("*",), "operator")
        self.publish()

    def publish(self, stream="ticks"):
        return self.store.publish(
            stream, demo_plan("sifter"), family="sifter", signer=self.signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip

    @contextmanager
    def serving(self, port=0):
        """Run a server; it is told to stop at the end, if it still runs."""
        command = ["serve", "--store", self.store.root, "--tokens", self.tokens.path]
        process = subprocess.Popen(
            [sys.executable, "-m", "planning.cli", *map(str, command), "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("ab"),
            text=True,
        )
        try:
            url = process.stdout.readline().split()[-1]
            yield Server(url, process)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(20)
            process.stdout.close()


class Server:
    """A running server, and a plain way of asking it."""

    def __init__(self, url, process=None):
        self.url, self.process = url, process
        self.port = int(url.rpartition(":")[2])

    def ask(self, path, token=None, method="GET", body=None, **headers):
        """Return code, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return a place and a server over it that the tests of a module share."""
    place = Place(tmp_path_factory.mktemp("place"))
    with place.serving() as server:
        yield place, server
