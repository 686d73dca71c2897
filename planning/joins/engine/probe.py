"""The compiled heart of the operator: probe one tuple, and process a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.hashing import GOLDEN
from planning.joins.engine import storage
from planning.joins.engine.bitmaps import entry, inner, spliced
from planning.joins.engine.storage import EPOCH, HEAD, SEQ, TAIL, Scratch, Selection, State

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
    mask = state.time.shape[1] - 1
    times, kinds, epochs, idents = state.time[i], state.kind[i], state.epoch[i], state.ident[i]
    epoch, last = state.meta[i, EPOCH], rules.counts[i] - 1
    hits = tally.hits[half, i]
    before, after = rules.window_s[i], rules.window_s[stream]
    mine, theirs = (out.left, out.right) if stream == 0 else (out.right, out.left)
    used = out.used[0]
    matched = 0
    utility = 0.0
    for seq in touched:
        at = seq & mask
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
def accept_all(
    idents: IntArray, stream: int, ident: int, touched: IntArray, scratch: Scratch,
    hits: IntArray, emit: bool, out: Output,
) -> None:
    """Do the same for one type and sequence numbers that all match, without reading tuples."""
    mask = idents.size - 1
    k = q = 0
    while q < touched.size:
        while touched[q] >= scratch.end[k]:
            k -= 1
        while touched[q] < scratch.begin[k]:
            k += 1
        low, high, before = scratch.begin[k], scratch.end[k], q
        while q < touched.size and low <= touched[q] < high:
            q += 1
        hits[scratch.window[k], 0, 0] += q - before
    if not emit:
        return
    mine, theirs = (out.left, out.right) if stream == 0 else (out.right, out.left)
    used = out.used[0]
    for q in range(touched.size):
        mine[used + q] = ident
        theirs[used + q] = idents[touched[q] & mask]
    out.used[0] = used + touched.size


@inner
def probe_bits(
    state: State, i: int, items: IntArray, weights: FloatArray, rules: Rules, scratch: Scratch
) -> int:
    """Compare a tuple with ranges of window i by vertical bitmaps; return how many match."""
    mask = state.time.shape[1] - 1
    words = state.time.shape[1] >> 6
    bits, sizes = state.bits[i], state.size_bits[i]
    work, touched = scratch.work, scratch.touched
    filled = 0
    for q in range(scratch.chosen[1]):
        low, high = scratch.low[q], scratch.high[q]
        word, last = low >> 6, (high - 1) >> 6
        while word <= last:
            ring = word & (words - 1)
            width = min(last - word + 1, words - ring)
            row = storage.marked(
                bits, sizes, i, rules.code, rules.threshold, items, ring, width, work
            )
            filled = storage.collect(work[row, :width], word, low, high, touched, filled)
            word += width
    if rules.code == storage.INNER:
        first, size = state.first[i], state.size[i]
        stored, stored_weights = state.items[i], state.weights[i]
        kept = 0
        for k in range(filled):
            at = touched[k] & mask
            score = storage.inner_product(first, size, stored, stored_weights, at, items, weights)
            if score >= rules.threshold:
                touched[kept] = touched[k]
                kept += 1
        filled = kept
    return filled


@inner
def satisfied(
    code: int, threshold: float, i: int, common: int, score: float, probe: int, stored: int
) -> bool:
    """Whether counts of common items and sizes satisfy the condition."""
    if code == storage.OVERLAP:
        return common >= threshold
    if code == storage.INNER:
        return common > 0 and score >= threshold
    if code == storage.EQUALITY:
        return common == probe and common == stored
    if (code == storage.SUBSET) == (i == 0):
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
    state: State, i: int, items: IntArray, weights: FloatArray, rules: Rules, scratch: Scratch
) -> int:
    """Compare a tuple with ranges of window i through its index; return how many match."""
    mask, ring = state.time.shape[1] - 1, state.starts.shape[1]
    count, score, touched = scratch.common, scratch.score, scratch.touched
    owner, older = state.owner[i], state.older[i]
    stored, stored_weights = state.items[i], state.weights[i]
    epochs, sizes, heads = state.epoch[i], state.size[i], state.heads[i]
    first_live = state.first[i, state.meta[i, TAIL] & mask]
    of_sets = rules.code != storage.OVERLAP and rules.code != storage.INNER
    inside = (rules.code == storage.SUBSET) == (i == 0)
    finds_empty = of_sets and (rules.code == storage.EQUALITY or inside)
    looked_up = items.size + (1 if finds_empty else 0)
    filled = 0
    for q in range(scratch.chosen[1]):
        low, high = scratch.low[q], scratch.high[q]
        newest = epochs[(high - 1) & mask]
        oldest = epochs[low & mask] if rules.access == storage.INVERTED else newest
        for e in range(newest, oldest - 1, -1):
            slot = e % ring if rules.access == storage.INVERTED else 0
            for k in range(looked_up):
                item = int(items[k] if k < items.size else storage.NOTHING)
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
def head_for(meta: IntArray, times: FloatArray, time: float, late: bool, window_s: float) -> int:
    """Oldest tuple of a window that a tuple sees; a late one's window reaches further back."""
    head = meta[HEAD]
    if late:
        mask = times.size - 1
        while head > meta[TAIL] and time - times[(head - 1) & mask] <= window_s:
            head -= 1
    return int(head)


@inner
def everything(meta: IntArray, starts: IntArray, head: int, n: int, scratch: Scratch) -> int:
    """Choose all basic windows of a window; return how many tuples they hold."""
    storage.cut(meta, starts, head, n, scratch.begin, scratch.end)
    for j in range(n):
        scratch.window[j] = j
    scratch.low[0], scratch.high[0] = head, meta[SEQ]
    scratch.chosen[0], scratch.chosen[1] = n, 1
    return int(meta[SEQ] - head)


@spliced
def compare(
    state: State, time: float, stream: int, kind: int, ident: int, late: bool, items: IntArray,
    weights: FloatArray, rules: Rules, selection: Selection, values: FloatArray, scratch: Scratch,
    tally: Tally, out: Output,
) -> int:
    """Choose what a tuple is compared with, compare, and return the number of comparisons."""
    i = 1 - stream
    n = rules.counts[i]
    meta, starts = state.meta[i], state.starts[i]
    dice = storage.scramble((rules.seed ^ np.uint64(tally.run[1])) + GOLDEN)
    whole = bool(float(dice >> np.uint64(11)) * 2.0**-53 < rules.full_probability)
    half = int(dice & np.uint64(1))
    head = head_for(meta, state.time[i], time, late, rules.window_s[i])
    made = tally.total[COMPARED] - tally.since[0]
    possible = tally.total[POSSIBLE] - tally.since[1]
    tally.total[POSSIBLE] += meta[SEQ] - head
    tally.total[FULL] += whole
    scratch.chosen[0] = scratch.chosen[1] = 0
    if rules.ceiling < 1.0 and made > rules.ceiling * possible:
        return 0
    if whole:
        total = everything(meta, starts, head, n, scratch)
    elif selection.number[i, kind] > 0:
        total = storage.choose(meta, starts, head, n, selection, i, kind, scratch)
    else:
        return 0
    if total == 0:
        return 0
    tally.total[COMPARED] += total
    for k in range(scratch.chosen[0]):
        count = scratch.end[k] - scratch.begin[k]
        tally.comparisons[half, i, scratch.window[k], kind] += count
    if rules.access == storage.SCAN_BITS:
        filled = probe_bits(state, i, items, weights, rules, scratch)
    else:
        filled = probe_index(state, i, items, weights, rules, scratch)
    if filled == 0:
        return total
    check = late or meta[storage.LATE] >= meta[HEAD]
    touched = scratch.touched[:filled]
    if rules.access == storage.SCAN_BITS and values.size == 1 and not check:
        accept_all(
            state.ident[i], stream, ident, touched, scratch, tally.hits[half, i], rules.emit, out
        )
        tally.total[MATCHED] += filled
        tally.utility[0] += filled * values[0, 0]
    else:
        accept(
            state, time, stream, kind, ident, half, check, touched, rules, values, tally, out
        )
    return total


@inner
def set_back(state: State, tally: Tally, time: float) -> None:
    """Start over at ``time``: the clock of the streams has been set back."""
    for i in range(2):
        state.meta[i, HEAD] = state.meta[i, TAIL] = state.meta[i, SEQ]
        state.meta[i, EPOCH] = storage.NO_EPOCH
        state.meta[i, storage.LATE] = -1
    tally.now[0] = time
    tally.total[RESETS] += 1


@spliced
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
    for i in range(2):
        if epoch > state.meta[i, EPOCH]:
            storage.shift(state.meta[i], state.starts[i], state.heads[i], epoch, rules.access)
        storage.expire(
            state.meta[i], state.time[i], now, rules.window_s[i], rules.basic_window_s
        )
    tally.run[1] += 1
    total = compare(
        state, time, stream, kind, ident, late, items, weights, rules, selection, values, scratch,
        tally, out,
    )
    posted = rules.access != storage.SCAN_BITS or rules.code == storage.INNER
    storage.insert(state, stream, time, kind, ident, items, weights, rules.access, late, posted)
    return total


@entry
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
