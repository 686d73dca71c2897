"""Both encodings of a plan: they decode to equal plans, and damaged ones are refused."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.fit import examples
from planning.artifacts import codec
from planning.errors import ArtifactError
from planning.fit import Plan
from planning.fit.plan import Part, PlanDocument
from planning.fit.planner import plan_network
from planning.fit.printed.distributions import Exponential
from planning.fit.shedder import Shedder


def test_both_encodings_decode_to_equal_plans(plan: Plan):
    document = json.loads(json.dumps(plan.to_document()))
    from_json, from_binary = Plan.from_document(document), Plan.from_bytes(plan.to_bytes())
    assert from_json.to_document() == from_binary.to_document() == plan.to_document()
    assert from_json.to_bytes() == plan.to_bytes()
    rates = np.random.default_rng(0).random((50, 2)) * plan.network.max_rates
    np.testing.assert_allclose(from_json.at_many(rates), plan.at_many(rates), atol=1e-12)
    np.testing.assert_allclose(from_binary.at_many(rates), plan.at_many(rates), atol=1e-12)


@pytest.mark.parametrize("error", [0.05, 0.3])
@pytest.mark.parametrize("method", ["exact", "simplex", "solver", "solver_w", "c_fit"])
def test_the_binary_form_is_never_larger_than_json(method: str, error: float):
    for network in (examples.figure_1(), examples.figure_7(), examples.figure_9("c")):
        workload = Exponential(0.2, len(network.inputs))
        plan = plan_network(network, method=method, error=error, workload=workload)
        binary = codec.encode_binary(plan, "fit")
        assert len(binary) <= len(codec.encode_json(plan, "fit"))
        assert codec.document(codec.decode(binary, "binary")[1]) == codec.document(plan)


def test_compressed_forms_that_unfold_to_much_are_refused():
    payload = plan_network(examples.figure_1(), method="c_fit", error=0.3).to_bytes()
    assert payload[:1] == b"z"
    bomb = zlib.compress(bytes(10**7))
    for broken in (
        payload[:3],
        payload[:-4],
        b"z" + (2**31).to_bytes(4, "little") + bomb,
        b"z" + (100).to_bytes(4, "little") + bomb,
        b"z" + (4).to_bytes(4, "little") + zlib.compress(b"[1,2"),
    ):
        with pytest.raises(ArtifactError):
            Plan.from_bytes(broken)


def test_headroom_and_qualities_survive_and_are_checked():
    plain = plan_network(examples.figure_1())
    assert not {"headroom", "qualities"} & set(plain.to_document())
    plan = replace(plain, headroom=1.5, qualities=(0.0, 0.5, 1.0))
    for again in (Plan.from_bytes(plan.to_bytes()), Plan.from_document(plan.to_document())):
        assert (again.headroom, again.qualities) == (1.5, (0.0, 0.5, 1.0))
    for spoilt in ({"headroom": 0.9}, {"headroom": math.nan}, {"qualities": [0.0, 1.1]}):
        with pytest.raises(ArtifactError):
            Plan.from_document({**plan.to_document(), **spoilt})


def spoilt(plan: Plan, /, **changes: Callable[[np.ndarray], np.ndarray]) -> Plan:
    """Return the plan with some arrays of its table changed."""
    table = plan.parts[0].table
    fields = table._asdict() if isinstance(table, tuple) else {
        **table.index._asdict(), "drops": table.drops
    }  # fmt: skip
    for name, change in changes.items():
        fields[name] = change(fields[name].copy())
    if isinstance(table, tuple):
        made = table._replace(**fields)
    else:
        drops = fields.pop("drops")
        made = replace(table, index=table.index._replace(**fields), drops=drops)
    return replace(plan, parts=(Part(plan.parts[0].network, made),))


def put(value: float, place: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[place] = value
        return array

    return change


@pytest.mark.parametrize(("method", "changes"), [
    ("solver", {"child": put(2**63 - 1)}),
    ("solver", {"child": put(2**62)}),
    ("solver", {"plan": lambda a: np.where(a >= 0, -3, a)}),
    ("solver", {"plan": lambda a: np.where(a >= 0, -1, a)}),
    ("solver", {"plan": lambda a: a[:0], "child": lambda a: a[:0]}),
    ("solver", {"fractions": lambda a: a * np.nan}),
    ("solver", {"fractions": lambda a: a * 0 - 1}),
    ("c_fit", {"following": lambda a: np.arange(len(a))}),
    ("c_fit", {"first": np.zeros_like}),
    ("c_fit", {"orthant": lambda a: a[:1]}),
    ("c_fit", {"drops": lambda a: a * np.nan}),
    ("c_fit", {"drops": lambda a: a * 0 - 5}),
    ("c_fit", {"drops": lambda a: a * 0 + 7}),
    ("regions", {"value": lambda a: a[:, :0], "rule": lambda a: a[:0], "starts": lambda a: a[:1]}),
    ("regions", {"rule": lambda a: a * np.nan}),
    ("regions", {"rule": lambda a: a * 0 + np.inf}),
    ("regions", {"facets": lambda a: a * np.nan}),
    ("regions", {"starts": lambda a: a * 0 + 2**62}),
])  # fmt: skip
def test_signed_tables_that_are_wrong_are_refused_before_they_are_followed(
    method: str, changes: dict[str, Any]
):
    wrong = spoilt(plan_network(examples.figure_1(), method=method), **changes)
    with pytest.raises(ArtifactError):
        Shedder(codec.decode(codec.encode_binary(wrong, "fit"), "binary")[1], 0.1)


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
