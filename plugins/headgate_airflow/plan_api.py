"""The plan API: published plans over HTTP, for consumers that cannot reach the store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.assets.manager import asset_manager
from airflow.models.asset import AssetModel
from fastapi import APIRouter, Header, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from headgate_serve import answers
from headgate_serve.watch import Watch
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from headgate_airflow import views
from headgate_airflow.access import dag_of, may, requires
from headgate_airflow.catalog import planned_streams
from headgate_airflow.places import home
from headgate_airflow.texts import asset_name
from planning.artifacts import Manifest, Reader, SigningKey
from planning.artifacts.files import SMALL_BYTES
from planning.artifacts.manifest import Encoding

router = APIRouter(prefix="/api")
IfNoneMatch = Annotated[str | None, Header()]
_watches: dict[str, Watch] = {}


class Rollback(BaseModel):
    """Body of a rollback request."""

    model_config = ConfigDict(extra="forbid")

    to_version: int = Field(ge=1)
    reason: str = Field(min_length=1, max_length=500)


@router.get("/streams")
def streams(user: GetUserDep, session: SessionDep) -> list[dict[str, Any]]:
    """List the streams that the user may see."""
    planned = planned_streams(session)
    rows = views.stream_rows(home(), planned, lambda name: may(user, "GET", name))
    return [_stream(row) for row in rows]


@router.get("/streams/{stream}/latest", dependencies=[requires("GET")])
async def latest(stream: str, if_none_match: IfNoneMatch = None, wait: str = "0") -> Response:
    """Return the newest manifest as it lies in the store; with ``wait``, once there is news."""
    return await answers.latest_or_wait(_watch(), stream, if_none_match, wait)


@router.get("/streams/{stream}/versions", dependencies=[requires("GET")])
def versions(stream: str) -> Response:
    """Return the numbers of the versions."""
    return answers.versions(_reader(), stream)


@router.get("/streams/{stream}/versions/{version}", dependencies=[requires("GET")])
def version(stream: str, version: str, if_none_match: IfNoneMatch = None) -> Response:
    """Return one version's manifest."""
    return answers.manifest(_reader(), stream, version, if_none_match)


@router.get("/streams/{stream}/payloads/{name}", dependencies=[requires("GET")])
def payload(stream: str, name: str, if_none_match: IfNoneMatch = None) -> Response:
    """Return an encoded plan by its digest."""
    return answers.payload(_reader(), stream, name, if_none_match)


@router.get("/streams/{stream}/nodes", dependencies=[requires("GET")])
def nodes(stream: str) -> Response:
    """Return what every node last said about itself."""
    return answers.nodes(_reader(), stream)


@router.put("/streams/{stream}/nodes/{node}", dependencies=[requires("GET")])
async def report(stream: str, node: str, request: Request, user: GetUserDep) -> Response:
    """Take a node's status: from the user of its name, or from one who may edit the DAG."""
    if user.get_name() != node and not await run_in_threadpool(may, user, "PUT", stream):
        raise HTTPException(403, f"{user.get_name()} may not report for node {node}")
    body = await _body(request)
    return await run_in_threadpool(answers.report, _reader(), stream, node, body)


@router.get("/streams/{stream}/versions/{version}/plan.json", dependencies=[requires("GET")])
def plan_json(stream: str, version: int, if_none_match: IfNoneMatch = None) -> Response:
    """Return one version's plan as JSON."""
    return _payload(stream, version, "json", "application/json", if_none_match)


@router.get("/streams/{stream}/versions/{version}/plan.bin", dependencies=[requires("GET")])
def plan_bin(stream: str, version: int, if_none_match: IfNoneMatch = None) -> Response:
    """Return one version's plan in its compact form."""
    return _payload(stream, version, "binary", "application/octet-stream", if_none_match)


@router.get("/streams/{stream}/versions/{version}/what-if", dependencies=[requires("GET")])
def what_if(stream: str, version: int, at: str) -> dict[str, Any]:
    """Return what one version promises at a load: ``0.4``, or rates such as ``i1=200,i2=50``."""
    return views.what_if(home(), stream, version, at)


@router.post("/streams/{stream}/rollback", dependencies=[requires("PUT")], status_code=201)
def rollback(
    stream: str, body: Rollback, request: Request, user: GetUserDep, session: SessionDep
) -> dict[str, Any]:
    """Publish an old version's plan as the newest one, and notify those waiting for plans."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send the request as application/json")
    here = home()
    published = here.store().rollback(
        stream,
        body.to_version,
        signer=SigningKey.load_or_create(here.keys),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=f"{body.reason} ({user.get_name()})",
    )
    _announce(published, session)
    return {
        "stream": stream,
        "version": published.version,
        "rollback_of": published.rollback_of,
        "digest": published.payloads.binary.digest,
    }


def _announce(manifest: Manifest, session: Session) -> None:
    """Write an asset event, so that DAGs that wait for new plans learn of a rollback too."""
    name = asset_name(manifest.stream)
    asset = session.scalar(select(AssetModel).where(AssetModel.name == name).limit(1))
    if asset is not None:
        extra = {
            "version": manifest.version,
            "digest": manifest.payloads.binary.digest,
            "stream": manifest.stream,
            "family": manifest.family,
            "rollback_of": manifest.rollback_of,
        }
        asset_manager.register_asset_change(
            asset=asset, extra=extra, source_is_api=True, session=session
        )


def _stream(row: views.StreamRow) -> dict[str, Any]:
    manifest = row.manifest
    return {
        "stream": row.stream,
        "family": row.family,
        "dag_id": dag_of(row.stream),
        "version": manifest.version if manifest else None,
        "created_at": manifest.created_at if manifest else None,
        "digest": manifest.payloads.binary.digest if manifest else None,
        "bytes": manifest.payloads.binary.bytes if manifest else None,
        "certificate": manifest.certificate.status if manifest and manifest.certificate else None,
        "nodes": len(row.fleet.nodes),
        "nodes_current": row.fleet.running,
        "nodes_by_state": row.fleet.counts(),
        "problem": row.problem or None,
    }


async def _body(request: Request) -> bytes:
    """Return a request's body, if it is no larger than what readers of a status accept."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > SMALL_BYTES:
            raise HTTPException(413, f"a status must have at most {SMALL_BYTES} bytes")
    return bytes(body)


def _reader() -> Reader:
    return Reader(home().plans)


def _watch() -> Watch:
    """Return what this server's clients wait at, all at the same one."""
    reader = _reader()
    return _watches.setdefault(str(reader.root), Watch(reader))


def _payload(
    stream: str, version: int, encoding: Encoding, media_type: str, if_none_match: str | None
) -> Response:
    store = home().store()
    manifest = store.manifest(stream, version)
    tag = manifest.payloads.of(encoding).digest
    return _tagged(store.payload(manifest, encoding), tag, media_type, if_none_match)


def _tagged(data: bytes, tag: str, media_type: str, if_none_match: str | None) -> Response:
    headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
    known = [part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")]
    if f'"{tag}"' in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)
