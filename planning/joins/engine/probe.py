"""The compiled heart of the operator: probe one tuple, and process a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from planning.arrays import FloatArray, IntArray
from planning.hashing import GOLDEN
from planning.joins.engine import storage
from planning.joins.engine.bitmaps import inner
from planning.joins.engine.storage import (
    EPOCH,
    EQUALITY,
    HEAD,
    INNER,
    INVERTED,
    LATE,
    NO_EPOCH,
    NOTHING,
    OVERLAP,
    SCAN_BITS,
    SEQ,
    SUBSET,
    TAIL,
    Scratch,
    Selection,
    State,
)

COMPARED, MATCHED, FULL, LATE_IN, EXPIRED_IN, RESETS, POSSIBLE = range(7)  # Tally.total
LATE_RUN = 100  # tuples in a row behind the windows: the clock has been set back


class Rules(NamedTuple):
    """What does not change while a batch is processed."""

    code: int  # condition
    threshold: float
    access: int  # bitmaps, inverted index or hash index
    window_s: tuple[float, float]
    counts: tuple[int, int]  # n_1, n_2
    basic_window_s: float
    origin_s: float
    full_probability: float  # of comparing a tuple with the whole window
    ceiling: float  # share of all comparisons that must not be exceeded; 1: none
    seed: np.uint64
    emit: bool


class Tally(NamedTuple):
    """What was counted."""

    hits: IntArray  # [2 halves, 2, n, Z probe, Z stored]
    comparisons: IntArray  # [2 halves, 2, n, Z]
    total: IntArray  # [7] see the names above
    now: FloatArray  # [1] largest timestamp seen
    run: IntArray  # [2] tuples in a row behind the windows; tuples processed
    utility: FloatArray  # [1] utility of the output so far
    since: IntArray  # [2] comparisons made and possible when the ceiling was set


class Output(NamedTuple):
    """Matches: the callers' numbers of both tuples."""

    left: IntArray
    right: IntArray
    used: IntArray  # [1]


@inner
def accept(
    state: State, time: float, stream: int, kind: int, ident: int, half: int, check: bool,
    touched: IntArray, rules: Rules, values: FloatArray, tally: Tally, out: Output,
) -> None:
    """Count the matches of a tuple at the touched positions and output them.

    ``half`` says which half of the statistics they go to, ``check`` that timestamps may be out of
    order: then every match's lag is checked.
    """
    i = 1 - stream
    times, kinds, epochs, idents = state.time[i], state.kind[i], state.epoch[i], state.ident[i]
    epoch, last = state.meta[i, EPOCH], rules.counts[i] - 1
    hits = tally.hits[half, i]
    before, after = rules.window_s[i], rules.window_s[stream]
    mine, theirs = (out.left, out.right) if stream == 0 else (out.right, out.left)
    used = out.used[0]
    matched = 0
    utility = 0.0
    for at in touched:
        if check:
            lag = time - times[at]
            if lag > before or -lag > after:
                continue
        stored = kinds[at]
        j = min(epoch - epochs[at], last)
        hits[j, kind, stored] += 1
        utility += values[kind, stored]
        matched += 1
        if rules.emit:
            mine[used] = ident
            theirs[used] = idents[at]
            used += 1
    out.used[0] = used
    tally.total[MATCHED] += matched
    tally.utility[0] += utility


@inner
def probe_bits(
    state: State, i: int, ranges: int, items: IntArray, weights: FloatArray, rules: Rules,
    scratch: Scratch,
) -> int:
    """Compare a tuple with ranges of window i by vertical bitmaps; return how many match."""
    mask = state.time.shape[1] - 1
    words = state.time.shape[1] >> 6
    bits, sizes = state.bits[i], state.size_bits[i]
    work, touched = scratch.work, scratch.touched
    filled = 0
    for q in range(ranges):
        low, high = scratch.low[q], scratch.high[q]
        word, last = low >> 6, (high - 1) >> 6
        while word <= last:
            ring = word & (words - 1)
            width = min(last - word + 1, words - ring)
            row = storage.marked(
                bits, sizes, i, rules.code, rules.threshold, items, ring, width, work
            )
            filled = storage.collect(work[row, :width], word, low, high, mask, touched, filled)
            word += width
    if rules.code == INNER:
        first, size = state.first[i], state.size[i]
        stored, stored_weights = state.items[i], state.weights[i]
        kept = 0
        for k in range(filled):
            at = touched[k]
            score = storage.inner_product(first, size, stored, stored_weights, at, items, weights)
            if score >= rules.threshold:
                touched[kept] = at
                kept += 1
        filled = kept
    return filled


@inner
def satisfied(
    code: int, threshold: float, i: int, common: int, score: float, probe: int, stored: int
) -> bool:
    """Whether counts of common items and sizes satisfy the condition."""
    if code == OVERLAP:
        return common >= threshold
    if code == INNER:
        return common > 0 and score >= threshold
    if code == EQUALITY:
        return common == probe and common == stored
    if (code == SUBSET) == (i == 0):
        return common == stored
    return common == probe


@inner
def gather(
    head: int, oldest: int, item: int, weight: float, low: int, high: int, filled: int, mask: int,
    owner: IntArray, older: IntArray, items: IntArray, weights: FloatArray, count: IntArray,
    score: FloatArray, touched: IntArray,
) -> int:
    """Walk one time-ordered list, newest first, and stop at ``low``; return the touched count."""
    space = items.size - 1
    node = head
    while node >= oldest:
        place = node & space
        seq = owner[place]
        if seq < low:
            break
        if seq < high and items[place] == item:
            at = seq & mask
            if count[at] == 0:
                touched[filled] = at
                filled += 1
            count[at] += 1
            score[at] += weight * weights[place]
        node = older[place]
    return filled


@inner
def probe_index(
    state: State, i: int, ranges: int, items: IntArray, weights: FloatArray, rules: Rules,
    scratch: Scratch,
) -> int:
    """Compare a tuple with ranges of window i through its index; return how many match."""
    mask, ring = state.time.shape[1] - 1, state.starts.shape[1]
    count, score, touched = scratch.common, scratch.score, scratch.touched
    owner, older = state.owner[i], state.older[i]
    stored, stored_weights = state.items[i], state.weights[i]
    epochs, sizes, heads = state.epoch[i], state.size[i], state.heads[i]
    first_live = state.first[i, state.meta[i, TAIL] & mask]
    of_sets = rules.code != OVERLAP and rules.code != INNER
    finds_empty = of_sets and (rules.code == EQUALITY or (rules.code == SUBSET) == (i == 0))
    looked_up = items.size + (1 if finds_empty else 0)
    filled = 0
    for q in range(ranges):
        low, high = scratch.low[q], scratch.high[q]
        newest = epochs[(high - 1) & mask]
        oldest = epochs[low & mask] if rules.access == INVERTED else newest
        for e in range(newest, oldest - 1, -1):
            slot = e % ring if rules.access == INVERTED else 0
            for k in range(looked_up):
                item = int(items[k] if k < items.size else NOTHING)
                weight = weights[k] if k < items.size else 0.0
                head = heads[slot, storage.bucket_of(state, item)]
                filled = gather(
                    head, first_live, item, weight, low, high, filled, mask, owner, older, stored,
                    stored_weights, count, score, touched,
                )
        if items.size == 0 and of_sets:  # it shares no posting with anything: all are candidates
            for seq in range(low, high):
                at = seq & mask
                if count[at] == 0:
                    count[at] = 1
                    touched[filled] = at
                    filled += 1
    kept = 0
    for k in range(filled):
        at = touched[k]
        # A posting under NOTHING is not a common item.
        common = count[at] if sizes[at] > 0 and items.size > 0 else 0
        if satisfied(
            rules.code, rules.threshold, i, common, score[at], items.size, sizes[at]
        ):
            touched[kept] = at
            kept += 1
        count[at] = 0
        score[at] = 0.0
    return kept


@inner
def cut_for(
    state: State, i: int, time: float, late: bool, rules: Rules, scratch: Scratch
) -> None:
    """Cut window i into its basic windows as a tuple sees it; a late one's reaches further back."""
    head = state.meta[i, HEAD]
    if late:
        mask = state.time.shape[1] - 1
        while (
            head > state.meta[i, TAIL]
            and time - state.time[i, (head - 1) & mask] <= rules.window_s[i]
        ):
            head -= 1
    storage.cut(
        state.meta[i], state.starts[i], head, rules.counts[i], scratch.begin, scratch.end
    )


@inner
def compare(
    state: State, time: float, stream: int, kind: int, ident: int, late: bool, items: IntArray,
    weights: FloatArray, rules: Rules, selection: Selection, values: FloatArray, scratch: Scratch,
    tally: Tally, out: Output,
) -> int:
    """Choose what a tuple is compared with, compare, and return the number of comparisons."""
    i = 1 - stream
    n = rules.counts[i]
    dice = storage.scramble((rules.seed ^ np.uint64(tally.run[1])) + GOLDEN)
    everything = bool(float(dice >> np.uint64(11)) * 2.0**-53 < rules.full_probability)
    half = int(dice & np.uint64(1))
    cut_for(state, i, time, late, rules, scratch)
    made = tally.total[COMPARED] - tally.since[0]
    if rules.ceiling < 1.0 and made > rules.ceiling * (tally.total[POSSIBLE] - tally.since[1]):
        ranges = 0
        for j in range(n):
            scratch.compared[j] = 0
    elif everything:
        scratch.low[0], scratch.high[0] = scratch.begin[n - 1], scratch.end[0]
        for j in range(n):
            scratch.compared[j] = scratch.end[j] - scratch.begin[j]
        ranges = 1
    else:
        ranges = storage.choose(selection, i, kind, n, scratch)
    scratch.compared[scratch.compared.size - 1] = ranges
    total = 0
    for j in range(n):
        compared = scratch.compared[j]
        total += compared
        tally.comparisons[half, i, j, kind] += compared
    tally.total[COMPARED] += total
    tally.total[POSSIBLE] += scratch.end[0] - scratch.begin[n - 1]
    tally.total[FULL] += everything
    if total == 0:
        return 0
    if rules.access == SCAN_BITS:
        filled = probe_bits(state, i, ranges, items, weights, rules, scratch)
    else:
        filled = probe_index(state, i, ranges, items, weights, rules, scratch)
    if filled > 0:
        check = late or state.meta[i, LATE] >= state.meta[i, HEAD]
        accept(
            state, time, stream, kind, ident, half, check, scratch.touched[:filled], rules, values,
            tally, out,
        )
    return total


@inner
def set_back(state: State, tally: Tally, time: float) -> None:
    """Start over at ``time``: the clock of the streams has been set back."""
    for i in range(2):
        state.meta[i, HEAD] = state.meta[i, TAIL] = state.meta[i, SEQ]
        state.meta[i, EPOCH] = NO_EPOCH
        state.meta[i, LATE] = -1
    tally.now[0] = time
    tally.total[RESETS] += 1


@inner
def step(
    state: State, time: float, stream: int, kind: int, ident: int, items: IntArray,
    weights: FloatArray, rules: Rules, selection: Selection, values: FloatArray, scratch: Scratch,
    tally: Tally, out: Output,
) -> int:
    """Process one tuple as in Figure 3: expire, probe the other window, insert into its own."""
    if tally.now[0] - time > max(rules.window_s[0], rules.window_s[1]):
        tally.run[0] += 1
        tally.total[EXPIRED_IN] += 1
        if tally.run[0] < LATE_RUN:
            return 0
        set_back(state, tally, time)
    tally.run[0] = 0
    late = time < tally.now[0]
    tally.total[LATE_IN] += late
    now = max(time, tally.now[0])
    tally.now[0] = now
    epoch = int(np.floor((now - rules.origin_s) / rules.basic_window_s))
    slack = rules.basic_window_s
    storage.advance(state, 0, epoch, now, rules.window_s[0], slack, rules.access)
    storage.advance(state, 1, epoch, now, rules.window_s[1], slack, rules.access)
    tally.run[1] += 1
    total = compare(
        state, time, stream, kind, ident, late, items, weights, rules, selection, values, scratch,
        tally, out,
    )
    storage.insert(state, stream, time, kind, ident, items, weights, rules.access, late)
    return total


@njit(cache=True, nogil=True)
def process(
    state: State, begin: int, time: FloatArray, stream: IntArray, kind: IntArray, ident: IntArray,
    first: IntArray, items: IntArray, weights: FloatArray, rules: Rules, selection: Selection,
    values: FloatArray, scratch: Scratch, tally: Tally, out: Output,
) -> int:
    """Process tuples from ``begin`` on; return the first one not processed for want of room."""
    for t in range(begin, time.size):
        other = 1 - stream[t]
        held = state.meta[other, SEQ] - state.meta[other, TAIL]
        if rules.emit and out.left.size - out.used[0] < held:
            return t
        a, b = first[t], first[t + 1]
        step(
            state, time[t], stream[t], kind[t], ident[t], items[a:b], weights[a:b], rules,
            selection, values, scratch, tally, out,
        )
    return time.size
