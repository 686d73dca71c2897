"""The binary form of an attribute plan: MessagePack, with the frontier's columns packed.

Options change slowly along the frontier, so the choice matrix is stored column by column as
differences and compressed.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from planning.errors import ArtifactError

if TYPE_CHECKING:
    from planning.attributes.plan import Plan

MAGIC = b"HGA1"
PACKED = ("ratio", "loss", "choice")


def encode_plan(plan: Plan) -> bytes:
    """Return the plan as bytes."""
    document = plan.to_document()
    for name in PACKED:
        del document[name]
    columns = np.ascontiguousarray(plan.choice.T)
    steps = np.diff(columns, axis=1, prepend=np.uint8(0))
    packed = plan.ratio.tobytes() + plan.loss.tobytes() + steps.tobytes()
    body: list[Any] = [document, len(plan.ratio), zlib.compress(packed, 9)]
    return MAGIC + msgspec.msgpack.encode(body)


def decode_plan(payload: bytes) -> Plan:
    """Read a plan from bytes; refuse anything else."""
    from planning.attributes.plan import Plan

    if payload[:4] != MAGIC:
        raise ArtifactError("attribute plan must start with HGA1, got other bytes; fetch it again")
    try:
        document, points, packed = msgspec.msgpack.decode(
            payload[4:], type=tuple[dict[str, Any], int, bytes]
        )
        raw = zlib.decompress(packed)
        numbers = np.frombuffer(raw, dtype=np.float64, count=2 * points)
        steps = np.frombuffer(raw, dtype=np.uint8, offset=16 * points).reshape(-1, points)
    except (msgspec.MsgspecError, zlib.error, ValueError) as error:
        raise ArtifactError(f"attribute plan must be whole, got: {error}; fetch it again") from None
    document["ratio"] = numbers[:points].tolist()
    document["loss"] = numbers[points:].tolist()
    document["choice"] = np.cumsum(steps, axis=1, dtype=np.uint8).T.tolist()
    return Plan.from_document(document)
