"""The plan is the same in both encodings, and refused when it is not whole."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.attributes.workload import stream
from planning.attributes.parameters import Parameters
from planning.attributes.plan import Plan
from planning.attributes.planner import plan_samples
from planning.errors import ArtifactError

METHODS = ("paper", "selection", "periods", "on_change")
SAMPLES = stream(np.random.default_rng(9), cycles=80, lengths=(6,),
                 persistence=(0.99, 0.9, 0.6, 0.2, 0.0))  # fmt: skip


def planned(samples: Any, **parameters: Any) -> Plan:
    return plan_samples(samples, Parameters(**parameters))


@pytest.mark.parametrize("method", METHODS)
def test_both_encodings_hold_the_same_plan(method: str) -> None:
    plan = planned(SAMPLES, method=method)
    document = plan.to_document()
    assert Plan.from_document(json.loads(json.dumps(document))).to_document() == document
    assert Plan.from_bytes(plan.to_bytes()).to_document() == document
    assert plan.to_bytes() == planned(SAMPLES, method=method).to_bytes()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("ratio"),
        lambda d: d["loss"].pop(),
        lambda d: d["kinds"].__setitem__(0, "colour"),
        lambda d: d["ratio"].reverse(),
        lambda d: d["choice"][0].append(0),
        lambda d: d["choice"][0].__setitem__(0, 250),
        lambda d: d["thinning"][0].__setitem__(0, 0),
        lambda d: d["streams"][0]["sizes"].pop(),
        lambda d: d["streams"][0]["cid"].append("nobody"),
        lambda d: d.__setitem__("format", 99),
        lambda d: d.__setitem__("tuple_bytes", 0.0),
        lambda d: d.__setitem__("surprise", 1),
        lambda d: d["streams"][0].__setitem__("cycle_length", 0),
        lambda d: d["streams"][0].__setitem__("header_bytes", -1),
        lambda d: d["streams"][0]["sizes"].__setitem__(0, 2**62),
        lambda d: d["streams"][0]["scale"].__setitem__(0, float("nan")),
        lambda d: d["streams"][0].__setitem__("sizes", [0] * len(d["attributes"])),
        lambda d: d["weight"].__setitem__(0, -1.0),
        lambda d: d["ratio"].__setitem__(0, -1.0),
        lambda d: d["loss"].__setitem__(0, float("inf")),
        lambda d: d["option_band"].__setitem__(0, float("nan")),
        lambda d: d["attributes"].__setitem__(1, d["attributes"][0]),
        lambda d: d.__setitem__("stream_attribute", "nobody"),
        lambda d: d.__setitem__("refresh", -1),
    ],
)
def test_a_plan_that_does_not_fit_together_is_refused(spoil: Any) -> None:
    document = planned(SAMPLES, method="periods").to_document()
    spoil(document)
    with pytest.raises(ArtifactError, match="attribute plan must"):
        Plan.from_document(document)


def test_published_plans_stay_readable() -> None:
    """A plan written by format 1 decodes to what it was."""
    golden = Path(__file__).parent / "golden"
    document = json.loads((golden / "plan.json").read_text())
    assert Plan.from_document(document).to_document() == document
    assert Plan.from_bytes((golden / "plan.bin").read_bytes()).to_document() == document


def test_corrupted_bytes_are_refused() -> None:
    payload = planned(SAMPLES, method="periods").to_bytes()
    for cut in range(0, len(payload) - 1, 7):
        with pytest.raises(ArtifactError):
            Plan.from_bytes(payload[:cut])
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        spoiled = bytearray(payload)
        spoiled[rng.integers(len(payload))] ^= 1 << int(rng.integers(8))
        try:
            Plan.from_bytes(bytes(spoiled))
        except ArtifactError:
            refused += 1
    assert refused > 150  # the others changed a number or a name, which the manifest's digest tells


def test_sizes_are_checked_before_memory_is_allocated() -> None:
    """A bomb of zeros, and more points than any plan has."""
    plan = planned(SAMPLES, method="periods")
    head, points, data = msgspec.msgpack.decode(plan.to_bytes()[4:])
    bomb = zlib.compress(bytes(10**6))
    for spoiled in ([head, points, bomb], [head, 10**9, bomb], [head, -1, data], [head, 0, b""]):
        with pytest.raises(ArtifactError, match="attribute plan must ha|attribute plan must ho"):
            Plan.from_bytes(b"HGA1" + msgspec.msgpack.encode(spoiled))
