from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[1] / "airflow_setup.py"
spec = importlib.util.spec_from_file_location("airflow_setup", SETUP)
airflow_setup = importlib.util.module_from_spec(spec)
spec.loader.exec_module(airflow_setup)
airflow_setup.prepare()


@pytest.fixture(scope="session")
def repository() -> Path:
    return airflow_setup.REPOSITORY


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
def published_home(tmp_path_factory, publish):
    """A home with two published versions and two nodes, one of them behind; read-only."""
    from planning.artifacts import Acknowledgement, Store, TrustedKeys
    from planning.home import Home

    home = Home.at(tmp_path_factory.mktemp("published"))
    publish(home, 0)
    publish(home, 1)
    store = Store(home.plans, TrustedKeys.load(home.keys))
    for node, version in (("edge-1", 2), ("edge-2", 1)):
        word = Acknowledgement(
            node=node, version=version, at="2026-01-03T00:00:00Z", counters={"offered": 10}
        )
        store.acknowledge("ticks", word)
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
def airflow(tmp_path_factory, orders):
    """A real Airflow with two streams, started by the embedded code."""
    from headgate_airflow.local import LocalAirflow, free_port, wait_until
    from headgate_airflow.rest import Rest

    folder = tmp_path_factory.mktemp("var")
    streams = Path(orders.source).parent
    with LocalAirflow(folder, free_port(), streams, schedules=False) as airflow:
        airflow.migrate()
        airflow.start(("api-server", "scheduler"))
        airflow.reserialize()
        rest = Rest(airflow.url, "admin", airflow.password)
        wait_until(rest.is_up, airflow, 180, "the start of Airflow")
        airflow.rest = rest
        yield airflow
