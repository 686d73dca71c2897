from __future__ import annotations

from pathlib import Path

import airflow_setup
import pytest

airflow_setup.prepare()


@pytest.fixture(scope="session")
def stream_text() -> str:
    return airflow_setup.STREAM


@pytest.fixture(scope="session")
def airflow_db() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """A separate, empty home."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def streams(tmp_path, monkeypatch, stream_text):
    """A separate folder of stream definitions with one good one."""
    folder = tmp_path / "streams"
    folder.mkdir()
    (folder / "ticks.yaml").write_text(stream_text, encoding="utf-8")
    monkeypatch.setenv("HEADGATE_STREAMS", str(folder))
    return folder


@pytest.fixture
def dag_bag(streams, repository, airflow_db):
    """Parse the DAG folder, as often as a test likes."""
    from airflow.dag_processing.dagbag import DagBag

    return lambda: DagBag(dag_folder=str(repository / "dags"))
