"""GRIDREDUCE and GREEDYINCREMENT in plain Python, heap and all: Algorithms 1 and 2 read aloud.

The reference that the compiled versions (:mod:`planning.lira.gridreduce`,
:mod:`planning.lira.greedy`) are tested and timed against, and therefore code of its own. Deviations
from the print are those named there.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from planning.lira.greedy import TOUCH
from planning.lira.reduction import ReductionCurve


@dataclass(slots=True)
class TreeNode:
    """A node of the quad-tree over the grid: corner and side in cells, n, m, and four children."""

    x: int
    y: int
    side: int
    n: float
    m: float
    children: list[TreeNode]


def build_tree(
    nodes: list[list[float]], queries: list[list[float]], x: int = 0, y: int = 0, side: int = 0
) -> TreeNode:
    """Stage I: aggregate the grid's statistics bottom-up (lines 1 to 9)."""
    side = side or len(nodes)
    if side == 1:
        return TreeNode(x, y, 1, nodes[y][x], queries[y][x], [])
    half = side // 2
    children = [
        build_tree(nodes, queries, x + dx, y + dy, half) for dy in (0, half) for dx in (0, half)
    ]
    n = (children[0].n + children[1].n) + (children[2].n + children[3].n)
    m = (children[0].m + children[1].m) + (children[2].m + children[3].m)
    return TreeNode(x, y, side, n, m, children)


def grid_reduce(root: TreeNode, curve: ReductionCurve, regions: int, z: float) -> list[TreeNode]:
    """Stage II: split where the accuracy gain is largest (lines 10 to 22)."""
    d, f = curve.thresholds.tolist(), curve.hull.tolist()
    uniform = uniform_threshold(d, f, z)
    heap: list[tuple[float, int, int, int, TreeNode]] = []

    def insert(node: TreeNode) -> None:
        gain = accuracy_gain(node, d, f, uniform, z) if node.children else -1.0
        level = (root.side // node.side).bit_length()
        heapq.heappush(heap, (-gain, level, node.y, node.x, node))

    insert(root)
    leaves: list[TreeNode] = []
    count = 1
    while heap and count + 3 <= regions:
        *_, node = heapq.heappop(heap)
        if not node.children:
            leaves.append(node)
            continue
        count += 3
        for child in node.children:
            insert(child)
    return leaves + [row[-1] for row in heap]


def uniform_threshold(d: list[float], f: list[float], z: float) -> float:
    """Return the smallest Δ with f(Δ) ≤ z; Δmax if there is none."""
    for k in range(len(d) - 1):
        if f[k + 1] <= z:
            fall = f[k] - f[k + 1]
            return max(d[k] + (f[k] - z) / fall * (d[k + 1] - d[k]) if fall > 0 else d[k], d[0])
    return d[-1]


def accuracy_gain(
    node: TreeNode, d: list[float], f: list[float], uniform: float, z: float
) -> float:
    """CALCERRGAIN: E[t] − E_p[t]."""
    if node.m == 0:
        return 0.0
    m = [child.m for child in node.children]
    n = [child.n for child in node.children]
    throttlers = greedy_increment(m, n, d, f, math.inf, z, total=node.n)
    return node.m * uniform - sum(a * b for a, b in zip(m, throttlers, strict=True))


def greedy_increment(
    m: list[float], w: list[float], d: list[float], f: list[float], fairness: float, z: float,
    total: float | None = None,
) -> list[float]:  # fmt: skip
    """GREEDYINCREMENT (Algorithm 2) over the breakpoints d of f.

    ``total`` is the sum of w where it is known already.
    """
    regions, last = len(m), len(d) - 1
    delta = [d[0]] * regions
    segment = [0] * regions
    spent = (sum(w) if total is None else total) * f[0]
    budget = z * spent
    heap: list[tuple[float, float, int]] = []

    def insert(i: int) -> None:
        k = segment[i]
        rate = w[i] * (f[k] - f[k + 1]) / (d[k + 1] - d[k])
        heapq.heappush(heap, (-(rate / m[i]) if m[i] > 0 else -math.inf, -rate, i))

    active = [i for i in range(regions) if m[i] > 0 or w[i] > 0]
    for i in active:
        insert(i)
    blocked: list[int] = []
    minimum, at_minimum = d[0], len(active)
    while spent > budget and heap:
        _, negative_rate, i = heapq.heappop(heap)
        rate, before = -negative_rate, delta[i]
        step = min(d[segment[i] + 1], minimum + fairness) - before
        if rate > 0:
            step = min(step, (spent - budget) / rate)
        delta[i] = before + step
        spent -= step * rate
        if delta[i] >= d[segment[i] + 1] - TOUCH:
            delta[i] = d[segment[i] + 1]
            segment[i] += 1
        changed = False
        if before <= minimum + TOUCH < delta[i]:
            at_minimum -= 1
            if at_minimum == 0:
                minimum = min(delta[j] for j in active)
                at_minimum = sum(delta[j] <= minimum + TOUCH for j in active)
                changed = True
        if segment[i] < last:
            if delta[i] >= minimum + fairness - TOUCH:
                blocked.append(i)
            elif spent > budget:
                insert(i)
        if changed:
            free = [j for j in blocked if delta[j] < minimum + fairness - TOUCH]
            blocked = [j for j in blocked if j not in free]
            for j in sorted(free):
                insert(j)
    return delta
