"""The hook, and the sensor that waits until the nodes follow."""

from __future__ import annotations

import asyncio
import json
import logging
import os

import pytest
from msgspec.structs import replace

pytestmark = pytest.mark.airflow

NODES = "/headgate/api/streams/ticks/nodes"


@pytest.fixture
def connection(monkeypatch):
    """Define the connection ``headgate_there``."""

    def define(**fields) -> str:
        text = json.dumps({"conn_type": "headgate", **fields})
        monkeypatch.setenv("AIRFLOW_CONN_HEADGATE_THERE", text)
        return "headgate_there"

    return define


@pytest.fixture
def there(home, connection, monkeypatch) -> str:
    """A connection to the published home; this Airflow's own home is another one."""
    monkeypatch.setenv("HEADGATE_HOME", "/nowhere")
    return connection(extra={"home": str(home.root)})


def report(home, node: str, version: int, **said) -> None:
    from planning.artifacts import Status

    status = Status(node=node, version=version, at="2026-01-04T00:00:00Z", **said)
    home.store().report("ticks", status)


def sensor(**arguments):
    from headgate_airflow import PlanInForceSensor

    return PlanInForceSensor(task_id="wait", stream="ticks", poke_interval=0.01, **arguments)


def test_the_hook_reads_the_home_that_the_connection_names(there, home):
    from headgate_airflow import HeadgateHook

    hook = HeadgateHook(there)
    assert hook.latest("ticks") == 2
    assert [status.node for status in hook.nodes("ticks")] == ["edge-1", "edge-2"]
    assert hook.test_connection() == (True, f"{home.plans} can be read; streams with a plan: 1")


def test_plans_and_keys_may_be_elsewhere(home, connection, tmp_path):
    from headgate_airflow import HeadgateHook

    extra = {"home": str(tmp_path / "new"), "plans": str(home.plans), "keys": str(home.keys)}
    assert HeadgateHook(connection(extra=extra)).latest("ticks") == 2


def test_without_a_connection_it_is_this_installation(home):
    from airflow.sdk.exceptions import AirflowNotFoundException
    from airflow.utils.db import initdb
    from headgate_airflow import HeadgateHook

    initdb()
    assert HeadgateHook().latest("ticks") == 2
    with pytest.raises(AirflowNotFoundException):
        HeadgateHook("headgate_mistyped").latest("ticks")
    assert HeadgateHook("headgate_mistyped").test_connection()[0] is False


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "https://plans.example.org/"}, "https://plans.example.org"),
        ({"host": "plans.example.org", "port": 8080}, "http://plans.example.org:8080"),
        ({"host": "plans.example.org", "schema": "https"}, "https://plans.example.org"),
    ],
)
def test_a_host_is_the_plan_api(connection, fields, url):
    from headgate_airflow import HeadgateHook

    hook = HeadgateHook(connection(login="reader", password="secret", **fields))
    assert hook.get_conn() is hook.api
    assert (hook.api.url, hook.api.user, hook.api.token) == (url, "reader", "")
    assert HeadgateHook(connection(password="a token", **fields)).api.token == "a token"


def test_a_server_that_does_not_answer_is_reported(connection):
    from headgate_airflow import HeadgateHook
    from headgate_airflow.local import free_port

    hook = HeadgateHook(connection(host="127.0.0.1", port=free_port(), password="a token"))
    well, message = hook.test_connection()
    assert not well
    assert "got no usable answer" in message


def test_the_plan_api_agrees_with_the_store(connection, there, home, monkeypatch):
    from headgate_airflow import HeadgateHook
    from headgate_airflow.rest import Rest
    from headgate_serve import answers

    from planning.artifacts import Reader

    report(home, "edge-3", 1, refused={2: "rot"})
    said = json.loads(answers.nodes(Reader(home.plans), "ticks").body)
    monkeypatch.setattr(Rest, "call", lambda self, method, path: {NODES: said}[path])
    overhttp = HeadgateHook(connection(host="here")).nodes("ticks")
    stored = HeadgateHook(there).nodes("ticks")
    assert [replace(s, age_s=0.0) for s in overhttp] == [replace(s, age_s=0.0) for s in stored]
    assert overhttp[2].refused == {2: "rot"}


def test_the_sensor_counts_the_nodes_that_run_the_version_or_a_newer_one(there):
    for version, nodes, done in ((2, 1, True), (2, 2, False), (1, 2, True), (1, 3, False)):
        poke = sensor(headgate_conn_id=there, version=version, nodes=nodes).poke({})
        assert bool(poke) is done, (version, nodes)
    assert poke.xcom_value == ["edge-1", "edge-2"]


def test_a_silent_node_does_not_count_and_a_refusing_one_is_named(there, home, caplog):
    report(home, "edge-3", 2, heartbeat_s=30.0)
    report(home, "edge-4", 1, refused={2: "the signature is not valid"})
    with caplog.at_level(logging.INFO):
        assert sensor(headgate_conn_id=there, version=2, nodes=2).poke({})
    assert "edge-4 refuses version 2: the signature is not valid" in caplog.text
    assert "edge-3" not in caplog.text
    file = home.plans / "ticks" / "nodes" / "edge-3.json"
    heard = file.stat().st_mtime - 240
    os.utime(file, (heard, heard))
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert not sensor(headgate_conn_id=there, version=2, nodes=2).poke({})
    assert "edge-3 was last heard 4 minutes ago" in caplog.text


@pytest.mark.parametrize("version", [None, "2"])
def test_the_sensor_waits_here_until_the_nodes_follow(there, home, version, monkeypatch):
    from headgate_airflow import sensors

    looks = []

    def look(hook, stream, wanted):
        looks.append(wanted)
        if len(looks) == 2:
            report(home, "edge-2", 2)
        return nodes_running(hook, stream, wanted)

    nodes_running = sensors.nodes_running
    monkeypatch.setattr(sensors, "nodes_running", look)
    wait = sensor(headgate_conn_id=there, version=version, nodes=2, deferrable=False)
    assert wait.execute({}) == ["edge-1", "edge-2"]
    assert looks == [2, 2]


def test_a_deferrable_sensor_hands_over_to_its_trigger(there, home):
    from airflow._shared.module_loading import import_string
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        sensor(headgate_conn_id=there, nodes=2, deferrable=True).execute({})
    path, arguments = deferred.value.trigger.serialize()
    assert arguments["version"] == 2
    trigger = import_string(path)(**arguments)  # as the triggerer makes it

    async def fire():
        async def follow() -> None:
            await asyncio.sleep(0.05)
            report(home, "edge-2", 2)

        follower = asyncio.create_task(follow())
        event = await anext(trigger.run())
        await follower
        return event

    event = asyncio.run(asyncio.wait_for(fire(), 30))
    done = getattr(sensor(headgate_conn_id=there), deferred.value.method_name)
    assert done({}, event.payload) == ["edge-1", "edge-2"]


def test_a_deferrable_sensor_does_not_wait_for_what_is_already_true(there):
    wait = sensor(headgate_conn_id=there, version=1, nodes=2, deferrable=True)
    assert wait.execute({}) == ["edge-1", "edge-2"]
