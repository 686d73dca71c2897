from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import airflow_setup
import pytest

airflow_setup.prepare()

from headgate_airflow.local import free_port  # noqa: E402, imports Airflow


@pytest.fixture(scope="session")
def streams(tmp_path_factory) -> Path:
    """A folder of definitions with the one that the tests use."""
    folder = tmp_path_factory.mktemp("definitions")
    (folder / "ticks.yaml").write_text(airflow_setup.STREAM, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def definition(streams):
    from planning.streams import load

    return load(streams / "ticks.yaml")


@pytest.fixture(scope="session")
def plan(definition):
    """Plan one demo batch without Spark, up to the gate's verdict; return the run."""
    from planning.families import family
    from planning.stages import collect, gate, local, solve

    def plan(home, batch: int, definition=definition):
        demo = family(definition.family).room("demo")
        demo.land(home.resolve(definition.landing), batch, definition)
        run = collect.collect(home, definition, f"batch-{batch}")
        local.validate(run)
        local.statistics(run)
        solve.solve(run)
        gate.gate(home, run, force=True)
        return run

    return plan


@pytest.fixture(scope="session")
def publish(plan, definition):
    """Plan one demo batch without Spark and publish it."""
    from planning.stages.publish import publish

    def plan_and_publish(home, batch: int, definition=definition):
        run = plan(home, batch, definition)
        publish(home, run, created_at=f"2026-01-0{batch + 1}T00:00:00Z")

    return plan_and_publish


@pytest.fixture(scope="session")
def guarded(orders):
    """A definition with guarantees, of a stream of its own."""
    from planning.streams import parse

    document = orders.model_dump(mode="json") | {"stream": "guarded"}
    asked = [
        {"name": "<b>dear</b>", "where": "price >= 70", "min_completeness": 0.9, "priority": 1},
        {"name": "cheap", "ranges": {"price": [0, 30]}, "qos": [[0, 0], [0.5, 0.9], [1, 1]]},
    ]
    document["queries"] = {"inline": asked}
    return parse(document, orders.source)


@pytest.fixture(scope="session")
def published_home(tmp_path_factory, publish):
    """A home with two published versions and two nodes, one of them behind; read-only."""
    from planning.artifacts import Status, Store, TrustedKeys
    from planning.home import Home

    home = Home.at(tmp_path_factory.mktemp("published"))
    publish(home, 0)
    publish(home, 1)
    store = Store(home.plans, TrustedKeys.load(home.keys))
    for node, version in (("edge-1", 2), ("edge-2", 1)):
        status = Status(
            node=node, version=version, at="2026-01-03T00:00:00Z",
            counters={"offered": 10, "kept": 4},
        )  # fmt: skip
        store.report("ticks", status)
    return home


@pytest.fixture
def home(tmp_path, published_home, monkeypatch):
    """A copy of the published home, to change at will."""
    from planning.home import Home

    shutil.copytree(published_home.root.path, tmp_path / "home")
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    return Home.from_environment()


@pytest.fixture(scope="session")
def orders(tmp_path_factory):
    """A second stream, for tests that share an Airflow with others."""
    from planning.streams import load

    folder = tmp_path_factory.mktemp("two-definitions")
    (folder / "ticks.yaml").write_text(airflow_setup.STREAM, encoding="utf-8")
    text = airflow_setup.STREAM.replace("stream: ticks", "stream: orders")
    (folder / "orders.yaml").write_text(text, encoding="utf-8")
    return load(folder / "orders.yaml")


@pytest.fixture(scope="session")
def database():
    """URL of a real PostgreSQL made for these tests, or None where the machine has none."""
    if shutil.which("initdb") is None or shutil.which("postgres") is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="headgate-postgres-") as folder:
        owner = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            owner = {"user": "nobody"}
            shutil.chown(folder, "nobody")
        data = f"{folder}/data"
        subprocess.run(["initdb", "-D", data, "-A", "trust", "-U", "airflow", "--no-sync"],
                       check=True, capture_output=True, cwd=folder, **owner)  # fmt: skip
        port = free_port()
        with open(f"{folder}/log", "wb") as log:
            server = subprocess.Popen(
                ["postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-F"],
                stdout=log, stderr=subprocess.STDOUT, cwd=folder, **owner,
            )  # fmt: skip
        try:
            _wait_for_server(port, server)
            yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: the data are thrown away
            server.wait()


def _wait_for_server(port: int, server: subprocess.Popen) -> None:
    import psycopg2

    end = time.monotonic() + 60
    while True:
        assert server.poll() is None, "PostgreSQL ended while starting"
        try:
            psycopg2.connect(host="127.0.0.1", port=port, user="airflow", dbname="postgres").close()
        except psycopg2.OperationalError:
            assert time.monotonic() < end, "PostgreSQL did not start within a minute"
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="session")
def airflow(tmp_path_factory, orders, database):
    """A real Airflow with two streams, started by the embedded code; on PostgreSQL if possible."""
    from headgate_airflow.local import LocalAirflow, wait_until
    from headgate_airflow.rest import Rest

    folder = tmp_path_factory.mktemp("var")
    streams = Path(orders.source).parent
    with LocalAirflow(
        folder, free_port(), streams, schedules=False, database=database
    ) as airflow:
        airflow.migrate()
        airflow.start(("api-server", "scheduler"))
        airflow.reserialize()
        rest = Rest(airflow.url, "admin", airflow.password)
        wait_until(rest.is_up, airflow, 180, "the start of Airflow")
        airflow.rest = rest
        yield airflow
