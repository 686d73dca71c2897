"""GRIDREDUCE in plain Python, heap and all: Algorithm 1, line by line.

The reference that the compiled version (:mod:`planning.lira.printed.gridreduce`) is tested and
timed against, and therefore separate code. Deviations from the paper are those named there and in
:mod:`benchmarks.lira.greedy`, whose plain form it uses.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from benchmarks.lira.greedy import increment, uniform_threshold
from planning.lira.model import ReductionCurve


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


def accuracy_gain(
    node: TreeNode, d: list[float], f: list[float], uniform: float, z: float
) -> float:
    """CALCERRGAIN: E[t] − E_p[t]."""
    if node.m == 0:
        return 0.0
    m = [child.m for child in node.children]
    n = [child.n for child in node.children]
    throttlers = increment(m, n, d, f, math.inf, z, node.n)
    return node.m * uniform - sum(a * b for a, b in zip(m, throttlers, strict=True))
