"""Devices on a real broker: what they take, what they send, and what a receiver shows."""

import subprocess
import sys
import time

import numpy as np
import pytest

paho = pytest.importorskip("paho.mqtt.client")

from benchmarks.broker import MOSQUITTO, Broker  # noqa: E402
from benchmarks.mqtt_fleet import storm  # noqa: E402
from planning.artifacts import SigningKey, TrustedKeys  # noqa: E402
from planning.attributes.receiver import Receiver as FillForward  # noqa: E402
from planning.attributes.receiver import Sent  # noqa: E402
from planning.errors import ArtifactError  # noqa: E402
from planning.examples import demo_plan, demo_samples, demo_store  # noqa: E402
from planning.lira.simulate import in_order, server_view  # noqa: E402
from planning.runtime.mqtt import Node, Receiver, Twin, publish_plan, wire  # noqa: E402
from planning.runtime.mqtt.plans import message_of  # noqa: E402

pytestmark = pytest.mark.skipif(not MOSQUITTO, reason="mosquitto is not installed")
PATIENCE_S = 60.0


def until(so):
    end = time.monotonic() + PATIENCE_S
    while not so():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.01)


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path) as broker:
        yield broker


class Client(paho.Client):
    """Somebody else on the broker."""

    def __init__(self, broker):
        super().__init__(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.connect("127.0.0.1", broker.port)
        self.loop_start()

    def say(self, topic, payload, retain=False):
        self.publish(topic, payload, qos=1, retain=retain).wait_for_publish(PATIENCE_S)


@pytest.fixture
def somebody(broker):
    client = Client(broker)
    yield client
    client.disconnect()
    client.loop_stop()


def sensors(broker, signer, tmp_path, name="edge-1", **options):
    return Node(
        broker.address, "sensors", name, trusted=TrustedKeys.of(signer), family="attributes",
        entity=("machine",), memory=tmp_path / "memory", wait_s=0.1, **options,
    )  # fmt: skip


def rows_of(samples, rows):
    return {name: column[rows] for name, column in samples.items()}


def restamped(message):
    """Return a message with one bit of its signature changed."""
    place = message.rindex(b'"signature":"') + 20
    return (
        message[:place]
        + (b"A" if message[place : place + 1] != b"A" else b"B")
        + message[place + 1 :]
    )


def test_a_plan_is_taken_only_if_it_is_sound_and_no_older(broker, somebody, tmp_path):
    store, signer = demo_store("attributes", versions=3)
    plan = demo_plan("attributes")
    others, _ = demo_store("lira")
    publish_plan(broker.address, store, "sensors", 2)
    sound = message_of(store, "sensors", 2)
    forger = SigningKey.load_or_create(tmp_path / "forger")
    forged, _ = demo_store("attributes")
    forged.trusted = TrustedKeys.of(forger)
    for _ in range(4):
        forged.publish(
            "sensors", plan, family="attributes", signer=forger, created_at="2026-01-02T04:00:00Z"
        )
    manifest, _ = wire.split_plan(message_of(store, "sensors", 3))
    bad = {
        "forged": message_of(forged, "sensors", 4),
        "older": message_of(store, "sensors", 1),
        "mixed": wire.join_plan(manifest, message_of(others, "fleet")[-500:]),
        "damaged": sound[:-1] + bytes([sound[-1] ^ 1]),
        "cut off": sound[:40],
        "signature": restamped(sound),
        "another stream": message_of(others, "fleet"),
        "empty": b"",
    }
    with sensors(broker, signer, tmp_path) as node:
        until(lambda: node.client.version == 2)
        for number, message in enumerate(bad.values(), 1):
            somebody.say("headgate/sensors/plan", message, retain=True)
            until(lambda number=number: node.plans.refusals == number)
            assert node.client.version == 2
        publish_plan(broker.address, store, "sensors", 3)
        until(lambda: node.client.version == 3)
        assert node.plans.refusals == len(bad)
    broker.kill()
    after = sensors(broker, signer, tmp_path)  # without a broker it has what it remembers
    assert after.client.version == 3
    assert not after.plans.arrive("sensors", sound)  # version 2 is older than what it has seen


def test_a_plan_message_has_both_parts_or_is_refused():
    assert wire.split_plan(wire.join_plan(b"m", b"p")) == (b"m", b"p")
    for damaged in (b"", b"HGP1", b"HGP1\xff\xff\xff\xffm", b"HGP2\x01\x00\x00\x00mp"):
        with pytest.raises(ArtifactError):
            wire.split_plan(damaged)


def test_what_is_rebuilt_is_what_filling_forward_gives(broker, tmp_path):
    store, signer = demo_store("attributes")
    publish_plan(broker.address, store, "sensors")
    samples = rows_of(demo_samples("attributes"), slice(1200))
    receiver = Receiver(broker.address, "sensors")
    with receiver, sensors(broker, signer, tmp_path, load=0.4) as node:
        until(lambda: node.client.version == 1)
        until(lambda: node.connected)
        masks, offer = [], node.shedder.offer
        node.shedder.offer = lambda batch: masks.append(offer(batch)) or masks[-1]
        for i in range(1200):
            node.offer(rows_of(samples, slice(i, i + 1)), float(i))
        until(lambda: receiver.shown("edge-1").seq == node.seq)
        shown = receiver.shown("edge-1")
        assert shown.state == "alive"
    keep = np.concatenate(masks)
    plan = store.load("sensors").plan
    sent = Sent(plan.attributes, samples, keep, np.zeros(1200, dtype=np.int64))
    filled = FillForward(plan).accept(sent, np.arange(1200.0))
    rows = np.flatnonzero(sent.tuples)
    assert 0 < node.messages == len(rows) < 1200
    assert keep[rows].mean() < 0.6
    for machine in np.unique(samples["machine"][rows]):
        last = np.flatnonzero(samples["machine"][rows] == machine)[-1]
        row = shown.current[(machine,)]
        for j, name in enumerate(plan.attributes):
            if name == "machine" or filled.staleness[last, j] < 0:
                assert name not in row
                continue
            assert row[name].value == filled.columns[name][last]
            assert row[name].time_s == rows[last] - filled.staleness_s[last, j]


def test_positions_are_where_the_server_believes_them(broker, tmp_path):
    store, signer = demo_store("lira")
    publish_plan(broker.address, store, "fleet")
    samples = in_order(demo_samples("lira"))
    samples = rows_of(samples, samples["object_id"] < 8)
    receiver = Receiver(broker.address, "fleet")
    with receiver:
        nodes = [
            Node(
                broker.address, "fleet", f"bus-{i}", trusted=TrustedKeys.of(signer), family="lira",
                load=0.5, memory=False,
            ).start()
            for i in range(8)
        ]  # fmt: skip
        until(lambda: all(node.client.version == 1 and node.connected for node in nodes))
        keep = np.zeros(len(samples["time"]), dtype=np.bool_)
        for i in range(len(keep)):
            node = nodes[int(samples["object_id"][i])]
            keep[i] = node.offer(rows_of(samples, slice(i, i + 1))) > 0
        until(lambda: all(receiver.shown(node.node).seq == node.seq for node in nodes))
        believed = server_view(samples, keep, 100.0)
        for node in nodes:
            rows = np.flatnonzero(samples["object_id"] == int(node.node[4:]))
            now = samples["time"][rows[-1]]
            ((_, _, x, y),) = [p for p in receiver.positions(now) if p[0] == node.node]
            # Positions are sent in centimetres, velocities in millimetres per second.
            age = now - samples["time"][rows[keep[rows]][-1]]
            assert np.abs(believed[rows[-1]] - (x, y)).max() <= 0.006 + 0.0006 * age
            node.stop()
    assert 8 < keep.sum() < len(keep)


def test_a_silent_node_is_told_from_a_dead_one(broker, tmp_path):
    store, signer = demo_store("attributes")
    row = rows_of(demo_samples("attributes"), slice(1))
    receiver = Receiver(broker.address, "sensors", audit_s=0.2)
    assert receiver.shown("edge-1").state == "unknown"
    with receiver, sensors(broker, signer, tmp_path) as node:
        until(lambda: receiver.states() == {"edge-1": "alive"})
        node.offer(row, 5.0)
        until(lambda: receiver.shown("edge-1").current)
        births = receiver.births
        time.sleep(1.0)  # several audits, and not a word from the node
        assert receiver.shown("edge-1").current[("m00",)]["temperature"] == (61.3, 5.0)
        assert receiver.births == births
        node._client.socket().close()  # the cable is cut
        until(lambda: receiver.shown("edge-1").session != node.session or node.connections == 2)
        until(lambda: receiver.states() == {"edge-1": "alive"})
        assert receiver.shown("edge-1").current[("m00",)]["temperature"] == (61.3, 5.0)
        node.stop()
        until(lambda: receiver.states() == {"edge-1": "dead"})
        shown = receiver.shown("edge-1")
        assert shown.current == {}
        assert shown.last[("m00",)]["temperature"] == (61.3, 5.0)
    with Receiver(broker.address, "sensors") as later:  # has only what the broker has retained
        until(lambda: later.states() == {"edge-1": "dead"})
        assert later.shown("edge-1") == ("dead", -1, -1, {}, {})


def test_a_lost_message_is_noticed_and_mended(broker, tmp_path):
    _, signer = demo_store("attributes")
    samples = demo_samples("attributes")
    shown = []
    receiver = Receiver(
        broker.address, "sensors", listener=lambda node: shown.append(receiver.shown(node))
    )
    with receiver, sensors(broker, signer, tmp_path) as node:
        until(lambda: receiver.states() == {"edge-1": "alive"})
        node.offer(rows_of(samples, slice(1)), 0.0)
        send, node._send = node._send, lambda message: None
        node.offer(rows_of(samples, slice(12, 13)), 1.0)  # the same machine: this one is lost
        node._send = send
        node.offer(rows_of(samples, slice(1, 2)), 2.0)
        until(lambda: receiver.births == 2)
        until(lambda: receiver.shown("edge-1").current == node.twin.rows())
    assert receiver.lost == 1
    states = [s.state for s in shown]
    assert "stale" in states
    # Never the other machine's news beside the old value of the first.
    for state in shown:
        if ("m01",) in state.current:
            assert state.current[("m00",)]["temperature"].time_s == 1.0


def test_a_late_receiver_asks_and_an_old_birth_is_not_current(broker, somebody, tmp_path):
    _, signer = demo_store("attributes")
    ghost = Twin(("level",))
    ghost.report(("pump",), 1.0, {0: 3.5})
    birth = wire.encode_birth(ghost.birth(7, 1))
    somebody.say("headgate/sensors/NBIRTH/ghost", birth, retain=True)
    with sensors(broker, signer, tmp_path) as node:
        until(lambda: node.connected)
        node.offer(rows_of(demo_samples("attributes"), slice(3)), 1.0)
        with Receiver(broker.address, "sensors") as receiver:
            until(lambda: receiver.shown("edge-1").state == "alive")
            assert receiver.shown("edge-1").current == node.twin.rows()
            until(lambda: "ghost" in receiver.states())
            assert receiver.shown("ghost").state in ("unknown", "stale")
            assert receiver.shown("ghost").current == {}
            # A will that comes late, of a session before: the node says that it is there.
            births = receiver.births
            somebody.say("headgate/sensors/NDEATH/edge-1", wire.DEATH.pack(1))
            until(lambda: receiver.births > births)
            assert receiver.shown("edge-1").state == "alive"
            # What cannot be read is counted, and the node is asked.
            somebody.say("headgate/sensors/NDATA/edge-1", b"\x00")
            until(lambda: receiver.refused == 1)
            until(lambda: receiver.shown("edge-1").state == "alive")


@pytest.mark.slow
def test_a_storm_shows_no_wrong_value(tmp_path):
    result = storm(tmp_path, {"attributes": 6, "lira": 6}, 3, 0.3)
    assert (result.wrong, result.strange, result.current_in_outage) == (0, 0, 0)
    assert (result.dead, result.alive) == (6, 6)
    assert result.shown > 3 * 12


def test_devices_stay_light():
    heavy = "'airflow', 'ortools', 'pandas', 'pyarrow', 'pydantic', 'pyspark', 'scipy'"
    code = (
        "import sys, planning.runtime.mqtt.node, planning.runtime.mqtt.receiver\n"
        f"print([name for name in ({heavy}) if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
