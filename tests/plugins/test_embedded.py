"""Starting and stopping Airflow inside a folder: nothing is left running, errors are clear."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.airflow

START_AND_VANISH = """
import os, sys
from pathlib import Path
from headgate_airflow.local import LocalAirflow, free_port
airflow = LocalAirflow(Path(sys.argv[1]), free_port())
airflow.__enter__()
airflow.start(("triggerer",))
os._exit(9)
"""


def embedded(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate_airflow.embedded", *arguments]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, **changes}


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes that an Airflow in ``folder`` consists of, tasks and Spark included."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == str(folder / "airflow"):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def demo(tmp_path, repository):
    """A folder of definitions with one demo stream."""
    folder = tmp_path / "streams"
    folder.mkdir()
    text = (repository / "dags" / "streams" / "ticks.yaml").read_text(encoding="utf-8")
    (folder / "ticks.yaml").write_text(text, encoding="utf-8")
    for extra in (repository / "dags" / "streams").glob("ticks.*.jsonl"):
        (folder / extra.name).write_bytes(extra.read_bytes())
    return folder


def test_a_taken_port_is_reported_in_one_sentence(tmp_path, repository, demo):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            embedded("up", "--port", str(port), "--var", str(tmp_path), "--streams", str(demo)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert f"make up PORT={port + 1}" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_java_there_is_a_paragraph_and_no_trace(tmp_path, repository, demo):
    done = subprocess.run(
        embedded("run", "--var", str(tmp_path), "--streams", str(demo)),
        env=environment(JAVA_HOME="/nowhere"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "/nowhere/bin/java does not run" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "headgate").glob("landing/*/*"))


def test_without_demo_streams_there_is_nothing_to_run(tmp_path, repository):
    (tmp_path / "none").mkdir()
    done = subprocess.run(
        embedded("run", "--var", str(tmp_path / "var"), "--streams", str(tmp_path / "none")),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no demo stream" in done.stderr


def test_one_airflow_per_folder(tmp_path):
    from headgate_airflow.local import LocalAirflow, LocalAirflowError, free_port

    with LocalAirflow(tmp_path, free_port()):
        with pytest.raises(LocalAirflowError, match="already runs"):
            LocalAirflow(tmp_path, free_port()).__enter__()
    with LocalAirflow(tmp_path, free_port()):
        pass


def test_secrets_are_private_and_stay(tmp_path):
    from headgate_airflow.local import LocalAirflow

    airflow = LocalAirflow(tmp_path, 1)
    password = airflow.password
    secret = airflow.environment()["AIRFLOW__API_AUTH__JWT_SECRET"]
    assert len(secret) == 128
    for name in ("passwords.json", "jwt_secret"):
        assert (tmp_path / "airflow" / name).stat().st_mode & 0o777 == 0o600
    assert LocalAirflow(tmp_path, 2).password == password
    assert LocalAirflow(tmp_path, 2).environment()["AIRFLOW__API_AUTH__JWT_SECRET"] == secret


def test_what_a_killed_predecessor_left_is_cleared_away(tmp_path, repository):
    from headgate_airflow.local import LocalAirflow, free_port

    done = subprocess.run(
        [sys.executable, "-c", START_AND_VANISH, str(tmp_path)],
        check=False,
    )  # fmt: skip
    assert done.returncode == 9
    assert processes_of(tmp_path)
    with LocalAirflow(tmp_path, free_port()):
        assert processes_of(tmp_path) == []


def test_a_stranger_with_a_recycled_process_id_is_spared(tmp_path):
    from headgate_airflow.local import LocalAirflow, free_port

    stranger = subprocess.Popen(["sleep", "60"])
    (tmp_path / "airflow").mkdir()
    created = psutil.Process(stranger.pid).create_time() - 100
    (tmp_path / "airflow" / "processes.json").write_text(json.dumps([[stranger.pid, created]]))
    with LocalAirflow(tmp_path, free_port()):
        assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_component_that_dies_is_reported_with_the_end_of_its_log(tmp_path, monkeypatch):
    from headgate_airflow import local

    monkeypatch.setitem(local.COMPONENTS, "api-server", ("no-such-command",))
    with local.LocalAirflow(tmp_path, local.free_port()) as airflow:
        airflow.start(("api-server",))
        told = r"api-server\.log:\n(.|\n)*no-such-command"
        with pytest.raises(local.LocalAirflowError, match=told):
            local.wait_until(lambda: False, airflow, 60, "the start")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "when"),
    [(signal.SIGINT, "Ctrl-C stops everything"), (signal.SIGTERM, "Airflow starts")],
    ids=["interrupt when up", "terminate while starting"],
)
def test_up_shows_the_way_in_and_leaves_nothing_behind(tmp_path, repository, demo, stop, when):
    from headgate_airflow.local import free_port

    var = tmp_path / "var"
    log = tmp_path / "output"
    with log.open("w") as output:
        up = subprocess.Popen(
            embedded("up", "--port", str(free_port()), "--var", str(var), "--streams", str(demo)),
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    end = time.monotonic() + 180
    while when not in log.read_text() or not processes_of(var):
        assert up.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.5)
    if stop == signal.SIGINT:
        password = json.loads((var / "airflow" / "passwords.json").read_text())["admin"]
        assert f"admin / {password}" in log.read_text()
        assert "plan_ticks" in log.read_text()
        assert len(processes_of(var)) >= 4
    up.send_signal(stop)
    assert up.wait(timeout=60) in (130, 128 + stop)
    assert processes_of(var) == []
    assert "Traceback" not in log.read_text()
