"""What planning minimises: an importance per cell, chosen so that *true* errors fall.

The paper's InAcc = Σ m_i·Δ_i counts queries by area. The errors that users see count nodes: E_P
averages |p − p*| over the nodes in a result, and divides by the result's size. So here a node
inside query q weighs 1/n_q (n_q nodes lie in q), and the importance of a cell is what its nodes
weigh together. Two things beyond a query's border matter as well: a node that errs may be counted
by mistake, and a node that leaves the schedule of Δmin stays out of step for a while after it has
entered. Both fade with distance d, so outside a query the weight falls to ``neighbour`` ·
exp(−d/``reach``). A small background, even over nodes, decides all remaining ties towards even
throttlers.

Leaving Δmin has a price of its own (the error does not start at zero there): see ``departure`` in
:class:`planning.lira.model.ErrorAxis`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planning.arrays import FloatArray
from planning.errors import StatisticsError
from planning.lira.model import Bounds
from planning.lira.statistics import Grid

if TYPE_CHECKING:
    from planning.lira.parameters import Parameters

STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # rings around a query, in reaches
UNSEEN = 0.5  # objects that every query may hold besides those that the samples show in it
CHUNK = 2048  # queries handled at once


def update_weight(grid: Grid, speed_factor: bool) -> FloatArray:
    """Return n, or n·s/ŝ (Section 3.1.2), per cell; sums to 1."""
    nodes = grid.nodes.astype(np.float64)
    if speed_factor:
        moving = nodes * grid.mean_speed
        nodes = moving if moving.sum() > 0 else nodes
    total = nodes.sum()
    if not total > 0:
        raise StatisticsError("the statistics grid must hold at least one node, got none")
    return np.asarray(nodes / total)


def importance_of(
    grid: Grid, queries: FloatArray, weights: FloatArray, chosen: Parameters, least_nodes: float
) -> tuple[FloatArray, FloatArray]:
    """Return two grids ``[iy, ix]``: what planning minimises, and the part inside queries.

    The part inside sums to 1 over all cells (to 0 without queries): with an error e in every cell,
    the predicted E_P is Σ inside·e. Samples show few of the objects that come to sparse places, and
    one alone may be a query's whole result: so every query holds ``UNSEEN`` objects more than they
    show, anywhere in it.

    Parameters
    ----------
    queries, weights
        Rows (x_low, y_low, x_high, y_high), and how much each query counts.
    chosen
        How weight fades outside a query, and the share of the total importance that is spread
        evenly over nodes.
    least_nodes
        A query counts as holding at least this many, in the unit of ``grid.nodes``.

    Examples
    --------
    >>> from planning.lira.parameters import Parameters
    >>> nodes, zeros = np.array([[3, 1], [2, 2]]), np.zeros((2, 2))
    >>> q = np.array([[0.0, 0.0, 2.0, 1.0]])
    >>> importance, inside = importance_of(
    ...     Grid((0, 0, 2, 2), nodes, zeros, zeros), q, np.ones(1),
    ...     Parameters(neighbour_importance=0, background=0.25), least_nodes=2,
    ... )
    >>> importance.round(5).tolist(), inside.round(5).tolist()
    ([[0.79375, 0.33125], [0.0625, 0.0625]], [[0.7, 0.3], [0.0, 0.0]])
    """
    n = grid.nodes.astype(np.float64)
    share = weights / weights.sum() if weights.sum() > 0 else weights
    reach_m = chosen.reach_m or chosen.highest_threshold
    rings = [(0.0, 1.0)] + [
        (s * reach_m, chosen.neighbour_importance * float(np.exp(-(s - STEPS[0] / 2))))
        for s in STEPS
    ]
    inside = np.zeros_like(n)
    to_come = np.zeros_like(n)
    per_node = np.zeros_like(n)
    for start in range(0, len(queries), CHUNK):
        part, weight = queries[start : start + CHUNK], share[start : start + CHUNK]
        x, y = _covered(part, 0.0, n.shape[0], grid.bounds)
        area = y.sum(axis=1) * x.sum(axis=1)
        unseen = np.where(area > 0, UNSEEN * least_nodes, 0.0)
        held = np.einsum("qi,ij,qj->q", y, n, x, optimize=True) + unseen
        each = weight / np.maximum(held, least_nodes)
        inside += (y * each[:, None]).T @ x
        to_come += (y * (each * unseen / np.maximum(area, 1e-300))[:, None]).T @ x
        for k, (wide, level) in enumerate(rings):
            step = level - (rings[k + 1][1] if k + 1 < len(rings) else 0.0)
            if step > 0:
                x, y = _covered(part, wide, n.shape[0], grid.bounds)
                per_node += step * ((y * each[:, None]).T @ x)
    held_inside = _rounded(inside * n + to_come)
    if chosen.objective == "nodes":
        even = chosen.background / float(n.sum())
        return _rounded(n * (per_node + even) + to_come), held_inside
    total = grid.queries.sum()
    area = grid.queries / total if total > 0 else grid.queries
    return area + chosen.background * n / n.sum(), held_inside


def _covered(
    queries: FloatArray, wide: float, cells: int, bounds: Bounds
) -> tuple[FloatArray, FloatArray]:
    """Return, per query and column (row), the share that the query, widened, covers."""
    x_low, y_low, x_high, y_high = bounds
    shares = []
    for low, high, bottom, top in (
        (queries[:, 0], queries[:, 2], x_low, x_high),
        (queries[:, 1], queries[:, 3], y_low, y_high),
    ):
        width = (top - bottom) / cells
        edges = bottom + width * np.arange(cells + 1)
        overlap = np.minimum(high[:, None] + wide, edges[1:]) - np.maximum(
            low[:, None] - wide, edges[:-1]
        )
        shares.append(np.clip(overlap / width, 0.0, 1.0))
    return shares[0], shares[1]


def _rounded(grid: FloatArray) -> FloatArray:
    """Round to twelve digits of the largest cell: the order of summation must not matter."""
    largest = float(grid.max(initial=0.0))
    if largest == 0.0:
        return grid
    unit = 2.0 ** np.floor(np.log2(largest) - 40)
    return np.asarray(np.rint(grid / unit) * unit)
