"""Plans that decode, or nearly, but cannot be evaluated: the plan in force stays."""

import json

import numpy as np
import pytest

from planning import families
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.errors import PlanningError
from planning.examples import demo_plan, demo_samples
from planning.runtime import PlanClient, RunningShedder

SPOILT = {
    "sifter": lambda d: (d.update(fairness_threshold=1.5), d["region_qos"].reverse()),
    "lira": lambda d: d.update(fairness_threshold=-1.0),
    "attributes": lambda d: [stream.update(cycle_length=0) for stream in d["streams"]],
    "joins": lambda d: d.update(
        comparisons=[0] * len(d["comparisons"]),
        type_frequency=[[0.0] * len(row) for row in d["type_frequency"]],
    ),
    "fit": lambda d: d["network"]["nodes"][0].update(capacity=1e308),
}


@pytest.mark.parametrize("name", families.NAMES)
def test_a_spoilt_plan_is_refused_and_the_good_one_stays(name, tmp_path):
    good = demo_plan(name)
    document = json.loads(json.dumps(good.to_document()))
    SPOILT[name](document)
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))

    def publish(plan):
        store.publish("s", plan, family=name, signer=signer, created_at="2026-01-02T03:04:05Z")

    publish(good)
    client = PlanClient(store, "s", node="n")
    shedder = RunningShedder(client, load=0.5)
    client.poll()
    batch = {key: column[:300] for key, column in demo_samples(name).items()}
    shedder.offer(batch)
    before, in_force = shedder.counters.snapshot(), shedder.shedder
    try:
        publish(type(good).from_document(document))
    except PlanningError:
        return  # refused before it could be published
    assert not client.poll()
    assert (client.version, client.refusals) == (1, 1)
    assert client.refused[2]
    assert shedder.shedder is in_force
    assert shedder.counters.snapshot() == before
    shedder.offer(batch)
    assert (shedder.version, shedder.counters.errors) == (1, 0)
    restarted = PlanClient(store, "s", node="n")
    restarted.poll()
    again = RunningShedder(restarted, load=0.5)
    assert np.shape(again.offer(batch)) == np.shape(shedder.offer(batch))
    assert (again.version, restarted.version) == (1, 1)
