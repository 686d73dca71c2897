"""Damaged plans that every consumer must refuse: only what Python refuses is among them."""

from __future__ import annotations

import base64
import copy
import json
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from planning.artifacts.codec import decode, encode
from planning.errors import ArtifactError

WRONG: tuple[Any, ...] = (None, "x", [], {}, True, -1, 0.5, 1e308, 10**12)
MOST = 400  # of one kind


def text(data: bytes) -> str:
    """Return bytes as base64, as the kit has them."""
    return base64.b64encode(data).decode()


def encodings(plan: Any, family: str) -> dict[str, str]:
    """Return both encodings of a plan."""
    return {
        "json": text(encode(plan, family, "json")),
        "binary": text(encode(plan, family, "binary")),
    }


def damaged(plan: Any, family: str, seed: int) -> list[dict[str, str]]:
    """Return damaged forms of a plan, with what was done to each."""
    r = random.Random(seed)
    document = json.loads(encode(plan, family, "json"))
    data = encode(plan, family, "binary")
    tried = [("json", why, json.dumps(d).encode()) for why, d in _documents(document)]
    tried += [("binary", why, d) for why, d in _bytes(data, r)]
    refused = [
        {"encoding": encoding, "why": why, "data": text(d)}
        for encoding, why, d in tried
        if _is_refused(d, encoding)
    ]
    few: list[dict[str, str]] = []
    for encoding in ("json", "binary"):
        of_kind = [one for one in refused if one["encoding"] == encoding]
        few += r.sample(of_kind, min(MOST, len(of_kind)))
    return few


def _is_refused(data: bytes, encoding: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            decode(data, encoding)
    except ArtifactError:
        return True
    return False


def _documents(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield documents in which one place is missing, of another kind, or too much."""
    for path in list(_paths(document)):
        for why, change in (
            ("missing", _remove),
            *((f"is {wrong!r}", _put(wrong)) for wrong in WRONG),
            ("twice", _repeat),
        ):
            changed = copy.deepcopy(document)
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            if change(parent, path[-1]):
                yield f"{'.'.join(map(str, path))} {why}", changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every field, and to the first and last entries of lists."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for place in sorted({0, len(value) - 1} if value else ()):
            yield (*path, place)
            yield from _paths(value[place], (*path, place))


def _remove(parent: Any, name: Any) -> bool:
    del parent[name]
    return True


def _repeat(parent: Any, name: Any) -> bool:
    if isinstance(parent, list):
        parent.append(parent[name])
    else:
        parent[f"{name}_"] = parent[name]
    return True


def _put(value: Any) -> Any:
    def change(parent: Any, name: Any) -> bool:
        different = bool(parent[name] != value)
        parent[name] = value
        return different

    return change


def _bytes(data: bytes, r: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield bytes that are cut, changed or of another kind; most of them with their checksum."""
    yield "empty", b""
    yield "header alone", data[:8]
    yield "other magic", b"PK" + data[2:]
    yield "other version", _sealed(data[:2] + b"\x02" + data[3:])
    yield "unknown family", _sealed(data[:3] + b"\x63" + data[4:])
    yield "other family", _sealed(data[:3] + bytes([data[3] % 5 + 1]) + data[4:])
    yield "too long", _sealed(data + b"\0")
    for _ in range(20):
        place = r.randrange(len(data))
        yield f"byte {place} changed", _flipped(data, place, r)
    for _ in range(100):
        size = r.randrange(8, len(data))
        yield f"cut to {size} bytes", _sealed(data[:size])
    for _ in range(600):
        place = r.randrange(8, len(data))
        yield f"byte {place} changed, checksum made anew", _sealed(_flipped(data, place, r))


def _flipped(data: bytes, place: int, r: random.Random) -> bytes:
    return data[:place] + bytes([data[place] ^ r.randrange(1, 256)]) + data[place + 1 :]


def _sealed(data: bytes) -> bytes:
    """Return an envelope with the checksum of its content."""
    return data[:4] + struct.pack("<I", zlib.crc32(data[8:], zlib.crc32(data[:4]))) + data[8:]
