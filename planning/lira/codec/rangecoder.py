"""An adaptive binary range coder in whole-number arithmetic: the same bytes on every machine.

Each decision has a context; a context's probability is (2·n0 + 1)/(2·n + 2) after n0 zeros in n
decisions (Krichevsky–Trofimov), which learns fast enough for messages of a few dozen bytes. Bytes
beyond the end read as zero, so trailing zeros are never sent.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

TOP = 1 << 24
FULL = (1 << 32) - 1
FORGET = 255  # halve a context's counts here, so that it follows change
STATE = 3  # code, range, position


def encode(contexts: NDArray[np.int32], bits: NDArray[np.uint8], context_count: int) -> bytes:
    """Encode decisions one by one; ``contexts[i]`` is the context of ``bits[i]``.

    >>> rare = (np.arange(400) % 100 == 99).astype(np.uint8)
    >>> len(encode(np.zeros(400, np.int32), rare, 1))
    5
    """
    out = np.empty(2 * bits.size + 16, np.uint8)
    used = _encode(contexts, bits, np.zeros((context_count, 2), np.int64), out)
    return bytes(out[:used].tobytes().rstrip(b"\0"))


@njit(cache=True, inline="always")
def zero_share(counts, context):  # type: ignore[no-untyped-def]
    """Probability of a zero, in units of 2**-16."""
    n0 = counts[context, 0]
    n = n0 + counts[context, 1]
    return max(((2 * n0 + 1) << 16) // (2 * n + 2), 1)


@njit(cache=True, inline="always")
def learn(counts, context, bit):  # type: ignore[no-untyped-def]
    """Count a decision."""
    counts[context, bit] += 1
    if counts[context, 0] + counts[context, 1] > FORGET:
        counts[context, 0] = (counts[context, 0] + 1) >> 1
        counts[context, 1] = (counts[context, 1] + 1) >> 1


@njit(cache=True)
def _encode(contexts, bits, counts, out):  # type: ignore[no-untyped-def]
    low = 0
    span = FULL
    used = 0
    for i in range(bits.size):
        bound = (span >> 16) * zero_share(counts, contexts[i])
        if bits[i] == 0:
            span = bound
        else:
            low += bound
            span -= bound
        learn(counts, contexts[i], bits[i])
        if low > FULL:
            _carry(out, used)
            low &= FULL
        while span < TOP:
            out[used] = low >> 24
            used += 1
            low = (low << 8) & FULL
            span = (span << 8) & FULL
    # End on the shortest number inside [low, low + span).
    for keep in range(0, 5):
        step = 1 << (32 - 8 * keep)
        value = (low + step - 1) // step * step
        if value < low + span:
            if value > FULL:
                _carry(out, used)
                value &= FULL
            for _ in range(keep):
                out[used] = (value >> 24) & 255
                value = (value << 8) & FULL
                used += 1
            break
    return used


@njit(cache=True)
def _carry(out, used):  # type: ignore[no-untyped-def]
    i = used - 1
    while i >= 0 and out[i] == 255:
        out[i] = 0
        i -= 1
    if i >= 0:
        out[i] += 1


def start(data: NDArray[np.uint8], state: NDArray[np.int64]) -> None:
    """Set ``state`` to read ``data`` from its first byte."""
    state[:] = int.from_bytes(data[:4].tobytes().ljust(4, b"\0"), "big"), FULL, 4


@njit(cache=True)
def decode_bit(data, state, counts, context):  # type: ignore[no-untyped-def]
    """Read the next decision, whose context is ``context``."""
    span = state[1]
    bound = (span >> 16) * zero_share(counts, context)
    if state[0] < bound:
        bit = 0
        span = bound
    else:
        bit = 1
        state[0] -= bound
        span -= bound
    learn(counts, context, bit)
    while span < TOP:
        span = (span << 8) & FULL
        byte = data[state[2]] if state[2] < data.size else 0
        state[0] = ((state[0] << 8) | byte) & FULL
        state[2] += 1
    state[1] = span
    return bit
