"""Headgate as a provider: what it registers exists, and its lineage is what the stages do."""

from __future__ import annotations

import json
from importlib import import_module, resources
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def info():
    from headgate_airflow.provider import get_provider_info

    return get_provider_info()


def test_the_description_follows_airflow_s_schema(info):
    import jsonschema

    schema = json.loads((resources.files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(info, schema)


def test_everything_that_is_registered_exists(info):
    from headgate_airflow.hooks import HeadgateHook

    for kind in ("operators", "sensors", "hooks", "triggers"):
        for entry in info[kind]:
            for module in entry["python-modules"]:
                import_module(module)
    links = [name.rpartition(".") for name in info["extra-links"]]
    assert all(hasattr(import_module(module), name) for module, _, name in links)
    (connection,) = info["connection-types"]
    assert connection["connection-type"] == HeadgateHook.conn_type
    module, _, name = connection["hook-class-name"].rpartition(".")
    assert getattr(import_module(module), name) is HeadgateHook


def test_airflow_knows_the_provider_and_its_connection_type():
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    assert "headgate" in ProvidersManager().providers
    assert ProvidersManagerTaskRuntime().hooks["headgate"].hook_name == "Headgate"


def test_the_package_offers_its_names_and_no_others():
    import headgate_airflow

    for name in headgate_airflow.__all__:
        assert getattr(headgate_airflow, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'dag_factory'"):
        _ = headgate_airflow.dag_factory


def test_the_home_is_below_airflow_s_unless_it_is_named(tmp_path, monkeypatch):
    from headgate_airflow import places

    monkeypatch.setenv("HEADGATE_HOME", "")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert places.home().root.path == str(tmp_path / "headgate")
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "elsewhere"))
    assert places.home().root.path == str(tmp_path / "elsewhere")


def test_each_stage_reads_what_an_earlier_one_wrote(home, plan, definition):
    """From the landed files to the published plan there is a dataset between any two stages."""
    from headgate_airflow.lineage import STAGES, datasets

    from planning.stages.publish import publish

    run = plan(home, 7)
    publish(home, run, created_at="2026-01-09T00:00:00Z")
    known = {str(path) for path in home.resolve(definition.landing).iterdir()}
    for stage in STAGES:
        read, written = datasets(stage, home, run)
        assert read
        assert written
        assert {str(path) for path in read} <= known
        assert all(path.exists() for path in (*read, *written))
        known |= {str(path) for path in written}
    assert str(home.plans / "ticks") in known


def test_every_stage_s_operator_reports_its_lineage(definition):
    from airflow.sdk import Asset
    from headgate_airflow import lineage, operators

    asset = Asset(name="headgate_plan_ticks", uri="headgate://plans/ticks")
    stages = [
        operators.CollectOperator(task_id="collect", definition=definition),
        operators.ValidateOperator(task_id="validate", stream="ticks", family="sifter"),
        operators.StatisticsOperator(task_id="statistics", stream="ticks", family="sifter"),
        operators.SolveOperator(task_id="solve", stream="ticks"),
        operators.GateOperator(task_id="gate", stream="ticks"),
        operators.PublishOperator(task_id="publish", stream="ticks", asset=asset),
    ]
    assert [stage.stage_name for stage in stages] == list(lineage.STAGES)


def test_openlineage_gets_the_datasets_from_the_operator(published_home, monkeypatch):
    from airflow.providers.openlineage.extractors.base import DefaultExtractor
    from headgate_airflow.operators import SolveOperator

    root = published_home.root.path
    monkeypatch.setenv("HEADGATE_HOME", root)
    solve = SolveOperator(task_id="solve", stream="ticks")
    instance = SimpleNamespace(run_id="batch-1")
    told = DefaultExtractor(solve).extract_on_complete(instance)
    (read,), (written,) = told.inputs, told.outputs
    assert (read.namespace, read.name) == ("file", f"{root}/runs/ticks/batch-1/statistics.json")
    assert (written.namespace, written.name) == (
        "file", f"{root}/runs/ticks/batch-1/candidate.json",
    )  # fmt: skip


def test_the_lineage_of_a_run_that_failed_at_once_is_empty(home):
    from headgate_airflow.lineage import datasets

    from planning.stages.run import Run

    assert datasets("collect", home, Run.of(home, "ticks", "never")) == ([], [])
