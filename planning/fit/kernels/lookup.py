"""Plan selection, compiled: the critical region, quadtree cell or table row of a rate vector."""

from __future__ import annotations

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.kernels.drops import ROUNDING, affine, all_fit, fractions, inner
from planning.fit.path import INNER, CriticalRegions, PointQuadtree, Quadtree
from planning.fit.simplex.dual import Problem, feasible
from planning.fit.simplex.shedding import Arrivals

INSIDE = 1e-10
EXACTLY = 1e-13


@inner
def _holds(facets: FloatArray, first: int, last: int, rates: FloatArray, tolerance: float) -> bool:
    for f in range(first, last):
        if affine(facets, f, rates) < -tolerance:
            return False
    return True


@njit(cache=True)
def any_holds(facets: FloatArray, starts: IntArray, regions: int, rates: FloatArray) -> bool:
    """Whether one of the first ``regions`` regions holds ``rates``."""
    for k in range(regions):
        if _holds(facets, starts[k], starts[k + 1], rates, INSIDE):
            return True
    return False


@inner
def _region_of(table: CriticalRegions, last: int, point: FloatArray, loss: FloatArray) -> int:
    """Return the region that holds ``point``, or -1; ``loss`` is scratch.

    Rates move slowly, so the last region is tried first. Then the region of the largest loss, which
    is right except for ties and rounding; last, all of them.
    """
    value, _, facets, starts = table
    if _holds(facets, starts[last], starts[last + 1], point, EXACTLY):
        return last
    regions = value.shape[1]
    for k in range(regions):
        loss[k] = value[0, k]
    for i in range(point.shape[0]):
        rate = point[i]
        for k in range(regions):
            loss[k] += value[i + 1, k] * rate
    largest = 0
    for k in range(1, regions):
        if loss[k] > loss[largest]:
            largest = k
    if _holds(facets, starts[largest], starts[largest + 1], point, EXACTLY):
        return largest
    for k in range(regions):
        if _holds(facets, starts[k], starts[k + 1], point, EXACTLY):
            return k
    return -1


@inner
def _planned(point: FloatArray) -> bool:
    """Whether rates lie in the planned space."""
    for k in range(point.shape[0]):
        if point[k] > 1.0 + ROUNDING:
            return False
    return True


@njit(cache=True)
def select_region(
    table: CriticalRegions,
    raw_use: FloatArray,
    arrivals: Arrivals,
    problem: Problem,
    last: IntArray,
    rates: FloatArray,
    out: FloatArray,
    outside: BoolArray,
) -> int:
    """Find the region of each row of rates and apply its rule; return how many are in none.

    ``last`` is the region of the last row that had one. Rows that no region holds are marked as
    ``outside``, and so are those where its rule breaks a row of ``problem``: a rule is optimal
    wherever it is feasible, so one that passes is right whatever rounding did to the facets.
    """
    loss = np.empty(table.value.shape[1])
    dropped = np.empty(out.shape[1])
    missing = 0
    for row in range(rates.shape[0]):
        point = rates[row]
        outside[row] = False
        if all_fit(raw_use, point):
            for a in range(out.shape[1]):
                out[row, a] = 0.0
            continue
        region = -1
        if _planned(point):
            region = _region_of(table, last[0], point, loss)
        if region < 0:
            outside[row] = True
            missing += 1
            continue
        rules = table.rule[region]
        negative = False
        for a in range(rules.shape[0]):
            value = affine(rules, a, point)
            negative |= value < -INSIDE
            dropped[a] = max(value, 0.0)
        if negative or not feasible(problem, point, dropped):
            outside[row] = True
            missing += 1
            continue
        last[0] = region
        fractions(arrivals, point, dropped, out[row])
    return missing


@njit(cache=True)
def select_cell(
    table: Quadtree, raw_use: FloatArray, input_of: IntArray, rates: FloatArray, out: FloatArray
) -> None:
    """Find the cell of each row of rates and write its drops, scaled to the cell's corner.

    ``input_of`` is the input of each location on an input's arc, -1 elsewhere. Rates beyond the
    planned space are scaled down to its edge first.
    """
    valued, plan, child, fractions, _ = table
    inputs = valued.shape[0]
    for row in range(rates.shape[0]):
        point = rates[row]
        out[row, :] = 0.0
        if all_fit(raw_use, point):
            continue
        low = np.zeros(inputs)
        size = 1.0
        cell = 0
        while plan[cell] == INNER:
            size *= 0.5
            offset = 0
            bit = 1
            for k in range(inputs):
                if valued[k]:
                    if point[k] >= low[k] + size:
                        offset += bit
                        low[k] += size
                    bit *= 2
            cell = child[cell] + offset
        for a in range(out.shape[1]):
            kept = 1.0 - (fractions[plan[cell], a] if plan[cell] >= 0 else 0.0)
            k = input_of[a]
            if k >= 0:
                target = point[k]
                if not valued[k]:
                    target = 0.0
                elif plan[cell] >= 0:
                    target = low[k]
                elif target > 1.0:
                    target = 1.0
                kept *= target / point[k] if point[k] > 0.0 else 1.0
            out[row, a] = min(max(1.0 - kept, 0.0), 1.0)


@njit(cache=True)
def best_below(index: PointQuadtree, limit: FloatArray, stack: IntArray) -> int:
    """Return the lowest row number (the best score) whose point is <= ``limit``, or -1."""
    points, first, following, orthant = index
    best = -1
    size = 0
    if points.shape[0] > 0:
        stack[0] = 0
        size = 1
    while size > 0:
        size -= 1
        at = stack[size]
        if 0 <= best < at:
            continue
        allowed = 0
        fits = True
        for k in range(limit.shape[0]):
            if points[at, k] <= limit[k]:
                allowed |= 1 << k
            else:
                fits = False
        if fits:
            best = at
            continue
        child = first[at]
        while child >= 0:
            # Skip an orthant above the point in a coordinate where the point itself is too high.
            if orthant[child] & ~allowed == 0 and not 0 <= best < child:
                stack[size] = child
                size += 1
            child = following[child]
    return best


@njit(cache=True)
def select_row(
    index: PointQuadtree,
    valued: BoolArray,
    raw_use: FloatArray,
    tolerance: float,
    rates: FloatArray,
    scale: FloatArray,
    chosen: IntArray,
) -> None:
    """Choose a row for each rate vector and write how far each input is scaled down.

    ``chosen`` is -1 where no row is needed, because nothing must be shed or dropping the inputs
    without value is enough, and where no row fits and everything is dropped.
    """
    inputs = rates.shape[1]
    stack = np.empty(index.points.shape[0] + 1, dtype=np.int64)
    limit = np.empty(inputs)
    for row in range(rates.shape[0]):
        scale[row, :] = 1.0
        chosen[row] = -1
        if all_fit(raw_use, rates[row]):
            continue
        for k in range(inputs):
            limit[k] = rates[row, k] if valued[k] else 0.0
            if not valued[k]:
                scale[row, k] = 0.0
        if all_fit(raw_use, limit):
            continue
        for k in range(inputs):
            limit[k] *= 1.0 + tolerance
        best = best_below(index, limit, stack)
        if best < 0:
            scale[row, :] = 0.0
            continue
        chosen[row] = best
        for k in range(inputs):
            rate = rates[row, k]
            scale[row, k] = min(index.points[best, k] / rate, 1.0) if rate > 0.0 else 1.0
