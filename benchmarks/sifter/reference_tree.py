"""Regions by a cost-sensitive tree, written apart from the planner's: a reference for many regions.

For a multiplier lambda of the budget the optimum of Equation 10 is a sum over regions: lambda * f
where no query is, else Delta * max(lambda * f - a, 0) + g * (1 - Delta) * (lambda * f - a), where
a is the QoS that the region's tuples are worth and g how far the group item is filled. So a tree is
overgrown, best cut first, by the gain in that value averaged over several lambda, and pruned to l
leaves by dynamic programming at the (lambda, g) of the load, until the loss no longer falls; then
it is grown again around that lambda. Plain NumPy; one tree serves one load.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planning.arrays import FloatArray, IntArray
from planning.sifter.queries import Queries

FIRST_BAND = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0)  # of the stream's mean QoS per tuple
NEXT_BAND = (0.4, 0.6, 0.8, 1.0, 1.25, 1.7, 2.5)  # of the multiplier that was found
OVERGROWTH = 8
SMALLEST = 4  # points on either side of a cut
GROWTHS, PRUNINGS = 3, 6


def point_masses(points: FloatArray, asked: Queries) -> FloatArray:
    """Return what each tuple is worth: every query divides w * alpha among its matches.

    >>> from planning.sifter.queries import boxes
    >>> one = boxes(np.array([[0.0]]), np.array([[0.5]]))
    >>> point_masses(np.array([[0.1], [0.4], [0.9]]), one).tolist()
    [0.5, 0.5, 0.0]
    """
    mass = np.zeros(len(points))
    for query in range(asked.count):
        inside = np.zeros(len(points), dtype=np.bool_)
        for box in np.flatnonzero(asked.owner == query):
            inside |= ((points >= asked.low[box]) & (points < asked.high[box])).all(axis=1)
        if inside.any():
            mass[inside] += asked.coefficient[query] / inside.sum()
    return mass


def knapsack(f: Any, a: Any, free: Any, need: float, delta: float) -> tuple[Any, float, float]:
    """Return the drop thresholds that lose least, and lambda and g where the budget is met."""
    d = np.zeros(len(f))
    open_f = f[free].sum()
    if open_f > 0:
        d[free] = min(1.0, need / open_f)
    left = need - open_f
    members = np.flatnonzero(~free)
    if left <= 0 or not members.size:
        return d, 0.0, 0.0
    group = a[members].sum() / f[members].sum()
    ratio = np.where(f[members] > 0, a[members] / np.maximum(f[members], 1e-300), np.inf)
    items = [(r, delta * f[i], i) for r, i in zip(ratio.tolist(), members.tolist(), strict=True)]
    items.append((group, (1.0 - delta) * f[members].sum(), -1))
    filled, floor, multiplier = dict.fromkeys(members.tolist(), 0.0), 0.0, 0.0
    for r, weight, item in sorted(items):
        if left <= 0:
            break
        y = min(1.0, left / weight) if weight > 0 else 1.0
        left -= weight
        if r < np.inf:
            multiplier = r
        if item < 0:
            floor = y
        else:
            filled[item] = y
    for i, y in filled.items():
        d[i] = (1.0 - delta) * floor + delta * y
    return d, multiplier, floor


@dataclass
class Node:
    """A node of the growing tree, with the points and boxes it holds."""

    low: FloatArray
    high: FloatArray
    rows: IntArray
    boxes: IntArray
    f: float
    a: float
    axis: int = -1
    cut: float = 0.0
    children: tuple[int, ...] = field(default_factory=tuple)

    @property
    def free(self) -> bool:
        """No query touches it."""
        return not self.boxes.size


@dataclass(frozen=True)
class Reference:
    """A pruned tree."""

    nodes: list[Node]
    leaves: list[int]
    delta: float

    def lookup(self, points: FloatArray) -> IntArray:
        """Return the place among the leaves of each point."""
        place = {number: i for i, number in enumerate(self.leaves)}
        found = np.empty(len(points), dtype=np.int64)
        waiting = [(0, np.arange(len(points)))]
        while waiting:
            number, rows = waiting.pop()
            if number in place:
                found[rows] = place[number]
                continue
            node = self.nodes[number]
            below = points[rows, node.axis] < node.cut
            waiting += [(node.children[0], rows[below]), (node.children[1], rows[~below])]
        return found

    def thresholds(self, z: float) -> FloatArray:
        """Return the drop threshold of each leaf at a load."""
        return np.asarray(_solve(self.nodes, self.leaves, 1.0 - z, self.delta)[0])


class Grower:
    """Grows trees over a sample and queries."""

    def __init__(self, points: FloatArray, asked: Queries, low: Any, high: Any) -> None:
        self.points, self.asked = points, asked
        self.low, self.high = np.asarray(low, float), np.asarray(high, float)
        self.mass = point_masses(points, asked)

    def tree(self, regions: int, z: float, delta: float) -> Reference:
        """Grow and prune, several times; return the tree that loses least on the sample."""
        mean = self.mass.sum()
        band, g = np.array(FIRST_BAND) * mean, (np.array(FIRST_BAND) > 1.0).astype(float)
        best: tuple[float, Reference] | None = None
        for _ in range(GROWTHS):
            nodes = self._overgrow(OVERGROWTH * regions, band, g, delta)
            leaves = [i for i, node in enumerate(nodes) if not node.children]
            lowest = np.inf
            for _ in range(PRUNINGS):
                thresholds, multiplier, share = _solve(nodes, leaves, 1.0 - z, delta)
                leaves = _prune(nodes, max(multiplier, 1e-6 * mean), share, delta, regions)
                thresholds, found, found_share = _solve(nodes, leaves, 1.0 - z, delta)
                loss = float(sum(nodes[i].a * d for i, d in zip(leaves, thresholds, strict=True)))
                if best is None or loss < best[0]:
                    best = loss, Reference(nodes, leaves, delta)
                    multiplier, share = found, found_share
                if loss >= lowest:
                    break
                lowest = loss
            near = np.array(NEXT_BAND) * max(multiplier, 1e-3 * mean)
            band = np.concatenate([np.array(FIRST_BAND) * mean, near])
            g = (band > mean).astype(float)
        assert best is not None
        return best[1]

    def _node(self, low: Any, high: Any, rows: Any, boxes: Any) -> Node:
        touching = (self.asked.low[boxes] < high) & (self.asked.high[boxes] > low)
        boxes = boxes[touching.all(axis=1)]
        a = float(self.mass[rows].sum()) if boxes.size else 0.0
        return Node(low, high, rows, boxes, len(rows) / len(self.points), a)

    def _overgrow(self, leaves: int, band: Any, g: Any, delta: float) -> list[Node]:
        everything = np.arange(len(self.points)), np.arange(len(self.asked.low))
        nodes = [self._node(self.low, self.high, *everything)]
        waiting: list[tuple[float, int, int, float]] = []
        self._offer(waiting, nodes, 0, band, g, delta)
        count = 1
        while waiting and count < leaves:
            _, number, axis, cut = heapq.heappop(waiting)
            node = nodes[number]
            below = self.points[node.rows, axis] < cut
            high, low = node.high.copy(), node.low.copy()
            high[axis] = low[axis] = cut
            node.axis, node.cut, node.children = axis, cut, (len(nodes), len(nodes) + 1)
            nodes.append(self._node(node.low, high, node.rows[below], node.boxes))
            nodes.append(self._node(low, node.high, node.rows[~below], node.boxes))
            for child in node.children:
                self._offer(waiting, nodes, child, band, g, delta)
            count += 1
        return nodes

    def _offer(
        self, waiting: Any, nodes: Any, number: int, band: Any, g: Any, delta: float
    ) -> None:
        """Find the node's best cut and queue it by its gain."""
        node = nodes[number]
        if node.free or not node.rows.size:
            return
        best = (1e-12, -1, 0.0)
        whole = _values(np.array([node.f]), np.array([node.a]), np.array([False]), band, g, delta)
        for axis in range(len(node.low)):
            order = node.rows[np.argsort(self.points[node.rows, axis], kind="stable")]
            x, mass = self.points[order, axis], np.cumsum(self.mass[order])
            places = np.flatnonzero(x[1:] > x[:-1]) + 1
            places = places[(places >= SMALLEST) & (len(x) - places >= SMALLEST)]
            first = max(node.low[axis], self.asked.low[node.boxes, axis].min())
            last = min(node.high[axis], self.asked.high[node.boxes, axis].max())
            edges = [e for e in (first, last) if node.low[axis] < e < node.high[axis]]
            cuts = np.concatenate([(x[places - 1] + x[places]) / 2, edges])
            if not cuts.size:
                continue
            below = np.searchsorted(x, cuts, side="left")
            a = np.where(below > 0, mass[np.maximum(below - 1, 0)], 0.0)
            f = below / len(self.points)
            left = _values(f, a, cuts <= first, band, g, delta)
            right = _values(node.f - f, node.a - a, cuts >= last, band, g, delta)
            gain = left + right - whole
            top = int(gain.argmax())
            if gain[top] > best[0]:
                best = float(gain[top]), axis, float(cuts[top])
        if best[1] >= 0:
            heapq.heappush(waiting, (-best[0], number, best[1], best[2]))


def _values(f: Any, a: Any, free: Any, band: Any, g: Any, delta: float) -> FloatArray:
    """Return the value of regions, averaged over the band; every multiplier counts alike."""
    a = np.where(free, 0.0, a)
    surplus = f[:, None] - a[:, None] / band
    queried = delta * np.maximum(surplus, 0.0) + g * (1.0 - delta) * surplus
    return np.asarray(np.where(free[:, None], f[:, None], queried).mean(axis=1))


def _solve(nodes: list[Node], leaves: list[int], need: float, delta: float) -> Any:
    f, a = (np.array([getattr(nodes[i], name) for i in leaves]) for name in "fa")
    free = np.array([nodes[i].free for i in leaves])
    return knapsack(f, a, free, need, delta)


def _prune(nodes: list[Node], multiplier: float, g: float, delta: float, leaves: int) -> list[int]:
    """Return the leaves of the best subtree with at most so many of them."""
    f, a = (np.array([getattr(node, name) for node in nodes]) for name in "fa")
    free = np.array([node.free for node in nodes])
    value = _values(f, a, free, np.array([multiplier]), np.array([g]), delta)
    best: list[Any] = [None] * len(nodes)
    choice: list[Any] = [None] * len(nodes)
    for number in range(len(nodes) - 1, -1, -1):  # children come after their parents
        best[number], choice[number] = np.array([value[number]]), [0]
        if not nodes[number].children:
            continue
        one, two = (best[child] for child in nodes[number].children)
        size = min(leaves, len(one) + len(two))
        totals, chosen = np.full(size, -np.inf), [0] * size
        totals[0] = value[number]
        for k in range(2, size + 1):
            i = np.arange(max(1, k - len(two)), min(k - 1, len(one)) + 1)
            sums = one[i - 1] + two[k - i - 1]
            top = int(sums.argmax())
            if sums[top] > totals[k - 2] + 1e-15:
                totals[k - 1], chosen[k - 1] = sums[top], int(i[top])
            else:
                totals[k - 1], chosen[k - 1] = totals[k - 2], -1  # one leaf fewer does as well
        best[number], choice[number] = totals, chosen
    kept, waiting = [], [(0, len(best[0]))]
    while waiting:
        number, k = waiting.pop()
        while choice[number][k - 1] < 0:
            k -= 1
        if k == 1:
            kept.append(number)
            continue
        i = choice[number][k - 1]
        one, two = nodes[number].children
        waiting += [(one, i), (two, k - i)]
    return sorted(kept)
