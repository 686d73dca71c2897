"""A plan server that can be told to answer wrongly, in every way that a network knows."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DRIP_S = 0.02


class Answer(NamedTuple):
    """What is sent."""

    code: int
    headers: dict[str, str]
    body: bytes


class FaultyServer:
    """Serves the streams below a folder; independent of what it tests, except for the layout."""

    def __init__(self, root: Path, certificate: Path | None = None) -> None:
        self.root = root
        self.fault: Fault | None = None
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.elsewhere = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{'https' if certificate else 'http'}://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> FaultyServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def good(self, path: str, headers: Any) -> Answer:
        """Return the right answer."""
        path, _, query = path.partition("?")
        _, _, stream, part, *rest = path.split("/")
        folder = self.root / stream
        numbers = sorted(int(file.stem) for file in folder.glob("versions/*.json"))
        if part == "versions" and not rest:
            return Answer(200, {}, json.dumps(numbers).encode())
        if part == "payloads":
            return Answer(200, {}, (folder / part / rest[0]).read_bytes())
        version = int(rest[0]) if rest else numbers[-1]
        body = (folder / f"versions/{version:08d}.json").read_bytes()
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        common = {"ETag": tag, "Headgate-Version": str(version)}
        if headers["If-None-Match"] == tag:
            time.sleep(min(1.0, float(query.removeprefix("wait=") or 0)))
            return Answer(304, common, b"")
        return Answer(200, common, body)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                self.close_connection = True
                with suppress(OSError, ValueError):
                    if server.fault is None:
                        self.answer(server.good(self.path, self.headers))
                    else:
                        server.fault.answer(self, server)

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(Answer(204, {}, b""))

            def answer(self, answer: Answer) -> None:
                self.send_response(answer.code)
                headers = {"Content-Length": str(len(answer.body)), **answer.headers}
                for name, value in headers.items():
                    if value:
                        self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class Fault(NamedTuple):
    """A fault, and how a status speaks of it."""

    said: str
    answer: Callable[[Any, FaultyServer], None]


def _changed(change: Callable[[Answer, FaultyServer], Answer]) -> Callable[..., None]:
    """Return a fault that changes the right answer."""

    def answer(handler: Any, server: FaultyServer) -> None:
        handler.answer(change(server.good(handler.path, handler.headers), server))

    return answer


def _always(code: int, body: bytes = b"", **headers: str) -> Callable[..., None]:
    return _changed(lambda good, server: Answer(code, headers, body))


def _newest(**changes: Callable[[Answer, FaultyServer], str]) -> Callable[..., None]:
    """Return a fault that changes headers of the answer to which version is newest."""

    def change(good: Answer, server: FaultyServer) -> Answer:
        if "ETag" not in good.headers:
            return good
        made = {name.replace("_", "-"): make(good, server) for name, make in changes.items()}
        return good._replace(headers=good.headers | made)

    return _changed(change)


def _raw(*parts: bytes, drip: bool = False) -> Callable[..., None]:
    def answer(handler: Any, server: FaultyServer) -> None:
        for part in parts:
            handler.wfile.write(part)
            handler.wfile.flush()
            if drip:
                time.sleep(DRIP_S)

    return answer


def _giant(handler: Any, server: FaultyServer) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    for _ in range(64):
        handler.wfile.write(b" " * 2**20)


def _other_stream(handler: Any, server: FaultyServer) -> None:
    handler.answer(server.good(handler.path.replace("/ticks/", "/other/"), handler.headers))


def _older(handler: Any, server: FaultyServer) -> None:
    if re.search("/latest", handler.path):
        handler.path = "/streams/ticks/versions/1"
    handler.answer(server.good(handler.path, {"If-None-Match": None}))


def _elsewhere(good: Answer, server: FaultyServer) -> Answer:
    return Answer(302, {"Location": f"{server.elsewhere}/streams/ticks/latest"}, b"")


PAGE = b"<!doctype html><title>Sign in</title>"
HEAD = b"HTTP/1.1 200 OK\r\nHeadgate-Version: 9\r\n"
DRIPPED = [bytes([byte]) for byte in HEAD + b"X-Slow: " + b"." * 5000]
WHOLE = r"cannot be read \(.*; check the address, and that the server is up"
FAULTS = {
    "another server": Fault("answered 404; check the address", _always(404, PAGE)),
    "a page with 200": Fault(
        "got text/html without Headgate-Version", _always(200, PAGE, Content_Type="text/html")
    ),
    "wrong token": Fault("answered 401; this node's token is missing, wrong or", _always(401)),
    "token of another stream": Fault("answered 403; this node's token is not for", _always(403)),
    "500": Fault("answered 500; the server has a problem", _always(500)),
    "503": Fault("answered 503; the server has a problem", _always(503)),
    "redirect elsewhere": Fault("redirects to .* which is not followed", _changed(_elsewhere)),
    "half an answer": Fault(
        r"was answered with \d+ of 99999 bytes",
        _changed(lambda good, _: good._replace(headers=good.headers | {"Content-Length": "99999"})),
    ),
    "chunks that break off": Fault(
        WHOLE, _raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n40\r\nhalf")
    ),
    "head that drips": Fault("did not come whole in time", _raw(*DRIPPED, drip=True)),
    "body that drips": Fault(
        "did not come whole in time",
        _raw(HEAD + b"Content-Length: 5000\r\n\r\n", *DRIPPED, drip=True),
    ),
    "silence": Fault("did not come whole in time", lambda handler, server: time.sleep(3)),
    "hangs up": Fault(WHOLE, _raw()),
    "another protocol": Fault(WHOLE, _raw(b"SSH-2.0-OpenSSH_9.2\r\n")),
    "giant header": Fault(WHOLE, _raw(HEAD + b"X: " + b"." * 100_000 + b"\r\n\r\n")),
    "giant body": Fault("at most 16777216 bytes, got more", _giant),
    "compressed": Fault(
        "must be answered unchanged, got 'gzip'", _newest(Content_Encoding=lambda *_: "gzip")
    ),
    "wrong tag": Fault("is not the SHA-256 of its content", _newest(ETag=lambda *_: '"abc"')),
    "no tag": Fault("is not the SHA-256 of its content", _newest(ETag=lambda *_: "")),
    "old tag for a new body": Fault(
        "is not the SHA-256 of its content",
        _newest(
            ETag=lambda _, server: server.good(
                "/streams/ticks/versions/1", {"If-None-Match": None}
            ).headers["ETag"]
        ),
    ),
    "version that is none": Fault(
        "without Headgate-Version", _newest(Headgate_Version=lambda *_: "-7")
    ),
    "another stream": Fault("is the manifest of other version 2", _other_stream),
    "an older version": Fault("has gone back from version 2 of ticks to 1", _older),
}  # fmt: skip


class Authority:
    """A certificate authority for tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headgate tests")])
        made = self._certificate(self.name, self.key, x509.BasicConstraints(True, None), 1)
        self.path = folder / "authority.pem"
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, host: str, days: int = 1) -> Path:
        """Write a key and a certificate; with negative days, it has ended."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName(
            [x509.DNSName(host), x509.IPAddress(ip_address("127.0.0.2"))]
        )
        made = self._certificate(name, key, names, days)
        path = self.folder / f"{host}{days}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        return path

    def _certificate(
        self, name: x509.Name, key: Any, extension: x509.ExtensionType, days: int
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self.name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=10),
            not_valid_after=now + timedelta(days=days),
        )
        return builder.add_extension(extension, critical=name == self.name).sign(
            self.key, hashes.SHA256()
        )


def main(root: str, *certificate: str) -> None:
    """Serve in a process of its own; every line of the input names the fault from then on."""
    with FaultyServer(Path(root), *map(Path, certificate)) as server:
        server.elsewhere = server.url
        print(server.url, flush=True)
        for line in sys.stdin:
            server.fault = FAULTS.get(line.strip())
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
