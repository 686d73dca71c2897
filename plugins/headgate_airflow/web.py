"""The web application below ``/headgate``: the Plans pages, the Data Docs, the plan API.

Everything requires an Airflow login, and rights on the stream's planning DAG.
"""

from __future__ import annotations

import mimetypes
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_authenticated
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.exceptions import HTTPException

from headgate_airflow import plan_api, views
from headgate_airflow.access import dag_of, may, requires
from headgate_airflow.catalog import planned_streams
from headgate_airflow.places import home
from planning.errors import ArtifactError, InvalidInput, NoPlan, PlanningError, StoreError
from planning.streams import NAME

STATUS = {NoPlan: 404, InvalidInput: 422, ArtifactError: 500, StoreError: 503}
UNAUTHENTICATED = 401
INVALID_TOKEN = "Invalid JWT token"  # Airflow forbids its bearer everything, whoever that may be
# Data Docs contain text from sample rows, which Great Expectations does not escape. In a sandbox
# with its own origin, such text cannot call Airflow's API as the person who reads it.
DATA_DOCS_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts",
    "X-Content-Type-Options": "nosniff",
}

app = FastAPI(
    title="Headgate",
    dependencies=[Depends(requires_authenticated())],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)
app.include_router(plan_api.router)

templates = Environment(
    loader=PackageLoader("headgate_airflow"),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.filters |= {
    "age": views.age, "ago": views.ago, "since": views.since, "load": views.load,
    "size": views.size, "brief": views.brief,
}  # fmt: skip
templates.tests["expired"] = views.expired


@app.get("/", response_class=HTMLResponse)
def plans(request: Request, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    """Show the list of streams."""
    rows = views.stream_rows(home(), planned_streams(session), lambda name: may(user, "GET", name))
    return _page(request, "plans.html", rows=rows)


@app.get("/streams/{stream}", response_class=HTMLResponse, dependencies=[requires("GET")])
def stream_page(
    request: Request, stream: str, user: GetUserDep, session: SessionDep
) -> HTMLResponse:
    """Show one stream: what is in force, what it promises, its history and its nodes."""
    view = views.stream_view(home(), stream, planned_streams(session).get(stream))
    return _page(request, "stream.html", view=view, row=view.row, may_edit=may(user, "PUT", stream))


@app.get("/streams/{stream}/diff", response_class=HTMLResponse, dependencies=[requires("GET")])
def diff_page(request: Request, stream: str, old: int, new: int) -> HTMLResponse:
    """Show what differs between two versions."""
    difference = home().store().diff(stream, old, new)
    return _page(request, "diff.html", difference=difference, stream=stream)


@app.get("/streams/{stream}/versions/{version}/picture.png", dependencies=[requires("GET")])
def picture(stream: str, version: int, at: str | None = None) -> Response:
    """Return a picture of a version's plan."""
    image = views.picture(home(), stream, version, at)
    headers = {"Cache-Control": "private, max-age=600"}
    return Response(image, media_type="image/png", headers=headers)


@app.get("/validation/{stream}/{path:path}", dependencies=[requires("GET")])
def data_docs(stream: str, path: str) -> Response:
    """Return one file of a stream's Data Docs."""
    parts = [part for part in path.split("/") if part]
    if ".." in parts or not NAME.fullmatch(stream):
        raise HTTPException(404, "no such page")
    file = home().validation.joinpath(stream, *parts)
    try:
        data = file.read_bytes()
    except (OSError, ValueError):
        raise HTTPException(
            404, f"{path} is not among the Data Docs of stream {stream}; old runs are removed"
        ) from None
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Response(data, media_type=media_type, headers=DATA_DOCS_HEADERS)


@app.exception_handler(PlanningError)
async def planning_error(request: Request, error: PlanningError) -> Response:
    """Answer with the message and a status that fits."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    if _wants_page(request):
        return _error_page(request, status, str(error))
    return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status)


@app.exception_handler(HTTPException)
async def http_error(request: Request, error: HTTPException) -> Response:
    """Answer a browser with a page, a program with JSON."""
    if error.detail == INVALID_TOKEN:
        error = HTTPException(UNAUTHENTICATED, INVALID_TOKEN, {"WWW-Authenticate": "Bearer"})
    if _wants_page(request):
        return _error_page(request, error.status_code, str(error.detail))
    return await http_exception_handler(request, error)


def _wants_page(request: Request) -> bool:
    below = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return not below.startswith("/api") and "text/html" in request.headers.get("accept", "")


def _error_page(request: Request, status: int, message: str) -> HTMLResponse:
    login = ""
    if status == UNAUTHENTICATED:
        login = get_auth_manager().get_url_login(next_url=str(request.url))
    return _page(
        request, "error.html", status_code=status, status=status, message=message, login=login
    )


def _page(
    request: Request, template: str, status_code: int = 200, **content: Any
) -> HTMLResponse:
    here = request.scope.get("root_path", "").rstrip("/")
    text = templates.get_template(template).render(
        here=here, airflow=here.removesuffix("/headgate"), dag_of=dag_of, **content
    )
    headers = {
        "Content-Security-Policy": (
            "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "img-src 'self' data:; frame-ancestors 'self'"
        )
    }
    return HTMLResponse(text, status_code=status_code, headers=headers)
