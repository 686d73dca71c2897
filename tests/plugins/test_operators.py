"""The stages as operators: skipping, failing for good, retrying, publishing once."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections import defaultdict
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def context():
    """What a task sees of Airflow, as far as the stages use it."""
    return lambda run_id, **params: {
        "run_id": run_id,
        "params": {"dry_run": False, "force": False, **params},
        "outlet_events": defaultdict(SimpleNamespace),
    }


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    from planning.home import Home

    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "empty"))
    return Home.from_environment()


@pytest.fixture
def publisher():
    from airflow.sdk import Asset
    from headgate_airflow.operators import PublishOperator

    asset = Asset(name="headgate_plan_ticks", uri="headgate://plans/ticks")
    return PublishOperator(task_id="publish", stream="ticks", asset=asset)


def versions(home):
    from planning.artifacts import Store, TrustedKeys

    return Store(home.plans, TrustedKeys.load(home.keys)).versions("ticks")


def test_collect_skips_when_nothing_is_new(definition, empty_home, context):
    from airflow.sdk.exceptions import AirflowSkipException
    from headgate_airflow.operators import CollectOperator

    collect = CollectOperator(task_id="collect", definition=definition)
    with pytest.raises(AirflowSkipException, match="no new parquet files"):
        collect.execute(context("r1"))


def test_collect_applies_the_form_s_overrides(definition, empty_home, context):
    from headgate_airflow.operators import CollectOperator

    from planning.families import family
    from planning.stages.run import Run

    family("sifter").room("demo").land(empty_home.resolve(definition.landing), 0, definition)
    collect = CollectOperator(task_id="collect", definition=definition)
    form = {"fairness_threshold": None, "partitioner": "", "calibrate": False}
    uri = collect.execute(context("r1", regions=9, **form))
    parameters = Run.at(uri).definition().parameters
    assert parameters.regions == 9
    assert parameters.calibrate is False
    assert parameters.fairness_threshold == definition.parameters.fairness_threshold
    assert parameters.partitioner == definition.parameters.partitioner


def test_a_contradictory_override_fails_without_retry(definition, empty_home, context):
    from airflow.sdk.exceptions import AirflowFailException
    from headgate_airflow.operators import CollectOperator

    collect = CollectOperator(task_id="collect", definition=definition)
    with pytest.raises(AirflowFailException, match="regions"):
        collect.execute(context("r1", regions=-1))


def test_an_unreachable_store_is_retried(empty_home, context):
    from airflow.sdk.exceptions import AirflowFailException
    from headgate_airflow.operators import StageOperator

    from planning.errors import StoreError

    class Unreachable(StageOperator):
        def stage(self, home, run, context):
            raise StoreError("the store cannot be reached")

    with pytest.raises(StoreError) as raised:
        Unreachable(task_id="x", stream="ticks").execute(context("r1"))
    assert not isinstance(raised.value, AirflowFailException)


def test_a_repeated_publish_does_not_publish_twice(home, publisher, context):
    before = versions(home)
    again = context("batch-1")
    summary = publisher.execute(again)
    assert summary["version"] == 2
    assert versions(home) == before == (1, 2)
    extra = again["outlet_events"][publisher.asset].extra
    assert extra["version"] == 2
    assert extra["stream"] == "ticks"
    assert extra["family"] == "sifter"
    assert extra["run"] == "batch-1"
    assert len(extra["digest"]) == 64


def test_publish_skips_in_a_dry_run_and_when_the_gate_refused(
    empty_home, plan, publisher, context
):
    from airflow.sdk.exceptions import AirflowSkipException

    run = plan(empty_home, 0)
    with pytest.raises(AirflowSkipException, match="dry run"):
        publisher.execute(context("batch-0", dry_run=True))
    assert versions(empty_home) == ()
    verdict = run.read("verdict")
    run.write("verdict", verdict | {"decision": "refuse", "reason": "it loses 0.4"})
    with pytest.raises(AirflowSkipException, match="it loses 0.4"):
        publisher.execute(context("batch-0"))
    assert versions(empty_home) == ()
    run.write("verdict", verdict)
    assert publisher.execute(context("batch-0"))["version"] == 1


def test_a_missing_stage_fails_with_the_remedy(empty_home, context):
    from airflow.sdk.exceptions import AirflowFailException
    from headgate_airflow.operators import SolveOperator

    with pytest.raises(AirflowFailException, match=r"definition.json is missing"):
        SolveOperator(task_id="solve", stream="ticks").execute(context("never"))


def fake_spark_submit(folder, body: str, monkeypatch, host: str = "local[2]") -> None:
    """Put a spark-submit first on the path that only does what ``body`` says."""
    folder.mkdir()
    script = folder / "spark-submit"
    script.write_text(f"#!/bin/bash\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    connection = json.dumps({"conn_type": "spark", "host": host})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    monkeypatch.setenv("PYTHONPATH", "")


def test_a_rejected_batch_fails_without_retry(empty_home, context, tmp_path, monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException
    from headgate_airflow.operators import ValidateOperator

    from planning.stages.run import Run

    run = Run.of(empty_home, "ticks", "r1")
    run.write("validation", {"success": False, "error": "samples.min_rows asks for 100 rows"})
    fake_spark_submit(tmp_path / "bin", "exit 3", monkeypatch)
    with pytest.raises(AirflowFailException, match="asks for 100 rows"):
        ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("r1"))


def test_a_crash_of_spark_is_retried(empty_home, context, tmp_path, monkeypatch):
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from headgate_airflow.operators import ValidateOperator

    fake_spark_submit(tmp_path / "bin", "echo out of memory; exit 1", monkeypatch)
    with pytest.raises(AirflowException, match="out of memory") as raised:
        ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("r1"))
    assert not isinstance(raised.value, AirflowFailException)


def test_what_spark_submit_is_given(empty_home, context, tmp_path, monkeypatch, repository):
    from headgate_airflow.operators import StatisticsOperator, ValidateOperator

    told = tmp_path / "told"
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    script = f'printf "%s\\n" "$@" PYSPARK_PYTHON=$PYSPARK_PYTHON > {told}'
    fake_spark_submit(tmp_path / "bin", script, monkeypatch)
    ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("a:b"))
    lines = told.read_text().splitlines()
    assert lines[lines.index("--master") + 1] == "local[2]"
    assert lines[lines.index("--run") + 1] == str(empty_home.runs / "ticks" / "a_b")
    assert lines[lines.index("--data-docs") + 1] == str(empty_home.validation / "ticks")
    assert str(repository / "spark_apps" / "validate.py") in lines
    assert lines[-1] == f"PYSPARK_PYTHON={sys.executable}"
    assert "--verbose" not in lines
    assert "--py-files" not in lines
    StatisticsOperator(task_id="statistics", stream="ticks", family="sifter").execute(context("r"))
    assert any(line.endswith("region_frequencies.py") for line in told.read_text().splitlines())


def test_a_master_elsewhere_gets_the_library(empty_home, context, tmp_path, monkeypatch):
    from headgate_airflow.operators import ValidateOperator

    told = tmp_path / "told"
    script = f'printf "%s\\n" "$@" > {told}'
    fake_spark_submit(tmp_path / "bin", script, monkeypatch, host="spark://far:7077")
    ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("r"))
    lines = told.read_text().splitlines()
    assert lines[lines.index("--master") + 1] == "spark://far:7077"
    names = zipfile.ZipFile(lines[lines.index("--py-files") + 1]).namelist()
    for name in ("planning/streams.py", "expectations/__init__.py", "spark_apps/validate.py"):
        assert name in names


def test_another_python_gets_the_library_too(empty_home, context, tmp_path, monkeypatch):
    from headgate_airflow.operators import ValidateOperator

    told = tmp_path / "told"
    fake_spark_submit(tmp_path / "bin", f'printf "%s\\n" "$@" > {told}', monkeypatch)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/another/bin/python3")
    ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("r"))
    assert "--py-files" in told.read_text().splitlines()


def test_without_a_connection_spark_runs_here(empty_home, context, tmp_path, monkeypatch):
    from airflow.utils.db import initdb
    from headgate_airflow.operators import ValidateOperator

    initdb()
    told = tmp_path / "told"
    fake_spark_submit(tmp_path / "bin", f'printf "%s\\n" "$@" > {told}', monkeypatch)
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("r"))
    lines = told.read_text().splitlines()
    assert lines[lines.index("--master") + 1] == "local[*]"


def test_without_java_the_task_fails_with_the_remedy(empty_home, context, monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException
    from headgate_airflow.operators import ValidateOperator

    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(AirflowFailException, match="set JAVA_HOME"):
        ValidateOperator(task_id="validate", stream="ticks", family="sifter").execute(context("r1"))


def test_the_code_archive_is_named_after_its_content(tmp_path):
    from headgate_airflow.code import code_archive

    package = tmp_path / "library" / "planning"
    package.mkdir(parents=True)
    (package / "a.py").write_text("A = 1\n")
    first = code_archive(tmp_path / "cache", [package])
    assert zipfile.ZipFile(first).namelist() == ["planning/a.py"]
    content = first.read_bytes()
    assert code_archive(tmp_path / "cache", [package]) == first
    first.unlink()
    assert code_archive(tmp_path / "cache", [package]).read_bytes() == content
    (package / "a.py").write_text("A = 2\n")
    assert code_archive(tmp_path / "cache", [package]) != first


def test_every_family_has_a_statistics_app(repository):
    from planning import families
    from spark_apps import STATISTICS_APPS

    assert set(STATISTICS_APPS) == set(families.NAMES)
    for app in STATISTICS_APPS.values():
        assert (repository / "spark_apps" / f"{app}.py").is_file()


def test_a_scheduled_run_that_is_not_due_is_skipped(definition, empty_home, context, monkeypatch):
    from airflow.sdk.exceptions import AirflowSkipException
    from headgate_airflow.operators import CollectOperator

    from planning.stages import reevaluate

    monkeypatch.setattr(reevaluate, "due", lambda *_: (False, "next look in 60 s"))
    collect = CollectOperator(task_id="collect", definition=definition)
    with pytest.raises(AirflowSkipException, match="next look in 60 s"):
        collect.execute(context("scheduled__2026-01-01T00:00:00+00:00"))
    with pytest.raises(AirflowSkipException, match="no new parquet files"):
        collect.execute(context("manual__2026-01-01T00:00:00+00:00"))


def test_statistics_made_by_validate_are_taken_once(empty_home, context):
    from headgate_airflow.operators import StatisticsOperator

    from planning.stages.run import MADE_AHEAD, Run

    run = Run.of(empty_home, "ticks", "r1")
    run.write("statistics", {"samples": 1})
    run.write(MADE_AHEAD, {"app": "region_frequencies"})
    statistics = StatisticsOperator(
        task_id="statistics", stream="ticks", family="sifter", spark_binary="spark-submit"
    )
    statistics.execute(context("r1"))
    assert not run.has(MADE_AHEAD)
    assert run.read("statistics") == {"samples": 1}
