"""Both windows in arrays: insertion, expiry, indexes, growth, and the choice of ranges to compare.

A window is a ring of tuples in order of arrival; a tuple's *sequence number* never changes and its
ring position is the number modulo the capacity. Basic windows are runs of sequence numbers, so a
choice of basic windows is a short list of ranges. Both windows are in one set of arrays whose
first index is the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.hashing import mixed
from planning.joins.engine import bitmaps
from planning.joins.engine.bitmaps import Words, entry, inner, spliced
from planning.joins.model import Windows

SEQ, HEAD, EPOCH, LATE, POSTED, TAIL = range(6)  # columns of State.meta
EQUALITY, SUBSET, SUPERSET, OVERLAP, INNER = range(5)
SCAN_BITS, INVERTED, HASHED = range(3)
NOTHING = np.int64(-(2**62))  # the item under which empty sets are posted
NO_EPOCH = np.int64(-(2**62))
scramble = inner(mixed)


class State(NamedTuple):
    """Both windows; C tuples, P postings, R epochs and H buckets each, all but R powers of two."""

    # [2, 6] next sequence number, oldest in the window, epoch, last late one, postings, oldest kept
    meta: IntArray
    time: FloatArray  # [2, C]
    kind: IntArray  # [2, C] type of the tuple
    ident: IntArray  # [2, C] the caller's number of the tuple
    epoch: IntArray  # [2, C] basic window, counted from the origin of the grid
    size: IntArray  # [2, C] number of items
    first: IntArray  # [2, C] posting number of the first item
    starts: IntArray  # [2, R] first sequence number of each epoch, ring
    bits: Words  # [2, L, C/64] vertical bitmaps
    size_bits: Words  # [2, D, C/64] sizes, one bitmap per binary digit
    items: IntArray  # [2, P]
    weights: FloatArray  # [2, P]
    owner: IntArray  # [2, P] sequence number of the posting's tuple
    older: IntArray  # [2, P] previous posting in the same bucket, -1 if none
    heads: IntArray  # [2, R or 1, H] newest posting per basic window and bucket


class Selection(NamedTuple):
    """Which comparisons are made: a fraction r_{i,j,z} of each basic window, for each type."""

    take: FloatArray  # [2, Z, n]
    oldest: BoolArray  # [2, Z, n] take the oldest part instead of the newest
    carry: FloatArray  # [2, Z, n] fractions of tuples owed, so that rounding does not add up
    granted: IntArray  # [2, Z, n] basic windows with a fraction above 0 first, newest first
    number: IntArray  # [2, Z] how many those are; the others are never touched

    @classmethod
    def everything(cls, windows: Windows, types: int) -> Selection:
        """Return the selection that sheds nothing."""
        return cls.of_fractions(np.ones((2, types, windows.most)))

    @classmethod
    def of_fractions(cls, take: FloatArray, oldest: BoolArray | None = None) -> Selection:
        """Return the selection that compares a fraction ``take[i, z, j]`` of each basic window."""
        side = np.zeros(take.shape, dtype=np.bool_) if oldest is None else oldest
        shares = np.ascontiguousarray(np.clip(take, 0.0, 1.0))
        some = shares > 0.0
        order = np.argsort(~some, axis=2, kind="stable")
        return cls(
            shares, np.ascontiguousarray(side), np.zeros(take.shape), order, some.sum(axis=2)
        )


class Scratch(NamedTuple):
    """Work space of a probe."""

    window: IntArray  # [n] basic windows to compare with, newest first
    begin: IntArray  # [n] sequence numbers to compare with in each of them
    end: IntArray
    low: IntArray  # [n] the same, adjacent ones merged into ranges
    high: IntArray
    chosen: IntArray  # [2] number of basic windows and of ranges
    work: Words
    common: IntArray  # items shared with the probe, per ring position
    score: FloatArray
    touched: IntArray


@entry
def advance(
    state: State, i: int, epoch: int, clock: float, window_s: float, slack_s: float, access: int
) -> None:
    """Shift the basic windows of window i up to ``epoch`` and expire tuples older than it."""
    if epoch > state.meta[i, EPOCH]:
        shift(state.meta[i], state.starts[i], state.heads[i], epoch, access)
    expire(state.meta[i], state.time[i], clock, window_s, slack_s)


@inner
def shift(meta: IntArray, starts: IntArray, heads: IntArray, epoch: int, access: int) -> None:
    """Begin the basic windows up to ``epoch``; the arrays are one window's rows of the state."""
    for e in range(max(meta[EPOCH] + 1, epoch - starts.size + 1), epoch + 1):
        slot = e % starts.size
        starts[slot] = meta[SEQ]
        if access == INVERTED:
            heads[slot] = -1
    meta[EPOCH] = epoch


@inner
def expire(
    meta: IntArray, time: FloatArray, clock: float, window_s: float, slack_s: float
) -> None:
    """Let tuples older than the window go.

    They are kept for ``slack_s`` more: a late tuple may still find them.
    """
    mask = time.size - 1
    head, tail = meta[HEAD], meta[TAIL]
    while head < meta[SEQ] and clock - time[head & mask] > window_s:
        head += 1
    while tail < head and clock - time[tail & mask] > window_s + slack_s:
        tail += 1
    meta[HEAD], meta[TAIL] = head, tail


@entry
def cut(
    meta: IntArray, starts: IntArray, head: int, n: int, low: IntArray, high: IntArray
) -> None:
    """Sequence numbers of every basic window, from ``head`` on; the last takes the oldest ones.

    ``meta`` and ``starts`` are one window's rows of :class:`State`.
    """
    ring = starts.size
    top = meta[SEQ]
    slot = meta[EPOCH] % ring
    for j in range(n):
        begin = head if j == n - 1 else max(starts[slot], head)
        high[j] = top
        low[j] = min(begin, top)
        top = low[j]
        slot = slot - 1 if slot > 0 else ring - 1


@inner
def choose(
    meta: IntArray, starts: IntArray, head: int, n: int, selection: Selection, i: int, kind: int,
    scratch: Scratch,
) -> int:
    """Choose what a type is compared with in window i, from ``head`` on; return how many tuples.

    Basic windows that the selection does not grant are not looked at.
    """
    take, oldest = selection.take[i, kind], selection.oldest[i, kind]
    carry, granted = selection.carry[i, kind], selection.granted[i, kind]
    slot = meta[EPOCH] % starts.size
    total = windows = ranges = 0
    for k in range(selection.number[i, kind]):
        j = granted[k]
        if j >= n:
            break
        at = slot - j if slot >= j else slot - j + starts.size
        after = at + 1 if at + 1 < starts.size else 0
        high = max(starts[after], head) if j > 0 else meta[SEQ]
        low = max(starts[at], head) if j < n - 1 else head
        wanted = high - low
        if take[j] < 1.0:
            exact = take[j] * wanted + carry[j]
            wanted = min(int(exact), wanted)
            carry[j] = min(exact - wanted, 1.0)
            if oldest[j]:
                high = low + wanted
            else:
                low = high - wanted
        if wanted == 0:
            continue
        scratch.window[windows], scratch.begin[windows], scratch.end[windows] = j, low, high
        windows += 1
        total += wanted
        if ranges > 0 and scratch.low[ranges - 1] == high:
            scratch.low[ranges - 1] = low
        else:
            scratch.low[ranges], scratch.high[ranges] = low, high
            ranges += 1
    scratch.chosen[0], scratch.chosen[1] = windows, ranges
    return total


@spliced
def insert(
    state: State, i: int, time: float, kind: int, ident: int, items: IntArray,
    weights: FloatArray, access: int, late: bool, posted: bool,
) -> None:
    """Append a tuple to the first basic window of window i; ``posted`` also keeps its items."""
    seq = state.meta[i, SEQ]
    at = seq & (state.time.shape[1] - 1)
    if late:
        state.meta[i, LATE] = seq
    state.time[i, at] = time
    state.kind[i, at] = kind
    state.ident[i, at] = ident
    state.epoch[i, at] = state.meta[i, EPOCH]
    state.size[i, at] = items.size
    if access == SCAN_BITS:
        word, bit = at >> 6, np.uint64(1) << np.uint64(at & 63)
        if at & 63 == 0:
            state.bits[i, :, word] = 0
            state.size_bits[i, :, word] = 0
        for q in range(items.size):
            state.bits[i, items[q], word] |= bit
        for d in range(state.size_bits.shape[1]):
            if (items.size >> d) & 1:
                state.size_bits[i, d, word] |= bit
    if posted:
        post(state, i, seq, items, weights, access)
    state.meta[i, SEQ] = seq + 1


@inner
def bucket_of(state: State, item: int) -> int:
    """Bucket of an item in the hash tables."""
    return int(scramble(np.uint64(item)) & np.uint64(state.heads.shape[2] - 1))


@inner
def post(
    state: State, i: int, seq: int, items: IntArray, weights: FloatArray, access: int
) -> None:
    """Store the items of tuple ``seq`` and, for an index, link them into the buckets."""
    space = state.items.shape[1] - 1
    state.first[i, seq & (state.time.shape[1] - 1)] = state.meta[i, POSTED]
    number = items.size if items.size > 0 or access == SCAN_BITS else 1
    for q in range(number):
        node = state.meta[i, POSTED]
        at = node & space
        state.items[i, at] = items[q] if items.size > 0 else NOTHING
        state.weights[i, at] = weights[q] if items.size > 0 else 0.0
        if access != SCAN_BITS:
            state.owner[i, at] = seq
            hang(state, i, node, state.meta[i, EPOCH], access)
        state.meta[i, POSTED] = node + 1


@inner
def hang(state: State, i: int, node: int, epoch: int, access: int) -> None:
    """Put a posting at the head of its list."""
    at = node & (state.items.shape[1] - 1)
    slot = epoch % state.starts.shape[1] if access == INVERTED else 0
    bucket = bucket_of(state, state.items[i, at])
    state.older[i, at] = state.heads[i, slot, bucket]
    state.heads[i, slot, bucket] = node


@entry
def hang_all(state: State, i: int, begin: int, access: int) -> None:
    """Link the postings from ``begin`` on into empty buckets: after the windows have grown."""
    mask, space = state.time.shape[1] - 1, state.items.shape[1] - 1
    for node in range(begin, state.meta[i, POSTED]):
        hang(state, i, node, state.epoch[i, state.owner[i, node & space] & mask], access)


@inner
def marked(
    bits: Words, sizes: Words, i: int, code: int, threshold: float, items: IntArray, low: int,
    width: int, work: Words,
) -> int:
    """Mark in a row of ``work`` the tuples of window i that satisfy the condition; return it."""
    if code == OVERLAP:
        return bitmaps.at_least(work, width, bits, items, low, int(threshold))
    if code == INNER:
        return bitmaps.at_least(work, width, bits, items, low, 1)
    if code == EQUALITY:
        row = bitmaps.containing(work, width, bits, items, low)
        bitmaps.keep_size(work, width, sizes, items.size, low)
        return row
    if (code == SUBSET) == (i == 0):  # the stored set must lie inside the probe's
        return bitmaps.contained(work, width, bits, sizes, items, low)
    return bitmaps.containing(work, width, bits, items, low)


@inner
def collect(
    row: Words, word: int, low: int, high: int, touched: IntArray, filled: int
) -> int:
    """Append the sequence numbers of set bits between ``low`` and ``high``; return the count."""
    for k in range(row.size):
        bits = row[k]
        if bits == np.uint64(0):
            continue
        base = (word + k) << 6
        bits &= bitmaps.inside(base, low, high)
        while bits != np.uint64(0):
            touched[filled] = base + int(bitmaps.trailing_zeros(bits))
            filled += 1
            bits &= bits - np.uint64(1)
    return filled


@inner
def inner_product(
    first: IntArray, size: IntArray, stored: IntArray, stored_weights: FloatArray, at: int,
    items: IntArray, weights: FloatArray,
) -> float:
    """Sum over common items of the product of weights, by a merge of sorted items."""
    space = stored.size - 1
    node, end = first[at], first[at] + size[at]
    total = 0.0
    q = 0
    while q < items.size and node < end:
        item = stored[node & space]
        if item == items[q]:
            total += weights[q] * stored_weights[node & space]
            q += 1
            node += 1
        elif item < items[q]:
            node += 1
        else:
            q += 1
    return total


def first_posting(state: State, i: int) -> int:
    """Return the number of the oldest live posting of window i."""
    tail = int(state.meta[i, TAIL])
    if tail == state.meta[i, SEQ]:
        return int(state.meta[i, POSTED])
    return int(state.first[i, tail & (state.time.shape[1] - 1)])


def move_to_larger(old: State, new: State, access: int) -> None:
    """Move the live tuples of both windows into larger arrays."""
    new.meta[:] = old.meta
    new.starts[:] = old.starts
    for i in range(2):
        seqs = np.arange(old.meta[i, TAIL], old.meta[i, SEQ])
        source, target = seqs & (old.time.shape[1] - 1), seqs & (new.time.shape[1] - 1)
        for name in ("time", "kind", "ident", "epoch", "size", "first"):
            getattr(new, name)[i, target] = getattr(old, name)[i, source]
        nodes = np.arange(first_posting(old, i), old.meta[i, POSTED])
        source, target = nodes & (old.items.shape[1] - 1), nodes & (new.items.shape[1] - 1)
        new.items[i, target] = old.items[i, source]
        new.weights[i, target] = old.weights[i, source]
        if access == SCAN_BITS:
            words = np.arange(int(old.meta[i, TAIL]) >> 6, (int(old.meta[i, SEQ]) + 63) >> 6)
            source, target = words % (old.time.shape[1] >> 6), words % (new.time.shape[1] >> 6)
            new.bits[i][:, target] = old.bits[i][:, source]
            new.size_bits[i][:, target] = old.size_bits[i][:, source]
        elif nodes.size:
            new.owner[i, target] = old.owner[i, source]
            hang_all(new, i, int(nodes[0]), access)
