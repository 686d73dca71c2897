"""Schema version 1: publications that nodes of release 0.1 read.

Such nodes refuse every field that they do not know. What only informs is left out for them; a plan
that would decide otherwise without what they do not know is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from planning.artifacts import codec
from planning.artifacts.manifest import Encoding
from planning.errors import InvalidInput
from planning.families import Plan, family

INFORMS = {"fit": ("qualities",), "joins": ("lasting",)}
"""Newer fields of plans that change what is predicted, and no decision."""
KNOWN = frozenset(
    "AxisDocument.values PartitionDocument.orders PinsDocument.low PinsDocument.high "
    "PlanDocument.pinned_fraction PlanDocument.pins InputDocument.size LinkDocument.capacity "
    "NetworkDocument.links NodeDocument.parent OperatorDocument.windows OperatorDocument.size "
    "OperatorDocument.window OutputDocument.priority OutputDocument.minimum PartDocument.arrays "
    "PartDocument.arcs WindowDocument.batch".split()
)
"""The optional fields of release 0.1; each that came later is optional, and absent if not used."""
COMPRESSED_FIT = codec.MAGIC + bytes([codec.FORMAT_VERSION, codec.FAMILY_IDS["fit"]]), b"z"


def plan_of(plan: Plan, family_name: str) -> Plan:
    """Return a plan without what only informs, or raise if nodes of 0.1 would refuse it.

    >>> from dataclasses import replace
    >>> from planning.examples import demo_plan
    >>> plan_of(replace(demo_plan("sifter"), budget_tolerance=0.05), "sifter")
    Traceback (most recent call last):
    ...
    planning.errors.InvalidInput: schema_version must be 2 for a sifter plan with \
budget_tolerance, got 1: nodes of release 0.1 refuse such a plan; upgrade them and set \
schema_version: 2, or plan without budget_tolerance
    """
    document = codec.document(plan)
    for name in INFORMS.get(family_name, ()):
        document.pop(name, None)
    plan = family(family_name).room("plan").Plan.from_document(document)
    envelope = codec.encode_json(plan, family_name)
    typed = msgspec.json.decode(envelope, type=codec.envelope_type(family_name))
    newer = sorted(set(_newer(typed.plan, msgspec.json.decode(envelope)["plan"])))
    if newer:
        raise refused(f"a {family_name} plan with {newer[0]}", f"plan without {newer[0]}")
    return plan


def check_bytes(data: Mapping[Encoding, bytes]) -> None:
    """Raise if the compact form of a plan is one that nodes of 0.1 cannot read."""
    start, mark = COMPRESSED_FIT
    binary = data["binary"]
    if binary.startswith(start) and binary[codec.HEADER.size :].startswith(mark):
        raise refused("a fit plan whose compact form is compressed", "plan with another method")


def without_news(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest's fields as 0.1 knows them, or raise if the plan keeps guarantees."""
    if fields.get("guarantees"):
        names = ", ".join(kept["name"] for kept in msgspec.to_builtins(fields["guarantees"]))
        raise refused(f"a plan with guarantees ({names})", "take the guarantees out")
    kept = {k: v for k, v in fields.items() if k not in ("certificate", "guarantees")}
    points = msgspec.to_builtins(fields["predicted"])
    gate = msgspec.to_builtins(fields["gate"])
    return {
        **kept,
        "predicted": [{"load": point["load"], "quality": point["quality"]} for point in points],
        "gate": {name: value for name, value in gate.items() if name != "warnings"},
    }


def refused(what: str, otherwise: str) -> InvalidInput:
    """Return the error for what nodes of 0.1 would refuse."""
    return InvalidInput(
        f"schema_version must be 2 for {what}, got 1: nodes of release 0.1 refuse such a plan; "
        f"upgrade them and set schema_version: 2, or {otherwise}"
    )


def _newer(typed: Any, raw: Any) -> Iterator[str]:
    """Yield the fields of a document that came after release 0.1."""
    if isinstance(typed, Struct):
        optional = {field.name for field in msgspec.structs.fields(typed) if not field.required}
        for name, value in raw.items():
            if name in optional and f"{type(typed).__name__}.{name}" not in KNOWN:
                yield name
            else:
                yield from _newer(getattr(typed, name), value)
    elif isinstance(typed, dict):
        for name, value in typed.items():
            yield from _newer(value, raw[name])
    elif isinstance(typed, list | tuple):
        for one, value in zip(typed, raw, strict=True):
            yield from _newer(one, value)
