"""Compiled loops of the key hash: XXH64, one column at a time, row by row.

``hashes`` holds, per row, the hash of the columns before: it is the seed of the next one. ``valid``
is empty if no row is null. The signatures are given, so everything is compiled, or loaded from
the cache, when this module is imported, and nothing later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

U64 = np.uint64
P1, P2, P3 = U64(0x9E3779B185EBCA87), U64(0xC2B2AE3D27D4EB4F), U64(0x165667B19E3779F9)
P4, P5 = U64(0x85EBCA77C2B2AE63), U64(0x27D4EB2F165667C5)
LEAST_LONG, BEYOND_LONGS = -(2.0**63), 2.0**63

LONG, HASH = types.int64, types.uint64
LONGS, DOUBLES, BYTES, FLAGS = (
    types.Array(kind, 1, "C", readonly=True)
    for kind in (types.int64, types.float64, types.uint8, types.bool_)
)
HASHES = types.Array(HASH, 1, "C")


def _read(typing_context: Any, data: Any, place: Any) -> Any:
    """Read eight bytes from any place, aligned or not; the caller stays within the array."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = context.get_value_type(HASH).as_pointer()
        return builder.load(builder.bitcast(address, word), align=1)

    return HASH(data, types.intp), load


_eight_bytes: Any = intrinsic(_read)


@njit
def _rotated(bits: Any, by: int) -> Any:
    return (bits << U64(by)) | (bits >> U64(64 - by))


@njit
def _round(state: Any, word: Any) -> Any:
    return _rotated(state + word * P2, 31) * P1


@njit
def _absorbed(state: Any, word: Any) -> Any:
    return _rotated(state ^ _round(U64(0), word), 27) * P1 + P4


@njit
def _finished(state: Any) -> Any:
    state = (state ^ (state >> U64(33))) * P2
    state = (state ^ (state >> U64(29))) * P3
    return state ^ (state >> U64(32))


@njit(HASH(LONG, HASH), cache=True)
def hash_long(value: Any, seed: Any) -> Any:
    """Return the hash of a long: XXH64 of its eight bytes."""
    return _finished(_absorbed(seed + P5 + U64(8), U64(value)))


@njit(HASH(BYTES, LONG, LONG, HASH), cache=True)
def hash_bytes(data: Any, start: Any, stop: Any, seed: Any) -> Any:
    """Return XXH64 of ``data[start:stop]``."""
    place = start
    if stop - start >= 32:
        a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
        while place <= stop - 32:
            a = _round(a, _eight_bytes(data, place))
            b = _round(b, _eight_bytes(data, place + 8))
            c = _round(c, _eight_bytes(data, place + 16))
            d = _round(d, _eight_bytes(data, place + 24))
            place += 32
        state = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for lane in (a, b, c, d):
            state = (state ^ _round(U64(0), lane)) * P1 + P4
    else:
        state = seed + P5
    state += U64(stop - start)
    while place <= stop - 8:
        state = _absorbed(state, _eight_bytes(data, place))
        place += 8
    if place <= stop - 4:
        word = U64(0)
        for k in range(4):
            word |= U64(data[place + k]) << U64(8 * k)
        state = _rotated(state ^ (word * P1), 23) * P2 + P3
        place += 4
    while place < stop:
        state = _rotated(state ^ (U64(data[place]) * P5), 11) * P1
        place += 1
    return _finished(state)


@njit(types.void(LONGS, FLAGS, HASHES), cache=True)
def fold_longs(values: Any, valid: Any, hashes: Any) -> None:
    """Fold a column of longs into the rows' hashes."""
    every = len(valid) == 0
    for i in range(len(values)):
        if every or valid[i]:
            hashes[i] = hash_long(values[i], hashes[i])


@njit(types.void(DOUBLES, FLAGS, HASHES), cache=True)
def fold_doubles(values: Any, valid: Any, hashes: Any) -> None:
    """Fold a column of doubles: NaN as null, whole numbers as longs, others by their bits."""
    every = len(valid) == 0
    bits = values.view(np.int64)
    for i in range(len(values)):
        value = values[i]
        if value == value and (every or valid[i]):
            whole = LEAST_LONG <= value < BEYOND_LONGS and value == np.floor(value)
            hashes[i] = hash_long(np.int64(value) if whole else bits[i], hashes[i])


@njit(types.void(BYTES, LONGS, LONGS, FLAGS, HASHES), cache=True)
def fold_texts(data: Any, starts: Any, stops: Any, valid: Any, hashes: Any) -> None:
    """Fold a column of byte strings, which are pieces of ``data``."""
    every = len(valid) == 0
    for i in range(len(starts)):
        if every or valid[i]:
            hashes[i] = hash_bytes(data, starts[i], stops[i], hashes[i])
