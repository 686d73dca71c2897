"""Compiled inner loops of the shedder: region lookup and the counter rule, block by block.

``columns`` is a tuple with one array per axis. A block of tuples stays in the first-level cache
while axis after axis turns coordinates into buckets, buckets into ranks, and ranks into cells; then
the rule runs over the block in order of arrival. Small unsigned indices avoid the sign checks of
array access.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from planning import pacing

CARRY = np.uint64(pacing.ONE_BITS)
UNIT = float(pacing.ONE)
ONE = np.int64(pacing.ONE)
BLOCK = 512
"""Tuples between two corrections of the budget, and in one pass of the inner loops."""
DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT_PLACE = np.zeros(64, dtype=np.int32)
for _place in range(64):
    BIT_PLACE[(int(DE_BRUIJN) << _place) % 2**64 >> 58] = _place

# Columns of ``state``, and places in ``control`` and ``ledger``.
CREDIT, STEP, OFFERED, CUT = 0, 1, 2, 3
LOAD, FAIRNESS, BIAS, CORRECT = 0, 1, 2, 3
DEBT, DUE, MOST, LEAST, SINCE, WANTED = 0, 1, 2, 3, 4, 5
HORIZON = 2.0 * BLOCK
"""Tuples over which a debt is to be paid back."""
LEARNING_DOWN, LEARNING_UP = 0.1, 0.3
"""Upward is faster: what passes in excess is cut anyway, what is dropped in excess is lost."""


@njit(cache=True)
def decide(
    columns: Any, tables: Any, tree: Any, path: Any, state: Any, control: Any, ledger: Any,
    forced: Any, keep: Any, weight: Any, pending: Any,
) -> None:  # fmt: skip
    """Decide on a batch.

    ``tables`` is a :class:`~planning.sifter.lookup.Lookup`, ``tree`` a partition's dimension, cut,
    right and leaf, and ``path`` the order, frequency and queried of a
    :class:`~planning.sifter.path.Path`. ``state`` has one row per region, and one for tuples
    without region: credit, step, tuples offered, and tuples cut by the ledger. ``forced`` (empty,
    or one per tuple) marks what must be kept. ``keep`` is filled, and ``weight`` unless it is
    empty; ``pending`` has, per region, the weight of cut tuples. Steps are corrected at fixed
    counts of tuples, so that a stream gives the same decisions however it is split into batches.
    """
    n, d = keep.size, len(columns)
    first, scale, start, cuts, compares, stride, cells, bitmaps, offset = tables
    bucket, place = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    passed = np.empty(BLOCK, np.uint8)
    rank = np.empty((d if bitmaps.size else 1, BLOCK), np.int32)
    unplaced = state.shape[0] - 1
    begin = 0
    while begin < n:
        size = min(BLOCK - int(ledger[SINCE]), n - begin)
        part = keep[begin : begin + size]
        if cells.size:
            for k in range(d):
                column = columns[k][begin : begin + size]
                _buckets(column, first[k], scale[k], start.shape[1] - 1, bucket)
                _ranks(column, bucket, start[k], cuts[k], compares[k], rank[0])
                _combine(rank[0], stride[k], k == 0, size, place)
            for j in range(size):
                place[j] = cells[np.uint32(place[j])]
        elif bitmaps.size:
            for k in range(d):
                column = columns[k][begin : begin + size]
                _buckets(column, first[k], scale[k], start.shape[1] - 1, bucket)
                _ranks(column, bucket, start[k], cuts[k], compares[k], rank[k])
            _intersect(bitmaps, rank, offset, unplaced, size, place)
        else:
            descend(columns, begin, tree, unplaced, place[:size])
        if forced.size or weight.size:
            must = forced[begin : begin + size]
            _settle(place, state, ledger, must, part, weight[begin : begin + size], pending)
        else:
            _settle_plain(place, state, ledger, part, passed)
        begin += size
        if ledger[SINCE] >= BLOCK:
            correct(path, state, control, ledger)


@njit(cache=True)
def _settle(
    place: Any, state: Any, ledger: Any, forced: Any, keep: Any, weight: Any, pending: Any
) -> None:
    """Apply the counter rule to a block, enter it in the ledger, and cut what exceeds the budget.

    Every tuple earns ``DUE`` (z), every kept one costs 1. The debt stays at most ``MOST``, and
    no more than -``LEAST`` is saved up, so no stretch of the stream passes more than z plus both.
    """
    debt, due, most, least = ledger[DEBT], ledger[DUE], ledger[MOST], ledger[LEAST]
    for j in range(keep.size):
        region = np.uint32(place[j])
        passes = _passes(region, state) > 0
        must = forced.size > 0 and forced[j]
        if must and not passes:
            # The region's credit has counted a drop that does not happen.
            state[region, CUT] -= np.uint64(1)
            passes = True
        debt = max(debt - due, least)
        keep[j] = passes and (must or debt + ONE <= most)
        if keep[j]:
            debt += ONE
        elif passes:
            state[region, CUT] += np.uint64(1)
        if weight.size:
            weight[j] = _weight(region, state, keep[j], passes, must, pending)
        ledger[WANTED] += passes
    ledger[DEBT] = debt
    ledger[SINCE] += keep.size


@njit(cache=True)
def _weight(region: Any, state: Any, keep: bool, passes: bool, must: bool, pending: Any) -> float:
    """Return the inverse keep probability; a cut tuple leaves its weight to the region's next."""
    if must:
        return 1.0
    if not passes:
        return 0.0
    weight = 1.0 / (1.0 - np.float64(state[region, STEP]) / UNIT) + pending[region]
    pending[region] = 0.0 if keep else weight
    return weight if keep else 0.0


@njit(cache=True)
def correct(path: Any, state: Any, control: Any, ledger: Any) -> None:
    """Close a block: compare what the steps let pass with z, and set them accordingly.

    The passed fraction drifts from z when the real frequencies differ from the plan's. The setting
    is taken at a throttle fraction that is lowered by the learned bias and by the debt spread over
    a horizon.
    """
    z = control[LOAD]
    effective = z
    if control[CORRECT] > 0.0 and 0.0 < z < 1.0:
        if ledger[SINCE] > 0:
            error = ledger[WANTED] / ledger[SINCE] - z
            rate = LEARNING_DOWN if error > 0.0 else LEARNING_UP
            control[BIAS] = min(max(control[BIAS] + rate * error, -1.0), 1.0)
        pressure = ledger[DEBT] / UNIT / HORIZON
        effective = min(max(z - control[BIAS] - pressure, 0.0), 1.0)
    ledger[SINCE], ledger[WANTED] = 0, 0
    _set_steps(effective, control[FAIRNESS], path, state)


@njit(cache=True)
def _set_steps(z: float, delta: float, path: Any, state: Any) -> None:
    """Set every region's step to its optimal drop threshold at z (see :mod:`path`)."""
    order, frequency, queried = path
    regions = frequency.size
    free = group = 0.0
    for i in range(regions):
        if queried[i]:
            group += frequency[i]
        else:
            free += frequency[i]
    need = 1.0 - z
    from_free = 0.0
    if need > 0.0:
        from_free = min(1.0, need / free) if free > 0.0 else 1.0
    for i in range(regions):
        if not queried[i]:
            state[i, STEP] = _step(from_free)
    remaining, floor, y = need - free * from_free, 0.0, np.zeros(order.size)
    for j in range(order.size):
        i = order[j]
        w = (1.0 - delta) * group if i < 0 else delta * frequency[i]
        if w > 0.0:
            y[j] = min(1.0, max(0.0, remaining / w))
        if i < 0:
            floor = (1.0 - delta) * y[j]
        remaining -= w
    for j in range(order.size):
        if order[j] >= 0:
            threshold = 1.0 if z <= 0.0 else min(1.0, floor + delta * y[j])
            state[order[j], STEP] = _step(threshold)
    state[regions, STEP] = _step(need)


@njit(cache=True)
def _step(threshold: float) -> Any:
    """Return a drop threshold in units of 2**-32, rounded up so that the budget holds."""
    return np.uint64(np.ceil(min(1.0, max(0.0, threshold)) * UNIT - 1e-6))


@njit(cache=True)
def mark_pinned(columns: Any, low: Any, high: Any, forced: Any) -> None:
    """Mark the tuples that lie in any of the pinned boxes."""
    for box in range(low.shape[0]):
        for j in range(forced.size):
            inside = True
            for k in range(len(columns)):
                inside &= low[box, k] <= columns[k][j] < high[box, k]
            forced[j] |= inside


@njit(cache=True)
def _buckets(column: Any, first: float, scale: float, buckets: int, bucket: Any) -> None:
    top = np.float64(buckets - 1)
    for j in range(column.size):
        x = column[j]
        b = (x - first) * scale
        b = b if b > 0.0 else 0.0
        b = b if b < top else top
        i = np.int32(b)
        bucket[j] = i if x == x else np.int32(buckets)


@njit(cache=True)
def _ranks(column: Any, bucket: Any, start: Any, cuts: Any, compares: int, rank: Any) -> None:
    if compares <= 1:
        for j in range(column.size):
            r = start[np.uint32(bucket[j])]
            rank[j] = r + np.int32(column[j] >= cuts[np.uint32(r)])
    elif compares == 2:
        for j in range(column.size):
            r = start[np.uint32(bucket[j])]
            r += np.int32(column[j] >= cuts[np.uint32(r)])
            rank[j] = r + np.int32(column[j] >= cuts[np.uint32(r)])
    else:
        for j in range(column.size):
            r = start[np.uint32(bucket[j])]
            while column[j] >= cuts[np.uint32(r)]:
                r += np.int32(1)
            rank[j] = r


@njit(cache=True)
def _combine(rank: Any, stride: Any, fresh: bool, size: int, place: Any) -> None:
    if fresh:
        for j in range(size):
            place[j] = rank[j] * stride
    else:
        for j in range(size):
            place[j] += rank[j] * stride


@njit(cache=True)
def _settle_plain(place: Any, state: Any, ledger: Any, keep: Any, passed: Any) -> None:
    """Do as ``_settle`` where nothing is forced or weighted, without data-dependent branches."""
    debt, due, most, least = ledger[DEBT], ledger[DUE], ledger[MOST] - ONE, ledger[LEAST]
    for j in range(keep.size):
        passes = _passes(np.uint32(place[j]), state)
        debt = max(debt - due, least)
        kept = passes & np.int64(debt <= most)
        debt += kept * ONE
        keep[j] = kept
        passed[j] = passes
    ledger[DEBT] = debt
    wanted = np.int64(0)
    cut = np.int64(0)
    for j in range(keep.size):
        wanted += passed[j]
        cut += passed[j] - keep[j]
    if cut > 0:
        for j in range(keep.size):
            if passed[j] != keep[j]:
                state[np.uint32(place[j]), CUT] += np.uint64(1)
    ledger[WANTED] += wanted
    ledger[SINCE] += keep.size


@njit(cache=True)
def _passes(region: Any, state: Any) -> Any:
    """Apply the counter rule to a tuple of the region: 1 if it passes, 0 if it is dropped."""
    before = state[region, CREDIT]
    after = before + state[region, STEP]
    state[region, CREDIT] = after
    state[region, OFFERED] += np.uint64(1)
    # A carry flips the lowest bit of the count of drops.
    return np.int64(((before ^ after) >> CARRY) & np.uint64(1)) ^ np.int64(1)


@njit(cache=True)
def _intersect(bitmaps: Any, rank: Any, offset: Any, unplaced: int, size: int, place: Any) -> None:
    """Find the one region that all axes' slabs touch."""
    for j in range(size):
        place[j] = unplaced
        for w in range(bitmaps.shape[1]):
            common = bitmaps[np.uint32(rank[0, j]), w]
            for k in range(1, rank.shape[0]):
                common &= bitmaps[np.uint32(rank[k, j] + offset[k]), w]
            if common != 0:
                lowest = common & (~common + np.uint64(1))
                place[j] = 64 * w + BIT_PLACE[(lowest * DE_BRUIJN) >> np.uint64(58)]
                break


@njit(cache=True)
def descend(columns: Any, begin: int, tree: Any, unplaced: int, place: Any) -> None:
    """Find the regions of the tuples from ``begin`` on by descending the tree."""
    dimension, cut, right, leaf = tree
    point = np.empty(len(columns))
    for j in range(place.size):
        placed = True
        for k in range(len(columns)):
            point[k] = columns[k][begin + j]
            placed &= point[k] == point[k]
        node = 0
        while dimension[node] >= 0:
            node = node + 1 if point[dimension[node]] < cut[node] else right[node]
        place[j] = leaf[node] if placed else unplaced
