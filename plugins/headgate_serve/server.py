"""``headgate serve``: published plans and statuses for nodes that reach nothing else.

It changes nothing but the statuses that nodes report. TLS is a reverse proxy's work.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate_serve import answers
from headgate_serve.tokens import Token, Tokens
from headgate_serve.watch import Watch
from planning.artifacts import Reader, files
from planning.errors import InvalidInput, PlanningError

MOST_CONNECTIONS = 10_000
BODY_S = 10.0  # within which a status must have come
STOP_S = 5.0  # for which a stop waits for answers under way
REFUSED = {
    401: b'{"error":"Unauthorized","detail":"send a valid token as Authorization: Bearer"}',
    403: b'{"error":"Forbidden","detail":"this token is not for this"}',
    408: b'{"error":"Timeout","detail":"the status did not come in time"}',
    413: b'{"error":"TooLarge","detail":"a status is smaller than this"}',
}


def application(watch: Watch, tokens: Tokens) -> ASGIApp:
    """Return the web application over a store."""
    reader = watch.reader

    def get(answer: Callable[..., Response], *names: str) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            known = request.headers.get("If-None-Match")
            conditional = (known,) if answer in (answers.manifest, answers.payload) else ()
            return answer(reader, *(request.path_params[n] for n in names), *conditional)

        return endpoint

    async def latest(request: Request) -> Response:
        response = await answers.latest_or_wait(
            watch,
            request.path_params["stream"],
            request.headers.get("If-None-Match"),
            request.query_params.get("wait", "0"),
        )
        # While it waited, the token may have been removed.
        return response if _bearer(request.headers, tokens) else _refuse(401)

    async def nodes(request: Request) -> Response:
        if request.state.token.role != "operator":
            return _refuse(403)
        return await run_in_threadpool(answers.nodes, reader, request.path_params["stream"])

    async def report(request: Request) -> Response:
        stream, node = request.path_params["stream"], request.path_params["node"]
        if request.state.token.node != node:
            return _refuse(403)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for part in request.stream():
                    body += part
                    if len(body) > files.SMALL_BYTES:
                        return _refuse(413)
        except TimeoutError:
            return _refuse(408)
        except ClientDisconnect:
            return Response(status_code=400)
        return await run_in_threadpool(answers.report, reader, stream, node, bytes(body))

    def scraped(request: Request) -> Response:
        token = request.state.token
        if token.role != "operator" or "*" not in token.streams:
            return _refuse(403)
        return answers.metrics(reader)

    async def failed(request: Request, error: Exception) -> Response:
        return answers.error(error, operator=request.state.token.role == "operator")

    below = "/streams/{stream}"
    routes = [
        Route("/health", lambda request: Response()),
        Route("/metrics", scraped),
        Route(f"{below}/latest", latest),
        Route(f"{below}/versions", get(answers.versions, "stream")),
        Route(f"{below}/versions/{{version}}", get(answers.manifest, "stream", "version")),
        Route(f"{below}/payloads/{{name}}", get(answers.payload, "stream", "name")),
        Route(f"{below}/nodes", nodes),
        Route(f"{below}/nodes/{{node}}", report, methods=["PUT"]),
    ]
    app = Starlette(routes=routes, exception_handlers={PlanningError: failed})
    app.router.redirect_slashes = False
    return _Guard(app, tokens)


class _Guard:
    """Lets nobody in without a token for the stream; it never looks whether that exists."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self.app, self.tokens = app, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http" and scope["path"] != "/health":
            token = _bearer(Headers(scope=scope), self.tokens)
            parts = scope["path"].split("/")
            if token is None:
                app = _refuse(401)
            elif parts[1:2] == ["streams"] and not token.reads("".join(parts[2:3])):
                app = _refuse(403)
            else:
                scope.setdefault("state", {})["token"] = token
        await app(scope, receive, send)


def serve(reader: Reader, tokens: Tokens, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then answer those who wait, and end."""
    watch = Watch(reader)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    config = uvicorn.Config(
        application(watch, tokens),
        loop="auto",  # uvloop where it is installed
        http="h11",  # bounds the size of headers
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=int(STOP_S),
    )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"host and port must be free to listen on, got {host} and {port} ({error})"
        ) from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        say(f"serving {reader.root} on http://{shown}:{listening.getsockname()[1]}")
        _Server(config, watch).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Answers those who wait before it waits for them."""

    def __init__(self, config: uvicorn.Config, watch: Watch) -> None:
        super().__init__(config)
        self.watch = watch

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.watch.close()
        await super().shutdown(sockets)


def _bearer(headers: Headers, tokens: Tokens) -> Token | None:
    scheme, _, secret = headers.get("Authorization", "").partition(" ")
    return tokens.find(secret.strip()) if scheme.lower() == "bearer" else None


def _refuse(code: int) -> Response:
    headers = {"Cache-Control": "no-store"}
    if code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(REFUSED[code], code, headers, "application/json")
