"""What is answered to those who ask for plans: the same by ``headgate serve`` and by Airflow.

=============================================  ==================================================
below the address                              what
=============================================  ==================================================
``streams/<stream>/latest``                    the newest manifest; ``?wait=25``: once it is news
``streams/<stream>/versions``                  ``[1, 2, 3]``
``streams/<stream>/versions/<n>``              a manifest
``streams/<stream>/payloads/<sha256>.bin``     a plan; also ``.json``
``streams/<stream>/nodes``                     every node's last status
``streams/<stream>/nodes/<node>``              put by a node: its status
``metrics``                                    all nodes, for Prometheus; ``headgate serve`` only
=============================================  ==================================================

Files are passed on as they lie in the store, also damaged ones: nodes refuse them and say why.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection

import msgspec
from starlette.responses import Response

from headgate_serve import watch as watching
from headgate_serve.watch import Newest, Watch
from planning.artifacts import Reader, files
from planning.artifacts import status as statuses
from planning.artifacts.reading import check_stream
from planning.artifacts.remote import VERSION_HEADER
from planning.errors import (
    ArtifactError,
    InvalidInput,
    NoPlan,
    PlanningError,
    StoreError,
    check_between,
)

MOST_WAIT_S = 60.0
PAYLOAD_NAME = re.compile(r"([0-9a-f]{64})\.(bin|json)")
MEDIA_TYPES = {"bin": "application/octet-stream", "json": "application/json"}
CODES: dict[type[Exception], int] = {
    NoPlan: 404, InvalidInput: 422, ArtifactError: 500, StoreError: 503
}  # fmt: skip
UNSAID = {404: "nothing is published", 503: "the store cannot be reached"}
log = logging.getLogger(__name__)


async def latest_or_wait(
    watch: Watch, stream: str, if_none_match: str | None = None, wait: float | str = 0.0
) -> Response:
    """Return the newest version's manifest, at the latest after ``wait`` seconds."""
    wait_s = check_between("wait", wait, 0, 1e9, remedy="pass seconds")  # type: ignore[arg-type]
    known = _tags(if_none_match)
    found = await watch.newest(check_stream(stream), known, min(wait_s, MOST_WAIT_S))
    return _newest(found, known)


def versions(reader: Reader, stream: str) -> Response:
    """Return the numbers of the versions, oldest first."""
    numbers = reader.versions(stream)
    if not numbers:
        watching.check_there(reader)
    return _json(numbers)


def manifest(
    reader: Reader, stream: str, version: int | str, if_none_match: str | None = None
) -> Response:
    """Return one version's manifest."""
    if not re.fullmatch("[1-9][0-9]{0,14}", str(version)):
        raise InvalidInput(f"version must be a positive number, got {str(version)[:40]!r}")
    try:
        body = reader.manifest_bytes(stream, int(version))
    except FileNotFoundError:
        return _no_file(reader)
    return _newest(Newest(int(version), body, _digest(body)), _tags(if_none_match))


def payload(reader: Reader, stream: str, name: str, if_none_match: str | None = None) -> Response:
    """Return an encoded plan; its name says what it contains, so that it can be kept for good."""
    matched = PAYLOAD_NAME.fullmatch(name)
    if not matched:
        raise InvalidInput(f"a plan's name must be <sha256>.bin or .json, got {name[:80]!r}")
    digest, suffix = matched.groups()
    try:
        body = files.read(reader.folder(stream, "payloads") / name, files.PAYLOAD_BYTES)
    except FileNotFoundError:
        return _no_file(reader)
    # A damaged one is passed on, but nobody may keep it under the name of the sound one.
    tag = _digest(body)
    keep = "private, max-age=31536000, immutable" if tag == digest else "no-store"
    headers = {"Cache-Control": keep}
    return _tagged(body, tag, _tags(if_none_match), headers, MEDIA_TYPES[suffix])


def nodes(reader: Reader, stream: str) -> Response:
    """Return every node's last status and its age."""
    listing = reader.nodes(stream)
    for broken in listing.broken:
        log.warning("stream %s: %s", stream, broken.problem)
    return _json(listing.sound)


def report(reader: Reader, stream: str, node: str, body: bytes) -> Response:
    """Write down what a node says about itself."""
    try:
        status = statuses.decode(body, "the body")
    except ArtifactError as error:
        raise InvalidInput(str(error)) from None
    if (status.stream, status.node) != (stream, node):
        raise InvalidInput(
            f"a status must be of stream {stream} and node {node}, as its address says, got "
            f"{status.stream} and {status.node}"
        )
    watching.check_there(reader)
    reader.report(stream, status)
    return Response(status_code=204)


def metrics(reader: Reader) -> Response:
    """Return the statuses of all nodes of all streams, for Prometheus."""
    from planning.runtime.metrics import Collector

    collector = Collector(reader)  # says which extra is missing
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(collector)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def error(exception: Exception, *, operator: bool = False) -> Response:
    """Return what went wrong; what is not the caller's mistake only to an operator.

    >>> error(StoreError("/srv/plans cannot be read")).body
    b'{"error":"StoreError","detail":"the store cannot be reached"}'
    """
    code = next((code for kind, code in CODES.items() if isinstance(exception, kind)), 500)
    name = type(exception).__name__ if isinstance(exception, PlanningError) else "ServerError"
    detail = str(exception)
    if not operator and not isinstance(exception, InvalidInput):
        detail = UNSAID.get(code, "the server has a problem; its log says which")
        if code >= 500:
            log.error("%s: %s", name, exception)
    return _json({"error": name, "detail": detail}, code)


def _newest(found: Newest, known: Collection[str]) -> Response:
    headers = {VERSION_HEADER: str(found.version), "Cache-Control": "private, no-cache"}
    return _tagged(found.body, found.tag, known, headers, "application/json")


def _tagged(
    body: bytes, tag: str, known: Collection[str], headers: dict[str, str], media_type: str
) -> Response:
    headers["ETag"] = f'"{tag}"'
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)


def _tags(if_none_match: str | None) -> list[str]:
    parts = (if_none_match or "").split(",")
    return [part.strip().removeprefix("W/").strip('"') for part in parts]


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _no_file(reader: Reader) -> Response:
    watching.check_there(reader)
    return _json({"error": "NoFile", "detail": "no such version or plan is kept"}, 404)


def _json(value: object, code: int = 200) -> Response:
    return Response(
        msgspec.json.encode(value), code, {"Cache-Control": "no-store"}, "application/json"
    )
