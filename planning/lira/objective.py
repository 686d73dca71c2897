"""What planning minimises: importance per cell, chosen so that the *true* errors fall.

The paper's InAcc = Σ m_i·Δ_i counts queries by area. The errors that users see count nodes: E_P
averages |p − p*| over the nodes in a result, and divides by the result's size. So here a node
inside query q weighs 1/n_q (n_q nodes lie in q), and the importance of a cell is what its nodes
weigh together. Two things beyond a query's border matter as well: a node that errs may be counted
in wrongly, and a node that leaves the schedule of Δmin stays out of step for a while after it has
entered. Both fade with distance d, so outside a query the weight falls to ``neighbour`` · exp(−d/
``reach``). A small background, even over nodes, decides all remaining ties towards even throttlers.

Leaving Δmin has a price of its own (the error does not start at zero there): see ``departure`` in
:class:`planning.lira.axis.ErrorAxis`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput

STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # rings around a query, in reaches
CHUNK = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """Two grids ``[iy, ix]``: what planning minimises, and the part inside queries.

    ``inside`` sums to 1 over all cells (to 0 without queries): with an error e in every cell, the
    predicted E_P is Σ inside·e.
    """

    total: FloatArray
    inside: FloatArray


def node_importance(
    nodes: FloatArray,
    queries: FloatArray,
    weights: FloatArray,
    bounds: tuple[float, float, float, float],
    *,
    reach_m: float,
    neighbour: float,
    background: float,
    least_nodes: float,
) -> Importance:
    """Return the importance of every cell.

    Parameters
    ----------
    nodes
        Nodes (or positions seen) per cell.
    queries, weights
        Rows (x_low, y_low, x_high, y_high), and how much each query counts.
    reach_m, neighbour
        How weight fades outside a query.
    background
        Share of the total importance that is spread evenly over nodes.
    least_nodes
        A query counts as holding at least this many, in the unit of ``nodes``.

    Examples
    --------
    >>> nodes = np.array([[3.0, 1.0], [2.0, 2.0]])
    >>> q = np.array([[0.0, 0.0, 2.0, 1.0]])
    >>> node_importance(
    ...     nodes, q, np.ones(1), (0, 0, 2, 2), reach_m=1, neighbour=0, background=0, least_nodes=1
    ... ).total.tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    n = np.asarray(nodes, dtype=np.float64)
    total_nodes = float(n.sum())
    if not total_nodes > 0:
        raise InvalidInput("nodes must be counted in at least one cell, got none")
    q = np.asarray(queries, dtype=np.float64).reshape(-1, 4)
    share = np.asarray(weights, dtype=np.float64)
    share = share / share.sum() if share.sum() > 0 else share
    rings = [(0.0, 1.0)] + [
        (s * reach_m, neighbour * float(np.exp(-(s - STEPS[0] / 2)))) for s in STEPS
    ]
    inside = np.zeros_like(n)
    per_node = np.zeros_like(n)
    for start in range(0, len(q), CHUNK):
        part, weight = q[start : start + CHUNK], share[start : start + CHUNK]
        x, y = _covered(part, 0.0, n.shape[0], bounds)
        held = np.einsum("qi,ij,qj->q", y, n, x, optimize=True)
        each = weight / np.maximum(held, least_nodes)
        inside += (y * each[:, None]).T @ x
        for k, (wide, level) in enumerate(rings):
            step = level - (rings[k + 1][1] if k + 1 < len(rings) else 0.0)
            if step > 0:
                x, y = _covered(part, wide, n.shape[0], bounds)
                per_node += step * ((y * each[:, None]).T @ x)
    held_inside = inside * n
    even = background / total_nodes
    return Importance(_rounded(n * (per_node + even)), _rounded(held_inside))


def _covered(
    queries: FloatArray, wide: float, cells: int, bounds: tuple[float, float, float, float]
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
    """Round to twelve digits of the largest cell: the order of a sum must leave no trace."""
    largest = float(grid.max(initial=0.0))
    if largest == 0.0:
        return grid
    unit = 2.0 ** np.floor(np.log2(largest) - 40)
    return np.asarray(np.rint(grid / unit) * unit)
