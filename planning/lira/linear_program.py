"""The throttler problem as a linear program, for HiGHS: the yardstick of the exact path.

Nothing plans with it; tests and benchmarks compare :mod:`planning.lira.throttlers` with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from planning.arrays import FloatArray

Instance = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float, float]
"""m, w, breakpoints d, convex f at them, fairness threshold, z."""


def optimum(
    m: FloatArray, w: FloatArray, d: FloatArray, f: FloatArray, fairness: float, z: float
) -> Any:
    """Solve with HiGHS; x holds l·κ segment lengths and the window's lower end above d_0.

    Variables x_ik in [0, d_{k+1} − d_k] with Δ_i = d_0 + Σ_k x_ik, and t. Minimise Σ m_i·Δ_i;
    budget: Σ w_i·(1 − Σ_k r_k·x_ik) ≤ z·Σ w_i; fairness: t ≤ Δ_i − d_0 ≤ t + F for every region
    with nodes or queries. f convex makes the segments fill in order by themselves.
    """
    regions, segments = len(m), len(d) - 1
    rates = (f[:-1] - f[1:]) / np.diff(d)
    cost = np.append(np.repeat(m, segments), 0.0)
    active = np.flatnonzero((m > 0) | (w > 0))
    size = regions * segments
    row, column = [0] * size, list(range(size))
    value = (-(w[:, None] * rates)).ravel().tolist()
    right = [z * w.sum() - w.sum()]
    for number, i in enumerate(active.tolist()):
        for sign, line in ((1.0, 1 + 2 * number), (-1.0, 2 + 2 * number)):
            row += [line] * (segments + 1)
            column += [*range(i * segments, (i + 1) * segments), size]
            value += [sign] * segments + [-sign]
        right += [fairness, 0.0]
    matrix = coo_matrix((value, (row, column)), shape=(1 + 2 * active.size, size + 1))
    bounds = [(0.0, step) for _ in range(regions) for step in np.diff(d)]
    return linprog(
        cost, A_ub=matrix.tocsr(), b_ub=right, bounds=[*bounds, (0.0, d[-1] - d[0])],
        method="highs",
    )  # fmt: skip


def random_instance(rng: np.random.Generator) -> Instance:
    """Draw m, w, curve points, F and z; degenerate ones (zeros, ties, flat tails) included."""
    regions, segments = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    even = rng.random() < 0.5
    steps = np.full(segments, 2.0) if even else rng.uniform(0.5, 5, segments)
    d = 5.0 + np.concatenate([[0.0], np.cumsum(steps)])
    rates = np.sort(rng.exponential(1, segments))[::-1]
    if segments > 1 and rng.random() < 0.3:
        rates[-int(rng.integers(1, segments)) :] = 0.0
    fall = np.concatenate([[0.0], np.cumsum(rates * np.diff(d))])
    f = 1.0 - fall / fall[-1] * rng.uniform(0.3, 0.95)
    if rng.random() < 0.3:
        m, w = rng.integers(0, 3, (2, regions)).astype(float)
    else:
        m = rng.exponential(1, regions) * (rng.random(regions) < 0.7)
        w = rng.exponential(1, regions) * (rng.random(regions) < 0.8)
    if w.sum() == 0:
        w[0] = 1.0
    fairness = float(rng.choice([0.0, rng.uniform(0, d[-1] - d[0]), 2.0, 4.0, 100.0]))
    return m, w, d, f, fairness, float(rng.uniform(0, 1))
