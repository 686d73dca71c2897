"""Through Airflow's REST API to a running shedder: the whole of Headgate, with nothing replaced."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

SHEDDER = """
import json, sys, time
import numpy as np
from planning.artifacts import TrustedKeys
from planning.home import Home
from planning.runtime import PlanClient, RunningShedder

home = Home.at(sys.argv[1])
trusted = TrustedKeys.load(home.keys)
client = PlanClient(home.plans, "ticks", trusted=trusted, node="edge-1")
shedder = RunningShedder(client, load=0.5, fallback="pass")
rng = np.random.default_rng(7)
shown = None
while True:
    client.poll()
    batch = {"price": rng.uniform(0, 100, 1000), "volume": rng.uniform(0, 10, 1000)}
    kept = float(np.mean(shedder.offer(batch)))
    if shedder.version != shown:
        shown = shedder.version
        print(json.dumps({"version": shown, "kept": kept}), flush=True)
    time.sleep(0.2)
"""
RUN_S = 400.0


class Shedder:
    """A source node: a process of its own that follows the published plans."""

    def __init__(self, home) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHEDDER, str(home.root)], stdout=subprocess.PIPE, text=True
        )
        self.seen: list[dict] = []

    def next(self) -> dict:
        """Wait for the next version that the node reports."""
        line = self.process.stdout.readline()
        assert line, "the shedder process ended"
        self.seen.append(json.loads(line))
        return self.seen[-1]


@pytest.fixture(scope="module")
def e2e_home(airflow):
    from headgate_airflow.embedded import set_up

    return set_up(airflow)


@pytest.fixture(scope="module")
def shedder(e2e_home):
    node = Shedder(e2e_home)
    yield node
    node.process.kill()
    node.process.wait()


def run_to_the_end(airflow, conf: dict | None = None) -> tuple[str, str, dict[str, str]]:
    """Trigger the DAG and return run id, its state and the states of its tasks."""
    run_id = airflow.rest.trigger("plan_ticks", conf)
    airflow.rest.pause("plan_ticks", False)
    return run_id, *wait_for(airflow, run_id)


def wait_for(airflow, run_id: str) -> tuple[str, dict[str, str]]:
    end = time.monotonic() + RUN_S
    while (state := airflow.rest.state("plan_ticks", run_id)) not in ("success", "failed"):
        airflow.check_alive()
        assert time.monotonic() < end, f"run {run_id} is still {state}"
        time.sleep(0.5)
    tasks = airflow.rest.tasks("plan_ticks", run_id)
    return state, {task["task_id"]: task["state"] for task in tasks}


def land(home, definition, batch: int) -> None:
    from planning.families import family

    family("sifter").room("demo").land(home.resolve(definition.landing), batch, definition)


def latest(airflow) -> dict:
    return airflow.rest.call("GET", "/headgate/api/streams/ticks/latest")


def test_a_run_publishes_and_a_running_shedder_swaps(airflow, e2e_home, definition, shedder):
    assert shedder.next() == {"version": 0, "kept": 1.0}
    land(e2e_home, definition, 0)
    run_id, state, tasks = run_to_the_end(airflow)
    assert state == "success", tasks
    assert set(tasks.values()) == {"success"}
    assert latest(airflow)["version"] == 1
    swapped = shedder.next()
    assert swapped["version"] == 1
    assert swapped["kept"] < 0.9

    land(e2e_home, definition, 1)
    second, state, _ = run_to_the_end(airflow, {"force": True, "regions": 9})
    assert state == "success"
    manifest = latest(airflow)
    assert manifest["version"] == 2
    assert manifest["parent"] == 1
    assert manifest["parameters"]["regions"] == 9
    assert shedder.next()["version"] == 2
    assert shedder.process.poll() is None

    # Clearing the publication of a finished run must not publish it again.
    body = {"dag_run_id": second, "task_ids": ["publish"], "dry_run": False, "only_failed": False}
    airflow.rest.call("POST", "/api/v2/dags/plan_ticks/clearTaskInstances", body)
    assert wait_for(airflow, second)[0] == "success"
    assert latest(airflow) == manifest

    events = airflow.rest.call("GET", "/api/v2/assets/events?source_dag_id=plan_ticks")
    extras = [event["extra"] for event in events["asset_events"]]
    assert {extra["version"] for extra in extras} == {1, 2}
    newest = next(extra for extra in extras if extra["version"] == 2)
    assert newest["digest"] == manifest["payloads"]["binary"]["digest"]
    assert (newest["stream"], newest["family"], newest["run"]) == ("ticks", "sifter", second)


def test_bad_samples_fail_the_run_and_leave_the_plan_in_force(
    airflow, e2e_home, definition, shedder
):
    before = latest(airflow)
    seen = len(shedder.seen)
    folder = e2e_home.resolve(definition.landing)
    bad = pa.table({"price": np.full(500, 1e6), "volume": np.full(500, np.nan)})
    with (folder / "bad.parquet").open("wb") as file:
        parquet.write_table(bad, file)
    run_id, state, tasks = run_to_the_end(airflow)
    assert state == "failed"
    assert tasks["collect"] == "success"
    assert tasks["validate"] == "failed"
    assert tasks["publish"] == "upstream_failed"
    (validate,) = [
        t for t in airflow.rest.tasks("plan_ticks", run_id) if t["task_id"] == "validate"
    ]
    assert validate["try_number"] == 1, "a rejected batch must not be retried"
    log = "\n".join(airflow.rest.log("plan_ticks", run_id, "validate", 1))
    assert "AirflowFailException: " in log
    assert "rows" in log
    assert latest(airflow) == before
    time.sleep(1.0)
    assert shedder.process.poll() is None
    assert len(shedder.seen) == seen

    path = airflow.rest._run("plan_ticks", run_id) + "/taskInstances/validate/links"
    address = airflow.rest.call("GET", path)["extra_links"]["Data Docs"]
    assert address == f"{airflow.url}/headgate/validation/ticks/index.html"
    request = urllib.request.Request(address)
    request.add_header("Authorization", f"Bearer {airflow.rest.token}")
    with urllib.request.urlopen(request) as answer:
        assert b"ticks" in answer.read()


def test_airflow_reports_no_import_errors(airflow):
    command = [sys.executable, "-m", "airflow", "dags", "list-import-errors", "--output", "json"]
    done = subprocess.run(
        command, env=airflow.environment(), capture_output=True, text=True, check=True
    )
    assert "planning_dags" not in done.stdout + done.stderr
    errors = airflow.rest.call("GET", "/api/v2/importErrors")
    assert errors["total_entries"] == 0


def test_it_all_ran_on_postgresql(airflow, database):
    if database is None:
        pytest.skip("no PostgreSQL (initdb, postgres) on this machine: Airflow ran on SQLite")
    import psycopg2

    place = database.replace("+psycopg2", "")
    with psycopg2.connect(place) as connection, connection.cursor() as cursor:
        cursor.execute("select state, count(*) from dag_run group by state")
        states = dict(cursor.fetchall())
    assert states["success"] >= 2
    assert states["failed"] >= 1
