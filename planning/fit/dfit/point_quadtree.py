"""A point quadtree over table rows: the best row below a rate vector (Section 6.4).

Rows are inserted in descending order of score, so the first row that fits on a path is the best of
its whole subtree: what the paper gets by subtracting subspaces of higher score.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.fit.kernels.lookup import best_below
from planning.fit.path import PointQuadtree


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


def undominated(points: FloatArray, score: FloatArray) -> BoolArray:
    """Return which rows no other row beats with lower (or equal) rates and as good a score.

    A parent loses nothing without the others, unlike with a Pareto filter on the rates alone.

    >>> undominated(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 2.0])).tolist()
    [True, True, False]
    """
    index, order = build(points, score)
    kept = np.empty(len(order), dtype=np.bool_)
    kept[order] = _first_of_its_box(index)
    return kept


@njit(cache=True)
def _first_of_its_box(index: PointQuadtree) -> BoolArray:
    rows = index.points.shape[0]
    kept = np.empty(rows, dtype=np.bool_)
    stack = np.empty(rows + 1, dtype=np.int64)
    for row in range(rows):
        kept[row] = best_below(index, index.points[row], stack) == row
    return kept
