"""Small linear programs about polytopes in the unit box, on the dual simplex."""

from __future__ import annotations

import numpy as np
from numba import njit

from planning.arrays import FloatArray
from planning.fit.simplex.dual import Basis, flip_column, reoptimise, values


@njit(cache=True)
def lowest(forms: FloatArray, cost: FloatArray) -> tuple[int, FloatArray]:
    """Minimise ``cost @ x`` over forms[:, 0] + forms[:, 1:] @ x >= 0, 0 <= x <= 1.

    Every variable is boxed, so the bounds that suit the cost are a dual feasible start.
    """
    rows, columns = forms.shape[0], cost.shape[0]
    tableau = np.empty((rows, columns + 1))
    tableau[:, :columns] = -forms[:, 1:]
    tableau[:, columns] = forms[:, 0]
    costs = np.empty((2, columns))
    for j in range(columns):
        costs[0, j] = cost[j]
        costs[1, j] = (1.0 + 0.5 * ((j + 1) * 0.6180339887498949 % 1.0)) * (
            1.0 if cost[j] >= 0 else -1.0
        )
    flipped = np.zeros(rows + columns, dtype=np.int64)
    upper = np.ones((rows + columns, 1))
    bounded = np.zeros(rows + columns, dtype=np.int64)
    bounded[:columns] = 1
    for j in range(columns):
        if cost[j] < 0:
            flip_column(tableau, costs, upper[j], j)
            flipped[j] = 1
    state = Basis(tableau, costs, np.arange(columns, columns + rows), np.arange(columns), flipped)
    nothing = np.empty(0)
    status, _ = reoptimise(state, upper, bounded, nothing, 40 * (rows + columns))
    point = np.empty(columns)
    values(state, upper, nothing, point)
    return status, point


@njit(cache=True)
def deepest(forms: FloatArray, on: int) -> FloatArray:
    """Return (x, depth): the point of the unit box whose distance to all sides is largest.

    Rows of ``forms`` are unit normals with offset. With ``on`` >= 0 the point lies on that side,
    and depth > 0 says that the side is a facet.
    """
    rows, inputs = forms.shape[0], forms.shape[1] - 1
    extra = 1 if on >= 0 else 0
    system = np.zeros((rows + 2 * inputs + extra, inputs + 2))
    for i in range(rows):
        system[i, : inputs + 1] = forms[i]
        system[i, inputs + 1] = 0.0 if i == on else -1.0
    for k in range(inputs):
        system[rows + k, k + 1] = 1.0
        system[rows + k, inputs + 1] = -1.0
        system[rows + inputs + k, 0] = 1.0
        system[rows + inputs + k, k + 1] = -1.0
        system[rows + inputs + k, inputs + 1] = -1.0
    if on >= 0:
        system[rows + 2 * inputs, : inputs + 1] = -forms[on]
    cost = np.zeros(inputs + 1)
    cost[inputs] = -1.0
    status, point = lowest(system, cost)
    if status != 0:
        point[inputs] = -1.0
    return point


def unit_forms(forms: FloatArray) -> FloatArray:
    """Scale rows to unit normals; drop constant rows and repeated sides.

    >>> unit_forms(np.array([[1.0, 2.0], [0.5, 1.0], [3.0, 0.0]]))
    array([[0.5, 1. ]])
    """
    length = np.sqrt((forms[:, 1:] ** 2).sum(axis=1))
    unit = forms[length > 1e-12] / length[length > 1e-12, None]
    kept: list[FloatArray] = []
    for row in unit:
        if not any(np.abs(row - other).max() < 1e-9 for other in kept):
            kept.append(row)
    return np.array(kept).reshape(len(kept), forms.shape[1])
