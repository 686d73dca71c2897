"""The DAG files in the documentation."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def documented(repository):
    """Return the one documented program that has a text in it."""

    def find(text: str) -> str:
        page = (repository / "docs" / "airflow.md").read_text(encoding="utf-8")
        programs = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
        (program,) = [program for program in programs if text in program]
        return program

    return find


@pytest.fixture
def parsed(tmp_path, airflow_db):
    """Return the DAGs of a program, as a DAG file in a folder of its own."""
    from airflow.dag_processing.dagbag import DagBag

    def parse(program: str) -> dict:
        folder = tmp_path / "dags"
        folder.mkdir(exist_ok=True)
        (folder / "documented.py").write_text(program, encoding="utf-8")
        bag = DagBag(dag_folder=str(folder))
        assert bag.import_errors == {}
        return bag.dags

    return parse


def test_the_documented_consumer_waits_for_the_asset(documented, parsed, dag_bag):
    (published,) = dag_bag().dags["plan_ticks"].get_task("publish").outlets
    dags = parsed(documented("tell_the_edge"))
    assert list(dags["tell_the_edge"].schedule) == [published]


def test_the_documented_consumer_acts_on_the_newest_version(documented, capsys):
    from airflow.sdk import Asset

    program = documented("tell_the_edge")
    names: dict = {}
    exec(program.replace("tell_the_edge()\n", "made = tell_the_edge()\n"), names)
    announce = names["made"].get_task("announce").python_callable
    plan = Asset(name="headgate_plan_ticks", uri="headgate://plans/ticks")
    events = [
        SimpleNamespace(extra={"version": version, "stream": "ticks"}) for version in (1, 3, 2)
    ]
    assert announce({plan: events}) == 3
    assert "version 3 of ticks is out" in capsys.readouterr().out


def test_the_documented_sensor_comes_before_what_waits_for_it(documented, parsed):
    dag = parsed(documented("PlanInForceSensor"))["open_the_gate"]
    sensor = dag.get_task("followed")
    assert (sensor.stream, sensor.nodes, sensor.deferrable) == ("ticks", 3, True)
    assert sensor.downstream_task_ids == {"announce"}


def test_the_documented_dag_file_plans_the_streams_beside_it(
    documented, parsed, tmp_path, stream_text, monkeypatch
):
    monkeypatch.delenv("HEADGATE_STREAMS", raising=False)
    (tmp_path / "dags" / "streams").mkdir(parents=True)
    (tmp_path / "dags" / "streams" / "ticks.yaml").write_text(stream_text, encoding="utf-8")
    assert list(parsed(documented("planning_dags"))) == ["plan_ticks"]
