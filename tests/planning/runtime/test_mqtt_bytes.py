"""Bytes and errors beside one dead band for all, on recorded data: the benchmark in small."""

import numpy as np
import pytest

pytest.importorskip("paho.mqtt.client")

from benchmarks import datasets, mqtt  # noqa: E402
from planning.artifacts import SigningKey, Store, TrustedKeys  # noqa: E402
from planning.runtime.mqtt import Node  # noqa: E402
from planning.runtime.mqtt.plans import message_of  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not datasets.folder().is_dir(), reason="the real data sets are not here"),
]


def test_a_plan_beats_one_delta_at_equal_bytes():
    for row in mqtt.positions(quick=True):
        assert row["met"], row


def test_a_plan_stays_near_the_best_band_in_hindsight():
    world = mqtt.Readings(300)
    keep = world.shed(0.1)
    sent = world.bytes(keep)

    def loss_of(name):
        unit = world.units[name]
        band = mqtt.narrowest(sent, 1e-3, 1e3, lambda band: world.bytes(world.banded(band, unit)))
        return world.loss(world.banded(band, unit))

    assert world.loss(keep) < 0.6 * loss_of("the same number")
    # Tuned on these very hours, with the plan's statistics and without a limit in any window.
    assert world.loss(keep) < 1.25 * loss_of("of the spread, categories once")


def test_what_is_measured_is_what_nodes_send(tmp_path):
    world = mqtt.Readings(100)
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))
    store.publish(
        "weather", world.plan, family="attributes", signer=signer, created_at="2026-01-02T03:04:05Z"
    )
    keep, total = world.shed(0.1), 0
    for place in range(12):
        node = Node(
            "mqtt://nowhere", "weather", f"station-{place}", trusted=TrustedKeys.of(signer),
            family="attributes", entity=["station"], load=0.1, memory=False,
        )  # fmt: skip
        assert node.plans.arrive("weather", message_of(store, "weather"))
        assert node.client.poll()
        sent = []
        node._send = sent.append
        for hour in range(100):
            one = slice(12 * hour + place, 12 * hour + place + 1)
            node.offer({n: c[one] for n, c in world.samples.items()}, 3600.0 * hour)
        assert len(sent) == np.count_nonzero(keep[place::12].any(axis=1))
        total += sum(mqtt.message_bytes(message[3:]) for message in sent)
    assert total == world.bytes(keep)
