"""A point quadtree over table rows: the best row below a rate vector (Section 6.4).

Rows are inserted in descending order of score, so the first row that fits on a path is the best of
its whole subtree: what the paper gets by subtracting subspaces of higher score.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.drops import all_fit
from planning.fit.stored import PointQuadtree


def build(points: FloatArray, score: FloatArray) -> tuple[PointQuadtree, IntArray]:
    """Return the index and the order in which rows were inserted (best score first)."""
    # Of equal scores the least demanding row comes first.
    order = np.lexsort((np.arange(len(score)), points.sum(axis=1), -score))
    rows = np.ascontiguousarray(points[order])
    first = np.full(len(rows), -1, dtype=np.int64)
    following = np.full(len(rows), -1, dtype=np.int64)
    orthant = np.zeros(len(rows), dtype=np.int64)
    _insert(rows, first, following, orthant)
    return PointQuadtree(rows, first, following, orthant), order


@njit(cache=True)
def _orthant(point: FloatArray, parent: FloatArray) -> int:
    code = 0
    for k in range(point.shape[0]):
        if point[k] >= parent[k]:
            code |= 1 << k
    return code


@njit(cache=True)
def _insert(points: FloatArray, first: IntArray, following: IntArray, orthant: IntArray) -> None:
    for row in range(1, points.shape[0]):
        at = 0
        while True:
            code = _orthant(points[row], points[at])
            child = first[at]
            while child >= 0 and orthant[child] != code:
                child = following[child]
            if child < 0:
                orthant[row] = code
                following[row] = first[at]
                first[at] = row
                break
            at = child


@njit(cache=True)
def best_below(
    points: FloatArray,
    first: IntArray,
    following: IntArray,
    orthant: IntArray,
    limit: FloatArray,
    stack: IntArray,
) -> int:
    """Return the lowest row number (the best score) whose point is <= ``limit``, or -1."""
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
            # An orthant above the point in a coordinate where even the point is too high is out.
            if orthant[child] & ~allowed == 0 and not 0 <= best < child:
                stack[size] = child
                size += 1
            child = following[child]
    return best


def undominated(points: FloatArray, score: FloatArray) -> BoolArray:
    """Return which rows no other row beats with lower (or equal) rates and as good a score.

    A parent loses nothing without the others, unlike with a Pareto filter on the rates alone.

    >>> undominated(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 2.0])).tolist()
    [True, True, False]
    """
    index, order = build(points, score)
    kept = np.empty(len(order), dtype=np.bool_)
    kept[order] = _first_of_its_box(index.points, index.first, index.following, index.orthant)
    return kept


@njit(cache=True)
def _first_of_its_box(
    points: FloatArray, first: IntArray, following: IntArray, orthant: IntArray
) -> BoolArray:
    kept = np.empty(points.shape[0], dtype=np.bool_)
    stack = np.empty(points.shape[0] + 1, dtype=np.int64)
    for row in range(points.shape[0]):
        best = best_below(points, first, following, orthant, points[row], stack)
        kept[row] = best == row
    return kept


@njit(cache=True)
def select(
    points: FloatArray,
    first: IntArray,
    following: IntArray,
    orthant: IntArray,
    valued: BoolArray,
    raw_use: FloatArray,
    tolerance: float,
    rates: FloatArray,
    scale: FloatArray,
    chosen: IntArray,
) -> None:
    """Choose a row for each rate vector and write how far each input is scaled down.

    ``chosen`` is -1 where nothing must be shed, -2 where dropping the inputs without value is
    enough, -3 where no row fits (everything is dropped).
    """
    inputs = rates.shape[1]
    stack = np.empty(points.shape[0] + 1, dtype=np.int64)
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
            chosen[row] = -2
            continue
        for k in range(inputs):
            limit[k] *= 1.0 + tolerance
        best = best_below(points, first, following, orthant, limit, stack)
        if best < 0:
            chosen[row] = -3
            scale[row, :] = 0.0
            continue
        chosen[row] = best
        for k in range(inputs):
            rate = rates[row, k]
            scale[row, k] = min(points[best, k] / rate, 1.0) if rate > 0.0 else 1.0
