"""What a quadtree promises over a workload, and how its error falls while it is divided."""

from __future__ import annotations

import heapq
import time

import numpy as np

from planning.fit.path import INNER, Quadtree
from planning.fit.printed.distributions import Distribution
from planning.fit.printed.quadtree import Builder, simplex_scorer
from planning.fit.simplex.shedding import SheddingProgram


def expected_error(tree: Quadtree, workload: Distribution) -> float:
    """Return the sum of probability * error bound over the cells (Section 5.2)."""
    dims = np.flatnonzero(tree.valued)
    inputs = len(tree.valued)
    lows, sizes, bounds = [], [], []
    stack = [(0, np.zeros(inputs), 1.0)]
    while stack:
        cell, low, size = stack.pop()
        if tree.plan[cell] == INNER:
            for code in range(2 ** len(dims)):
                corner = low.copy()
                corner[dims] += (code >> np.arange(len(dims)) & 1) * size / 2
                stack.append((int(tree.child[cell]) + code, corner, size / 2))
        elif tree.plan[cell] >= 0:
            lows.append(low)
            sizes.append(size)
            bounds.append(tree.bound[tree.plan[cell]])
    if not lows:
        return 0.0
    low_corners = np.array(lows)
    high_corners = np.where(tree.valued, low_corners + np.array(sizes)[:, None], 1.0)
    weights = workload.probability(low_corners, high_corners)
    return float(np.sort(weights * np.array(bounds)).sum())


def converge(
    program: SheddingProgram, workload: Distribution, seconds: float, max_plans: int = 200_000
) -> list[tuple[float, float, int]]:
    """Divide for a while; return (CPU seconds, expected error, plans) on the way (Figure 14a)."""
    program.network.check_plain("solver_w")
    dims = np.flatnonzero(program.valued_inputs).astype(np.int64)
    builder = Builder(program, simplex_scorer(program), workload, max_plans, dims)
    start = time.process_time()
    builder.add(np.zeros((1, len(dims))), 1.0)
    path = [(0.0, builder.total, builder.infeasible)]
    while builder.heap and -builder.heap[0][0] > 0 and path[-1][0] < seconds:
        builder.divide(heapq.heappop(builder.heap)[2])
        path.append((time.process_time() - start, builder.total, builder.infeasible))
        if builder.infeasible + 2 ** len(dims) > max_plans:
            break
    return path
