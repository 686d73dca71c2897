"""The streams that this Airflow plans, as its metadata database knows them.

The API server need not see the folder of definitions: DAG files may be in a bundle that only the
DAG processor and the workers fetch.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow.models.dag import DagModel
from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from headgate_airflow.access import dag_of
from planning import families

TAG = "headgate"


@dataclass(frozen=True)
class PlannedStream:
    """What a planning DAG says about its stream."""

    family: str
    description: str


def planned_streams(session: Session) -> dict[str, PlannedStream]:
    """Return the streams that have a planning DAG, by name; broken definitions have none."""
    prefix = dag_of("")
    rows = select(DagModel).where(DagModel.dag_id.startswith(prefix), ~DagModel.is_stale)
    streams = {}
    for dag in session.scalars(rows.options(selectinload(DagModel.tags))):
        tags = {tag.name for tag in dag.tags}
        family = next((name for name in families.NAMES if name in tags), None)
        if TAG in tags and family is not None:
            stream = dag.dag_id.removeprefix(prefix)
            streams[stream] = PlannedStream(family, dag.description or "")
    return streams
