"""One planning DAG per stream definition.

Every ``*.yaml`` of a folder becomes the DAG ``plan_<stream>``: collect, validate, statistics,
solve, gate, publish. A definition with mistakes becomes a DAG that shows them.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, chain

from headgate_airflow.form import form
from headgate_airflow.operators import (
    BrokenDefinitionOperator,
    CollectOperator,
    GateOperator,
    PublishOperator,
    SolveOperator,
    StatisticsOperator,
    ValidateOperator,
)
from headgate_airflow.texts import asset_name, broken_doc, plan_doc
from planning.errors import DefinitionError, InvalidInput, Problem
from planning.streams import StreamDefinition, load_folder

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
RETRIES = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=10),
}
SHORT, LONG = timedelta(minutes=10), timedelta(hours=1)


def planning_dags(folder: str | os.PathLike[str] = "streams") -> dict[str, DAG]:
    """Return the planning DAGs of the stream definitions in ``folder``, by their ids.

    A relative path starts from the DAG file that calls this. ``HEADGATE_STREAMS`` names another
    folder for a whole installation, and ``HEADGATE_SCHEDULES=off`` leaves all DAGs to be
    triggered by hand.
    """
    beside = Path(sys._getframe(1).f_globals.get("__file__", "")).parent
    streams = Path(os.environ.get("HEADGATE_STREAMS") or beside / folder)
    if not streams.is_dir():
        raise InvalidInput(
            f"the folder of stream definitions must exist, got {streams}; create it, give "
            "planning_dags another one, or set HEADGATE_STREAMS"
        )
    good, bad = load_folder(streams)
    made = [_usable(definition) for definition in good]
    dags = {dag.dag_id: dag for dag in made if isinstance(dag, DAG)}
    for error in [*bad, *(error for error in made if isinstance(error, DefinitionError))]:
        broken = _broken_dag(error, set(dags))
        dags[broken.dag_id] = broken
    return dags


def _usable(definition: StreamDefinition) -> DAG | DefinitionError:
    """Return the stream's DAG, or what Airflow finds wrong with it, such as a schedule."""
    try:
        dag = _planning_dag(definition)
        dag.validate()
    except Exception as error:  # whatever it is, it must not affect the other streams
        allowed = "usable by Airflow"
        return DefinitionError([Problem(definition.source, 1, "definition", allowed, str(error))])
    return dag


def _planning_dag(definition: StreamDefinition) -> DAG:
    """Wire the stages of one stream."""
    stream = definition.stream
    scheduled = os.environ.get("HEADGATE_SCHEDULES", "on") != "off"
    with DAG(
        f"plan_{stream}",
        description=definition.description.strip() or f"Plans for stream {stream}",
        doc_md=plan_doc(definition),
        schedule=definition.schedule if scheduled else None,
        start_date=FIRST_DAY,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=4),
        default_args={"owner": definition.owner, **RETRIES},
        tags=["headgate", definition.family, *definition.tags],
        params=form(definition),
        auto_register=False,
    ) as dag:
        plan = Asset(name=asset_name(stream), uri=f"headgate://plans/{stream}")
        chain(
            CollectOperator(task_id="collect", definition=definition, execution_timeout=SHORT),
            ValidateOperator(
                task_id="validate",
                stream=stream,
                family=definition.family,
                execution_timeout=LONG,
            ),
            StatisticsOperator(
                task_id="statistics",
                stream=stream,
                family=definition.family,
                execution_timeout=LONG,
            ),
            SolveOperator(task_id="solve", stream=stream, execution_timeout=LONG),
            GateOperator(task_id="gate", stream=stream, execution_timeout=LONG),
            PublishOperator(task_id="publish", stream=stream, asset=plan, execution_timeout=SHORT),
        )
    return dag


def _broken_dag(error: DefinitionError, taken: set[str]) -> DAG:
    """Return a DAG that shows what is wrong with a definition."""
    dag_id = "plan_" + re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(error.problems[0].file).stem)
    with DAG(
        dag_id if dag_id not in taken else f"{dag_id}.broken",
        description="This stream definition cannot be used",
        doc_md=broken_doc(error),
        schedule=None,
        tags=["headgate", "broken-definition"],
        auto_register=False,
    ) as dag:
        BrokenDefinitionOperator(task_id="definition", problems=str(error), retries=0)
    return dag
