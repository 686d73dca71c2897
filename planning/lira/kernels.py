"""Compiled dead reckoning (Section 2.1): at nodes, over recorded tracks, and as the server sees it.

A report is a row (x, y, vx, vy, t); from it the server predicts p + v·(now − t). The velocity is
that of the last step; a step faster than the highest speed is a jump and carries none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from planning.pacing import ONE

WITHOUT_WRAPPERS: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = njit(**WITHOUT_WRAPPERS)
"""For what only compiled code calls: it compiles in half the time, and is kept with its caller."""
MICRO = 1e6  # sums are kept in whole millionths, so that their order does not matter
REPORT = ONE  # what a report costs in the ledger
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
HALF = np.uint64(32)
# A node: last position and time; its last report; the same under Δmin; then reports due when it
# began to wait, and 1 (0 if it does not wait); the last periods in which it was due, and overdue.
FIELDS = 16
WAITS, MOVED, LATEST = 13, 14, 15
INVALID, LATE, JUMPS, DUE, KEPT, WANTED, CREDIT, PERIOD, MOVING, OVERDUE = range(10)
"""What :func:`decide` counts; the last three are the number of the period, and its nodes."""
COUNTS = 10


@inner
def velocity(x, y, t, last_x, last_y, last_t, highest_speed):  # type: ignore[no-untyped-def]
    """Return the velocity of a step, and whether it is a jump."""
    vx, vy = (x - last_x) / (t - last_t), (y - last_y) / (t - last_t)
    if vx * vx + vy * vy > highest_speed * highest_speed:
        return 0.0, 0.0, True
    return vx, vy, False


@inner
def predicted(report, t):  # type: ignore[no-untyped-def]
    """Return where the server believes a node is at time t."""
    age = t - report[4]
    return report[0] + report[2] * age, report[1] + report[3] * age


@inner
def renew(report, x, y, vx, vy, t):  # type: ignore[no-untyped-def]
    """Replace the last report with a new one."""
    report[0], report[1], report[2], report[3], report[4] = x, y, vx, vy, t


@njit(cache=True)
def find(ids, known, keys, places, objects, slots):  # type: ignore[no-untyped-def]
    """Find the slot of every id where it is known, in a hash table with linear probing.

    ``places`` is -1 where the table is free. A new id gets the slot that it brings along, or the
    next one after ``objects`` if that is -1; how many objects there are then is returned.
    """
    last = keys.size - 1
    for i in range(ids.size):
        if known[i]:
            at = np.int64((np.uint64(ids[i]) * SPREAD) >> HALF) & last
            while places[at] >= 0 and keys[at] != ids[i]:
                at = (at + 1) & last
            if places[at] < 0:
                keys[at] = ids[i]
                places[at] = slots[i]
                if slots[i] < 0:
                    places[at] = objects
                    objects += 1
            slots[i] = places[at]
    return objects


@inner
def level_at(x, y, raster, x_low, y_low, per_x, per_y):  # type: ignore[no-untyped-def]
    """Return the level at a place; outside the space, that of the nearest cell."""
    rows, columns = raster.shape
    column, row = (x - x_low) * per_x, (y - y_low) * per_y
    column = min(column, columns - 1.0) if column > 0.0 else 0.0  # NaN too
    row = min(row, rows - 1.0) if row > 0.0 else 0.0
    return raster[int(row), int(column)]


@njit(cache=True)
def decide(  # type: ignore[no-untyped-def]
    start, last_due, slots, times, xs, ys, nodes, raster, limits, x_low, y_low, per_x, per_y,
    lowest, highest, highest_speed, earned, savings, reserve, marks, planned, edge, quota, wanted,
    keep, kept, counts,
):  # fmt: skip
    """Decide which positions nodes report, and pay for them (see :mod:`planning.lira.shedder`).

    Begins at ``start`` and ends when ``last_due`` reports have been due; returns where it ended.

    ``limits`` holds the throttler of every level, and ``kept`` counts the positions kept of each.
    If more are kept than may be, the decision is taken again with ``planned``, what it was; it is
    empty the first time. Every position planned where the throttler is below ``edge`` then allows
    one to be kept there, and those planned at the edge, which are ``wanted``, allow ``quota``
    together, evenly over the batch. A first position that is cut leaves the node unknown.

    A marked position is reported if the ledger can pay for it, else it loses its mark; ``marks`` is
    empty if there are none, and ``kept`` does not count them.
    """
    below, at_edge, share = 0, 0, wanted >> 1
    for i in range(start, slots.size):
        t, x, y = times[i], xs[i], ys[i]
        keep[i] = False
        if slots[i] < 0 or not (np.isfinite(t) and np.isfinite(x) and np.isfinite(y)):
            counts[INVALID] += 1
            continue
        level = level_at(x, y, raster, x_low, y_low, per_x, per_y)
        node = nodes[slots[i]]
        report, at_lowest = node[3:8], node[8:13]
        limit = limits[level]
        may = True
        marked = marks.size > 0 and marks[i]
        if planned.size and not marked:
            if planned[i] and limit < edge:
                below += 1
            elif planned[i] and limit == edge:
                share += quota
                if share >= wanted:
                    share -= wanted
                    at_edge += 1
            may = (limit < edge and below > 0) or (limit <= edge and at_edge > 0)
        if np.isnan(node[2]):
            if may or marked:
                node[0], node[1], node[2] = x, y, t
                renew(report, x, y, 0.0, 0.0, t)
                renew(at_lowest, x, y, 0.0, 0.0, t)
                node[WAITS] = 0.0
                node[MOVED] = node[LATEST] = -1.0
                keep[i] = True
        elif not t > node[2]:
            counts[LATE] += 1
        else:
            vx, vy, jump = velocity(x, y, t, node[0], node[1], node[2], highest_speed)
            counts[JUMPS] += jump
            node[0], node[1], node[2] = x, y, t
            lx, ly = predicted(at_lowest, t)
            if (x - lx) ** 2 + (y - ly) ** 2 > lowest * lowest:
                renew(at_lowest, x, y, vx, vy, t)
                counts[DUE] += 1
                if node[MOVED] != counts[PERIOD]:
                    node[MOVED] = counts[PERIOD]
                    counts[MOVING] += 1
                if earned >= 0:
                    counts[CREDIT] = min(counts[CREDIT] + earned, savings * REPORT)
            if marked and 0 <= earned and counts[CREDIT] < REPORT:
                marked = marks[i] = False
            px, py = predicted(report, t)
            off = (x - px) ** 2 + (y - py) ** 2
            # Whoever the server believes in a place errs there, wherever the node is.
            least = min(limit, limits[level_at(px, py, raster, x_low, y_low, per_x, per_y)])
            wants = marked or off > least * least
            counts[WANTED] += int(wants) - int(node[WAITS] > 0.0)
            if not wants:
                node[WAITS] = 0.0
            elif node[WAITS] == 0.0:
                node[WAITS] = counts[DUE] + 1.0
            # Who has waited for as long as the ledger takes to earn one report for every node that
            # moves is overdue: the others leave it what it needs.
            overdue = wants and (
                (counts[DUE] + 1 - int(node[WAITS])) * earned > savings * REPORT
                or off > max(highest, least) ** 2
            )
            if overdue and node[LATEST] != counts[PERIOD]:
                node[LATEST] = counts[PERIOD]
                counts[OVERDUE] += 1
            needs = REPORT
            if not overdue:
                needs += int(reserve * (least - lowest)) + REPORT * counts[OVERDUE]
            if marked or (wants and may and (earned < 0 or counts[CREDIT] >= needs)):
                if earned >= 0:
                    counts[CREDIT] -= REPORT
                renew(report, x, y, vx, vy, t)
                node[WAITS] = 0.0
                counts[KEPT] += 1
                keep[i] = True
            if node[WAITS] == 0.0 and node[LATEST] == counts[PERIOD]:
                node[LATEST] = -1.0
                counts[OVERDUE] -= 1
        if keep[i] and not marked:
            kept[level] += 1
            if limit < edge and below > 0:
                below -= 1
            else:
                at_edge -= 1
        if counts[DUE] >= last_due:
            return i + 1
    return slots.size


@njit(cache=True)
def replay_levels(objects, times, xs, ys, levels, highest_speed, reports, errors):  # type: ignore[no-untyped-def]
    """Count reports and add up errors per level, over rows sorted by object and time."""
    count = levels.size
    last_reports = np.zeros((count, 5))
    rows = 0
    for i in range(objects.size):
        x, y, t = xs[i], ys[i], times[i]
        if i == 0 or objects[i] != objects[i - 1]:
            for k in range(count):
                renew(last_reports[k], x, y, 0.0, 0.0, t)
            last_x, last_y, last_t = x, y, t
            continue
        if not t > last_t:
            continue
        vx, vy, _ = velocity(x, y, t, last_x, last_y, last_t, highest_speed)
        rows += 1
        base_x = base_y = 0.0
        for k in range(count):
            px, py = predicted(last_reports[k], t)
            if (x - px) ** 2 + (y - py) ** 2 > levels[k] * levels[k]:
                renew(last_reports[k], x, y, vx, vy, t)
                reports[k] += 1
                px, py = x, y
            if k == 0:
                base_x, base_y = px, py
            errors[k] += np.int64(np.rint(np.hypot(px - base_x, py - base_y) * MICRO))
        last_x, last_y, last_t = x, y, t
    return rows


@njit(cache=True)
def believed(slots, times, xs, ys, keep, highest_speed, objects, out):  # type: ignore[no-untyped-def]
    """Write where the server believes each row's object is, given the reports that were kept."""
    last = np.full((objects, 3), np.nan)
    known = np.full((objects, 5), np.nan)
    for i in range(slots.size):
        s = slots[i]
        t, x, y = times[i], xs[i], ys[i]
        vx = vy = 0.0
        if t > last[s, 2]:
            vx, vy, _ = velocity(x, y, t, last[s, 0], last[s, 1], last[s, 2], highest_speed)
        if not t <= last[s, 2]:
            last[s] = (x, y, t)
        if keep[i]:
            renew(known[s], x, y, vx, vy, t)
        out[i] = predicted(known[s], t)
