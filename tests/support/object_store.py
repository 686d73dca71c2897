"""An S3 of our own: a moto server in its own process, and a proxy that counts and does harm.

As a program it is the server; it prints its port. moto checks an ``If-None-Match`` and writes in
two steps; one request at a time makes the two one, as they are on S3.
"""

import contextlib
import http.client
import itertools
import os
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


class Server:
    """A moto server; every ``bucket()`` is new and empty."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,  # its end is the server's, however the tests end
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self._numbers = itertools.count(1)

    def bucket(self) -> str:
        name = f"bucket-{next(self._numbers)}"
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        with urllib.request.urlopen(request):
            return name

    def keys(self, bucket: str) -> list[str]:
        """Return a bucket's keys as the server lists them (up to 1,000), past s3fs and us."""
        with urllib.request.urlopen(f"{self.url}/{bucket}?list-type=2") as answer:
            text = answer.read().decode()
        return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Proxy:
    """Stands before a server, notes each request and asks ``fault`` what to do with it.

    ``fault(number, request)``, where the request is ``"PUT /bucket/key"`` or ``"LIST
    /bucket/prefix"``, returns one of None (pass it on), ``cut`` (end the connection without passing
    it on), ``lose`` (pass it on and end the connection without the answer), ``half`` (half the
    answer's body), ``409``, ``500`` or ``503`` (an error of S3's without passing it on); or it
    returns a function, called once the server has acted, whose result is the same kind of word
    about the answer.
    """

    def __init__(self, server: Server) -> None:
        self.requests: list[str] = []
        self.fault = lambda number, request: None
        self.lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle_one_request()

            def relay(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path, _, query = self.path.partition("?")
                asked = urllib.parse.parse_qs(query)
                request = f"{self.command} {path}"
                if "list-type" in asked:
                    request = f"LIST {path}/{asked.get('prefix', [''])[0]}"
                with proxy.lock:
                    proxy.requests.append(request)
                    number = len(proxy.requests)
                action = proxy.fault(number, request)
                if action == "cut":
                    return self.hang_up()
                if action in CODES:
                    error = ERROR.format(code=CODES[action]).encode()
                    return self.answer(int(action), [], error)
                there = http.client.HTTPConnection("127.0.0.1", server.port)
                there.request(self.command, self.path, body, dict(self.headers))
                told = there.getresponse()
                content = told.read()
                there.close()
                if callable(action):
                    action = action()
                if action == "lose":
                    return self.hang_up()
                self.answer(told.status, told.getheaders(), content, half=action == "half")

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = relay

            def answer(self, status, headers, content, half=False) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                length = len(content)
                if self.command == "HEAD":
                    length = next((v for n, v in headers if n.lower() == "content-length"), 0)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(content[: length // 2] if half else content)
                if half:
                    self.hang_up()

            def hang_up(self) -> None:
                self.wfile.flush()
                self.close_connection = True

            def log_message(self, *_) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_) -> None:
                """A client that died is what is tested here."""

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @contextlib.contextmanager
    def counted(self):
        """Collect the requests made inside, as ``"PUT /bucket/key"``."""
        before = len(self.requests)
        found: list[str] = []
        yield found
        found.extend(self.requests[before:])

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


CODES = {"409": "ConditionalRequestConflict", "500": "InternalError", "503": "SlowDown"}
ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>"


def main() -> None:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        protocol_version = "HTTP/1.1"  # clients keep their connections

        def log_request(self, *_) -> None:
            pass

    application = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()

    def one_at_a_time(environment, start_response):
        with turn:
            return list(application(environment, start_response))

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=Quiet)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
