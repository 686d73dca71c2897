"""Runs of whole DAGs inside this process; the end-to-end test does it with a real Airflow."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def run(dag_bag):
    """Run a DAG to its end; return its state and the states of its tasks."""

    def finish(dag_id: str) -> tuple[str, dict[str, str]]:
        ended = dag_bag().dags[dag_id].test()
        states = {task.task_id: str(task.state) for task in ended.get_task_instances()}
        return str(ended.state), states

    return finish


def test_without_new_samples_the_run_is_skipped_and_succeeds(run):
    state, tasks = run("plan_ticks")
    assert state == "success"
    assert set(tasks.values()) == {"skipped"}
    assert len(tasks) == 6


def test_unreadable_samples_fail_the_run_and_publish_nothing(run, home):
    landing = home / "landing" / "ticks"
    landing.mkdir(parents=True)
    (landing / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    state, tasks = run("plan_ticks")
    assert state == "failed"
    assert tasks["collect"] == "failed"
    assert tasks["publish"] == "upstream_failed"
    assert not (home / "plans").exists()


def test_a_broken_definition_fails_its_own_run(run, streams):
    (streams / "odd.yaml").write_text("stream: [")
    assert run("plan_odd") == ("failed", {"definition": "failed"})
