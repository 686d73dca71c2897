"""The stages as operators.

Each one finds its run's folder by stream and run id, calls the stage, and tells Airflow how
it went: an error that a retry cannot fix fails at once, anything else is retried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, BaseHook, BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

from headgate_airflow import places
from headgate_airflow.code import code_archive
from headgate_airflow.form import overrides
from headgate_airflow.java import java_problem
from headgate_airflow.lineage import StageLineage
from headgate_airflow.links import DataDocsLink, PlanLink
from planning.errors import PlanningError, StoreError
from planning.home import Home
from planning.stages.run import MADE_AHEAD, Run
from spark_apps import STATISTICS_APPS

if TYPE_CHECKING:
    from airflow.sdk import Context

    from planning.streams import StreamDefinition

VALIDATE_APP = "validate.py"
SCHEDULED = "scheduled__"
"""How the ids of Airflow's scheduled runs begin."""
REJECTED = 3
"""Exit code of a Spark application that judged its input unusable."""
EXIT_CODE = re.compile(r"(?:Error|spark exit) code is: (\d+)")


@contextmanager
def planning_errors() -> Iterator[None]:
    """Fail for good on errors that a retry cannot fix; let the others be retried."""
    try:
        yield
    except StoreError:
        raise
    except PlanningError as error:
        raise AirflowFailException(str(error)) from error


def run_of(stream: str, context: Context) -> tuple[Home, Run]:
    """Return the home and the folder of the run that a task belongs to."""
    home = places.home()
    return home, Run.of(home, stream, context["run_id"])


class StageOperator(StageLineage, BaseOperator):
    """Base of the stages that run inside the task."""

    ui_color = "#e7f0f5"

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> Any:
        """Run the stage."""
        home, run = run_of(self.stream, context)
        with planning_errors():
            return self.stage(home, run, context)

    def stage(self, home: Home, run: Run, context: Context) -> Any:
        """Do the stage's work and return a small summary."""
        raise NotImplementedError


class CollectOperator(StageOperator):
    """Take the samples that no run has used yet, and fix the definition for this run."""

    stage_name = "collect"

    def __init__(self, *, definition: StreamDefinition, **kwargs: Any) -> None:
        super().__init__(stream=definition.stream, **kwargs)
        self.definition = definition

    def stage(self, home: Home, run: Run, context: Context) -> str:
        """Collect, or skip the run if there is nothing new."""
        from planning.stages import reevaluate
        from planning.stages.collect import NothingNew, collect

        params = context["params"]
        changes = overrides(self.definition, params)
        definition = self.definition.with_parameters(changes) if changes else self.definition
        if context["run_id"].startswith(SCHEDULED) and not run.has("collected"):
            wanted, why = reevaluate.due(home, definition, time.time())
            if not wanted:
                raise AirflowSkipException(why)
        try:
            collected = collect(
                home, definition, context["run_id"],
                force=params["force"], dry_run=params["dry_run"],
            )  # fmt: skip
        except NothingNew as nothing:
            raise AirflowSkipException(str(nothing)) from nothing
        return collected.uri


class SolveOperator(StageOperator):
    """Compute the candidate plan from the statistics."""

    stage_name = "solve"

    def stage(self, home: Home, run: Run, context: Context) -> dict[str, Any]:
        """Solve."""
        from planning.stages.solve import solve

        return solve(run)


class GateOperator(StageOperator):
    """Try the candidate on samples it has not seen, and decide."""

    stage_name = "gate"

    def stage(self, home: Home, run: Run, context: Context) -> dict[str, Any]:
        """Judge."""
        from planning.stages.gate import gate

        verdict = gate(home, run, force=context["params"]["force"])
        self.log.info("gate: %s, %s", verdict["decision"], verdict["reason"])
        for warning in verdict["warnings"]:
            self.log.warning("gate: %s", warning)
        return verdict


class PublishOperator(StageOperator):
    """Publish what the gate let through, once per run, and notify those waiting for it."""

    stage_name = "publish"
    operator_extra_links = (PlanLink(),)

    def __init__(self, *, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.asset = asset

    def stage(self, home: Home, run: Run, context: Context) -> dict[str, Any]:
        """Publish, or skip with the reason."""
        from planning.stages.publish import publish

        created_at = datetime.now(UTC).isoformat(timespec="seconds")
        dry_run = context["params"]["dry_run"]
        published = publish(home, run, created_at=created_at, dry_run=dry_run)
        if published is None:
            raise AirflowSkipException(_why_not(run.read("verdict")))
        told = {name: published[name] for name in ("version", "digest", "stream", "family")}
        context["outlet_events"][self.asset].extra = {**told, "run": context["run_id"]}
        return published


def _why_not(verdict: dict[str, Any]) -> str:
    """Say why nothing was published."""
    if verdict["decision"] != "publish":
        return f"the gate refused the plan: {verdict['reason']}"
    return "dry run: the plan passed the gate and was not published"


class SparkAppOperator(StageLineage, SparkSubmitOperator):
    """Submit one of ``spark_apps``.

    The master is the one that the connection ``spark_default`` names, or this machine if there is
    no such connection. A master elsewhere, or another Python, gets the library as a zip file; this
    Python imports what is installed, so that kernels compiled once stay compiled.
    """

    ui_color = "#fbeee0"

    def __init__(self, *, stream: str, app: str, **kwargs: Any) -> None:
        super().__init__(
            application=str(places.package_folder("spark_apps") / app),
            name=f"headgate {stream} {app}",
            conf={"spark.log.level": "WARN"},
            verbose=False,
            **kwargs,
        )
        self.stream = stream

    def execute(self, context: Context) -> None:
        """Submit the application and wait for it to end."""
        home, run = run_of(self.stream, context)
        self.application_args = self.arguments(home, run)
        _prepare_environment()
        if not (_master(self._conn_id).startswith("local") and _is_this_python()):
            self.py_files = str(code_archive(places.cache_folder(home)))
        if problem := java_problem(os.environ):
            raise AirflowFailException(problem)
        try:
            super().execute(context)
        except AirflowException as error:
            code = EXIT_CODE.search(str(error))
            if code is not None and int(code[1]) == REJECTED:
                raise AirflowFailException(self.reason(run)) from None
            raise

    def arguments(self, home: Home, run: Run) -> list[str]:
        """Return the application's arguments."""
        return ["--run", run.uri]

    def reason(self, run: Run) -> str:
        """Say why the application judged its input unusable."""
        return f"{self.application} judged its input unusable; its log above says why"


class ValidateOperator(SparkAppOperator):
    """Validate a run's samples; a rejected batch stops the run without a retry."""

    stage_name = "validate"
    operator_extra_links = (DataDocsLink(),)

    def __init__(self, *, family: str, **kwargs: Any) -> None:
        super().__init__(app=VALIDATE_APP, **kwargs)
        self.then = STATISTICS_APPS[family]

    def execute(self, context: Context) -> None:
        """Submit the application; statistics of an earlier attempt no longer count."""
        _, run = run_of(self.stream, context)
        run.take(MADE_AHEAD)
        super().execute(context)

    def arguments(self, home: Home, run: Run) -> list[str]:
        """Return the application's arguments: where the Data Docs go, and what to do next."""
        folder = home.validation / self.stream
        return [*super().arguments(home, run), "--data-docs", str(folder), "--then", self.then]

    def reason(self, run: Run) -> str:
        """Return the batch-level rule that the samples broke."""
        return str(run.read("validation")["error"])


class StatisticsOperator(SparkAppOperator):
    """Reduce a run's samples to the family's statistics.

    Validate has usually made them in its own Spark session; cleared and run again, this stage
    makes them itself.
    """

    stage_name = "statistics"

    def __init__(self, *, family: str, **kwargs: Any) -> None:
        super().__init__(app=f"{STATISTICS_APPS[family]}.py", **kwargs)

    def execute(self, context: Context) -> None:
        """Take what validate made, or submit the application."""
        _, run = run_of(self.stream, context)
        if run.take(MADE_AHEAD) and run.has("statistics"):
            self.log.info("the statistics were made in validate's Spark session")
            return
        super().execute(context)


class BrokenDefinitionOperator(BaseOperator):
    """Stands in for a stream whose definition cannot be used."""

    ui_color = "#f8d7da"

    def __init__(self, *, problems: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problems = problems

    def execute(self, context: Context) -> None:
        """Fail with the problems."""
        raise AirflowFailException(f"the stream definition cannot be used:\n{self.problems}")


def _master(connection_id: str) -> str:
    """Return where Spark's master is; without a connection, make this machine the master."""
    try:
        connection = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        here = {"conn_type": "spark", "host": "local[*]"}
        os.environ[f"AIRFLOW_CONN_{connection_id.upper()}"] = json.dumps(here)
        return here["host"]
    return connection.host or ""


def _is_this_python() -> bool:
    """Whether Spark will run the Python of this very environment."""
    python = os.environ["PYSPARK_PYTHON"]
    return os.path.dirname(shutil.which(python) or python) == os.path.dirname(sys.executable)


def _prepare_environment() -> None:
    """Let workers run this interpreter, and find its spark-submit, unless told otherwise."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if shutil.which("spark-submit") is None:
        os.environ["PATH"] += os.pathsep + os.path.dirname(sys.executable)
