"""The consumer DAG in the documentation."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.airflow


def test_the_documented_consumer_waits_for_the_asset(repository, tmp_path, airflow_db, dag_bag):
    from airflow.dag_processing.dagbag import DagBag

    text = (repository / "docs" / "airflow.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "consumer.py").write_text(program, encoding="utf-8")
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    (published,) = dag_bag().dags["plan_ticks"].get_task("publish").outlets
    assert list(bag.dags["tell_the_edge"].schedule) == [published]


def test_the_documented_consumer_acts_on_the_newest_version(repository, capsys):
    from types import SimpleNamespace

    from airflow.sdk import Asset

    text = (repository / "docs" / "airflow.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(program.replace("tell_the_edge()\n", "made = tell_the_edge()\n"), names)
    announce = names["made"].get_task("announce").python_callable
    plan = Asset(name="headgate_plan_ticks", uri="headgate://plans/ticks")
    events = [
        SimpleNamespace(extra={"version": version, "stream": "ticks"}) for version in (1, 3, 2)
    ]
    assert announce({plan: events}) == 3
    assert "version 3 of ticks is out" in capsys.readouterr().out
