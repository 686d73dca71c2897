"""Compiled loops: the per-tuple decision, the table of entities, distances and their sums.

The decision keeps a ledger of the bytes of the last W tuples. A tuple is sent only if the
window that ends with it stays within the capacity in force, so no window of W tuples ever exceeds
it. Every tuple is charged at least what is never shed, so those bytes are always free for the next
tuple. A second, paced credit (C/W per tuple) keeps one entity from spending what the others will
need.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from planning import hashing
from planning.arrays import BoolArray, FloatArray, IntArray

mixed = numba.njit(hashing.mixed)

# Scores below are compared within one tuple only.
UNSENT = 1e12  # nothing of this attribute has reached the receiver yet
OVERDUE = 1e6  # times age: the refresh that was promised
MIN_BAND = 0.01  # so that control can widen a band of 0
MAX_GAIN = 6.0
MIN_GAIN = -4.0
GAIN_STEP = 2.0  # per cycle: how fast the bands follow demand above or below the pace
HEADROOM = 0.9  # of what the pace leaves: bands aim below it so that bursts find room
WHOLE = 1.0 - 1e-9  # a fraction that has been added up n times
CREDIT, GAIN, THINNING, STEP = 0, 1, 2, 3  # places in ``floats``
POSITION, CHARGED = 0, 1  # places in ``ints``


@numba.njit(cache=True)
def _seat(key: int, table: Any, known: Any) -> Any:
    """Return the place of a key in an open-addressing table: its own, or the free one it gets."""
    last = len(table) - 1
    at = np.int64(mixed(np.uint64(key)) & np.uint64(last))
    while table[at] >= 0 and known[table[at]] != key:
        at = (at + 1) & last
    return at


@numba.njit(cache=True)
def find_slots(keys: Any, table: Any, known: Any, count: int, limit: int, out: Any) -> int:
    """Map row keys to entity slots, adding new ones; -1 when the table is full."""
    for i in range(len(keys)):
        at = _seat(keys[i], table, known)
        if table[at] < 0:
            if count == limit:
                out[i] = -1
                continue
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
    text: Any,
    there: Any,
    numeric: Any,
    sizes: Any,
    present: Any,
    kept: Any,
    scale: Any,
    weight: Any,
    information: Any,
    refresh: int,
    period: Any,
    band: Any,
    header: Any,
    capacity: int,
    tuple_rate: Any,
    reserve: int,
    depth: float,
    last: Any,
    age: Any,
    thinning: Any,
    ring: Any,
    ints: Any,
    floats: Any,
    keep: Any,
    sent_bytes: Any,
) -> None:
    """Decide on the tuples of a batch, in order; write ``keep`` and ``sent_bytes``.

    ``values`` has one row per attribute, or is empty if no band is in force. ``length`` has one
    row per text attribute with the bytes of each value; ``text`` is the row of an attribute, -1
    for the plan's fixed size. ``there`` tells which attributes the batch has at all. ``age`` is -1
    until a value has been sent.
    """
    rows, attributes = keep.shape
    width = len(ring)
    limited = capacity >= 0
    pace = max(capacity / width, 1e-9)
    widening = np.exp(floats[GAIN])
    score = np.empty(attributes)
    cost = np.empty(attributes, np.int64)
    due = np.empty(attributes, np.int64)
    for i in range(rows):
        s, e = streams[i], slots[i]
        if s < 0:
            continue
        need = header[s]
        wanted = 0
        count = 0
        for j in range(attributes):
            if not (present[s, j] and there[j]):
                continue
            cost[j] = sizes[s, j] if text[j] < 0 else length[text[j], i]
            if kept[s, j]:
                need += cost[j]
                continue
            worth = 0.0
            if limited and e >= 0:
                worth = _worth(age[e, j], period[s, j], refresh, information[s, j])
                if worth < 0.0 and band[s, j] >= 0.0:
                    moved = deviation(values[j, i], last[e, j], numeric[j], scale[s, j])
                    if moved > max(band[s, j], MIN_BAND) * widening:
                        worth = weight[j] * moved * moved / max(cost[j], 1)
            if worth >= 0.0:
                score[j] = worth
                due[count] = j
                count += 1
                wanted += cost[j]
        place = ints[POSITION]
        room = capacity - (ints[CHARGED] - ring[place])
        dropped = False
        if limited:
            floats[CREDIT] = min(floats[CREDIT] + pace, depth)
            if tuple_rate[s] < 1.0:
                dropped = _thinned(e, tuple_rate[s], thinning, floats)
            if not dropped and (need > room or capacity == 0):
                dropped = True
                if e >= 0:
                    thinning[e] = min(1.0, thinning[e] + 1.0)
        spent = 0
        if not dropped:
            spent = need
            if limited:
                budget = min(float(room), max(floats[CREDIT], float(need))) - need
                aim = HEADROOM * (pace - need)
                floats[GAIN] += floats[STEP] * max(-1.0, min(1.0, (wanted - aim) / pace))
                floats[GAIN] = min(MAX_GAIN, max(MIN_GAIN, floats[GAIN]))
                widening = np.exp(floats[GAIN])
            else:
                budget = float(wanted)
            for j in range(attributes):
                keep[i, j] = kept[s, j] and present[s, j] and there[j]
            if wanted <= budget:
                spent += wanted
                for d in range(count):
                    keep[i, due[d]] = True
            else:
                spent += _choose(i, due, count, score, cost, budget, keep)
        if e >= 0:
            _remember(i, e, keep, age, last, values, period[s])
        sent_bytes[i] = spent
        floats[CREDIT] -= spent
        charge = max(spent, reserve)
        ints[CHARGED] += charge - ring[place]
        ring[place] = charge
        ints[POSITION] = (place + 1) % width


@numba.njit(cache=True)
def _worth(age: int, period: int, refresh: int, information: float) -> float:
    """Return what sending an attribute now is worth by its age alone; -1 if it is not due."""
    if age < 0:
        return UNSENT
    reports = age + 1
    if period <= 0 or reports < period:
        return -1.0
    worth = reports * information
    if refresh > 0 and reports >= refresh:
        worth += OVERDUE * reports
    return worth


@numba.njit(cache=True)
def _thinned(e: int, tuple_rate: float, thinning: Any, floats: Any) -> bool:
    """Whether a whole tuple is dropped; every entity keeps the same fraction, evenly spaced."""
    credit = (thinning[e] if e >= 0 else floats[THINNING]) + tuple_rate
    dropped: bool = credit < WHOLE
    if not dropped:
        credit -= 1.0
    if e >= 0:
        thinning[e] = credit
    else:
        floats[THINNING] = credit
    return dropped


@numba.njit(cache=True)
def _choose(
    i: int, due: Any, count: int, score: Any, cost: Any, budget: float, keep: Any
) -> int:
    """Send the highest scores that fit, ties by attribute; return the bytes taken."""
    spent = 0
    for done in range(count):
        best = done
        for d in range(done + 1, count):
            better = score[due[d]] > score[due[best]]
            if better or (score[due[d]] == score[due[best]] and due[d] < due[best]):
                best = d
        due[done], due[best] = due[best], due[done]
        j = due[done]
        if spent + cost[j] <= budget:
            keep[i, j] = True
            spent += cost[j]
    return spent


@numba.njit(cache=True)
def _remember(i: int, e: int, keep: Any, age: Any, last: Any, values: Any, period: Any) -> None:
    """Update what the receiver has of an entity.

    The first time, attributes start at different ages so that entities do not refresh in step.
    """
    follows = values.shape[1] > 0
    for j in range(keep.shape[1]):
        if keep[i, j]:
            first = age[e, j] < 0
            age[e, j] = (e + j) % period[j] if first and period[j] > 1 else 0
            if follows:
                last[e, j] = values[j, i]
        elif age[e, j] >= 0:
            age[e, j] += 1


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
def _error(distance: float, now: float, held: float, numeric: bool, scale: float) -> float:
    """Return what holding a value at this distance loses: 1 is an unrelated value."""
    if numeric or np.isnan(now) != np.isnan(held) or scale == 0.0:
        return distance * distance
    return distance / (scale * scale)


@numba.njit(cache=True)
def lag_sums(x: FloatArray, numeric: BoolArray, lags: IntArray) -> Any:
    """Return (squared differences, mismatches) per lag and attribute of reports that far apart."""
    n, m = x.shape
    squares = np.zeros((len(lags), m))
    mismatches = np.zeros((len(lags), m))
    for a in range(len(lags)):
        lag = lags[a]
        for t in range(lag, n):
            for j in range(m):
                now, then = x[t, j], x[t - lag, j]
                if np.isnan(now) or np.isnan(then):
                    if np.isnan(now) != np.isnan(then):
                        mismatches[a, j] += 1.0
                elif numeric[j]:
                    squares[a, j] += (now - then) * (now - then)
                elif now != then:
                    mismatches[a, j] += 1.0
    return squares, mismatches


@numba.njit(cache=True)
def dead_band_sums(
    x: FloatArray, numeric: BoolArray, scale: FloatArray, bands: FloatArray, refresh: int
) -> Any:
    """Return (values sent, summed error) per band and attribute when only changes are sent.

    A number is sent when it differs from the last sent one by more than ``band * scale``, a
    category when it changed and the band is below 1, null when it comes or goes; everything at
    least every ``refresh`` reports (0: never for age alone). The first report is sent.
    """
    n, m = x.shape
    sent = np.zeros((len(bands), m))
    error = np.zeros((len(bands), m))
    for b in range(len(bands)):
        for j in range(m):
            last = np.nan
            age = 0
            for t in range(n):
                now = x[t, j]
                age += 1
                distance = deviation(now, last, numeric[j], scale[j])
                if t == 0 or (refresh > 0 and age >= refresh) or distance > bands[b]:
                    sent[b, j] += 1.0
                    last = now
                    age = 0
                else:
                    error[b, j] += _error(distance, now, last, numeric[j], scale[j])
    return sent, error


@numba.njit(cache=True)
def held_errors(
    streams: Any, slots: Any, values: Any, keep: Any, numeric: Any, scale: Any, entities: int
) -> Any:
    """Return (summed error per stream and attribute, reports per stream) at the receiver.

    It holds the last value that ``keep`` let through; before the first, the error counts 1.
    """
    rows, attributes = values.shape
    held = np.full((entities, attributes), np.nan)
    known = np.zeros((entities, attributes), np.bool_)
    error = np.zeros(scale.shape)
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
            elif not known[e, j]:
                error[s, j] += 1.0
            else:
                now, last = values[i, j], held[e, j]
                distance = deviation(now, last, numeric[j], scale[s, j])
                error[s, j] += _error(distance, now, last, numeric[j], scale[s, j])
    return error, reports
