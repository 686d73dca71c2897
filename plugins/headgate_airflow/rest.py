"""A small client for Airflow's REST API, for the embedded installation."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from planning.errors import PlanningError

TIMEOUT_S = 30.0
PAGE = 100  # the most that Airflow returns, unless configured otherwise


class RestError(PlanningError):
    """Airflow's API answered with an error, or not at all."""


@dataclass
class Rest:
    """One user's access to one Airflow."""

    url: str
    user: str
    password: str
    token: str = ""

    def is_up(self) -> bool:
        """Whether the API answers and its database is healthy."""
        try:
            health = self.call("GET", "/api/v2/monitor/health", login=False)
        except RestError:
            return False
        return bool(health["metadatabase"]["status"] == "healthy")

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG is known."""
        try:
            self.call("GET", f"/api/v2/dags/{dag_id}")
        except RestError:
            return False
        return True

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        path = f"/api/v2/dags/{dag_id}?update_mask=is_paused"
        self.call("PATCH", path, {"is_paused": paused})

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run and return its id."""
        body = {"logical_date": None, "conf": conf or {}}
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run."""
        return str(self.call("GET", self._run(dag_id, run_id))["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        answer = self.call("GET", self._run(dag_id, run_id) + "/taskInstances")
        return list(answer["task_instances"])

    def tasks_since(self, begin: datetime) -> list[dict[str, Any]]:
        """Return the task instances of all runs due since ``begin``, a page of them per call."""
        query = {"run_after_gte": begin.isoformat(), "order_by": "id", "limit": PAGE}
        tasks: list[dict[str, Any]] = []
        while True:
            page = urllib.parse.urlencode({**query, "offset": len(tasks)})
            answer = self.call("GET", f"/api/v2/dags/~/dagRuns/~/taskInstances?{page}")
            tasks += answer["task_instances"]
            if not answer["task_instances"] or len(tasks) >= answer["total_entries"]:
                return tasks

    def end_active_runs(self, dag_id: str) -> None:
        """Fail the runs that were left unfinished when Airflow was stopped."""
        path = f"/api/v2/dags/{dag_id}/dagRuns?state=running&state=queued"
        for run in self.call("GET", path)["dag_runs"]:
            self.call("PATCH", self._run(dag_id, run["dag_run_id"]), {"state": "failed"})

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int) -> list[str]:
        """Return what a task has logged, line by line."""
        path = f"{self._run(dag_id, run_id)}/taskInstances/{task_id}/logs/{max(attempt, 1)}"
        entries = self.call("GET", path)["content"]
        return [line for entry in entries for line in _lines(entry)]

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, login: bool = True
    ) -> Any:
        """Send one request and return the JSON of the response."""
        if login and not self.token:
            answer = self.call(
                "POST", "/auth/token", {"username": self.user, "password": self.password},
                login=False,
            )  # fmt: skip
            self.token = answer["access_token"]
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Accept", "application/json")
        if login:
            request.add_header("Authorization", f"Bearer {self.token}")
        data = None
        if body is not None:
            request.add_header("Content-Type", "application/json")
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise RestError(f"{method} {path} answered {error.code}: {text}") from None
        except (OSError, ValueError) as error:
            raise RestError(f"{method} {path} got no usable answer: {error}") from None

    @staticmethod
    def _run(dag_id: str, run_id: str) -> str:
        return f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"


def _lines(entry: Any) -> list[str]:
    """Return an entry of a structured log as text, with its exception's message."""
    if not isinstance(entry, dict):
        return [str(entry)]
    lines = [" ".join(str(entry[key]) for key in ("event", "reason") if entry.get(key))]
    for detail in entry.get("error_detail") or []:
        lines.append(f"{detail.get('exc_type')}: {detail.get('exc_value')}")
    return [line for line in lines if line.strip()]
