"""The archive of Java's classes: made by a rehearsal, named after Java, never in the way."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from headgate_airflow import class_archive, embedded
from headgate_airflow.local import LocalAirflow, free_port
from upath import UPath

from planning import families
from planning.home import Home
from planning.stages.collect import collect
from planning.stages.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def airflow(tmp_path):
    return LocalAirflow(tmp_path, free_port())


@pytest.fixture
def run(airflow, definition) -> Run:
    """A run of the demo stream with its samples collected."""
    home = Home.at(airflow.home)
    folder = home.resolve(definition.landing)
    folder.mkdir(parents=True)
    families.family(definition.family).room("demo").land(UPath(folder), 0, definition)
    return Run(collect(home, definition, "run_1").folder)


def test_another_java_has_another_archive(tmp_path, monkeypatch):
    names = set()
    for release in ("17.0.1", "17.0.2"):
        (tmp_path / "release").write_text(f'JAVA_VERSION="{release}"')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        names.add(class_archive.archive_path(tmp_path))
    assert len(names) == 2
    assert class_archive.java_options(tmp_path) == ""


def test_a_rehearsal_leaves_an_archive_that_java_takes_and_the_run_as_it_was(airflow, run):
    before = sorted(path.name for path in Path(run.folder.path).rglob("*"))
    archive = class_archive.archive_path(airflow.cache)
    airflow.cache.mkdir(exist_ok=True)
    (airflow.cache / "spark-classes-of-a-former-java.jsa").write_bytes(b"")
    class_archive.Rehearsal(Path(run.folder.path), archive, airflow.environment()).end()
    assert [path.name for path in airflow.cache.iterdir()] == [archive.name]
    assert sorted(path.name for path in Path(run.folder.path).rglob("*")) == before
    environment = airflow.environment()
    assert str(archive) in environment["SPARK_SUBMIT_OPTS"]
    environment["SPARK_SUBMIT_OPTS"] += " -Xshare:on"  # fail unless the archive fits
    done = subprocess.run(
        ["spark-submit", "--version"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_rehearsal_that_fails_leaves_nothing(airflow, run):
    (run.folder / "collected.json").unlink()
    archive = class_archive.archive_path(airflow.cache)
    class_archive.Rehearsal(Path(run.folder.path), archive, airflow.environment()).end()
    assert list(airflow.cache.iterdir()) == []


def test_an_interrupted_run_stops_its_rehearsal_and_keeps_nothing(airflow, run):
    started = []
    others = set(psutil.Process().children())

    def interrupted() -> None:
        with embedded._archived_classes(airflow, run.folder.parent.name):
            started.extend(set(psutil.Process().children()) - others)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert started
    assert not any(process.is_running() for process in started)
    assert list(airflow.cache.iterdir()) == []


def test_an_abandoned_rehearsal_is_not_waited_for(airflow, run):
    archive = class_archive.archive_path(airflow.cache)
    rehearsal = class_archive.Rehearsal(Path(run.folder.path), archive, airflow.environment())
    rehearsal.abandon()
    assert rehearsal._process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
