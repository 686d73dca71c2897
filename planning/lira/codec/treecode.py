"""A tree of halvings with one small number per region, as bits for the range coder.

Decisions in preorder. Per rectangle: does it lie outside the part that is sent (stations only);
is it split; which way (only where both are possible); per region: is its number the previous
region's; if not, the number's bits, highest first. Contexts: depth and shape of the rectangle.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.errors import ArtifactError
from planning.lira.codec import rangecoder
from planning.lira.kernels import inner
from planning.lira.partition.regions import (
    ACROSS,
    LEAF,
    UPRIGHT,
    Partition,
    Symbols,
    padded,
    push_halves,
    walk_from,
)

NOT_SENT = 3  # besides a partition's symbols, in decoded trees: the rectangle lies outside the part
DEPTHS = 16
SPLIT_CONTEXTS = 3 * DEPTHS
WAY_CONTEXTS = 9
SAME_CONTEXTS = 2
VALUE_BASE = DEPTHS + SPLIT_CONTEXTS + WAY_CONTEXTS + SAME_CONTEXTS
SLACK = 8  # zero bytes that may be read past the end of a sound message
PAST_END, NO_ROOM = -1, -2


def context_count(value_bits: int) -> int:
    """Return the number of contexts a tree with values of that many bits needs."""
    return VALUE_BASE + (1 << value_bits)


def tree_decisions(
    partition: Partition,
    values: NDArray[np.integer],
    value_bits: int,
    sent: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return contexts and bits; ``sent[i]`` tells whether rectangle i (in preorder) is sent."""
    symbols, side = partition.symbols, partition.side
    marks = np.ones(symbols.size, np.bool_) if sent is None else sent
    by_place = np.zeros(symbols.size, np.int64)
    by_place[partition.places] = values
    room = symbols.size * (3 + 1 + value_bits) + 8
    contexts, bits = np.empty(room, np.int32), np.empty(room, np.uint8)
    stack = walk_from(padded(side))
    used = _emit(symbols, by_place, marks, sent is None, stack, side, value_bits, contexts, bits)
    return contexts[:used], bits[:used]


class TreeReader:
    """Reads what :func:`tree_decisions` wrote, after any decisions that came before it."""

    def __init__(self, data: bytes, contexts: int) -> None:
        self.data = np.frombuffer(data, dtype=np.uint8)
        self.state = np.zeros(rangecoder.STATE, np.int64)
        self.counts = np.zeros((contexts, 2), np.int64)
        rangecoder.start(self.data, self.state)

    def bit(self, context: int) -> int:
        """Read one decision."""
        return int(rangecoder.decode_bit(self.data, self.state, self.counts, context))

    def tree(
        self, side: int, value_bits: int, base: int, *, whole: bool
    ) -> tuple[Symbols, NDArray[np.int64]]:
        """Read a tree and its values; its contexts start at ``base``."""
        size = padded(side)
        most = 2 * size * size
        limit = min(2048, most)
        state, counts = self.state.copy(), self.counts.copy()
        while True:
            symbols, values = np.empty(limit, np.uint8), np.empty(limit, np.int64)
            used, regions = _read(
                self.data, self.state, self.counts, base, whole, walk_from(size), side, value_bits,
                symbols, values,
            )  # fmt: skip
            if used >= 0 and self.state[2] <= self.data.size + SLACK:
                return symbols[:used].copy(), values[:regions].copy()
            if used == PAST_END or limit == most:
                raise ArtifactError(
                    f"a map must hold one tree of halvings, got {self.data.size} bytes that end "
                    "inside it; receive it again"
                )
            limit = min(4 * limit, most)
            self.state[:], self.counts[:] = state, counts


@inner
def _shape(w, h):  # type: ignore[no-untyped-def]
    """0: square, 1: wide, 2: high."""
    return 0 if w == h else (1 if w > h else 2)


@njit(cache=True)
def _emit(symbols, values, sent, everything, stack, side, value_bits, contexts, bits):  # type: ignore[no-untyped-def]
    """Write the decisions that :func:`_read` takes, in the same order; return how many."""
    used, node, top = 0, 0, 1
    previous = -1
    while top > 0:
        top -= 1
        x, y, w, h, depth, way = stack[top]
        level = min(depth, DEPTHS - 1)
        if not everything:
            contexts[used] = level
            bits[used] = 0 if sent[node] else 1
            used += 1
            if not sent[node]:
                node = _after(symbols, node)
                continue
        symbol, value = symbols[node], values[node]
        node += 1
        if w > 1 or h > 1:
            contexts[used] = DEPTHS + 3 * level + _shape(w, h)
            bits[used] = 0 if symbol == LEAF else 1
            used += 1
        if symbol == LEAF:
            if x >= side or y >= side:
                continue
            contexts[used] = VALUE_BASE - SAME_CONTEXTS + (1 if previous >= 0 else 0)
            bits[used] = 1 if value == previous else 0
            used += 1
            if value != previous:
                prefix = 1
                for k in range(value_bits - 1, -1, -1):
                    contexts[used] = VALUE_BASE + prefix
                    bits[used] = (value >> k) & 1
                    prefix = 2 * prefix + ((value >> k) & 1)
                    used += 1
            previous = value
            continue
        if w > 1 and h > 1:
            contexts[used] = DEPTHS + SPLIT_CONTEXTS + 3 * way + _shape(w, h)
            bits[used] = symbol - ACROSS
            used += 1
        top = push_halves(stack, top, x, y, w, h, depth, symbol)
    return used


@njit(cache=True)
def _after(symbols, node):  # type: ignore[no-untyped-def]
    """Return the place after a rectangle and everything below it."""
    waiting = 1
    while waiting > 0:
        waiting += -1 if symbols[node] == LEAF else 1
        node += 1
    return node


@njit(cache=True)
def _read(data, state, counts, base, everything, stack, side, value_bits, symbols, values):  # type: ignore[no-untyped-def]
    """Read a tree; return how many symbols and values it has, or PAST_END or NO_ROOM."""
    used, regions, top = 0, 0, 1
    previous = -1
    while top > 0:
        top -= 1
        if state[2] > data.size + SLACK:
            return PAST_END, 0
        if used == symbols.size:
            return NO_ROOM, 0
        x, y, w, h, depth, way = stack[top]
        level = min(depth, DEPTHS - 1)
        if not everything and rangecoder.decode_bit(data, state, counts, base + level) == 1:
            symbols[used] = NOT_SENT
            used += 1
            continue
        symbol = LEAF
        if w > 1 or h > 1:
            context = base + DEPTHS + 3 * level + _shape(w, h)
            symbol = rangecoder.decode_bit(data, state, counts, context)
        if symbol == LEAF:
            symbols[used] = LEAF
            used += 1
            if x >= side or y >= side:
                continue
            context = base + VALUE_BASE - SAME_CONTEXTS + (1 if previous >= 0 else 0)
            if rangecoder.decode_bit(data, state, counts, context) == 0:
                prefix = 1
                for _ in range(value_bits):
                    context = base + VALUE_BASE + prefix
                    prefix = 2 * prefix + rangecoder.decode_bit(data, state, counts, context)
                previous = prefix - (1 << value_bits)
            values[regions] = max(previous, 0)
            regions += 1
            continue
        if w > 1 and h > 1:
            context = base + DEPTHS + SPLIT_CONTEXTS + 3 * way + _shape(w, h)
            symbol = ACROSS + rangecoder.decode_bit(data, state, counts, context)
        else:
            symbol = ACROSS if w > 1 else UPRIGHT
        symbols[used] = symbol
        used += 1
        top = push_halves(stack, top, x, y, w, h, depth, symbol)
    return used, regions
