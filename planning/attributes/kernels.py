"""Compiled loops: the per-tuple decision, the table of entities, distances.

The decision keeps a ledger of the bytes of the last W tuples. A tuple is sent only if the
window that ends with it stays within the capacity in force, so no window of W tuples ever exceeds
it. A second, paced credit (C/W per tuple) keeps one entity from spending what the others will need.
A tuple of which nothing is due, or nothing fits, is not sent at all, unless what is never shed has
changed. Marked tuples are sent whole, out of a part of the capacity that is set aside for them.
What is guaranteed is sent ahead of the pace, and out of a part of the window that is held for it.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from planning import hashing
from planning.arrays import IntArray
from planning.attributes.plan import MIN_BAND
from planning.pacing import ONE

mixed = numba.njit(hashing.mixed)

# Scores below are compared within one tuple only.
UNSENT = 1e12  # nothing of this attribute has reached the receiver yet
OVERDUE = 1e6  # times age: the refresh that was promised
PROMISED = 1e13  # times rank: what is guaranteed
MAX_GAIN = 6.0
MIN_GAIN = -0.5  # much narrower bands gain little and leave no room for the next burst
GAIN_STEP = 2.0  # per cycle: how fast the bands follow demand above or below the pace
SHORTEST = 12  # a cycle of fewer tuples is followed as if it had so many
HEADROOM = 0.9  # of the pace: bands aim below it so that bursts find room
WHOLE = 1.0 - 1e-9  # a fraction that has been added up n times
CREDIT, GAIN, THINNING = 0, 1, 2  # places in ``floats``
POSITION, CHARGED, MARKED, KEPT_UP, CLOCK, WAITING, UNTIL = range(7)  # places in ``ints``
NUMERIC, TEXT = 0, 1  # rows of ``columns``
# An attribute's ``role`` in a stream. The last three are kept: in every tuple that is sent; every
# change of it is sent; every tuple is sent.
ABSENT, SHEDDABLE, KEPT, FOLLOWED, CONSTANT = 0, 1, 2, 3, 4
SIZE, PERIOD, SLOT = 0, 1, 2  # tables in ``whole``
SCALE, INFORMATION, WEIGHT, BAND, LIMIT, RANK = 0, 1, 2, 3, 4, 5  # tables in ``real``


@numba.njit(cache=True)
def find_slots(keys: Any, table: Any, known: Any, count: int, limit: int, out: Any) -> int:
    """Map row keys to entity slots, adding new ones; -1 when the table is full.

    The table has open addressing: a key sits at its own place or at the next free one.
    """
    last = len(table) - 1
    for i in range(len(keys)):
        at = np.int64(mixed(np.uint64(keys[i])) & np.uint64(last))
        while table[at] >= 0 and known[table[at]] != keys[i]:
            at = (at + 1) & last
        if table[at] < 0 and count < limit:
            known[count] = keys[i]
            table[at] = count
            count += 1
        out[i] = table[at]
    return count


def factorize(values: IntArray, limit: int) -> tuple[IntArray, int]:
    """Return (codes in order of first appearance, distinct); -1 distinct beyond ``limit``."""
    table = np.full(1 << (2 * limit + 1).bit_length(), -1, dtype=np.int64)  # at most half full
    codes = np.empty(len(values), dtype=np.int64)
    count = find_slots(values, table, np.empty(limit + 1, np.int64), 0, limit + 1, codes)
    return codes, count if count <= limit else -1


@numba.njit(cache=True)
def decide(
    slots: Any,
    streams: Any,
    values: Any,
    length: Any,
    draws: Any,
    allowance: Any,
    marks: Any,
    ahead: int,
    columns: Any,
    role: Any,
    whole: Any,
    real: Any,
    header: Any,
    cycle: Any,
    tuple_rate: Any,
    refresh: int,
    capacity: int,
    aside: int,
    one: int,
    reserve: int,
    pace: float,
    depth: float,
    step: float,
    last: Any,
    age: Any,
    thinning: Any,
    ring: Any,
    ints: Any,
    floats: Any,
    keep: Any,
    sent_bytes: Any,
) -> int:
    """Decide on the tuples of a batch, in order; write ``keep`` and ``sent_bytes``.

    ``values`` has one row per attribute, ``length`` one per text attribute with the bytes of each
    value; ``columns`` tells which row of ``length`` an attribute has, -1 for the plan's fixed
    size. ``age`` is -1 until a value has been sent. ``draws`` is empty without keys, ``allowance``
    (the bytes that may have been sent after each tuple) without a limit, ``marks`` without marked
    tuples; ``ahead`` tuples after the batch come before the next mark. A tuple for which there is
    no room as a whole loses its mark. Row 0 of the ``ring`` is what tuples took, row 1 what marked
    ones took. ``aside`` of the capacity is set aside for the latter, and ``one`` more while a
    marked tuple is less than a window away. Returns the bytes of what was due
    in tuples that were not thinned.

    What has a ``RANK`` is guaranteed: a change beyond its ``LIMIT``, and, if it has a ``SLOT`` k,
    one of k tuples of its entity that are not thinned. Its turns go by a clock of all tuples, where
    an entity reports once in a ``cycle``: so entities take turns whatever happened before, and lost
    reports do not bring them into step. Row 2 of the ring is what took guaranteed values along;
    ``reserve`` of the window is held for it, and what the last of them needs that did not fit.
    """
    rows, attributes = keep.shape
    limited = capacity >= 0
    keyed = len(draws) > 0
    most = allowance[rows - 1] if len(allowance) else 1
    closed = capacity == aside or most == 0
    score = np.empty(attributes)
    cost = np.empty(attributes, np.int64)
    due = np.empty(attributes, np.int64)
    total = planned = following = 0
    for i in range(rows):
        s, e = streams[i], slots[i]
        if s < 0:
            continue
        widening = 1.0 if keyed else math.exp(floats[GAIN])
        lap, apart = 0, 1
        clocked = cycle[s] > 0.0 and e >= 0
        if clocked:
            lap = math.floor((ints[CLOCK] - e) / cycle[s] + 0.5) - e
            apart = round(1.0 / tuple_rate[s]) if 0.0 < tuple_rate[s] < 1.0 else 1
        need = header[s]
        full = need
        wanted = count = must = 0
        still = limited and e >= 0  # the receiver has what is never shed
        for j in range(attributes):
            if role[s, j] == ABSENT:
                continue
            cost[j] = whole[SIZE, s, j] if columns[TEXT, j] < 0 else length[columns[TEXT, j], i]
            full += cost[j]
            if role[s, j] >= KEPT:
                need += cost[j]
                if still and (role[s, j] != KEPT or age[e, j] < 0):
                    numeric = columns[NUMERIC, j] != 0
                    moved = deviation(values[j, i], last[e, j], numeric, 1.0)
                    still = role[s, j] == FOLLOWED and age[e, j] >= 0 and moved == 0.0
                continue
            worth = 0.0
            if limited and e >= 0:
                worth = -1.0
                reports = age[e, j] + 1
                slot, rank = whole[SLOT, s, j], real[RANK, s, j]
                if reports == 0:
                    worth = UNSENT
                    promised = rank > 0.0
                else:
                    moved = 0.0
                    banded = real[BAND, s, j] >= 0.0
                    turn = slot > 0 and clocked and reports > apart
                    turn = turn and (lap // apart + (0 if banded else j)) % slot == 0
                    if 0 < whole[PERIOD, s, j] <= reports or turn:
                        worth = reports * real[INFORMATION, s, j]
                        if 0 < refresh <= reports:
                            worth += OVERDUE * reports
                    if banded and (worth < 0.0 or rank > 0.0):
                        moved = deviation(
                            values[j, i], last[e, j], columns[NUMERIC, j] != 0, real[SCALE, s, j]
                        )
                        band = real[BAND, s, j] if real[BAND, s, j] > MIN_BAND else MIN_BAND
                        if worth < 0.0 and moved > min(band * widening, real[LIMIT, s, j]):
                            size = cost[j] if cost[j] > 0 else 1
                            worth = real[WEIGHT, s, j] * moved * moved / size
                    promised = moved > real[LIMIT, s, j] or (slot > 0 and worth >= 0.0)
                if promised:
                    worth = PROMISED * rank + reports
                    must += cost[j]
            if worth >= 0.0:
                score[j] = worth
                due[count] = j
                count += 1
                wanted += cost[j]
        place = ints[POSITION]
        charged = ints[CHARGED] - ring[0, place]
        by_marks = ints[MARKED] - ring[1, place]
        kept_up = ints[KEPT_UP] - ring[2, place]
        while following < len(marks) and (following < i or not marks[following]):
            following += 1
        far = following - i if following < len(marks) else rows - i + ahead
        held = aside + one if far < ring.shape[1] else aside
        room = capacity - charged - (by_marks if by_marks > held else held)
        credit = floats[CREDIT]
        dropped = waited = False
        short = must  # of what is guaranteed
        behind = max(reserve - kept_up, ints[WAITING] if ints[CLOCK] < ints[UNTIL] else 0)
        if limited:
            credit = credit + pace if credit + pace < depth else depth
        marked = len(marks) > 0 and marks[i]
        if marked:
            fits = not limited or full <= capacity - charged - by_marks
            marked = marks[i] = fits and (len(allowance) == 0 or full <= most - total)
        if marked:
            planned += full if limited else 0
        elif limited:
            rate = tuple_rate[s]
            waited = e >= 0 and thinning[e] >= 1.0  # there was no room for it last time
            if rate < 1.0 and not keyed:
                # Every entity keeps the same fraction, evenly spaced.
                share = (thinning[e] if e >= 0 else floats[THINNING]) + rate
                dropped = share < WHOLE
                if clocked and lap % apart == 0 and apart * rate > WHOLE:
                    share, dropped = max(share, 1.0), False
                if not dropped:
                    share -= 1.0
                if e >= 0:
                    thinning[e] = share
                else:
                    floats[THINNING] = share
            else:
                dropped = rate < 1.0 and draws[i] < math.ceil((1.0 - rate) * ONE)
                if waited and not dropped:
                    thinning[e] -= 1.0
            short = 0 if dropped else must
            idle = still and count == 0
            if not dropped and not keyed:
                excess = min((0 if idle else need + wanted) / pace - HEADROOM, 1.0)
                floats[GAIN] = min(max(floats[GAIN] + step * excess, MIN_GAIN), MAX_GAIN)
            dropped = dropped or idle
            if not dropped:
                planned += need + wanted
                if len(allowance):
                    left = allowance[i] - total
                    if waited and left >= 0:  # one tuple ahead, or the first would always wait
                        left += need
                    if left > most - total:
                        left = most - total
                    if left < room:
                        room = left
                if must == 0:
                    room = min(room, capacity - charged - behind)
                if need > room or closed:
                    dropped = True
                    if e >= 0:
                        thinning[e] = thinning[e] + 1.0 if thinning[e] < 0.0 else 1.0
        spent = guaranteed = 0
        if marked:
            spent = full
            for j in range(attributes):
                keep[i, j] = role[s, j] != ABSENT
        elif not dropped:
            spent = need
            budget = float(wanted)
            if limited:
                budget = credit if credit > need else float(need)
                if must > 0:
                    others = room - max(behind - need - must, 0)
                    budget = max(min(budget, float(others)), float(need + must))
                budget = (budget if budget < room else float(room)) - need
            for j in range(attributes):
                keep[i, j] = role[s, j] >= KEPT
            if wanted > budget:  # the highest scores first, ties by attribute
                for done in range(1, count):
                    j = due[done]
                    d = done
                    while d > 0 and score[due[d - 1]] < score[j]:
                        due[d] = due[d - 1]
                        d -= 1
                    due[d] = j
            for d in range(count):
                j = due[d]
                if cost[j] <= budget:
                    keep[i, j] = True
                    spent += cost[j]
                    budget -= cost[j]
                    if score[j] >= PROMISED:
                        guaranteed += cost[j] if guaranteed else cost[j] + need
                        short -= cost[j]
                    still = False
            if still:  # nothing of it fits, so it waits
                keep[i] = False
                spent = 0
                thinning[e] = thinning[e] + 1.0 if thinning[e] < 0.0 else 1.0
        if not limited:
            planned += spent
        elif short > 0 and not marked:
            ints[WAITING], ints[UNTIL] = need + must, ints[CLOCK] + 2 * ring.shape[1]
            if thinning[e] < 1.0:
                thinning[e] = thinning[e] + 1.0 if thinning[e] < 0.0 else 1.0
        elif waited and guaranteed > 0:
            ints[WAITING] = 0
        if e >= 0:
            # The first time, entities start at different ages so that they do not refresh in
            # step, and so do attributes with periods; the others refresh in one tuple.
            phase = draws[i] if keyed else e
            for j in range(attributes):
                if keep[i, j]:
                    every = whole[PERIOD, s, j]
                    first = phase + j if real[BAND, s, j] < 0.0 else phase
                    age[e, j] = first % every if age[e, j] < 0 and every > 1 else 0
                    last[e, j] = values[j, i]
                elif age[e, j] >= 0:
                    age[e, j] += 1
        sent_bytes[i] = spent
        total += spent
        if limited:
            floats[CREDIT] = credit if marked else credit - spent
        ring[0, place], ring[1, place] = (0, spent) if marked else (spent, 0)
        ints[CHARGED], ints[MARKED] = charged + ring[0, place], by_marks + ring[1, place]
        ints[CLOCK] += 1
        ring[2, place], ints[KEPT_UP] = guaranteed, kept_up + guaranteed
        ints[POSITION] = place + 1 if place + 1 < ring.shape[1] else 0
    return planned


@numba.njit(cache=True, inline="always")
def deviation(now: float, last: float, numeric: bool, scale: float) -> float:
    """Return how far a value is from the last sent one, free of units.

    :mod:`planning.attributes.statistics.sums` says what the scale is. Null against a value counts
    1.
    """
    if np.isnan(now) or np.isnan(last):
        return 0.0 if np.isnan(now) == np.isnan(last) else 1.0
    if numeric and scale > 0.0:
        return abs(now - last) / scale
    return 0.0 if now == last else 1.0


@numba.njit(cache=True, inline="always")
def hold_loss(distance: float, now: float, held: float, numeric: bool, scale: float) -> float:
    """Return what holding a value at this distance loses: 1 is an unrelated value."""
    if numeric or np.isnan(now) != np.isnan(held) or scale == 0.0:
        return distance * distance
    return distance / (scale * scale)


@numba.njit(cache=True)
def held_errors(
    streams: Any,
    slots: Any,
    values: Any,
    keep: Any,
    numeric: Any,
    scale: Any,
    weight: Any,
    entities: int,
) -> Any:
    """Return (error per stream and attribute, weighted error per tuple, reports per stream).

    The receiver holds the last value that ``keep`` let through; before the first, the error
    counts 1.
    """
    rows, attributes = keep.shape
    held = np.full((entities, attributes), np.nan)
    known = np.zeros((entities, attributes), np.bool_)
    error = np.zeros(scale.shape)
    lost = np.zeros(rows)
    reports = np.zeros(scale.shape[0], np.int64)
    for i in range(rows):
        s, e = streams[i], slots[i]
        if s < 0 or e < 0:
            continue
        reports[s] += 1
        for j in range(attributes):
            if keep[i, j]:
                held[e, j] = values[i, j]
                known[e, j] = True
                continue
            wrong = 1.0
            if known[e, j]:
                now, last = values[i, j], held[e, j]
                distance = deviation(now, last, numeric[j], scale[s, j])
                wrong = hold_loss(distance, now, last, numeric[j], scale[s, j])
            error[s, j] += wrong
            lost[i] += weight[s, j] * wrong
    return error, lost, reports
