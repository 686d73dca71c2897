"""Published plans over HTTP: from the plan API in Airflow, or from ``headgate serve``.

An answer is believed as little as a file in a store: the same signatures and digests decide. Every
read is bounded in size and time, and redirects are not followed. What is asked again and again,
which version is newest, is a conditional request that the server answers when there is news.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

import msgspec

from planning.artifacts import files, status
from planning.artifacts.listing import Listing
from planning.artifacts.manifest import Encoding, Manifest, Payload
from planning.artifacts.reading import SUFFIX, Reader, check_stream
from planning.artifacts.signing import TrustedKeys, Unverified
from planning.artifacts.status import Status
from planning.errors import InvalidInput, NoPlan, StoreError

Token: TypeAlias = "str | Callable[[], str]"
VERSION_HEADER = "Headgate-Version"
TIMEOUT_S = 10.0  # for a whole answer, beyond what it may wait for news
WAIT_S = 25.0  # shorter than the idle timeouts of common proxies
RENEW_S = 600.0  # an answer that never changes is asked for anew after this long
SKEW_S = 5.0  # a clock that is less off is as good as right: answers take time
LOOK_S = 0.25  # between two looks at whether a wait shall end
CHUNK = 1 << 16
ERROR_BYTES = 4096
GOOD = (200, 204, 304)
MOST_VERSIONS = 10_000
HIGHEST_VERSION = 10**15


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, read whole."""

    code: int
    headers: Any
    body: bytes


class Remote(Reader):
    """Published plans below one address, for those who only read them.

    Parameters
    ----------
    url
        ``https://plans.example`` of a ``headgate serve``, or
        ``https://airflow.example/headgate/api`` of a plan API.
    trusted
        The keys whose signatures are accepted, as for every :class:`Reader`.
    token
        A text, or a function that returns a fresh one; it is asked before every request.
        Neither it nor a plan goes anywhere but to and from ``url``.
    timeout_s, wait_s
        Limits of an answer, and how long the server may wait for news.
    """

    patience_s = 1.0

    def __init__(
        self,
        url: str,
        trusted: TrustedKeys | Unverified | None = None,
        *,
        token: Token | None = None,
        timeout_s: float = TIMEOUT_S,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            host, self._port = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidInput(f"url must be an address: {error}") from None
        if not host or parts.username is not None or parts.query or parts.fragment:
            raise InvalidInput("url must name a host, and no user, query or fragment")
        self.root = url.rstrip("/")  # type: ignore[assignment]
        self._host = host
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.trusted = TrustedKeys.of() if trusted is None else trusted
        self.token = token
        self.timeout_s = timeout_s
        self.wait_s = wait_s
        self.clock = clock
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self._latest: dict[str, tuple[str, int, bytes, float]] = {}  # tag, version, bytes, when
        self._fresh: set[str] = set()

    # Where things are

    def folder(self, stream: str, part: str = "") -> Any:
        """Return a stream's address, or that of a part of it."""
        return f"{self.root}/streams/{check_stream(stream)}" + (f"/{part}" if part else "")

    def manifest_path(self, stream: str, version: int) -> Any:
        """Return the address of a version's manifest."""
        return f"{self.folder(stream, 'versions')}/{version}"

    def payload_path(self, stream: str, payload: Payload, encoding: Encoding) -> Any:
        """Return the address of a payload."""
        return f"{self.folder(stream, 'payloads')}/{payload.digest}.{SUFFIX[encoding]}"

    def there(self) -> bool:
        """Whether the root exists: what answers does."""
        return True

    # What is there

    def versions(self, stream: str) -> tuple[int, ...]:
        """Return the versions that the server offers, oldest first."""
        address = self.folder(stream, "versions")
        found = _decoded(self._get(address).body, list[int], address)
        newest = self._latest.get(stream, ("", 0))[1]  # is refused if it is not there
        known = sorted({v for v in (*found, newest) if 0 < v < HIGHEST_VERSION})
        return tuple(known[-MOST_VERSIONS:])

    def newest(self, stream: str) -> int:
        """Return the newest version's number."""
        if stream in self._fresh:
            self._fresh.discard(stream)
        else:
            self._ask(stream, 0.0)
        return self._latest[stream][1]

    def wait(self, stream: str, wake: threading.Event) -> float:
        """Wait for news; return the seconds that it took, or infinity if there is news."""
        began = time.monotonic()
        before = self._latest.get(stream, ("", 0))[1]
        try:
            self._ask(stream, self.wait_s, wake)
        except Exception:  # the next look will say what is wrong
            return 0.0
        self._fresh.add(stream)
        news = self._latest[stream][1] != before
        return float("inf") if news else time.monotonic() - began

    def manifest_bytes(self, stream: str, version: int) -> bytes:
        """Return a manifest as the server has it."""
        known = self._latest.get(stream)
        if known is not None and known[1] == version:
            return known[2]
        return self._get(self.manifest_path(stream, version)).body

    def payload_bytes(self, manifest: Manifest, encoding: Encoding) -> bytes:
        """Return an encoded plan as the server has it."""
        payload = manifest.payloads.of(encoding)
        address = self.payload_path(manifest.stream, payload, encoding)
        return self._get(address, min(payload.bytes, files.PAYLOAD_BYTES)).body

    # The nodes

    def nodes(self, stream: str) -> Listing[Status]:
        """Return every node's last status, by node."""
        address = self.folder(stream, "nodes")
        return Listing(tuple(_decoded(self._get(address).body, list[Status], address)))

    def report(self, stream: str, word: Status) -> None:
        """Send a node's status."""
        address = f"{self.folder(stream, 'nodes')}/{word.node}"
        self._call(address, data=status.encode(word))

    # Requests

    def _ask(self, stream: str, wait_s: float, wake: threading.Event | None = None) -> None:
        """Ask which version is newest; wait for an answer other than the known one."""
        address = self.folder(stream, "latest")
        tag, _, _, since = self._latest.get(stream, ("", 0, b"", -RENEW_S))
        now = time.monotonic()
        condition = {"If-None-Match": f'"{tag}"'} if tag and now - since < RENEW_S else {}
        answer = self._call(
            f"{address}?wait={wait_s:g}" if wait_s else address,
            headers=condition,
            timeout_s=self.timeout_s + wait_s,
            wake=wake,
        )
        if answer.code == http.HTTPStatus.NOT_MODIFIED:
            if not condition:
                raise StoreError(f"{address} answered 304 to a request without a condition")
            return
        try:
            version = int(answer.headers[VERSION_HEADER])
        except (TypeError, ValueError):
            version = 0
        if not 0 < version < HIGHEST_VERSION:
            raise StoreError(
                f"{address} must be answered by a plan API, got "
                f"{answer.headers.get_content_type()} without {VERSION_HEADER}; check the address"
            )
        tag = (answer.headers["ETag"] or "").removeprefix("W/").strip('"')
        if tag != hashlib.sha256(answer.body).hexdigest():
            raise StoreError(
                f"{address} was answered with ETag {tag[:80]!r}, which is not the SHA-256 of its "
                "content; a cache or proxy mixes up answers, or changes them"
            )
        self._latest[stream] = (tag, version, answer.body, now)

    def _get(self, address: str, limit: int = files.SMALL_BYTES) -> Answer:
        return self._call(address, limit=limit)

    def _call(
        self,
        address: str,
        *,
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
        limit: int = files.SMALL_BYTES,
        timeout_s: float | None = None,
        wake: threading.Event | None = None,
    ) -> Answer:
        seconds = self.timeout_s if timeout_s is None else timeout_s
        deadline = _Deadline(time.monotonic() + seconds, wake)
        headers = {"Accept-Encoding": "identity", "Connection": "close", **(headers or {})}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if self.token is not None:
            headers["Authorization"] = f"Bearer {_text(self.token)}"
        connection = self._connection()
        connection.response_class = deadline.response  # type: ignore[assignment]
        sent_s = self.clock()
        try:
            with closing(connection):
                method = "GET" if data is None else "PUT"
                connection.request(method, address.removeprefix(self._origin), data, headers)
                with connection.getresponse() as response:
                    self._compare_clocks(response.headers, sent_s)
                    if response.status not in GOOD:
                        raise _refused(address, response)
                    body = _read(response, limit, address) if response.status == 200 else b""
                    return Answer(response.status, response.headers, body)
        except FileNotFoundError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(address, error) from error

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self.timeout_s)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self.timeout_s, context=self._context
        )

    def _compare_clocks(self, headers: Any, sent_s: float) -> None:
        """Note how far this node's clock is ahead of the server's, if more than a request takes."""
        try:
            theirs = parsedate_to_datetime(headers["Date"]).timestamp()
        except (TypeError, ValueError, OverflowError):
            return
        ahead, behind = sent_s - theirs, theirs - self.clock()
        # The header has whole seconds, and waiting takes time: only what is outside counts.
        skew = ahead - 1.0 if ahead > 1.0 else -behind if behind > 0 else 0.0
        self.clock_skew_s = round(skew) if abs(skew) >= SKEW_S else 0.0


@dataclass(frozen=True, slots=True)
class _Deadline:
    """Bounds the whole of an answer, however slowly its bytes come, and ends a wait early."""

    at: float
    wake: threading.Event | None

    def response(self, sock: socket.socket, *args: Any, **options: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *args, **options)
        response.fp = io.BufferedReader(_Patient(sock, response.fp, self))
        return response


class _Patient(io.RawIOBase):
    def __init__(self, sock: socket.socket, file: Any, deadline: _Deadline) -> None:
        self.sock, self.file, self.deadline = sock, file, deadline  # the file keeps it open

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        wake = self.deadline.wake
        while (left := self.deadline.at - time.monotonic()) > 0:
            self.sock.settimeout(min(left, LOOK_S) if wake else left)
            try:
                return self.sock.recv_into(buffer)
            except TimeoutError:
                if wake is not None and wake.is_set():
                    raise
        raise TimeoutError("the answer did not come whole in time")

    def close(self) -> None:
        self.file.close()
        super().close()


def is_url(store: object) -> bool:
    """Whether a store is an address of the web.

    >>> is_url("https://plans.example"), is_url("s3://plans/headgate"), is_url("/srv/plans")
    (True, False, False)
    """
    return isinstance(store, str) and store.startswith(("http://", "https://"))


def _text(token: Token) -> str:
    text = (token if isinstance(token, str) else token()).strip()
    if not re.fullmatch("[!-~]+", text):
        raise InvalidInput("token must be printable ASCII without blanks, got something else")
    return text


def _read(response: Any, limit: int, address: str) -> bytes:
    """Return the whole body, of at most ``limit`` bytes, as it was sent."""
    coding = response.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise StoreError(
            f"{address} must be answered unchanged, got {status.plain(coding)[:40]!r}; switch off "
            "compression in the proxy"
        )
    parts: list[bytes] = []
    size = 0
    while chunk := response.read1(min(CHUNK, limit + 1 - size)):
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise StoreError(f"{address} must be answered with at most {limit} bytes, got more")
    promised = response.headers["Content-Length"]
    if promised is not None and str(size) != promised:
        raise StoreError(f"{address} was answered with {size} of {promised[:20]} bytes")
    return b"".join(parts)


def _unreachable(address: str, error: Exception) -> Exception:
    """Return what it means that no answer came, or not a whole one."""
    said = " ".join(str(error).split()) or type(error).__name__
    remedy = "check the address, and that the server is up"
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message
        remedy = "see to the server's certificate, to the trusted authorities, or to the clock"
    return StoreError(f"{address} cannot be read ({status.plain(said)[:300]}); {remedy}")


def _refused(address: str, response: http.client.HTTPResponse) -> Exception:
    """Return what an answer other than success means."""
    code = response.status
    try:
        said = msgspec.json.decode(response.read1(ERROR_BYTES), type=dict[str, Any])
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        said = {}
    detail, kind = status.plain(said.get("detail", ""))[:300], said.get("error")
    if kind == "NoPlan" and code == 404:
        return NoPlan(f"{address}: {detail}")
    if kind == "NoFile" and code == 404:
        return FileNotFoundError(address)
    if 300 <= code < 400:
        elsewhere = status.plain(response.headers["Location"] or "")[:200]
        return StoreError(
            f"{address} redirects to {elsewhere!r}, which is not followed; use the right address"
        )
    remedy = {
        401: "this node's token is missing, wrong or expired: give it a valid one",
        403: "this node's token is not for this stream or this node: ask for one that is",
        404: "check the address: below it, no plan API answers",
    }.get(code, "the server has a problem: see its log")
    about = f" ({detail})" if detail else ""
    return StoreError(f"{address} answered {code}{about}; {remedy}")


def _decoded(body: bytes, kind: Any, address: str) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise StoreError(f"{address} was answered with something else ({error})") from None
