"""What is in the messages: numbers in few bytes, births, and a plan in one piece."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from planning.errors import ArtifactError

PLAN = struct.Struct("<4sI")  # what it is, bytes of the manifest
MAGIC = b"HGP1"
DATA = struct.Struct("<BH")  # last byte of the session, sequence number
DEATH = struct.Struct("<I")  # the session that has ended
REBIRTH = b"rebirth"
SESSIONS, SEQUENCE = 1 << 32, 1 << 16
DECIMALS = 6
OTHER = 7  # instead of decimals: MessagePack follows, of so many bytes
LARGEST = 1 << 52  # beyond it, not every whole number has a float of its own
LONGEST = 9  # bytes of a varint
_pack = msgspec.msgpack.Encoder(enc_hook=str).encode


def topic(stream: str, *parts: str) -> str:
    """Return a topic of a stream.

    >>> topic("weather", "NDATA", "edge-7")
    'headgate/weather/NDATA/edge-7'
    """
    return "/".join(("headgate", stream, *parts))


def join_plan(manifest: bytes, payload: bytes) -> bytes:
    """Return one message of both, so that they cannot be mixed."""
    return PLAN.pack(MAGIC, len(manifest)) + manifest + payload


def split_plan(data: bytes) -> tuple[bytes, bytes]:
    """Return manifest and payload of a message.

    >>> split_plan(join_plan(b"manifest", b"payload"))
    (b'manifest', b'payload')
    """
    if len(data) < PLAN.size or data[:4] != MAGIC:
        raise ArtifactError(f"a plan message begins with {MAGIC!r}, got {data[:4]!r}")
    end = PLAN.size + PLAN.unpack_from(data)[1]
    if end > len(data):
        raise ArtifactError(f"a plan message of {end} bytes or more was due, got {len(data)}")
    return data[PLAN.size : end], data[end:]


def put_number(out: bytearray, number: int) -> None:
    """Append a whole number of at least 0: seven bits a byte, the lowest first."""
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def take_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it."""
    number = 0
    for shift in range(LONGEST):
        byte = data[at + shift]
        number |= (byte & 127) << 7 * shift
        if byte < 128:
            return number, at + shift + 1
    raise ValueError("a number is too long")


def put(out: bytearray, value: Any) -> None:
    """Append a value: decimal numbers as whole ones with a scale, all others as MessagePack.

    >>> def size(value):
    ...     out = bytearray()
    ...     put(out, value)
    ...     assert take(bytes(out), 0) == (value, len(out))
    ...     return len(out)
    >>> [size(value) for value in (3, 23.4, -1013.25, 1 / 3, "NNW", None)]
    [1, 2, 3, 10, 5, 2]
    """
    if isinstance(value, float | int) and not isinstance(value, bool):
        for decimals in range(DECIMALS + 1):
            scaled = value * 10**decimals
            if not -LARGEST < scaled < LARGEST:
                break
            whole = round(scaled)
            if whole / 10**decimals == value:
                put_number(out, ((whole << 1 if whole >= 0 else -whole << 1 | 1) << 3) | decimals)
                return
    packed = _pack(value)
    put_number(out, len(packed) << 3 | OTHER)
    out += packed


def take(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value at a place, and the place after it."""
    number, at = take_number(data, at)
    decimals, number = number & 7, number >> 3
    if decimals == OTHER:
        if at + number > len(data):
            raise ValueError("a value is cut off")
        return msgspec.msgpack.decode(data[at : at + number]), at + number
    whole = -(number >> 1) if number & 1 else number >> 1
    return (whole / 10**decimals if decimals else whole), at


def plain(value: Any) -> Any:
    """Return what a value is on the wire: a number without a number is null.

    >>> plain(np.float32(23.4)), plain(float("nan")), plain(np.int8(3))
    (23.4, None, 3)
    """
    if isinstance(value, np.float32 | np.float16):
        value = float(str(value))  # the decimals that were meant
    elif isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


class Birth(msgspec.Struct, array_like=True, frozen=True):
    """All that a receiver needs to show a node's values, and to follow its reports."""

    session: int
    seq: int
    columns: tuple[str, ...]
    whole: bool
    clock_s: float
    entities: Sequence[Sequence[Any]]
    values: Sequence[Sequence[Any]]
    times_s: Sequence[Sequence[float | None]]


encode_birth = msgspec.msgpack.Encoder(enc_hook=str).encode
decode_birth = msgspec.msgpack.Decoder(Birth).decode
