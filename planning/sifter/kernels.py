"""Compiled inner loops of the shedder: the counter rule, the ledger, and decisions by keys.

``decide`` is called from Python with one combination of types, so that nothing is compiled late;
the others are part of it. Unsigned indices avoid the sign checks of array access.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from planning import pacing

CARRY = np.uint64(pacing.ONE_BITS)
UNIT = float(pacing.ONE)
ONE = np.int64(pacing.ONE)
BLOCK = 8
"""Tuples between two looks at the ledger, at most."""
LEVELS = 33
"""Settings between which the debt decides."""
PLANNED = LEVELS // 2
"""The level that is the plan at the load itself."""
# Columns of ``state``, and places in ``control`` and ``ledger``.
CREDIT, OFFERED, CUT = 0, 1, 2
LOAD, FAIRNESS, CEILING, LOWEST = 0, 1, 2, 3
DEBT, DUE, MOST, LEAST, SINCE, EVERY, SPAN, LEVEL, FLOOR = 0, 1, 2, 3, 4, 5, 6, 7, 8
YOUNG = 4
"""Tuples between the ledger's bounds when a stream begins; they part by 1/32 of what is due."""
_inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
"""For functions that only compiled code calls: without a way in from Python they compile sooner."""


@njit(cache=True)
def decide(
    places: Any, path: Any, state: Any, control: Any, ledger: Any, levels: Any, exact: Any,
    draws: Any, forced: Any, keep: Any, weight: Any, pending: Any,
) -> None:  # fmt: skip
    """Decide on ``keep.size`` tuples whose regions are in ``places``.

    ``path`` has the order, frequency and queried of a :class:`~planning.sifter.path.Path`, and the
    loads and thresholds that were traced in its place, if any.
    ``state`` has one row per region, and one for tuples without region: credit, tuples offered, and
    tuples dropped by other rules than the counter rule. Row k of ``levels`` has the steps of these
    rows at level k; its last entry is 0 until they are set. ``exact`` has them at the load itself:
    ``draws`` (empty, or one per tuple) makes the decision theirs, without credits and ledger.
    ``forced`` (empty, or one per tuple) marks what must be kept. ``keep`` is filled, and ``weight``
    unless it is empty; ``pending`` has, per region and for forced tuples, the weight of cut tuples.
    The ledger is looked at at fixed counts of tuples, so that a stream gives the same decisions
    however it is split.
    """
    n, begin = np.uint64(keep.size), np.uint64(0)
    if draws.size:
        _settle_keyed(places, exact, draws, state, forced, keep, weight, pending)
        begin = n
    while True:
        if ledger[SINCE] == ledger[EVERY]:
            ledger[SINCE] = 0
            _widen(ledger)
        if ledger[SINCE] == 0:
            _look(ledger)
        level = np.uint64(ledger[LEVEL])
        if levels[level, levels.shape[1] - 1] == 0:
            _set_level(level, control, path, exact, levels)
        if begin == n:
            break
        end = begin + np.uint64(ledger[EVERY] - ledger[SINCE])
        end = end if end < n else n
        steps = levels[level]
        if forced.size or weight.size:
            _settle(places, state, ledger, steps, exact, forced, keep, weight, pending, begin, end)
        else:
            _settle_plain(places, state, ledger, steps, keep, begin, end)
        ledger[SINCE] += np.int64(end - begin)
        begin = end


def look(ledger: Any) -> None:
    """Take the level that the debt asks for: from keeping all there is to keeping hardly anything.

    A limit that is above its proper place, because the load has fallen, follows the debt down.
    """
    debt, least = ledger[DEBT], ledger[LEAST]
    ledger[LEVEL] = PLANNED
    if ledger[SPAN] > 0:
        top = ledger[FLOOR] + ledger[SPAN]
        above, span = max(debt - least, 0), top - least
        ledger[LEVEL] = above * LEVELS // span if above < span else LEVELS - 1
        ledger[MOST] = max(min(debt, ledger[MOST]), top)
        ledger[EVERY] = max(1, min(BLOCK, span // (4 * ONE))) if above <= span else BLOCK


def widen(ledger: Any) -> None:
    """Let the ledger save up more after a block of tuples, until it may as much as it ever may.

    Nothing is saved up when a stream begins, and wide bounds would first have that made up for.
    """
    least = ledger[LEAST] - ledger[EVERY] * (ledger[DUE] >> 5)
    ledger[LEAST] = max(least, ledger[FLOOR])


_look, _widen = _inner(look), _inner(widen)


@_inner
def _settle(
    place: Any, state: Any, ledger: Any, steps: Any, exact: Any, forced: Any, keep: Any,
    weight: Any, pending: Any, begin: Any, end: Any,
) -> None:  # fmt: skip
    """Apply the counter rule to a block, enter it in the ledger, and cut what exceeds the budget.

    Every tuple earns ``DUE`` (z), every kept one costs 1. The debt stays at most ``MOST``, and
    no more than -``LEAST`` is saved up, so no stretch of the stream passes more than z plus both.
    """
    debt, due, most, least = ledger[DEBT], ledger[DUE], ledger[MOST], ledger[LEAST]
    for j in range(begin, end):
        region = np.uint32(place[j])
        step = steps[region]
        passes = _passes(region, step, state) > 0
        must = forced.size > 0 and forced[j]
        if must and not passes:
            # The region's credit has counted a drop that does not happen.
            state[region, CUT] -= np.uint64(1)
            passes = True
        debt = debt - due if debt - due > least else least
        keep[j] = passes and (must or debt + ONE <= most)
        if keep[j]:
            debt += ONE
        elif passes:
            state[region, CUT] += np.uint64(1)
        if weight.size:
            weight[j] = _weight(region, step, keep[j], passes, must, pending)
            if step >= ONE > exact[region] and not passes:
                pending[region] += 1.0  # for now nothing of the region is kept
    ledger[DEBT] = debt


@_inner
def _settle_plain(
    place: Any, state: Any, ledger: Any, steps: Any, keep: Any, begin: Any, end: Any
) -> None:
    """Do as ``_settle`` where nothing is forced or weighted, without data-dependent branches."""
    debt, due, most, least = ledger[DEBT], ledger[DUE], ledger[MOST] - ONE, ledger[LEAST]
    for j in range(begin, end):
        region = np.uint32(place[j])
        passes = _passes(region, steps[region], state)
        debt = debt - due if debt - due > least else least
        kept = passes & np.int64(debt <= most)
        debt += kept * ONE
        keep[j] = kept
        state[region, CUT] += np.uint64(passes - kept)
    ledger[DEBT] = debt


@_inner
def _passes(region: Any, step: Any, state: Any) -> Any:
    """Apply the counter rule to a tuple of the region: 1 if it passes, 0 if it is dropped."""
    before = state[region, CREDIT]
    after = before + step
    state[region, CREDIT] = after
    state[region, OFFERED] += np.uint64(1)
    # A carry flips the lowest bit of the count of drops.
    return np.int64(((before ^ after) >> CARRY) & np.uint64(1)) ^ np.int64(1)


@_inner
def _settle_keyed(
    place: Any, exact: Any, draws: Any, state: Any, forced: Any, keep: Any, weight: Any,
    pending: Any,
) -> None:  # fmt: skip
    """Keep what its draw keeps: no credit, no ledger, no correction."""
    for j in range(keep.size):
        region = np.uint32(place[j])
        kept = np.uint64(draws[j]) >= exact[region]
        state[region, OFFERED] += np.uint64(1)
        state[region, CUT] += np.uint64(not kept)
        keep[j] = kept
    for j in range(forced.size):
        if forced[j] and not keep[j]:
            keep[j] = True
            state[np.uint32(place[j]), CUT] -= np.uint64(1)
    for j in range(weight.size):
        region = np.uint32(place[j])
        must = forced.size > 0 and forced[j]
        weight[j] = _weight(region, exact[region], keep[j], keep[j], must, pending)


@_inner
def _weight(region: Any, step: Any, keep: bool, passes: bool, must: bool, pending: Any) -> float:
    """Return the inverse keep probability; a cut tuple leaves its weight to the next like it."""
    if not passes:
        return 0.0
    row = np.uint32(pending.size - 1) if must else region
    weight = pending[row] + (1.0 if must else 1.0 / (1.0 - np.float64(step) / UNIT))
    pending[row] = 0.0 if keep else weight
    return weight if keep else 0.0


@_inner
def _set_level(level: Any, control: Any, path: Any, exact: Any, levels: Any) -> None:
    """Set the steps of a level: those of the plan at a throttle fraction around z.

    So what is dropped beyond the plan, or kept, follows the plan's own order and its fairness. The
    cube leaves a debt room to swing before it changes much. Below ``LOWEST`` no region could keep
    what it has to. Traced thresholds may rise with the load: of a region that would get more while
    the stream is to get less, or the other way round, the plan at z stays in force.
    """
    z = control[LOAD]
    part = ((2.0 * level + 1.0 - LEVELS) / LEVELS) ** 3
    lowest = control[LOWEST] if control[LOWEST] < z else z
    z = _between(z - part * (z if part > 0.0 else 1.0 - z), lowest, 1.0)
    steps = levels[level]
    if path[3].size:
        _mix_steps(z, path[3], path[4], steps)
        for i in range(exact.size):
            if (part > 0.0 and steps[i] < exact[i]) or (part < 0.0 and steps[i] > exact[i]):
                steps[i] = exact[i]
    else:
        _set_steps(z, control[FAIRNESS], control[CEILING], path, steps)
    steps[steps.size - 1] = 1


@_inner
def _mix_steps(z: float, loads: Any, thresholds: Any, steps: Any) -> None:
    """Set every region's step to what was traced at z, between the two loads around it."""
    right = 1
    while right < loads.size - 1 and loads[right] < z:
        right += 1
    part = (z - loads[right - 1]) / (loads[right] - loads[right - 1])
    below, above = thresholds[right - 1], thresholds[right]
    for i in range(below.size):
        steps[i] = _step(below[i] + part * (above[i] - below[i]))
    steps[below.size] = _step(1.0 - z)


@_inner
def _set_steps(z: float, delta: float, ceiling: float, path: Any, steps: Any) -> None:
    """Set every region's step to its optimal drop threshold at z (see :mod:`path`)."""
    order, frequency, queried = path[0], path[1], path[2]
    regions = frequency.size
    free = group = 0.0
    for i in range(regions):
        if queried[i]:
            group += frequency[i]
        else:
            free += frequency[i]
    need = 1.0 - z
    steps[regions] = _step(need)
    if ceiling < 1.0:
        total = free + group
        if need >= ceiling * total:
            even = _between(need / total, ceiling, 1.0) if total > 0.0 < z else 1.0
            for i in range(regions):
                steps[i] = _step(even)
            return
        need, delta = need / ceiling, _between(delta / ceiling, 0.0, 1.0)
    from_free = 0.0
    if need > 0.0:
        from_free = _between(need / free, 0.0, 1.0) if free > 0.0 < z else 1.0
    for i in range(regions):
        if not queried[i]:
            steps[i] = _step(ceiling * from_free)
    floor = 0.0
    for sets in (False, True):  # the floor comes first, which may be anywhere in the order
        remaining = need - free if need > free else 0.0
        for j in range(order.size):
            i = order[j]
            w = (1.0 - delta) * group if i < 0 else delta * frequency[i]
            y = _between(remaining / w, 0.0, 1.0) if w > 0.0 else 0.0
            remaining -= w
            if i < 0:
                floor = (1.0 - delta) * y
            elif sets:
                threshold = 1.0 if z <= 0.0 else floor + delta * y
                steps[i] = _step(ceiling * _between(threshold, 0.0, 1.0))


@_inner
def _step(threshold: float) -> Any:
    """Return a drop threshold in units of 2**-32, rounded up so that the budget holds."""
    return np.uint64(np.ceil(_between(threshold, 0.0, 1.0) * UNIT - 1e-6))


@_inner
def _between(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value
