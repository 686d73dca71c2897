"""Both encodings of a plan: they decode to equal plans, and damaged ones are refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.fit import examples
from planning.errors import ArtifactError
from planning.fit import Plan
from planning.fit.plan import PlanDocument
from planning.fit.planner import plan_network


def test_both_encodings_decode_to_equal_plans(plan: Plan):
    document = json.loads(json.dumps(plan.to_document()))
    from_json, from_binary = Plan.from_document(document), Plan.from_bytes(plan.to_bytes())
    assert from_json.to_document() == from_binary.to_document() == plan.to_document()
    assert from_json.to_bytes() == plan.to_bytes()
    rates = np.random.default_rng(0).random((50, 2)) * plan.network.max_rates
    np.testing.assert_allclose(from_json.at_many(rates), plan.at_many(rates), atol=1e-12)
    np.testing.assert_allclose(from_binary.at_many(rates), plan.at_many(rates), atol=1e-12)


def test_the_schema_describes_the_document(plan: Plan):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(plan.to_document(), msgspec.json.schema(PlanDocument))
    through_envelope = msgspec.to_builtins(msgspec.convert(plan.to_document(), PlanDocument))
    assert Plan.from_document(through_envelope).to_document() == plan.to_document()


@pytest.mark.parametrize("spoil", [
    lambda d: d.update(format=9),
    lambda d: d.update(method="magic"),
    lambda d: d.update(extra=1),
    lambda d: d["reference"].pop(),
    lambda d: d["parts"].pop(),
    lambda d: d["network"]["operators"][0].update(cost=-1.0),
    lambda d: d["parts"][0].update(kind="lookup"),
    lambda d: d["parts"][0]["arrays"].pop("rule"),
    lambda d: d["parts"][0]["arrays"]["rule"].update(shape=[1, 1]),
    lambda d: d["parts"][0]["arrays"]["rule"].update(type="text"),
    lambda d: d["parts"][0]["arrays"]["starts"].update(type="float"),
    lambda d: d["parts"][0]["arrays"].update(more=d["parts"][0]["arrays"]["rule"]),
    lambda d: d["parts"][0]["arrays"]["starts"]["values"].reverse(),
])  # fmt: skip
def test_damaged_documents_are_refused(spoil: Any):
    document = plan_network(examples.figure_9("c")).to_document()
    spoil(document)
    with pytest.raises(ArtifactError):
        Plan.from_document(document)


def test_damaged_bytes_are_refused():
    payload = plan_network(examples.figure_9("c"), method="solver", error=0.2).to_bytes()
    for broken in (b"", payload[:-7], payload[: len(payload) // 2], b"\x00" * 40):
        with pytest.raises(ArtifactError):
            Plan.from_bytes(broken)


@pytest.mark.parametrize("spoil", [
    lambda rows: rows["first"]["values"].__setitem__(-1, 0),
    lambda rows: rows["first"]["values"].__setitem__(-1, rows["first"]["values"][0]),
    lambda rows: rows["following"]["values"].__setitem__(0, 10**6),
    lambda rows: rows["orthant"].update(shape=[1, len(rows["orthant"]["values"])]),
])  # fmt: skip
def test_rows_that_a_walk_could_not_leave_are_refused(spoil: Any):
    document = plan_network(examples.figure_9("c"), method="c_fit", error=0.2).to_document()
    spoil(document["parts"][0]["arrays"])
    with pytest.raises(ArtifactError, match="fit its network"):
        Plan.from_document(document)
