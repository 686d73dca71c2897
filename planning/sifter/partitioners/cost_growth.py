"""Growing the cost-sensitive tree (see :mod:`planning.sifter.partitioners.cost_tree`), compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from planning.sifter.model import LEAF
from planning.sifter.partitioners.trees import cut_between


class Masses(NamedTuple):
    """What the tree divides: data points, query mass on points and box centers, the boxes."""

    points: Any  # (n, d)
    mass: Any  # query mass on each point
    centers: Any  # (boxes, d)
    center_mass: Any
    box_low: Any
    box_high: Any
    discrete: Any  # (d,)


class Prices(NamedTuple):
    """The band of multipliers over which a region is valued, and the fairness threshold."""

    low: float
    high: float
    free: float  # value of a region without queries per unit of frequency
    delta: float
    smallest: int  # points on either side of a cut between points


class Nodes(NamedTuple):
    """The growing tree; row i of every array is node i, siblings are adjacent."""

    axis: Any
    cut: Any
    left: Any
    frequency: Any
    qos: Any
    free: Any  # no query touches the node
    covered: Any  # some box covers it whole
    low: Any
    high: Any
    points: Any  # (nodes, 2) stretch of the sorted points
    centers: Any  # (nodes, 2) stretch of the sorted centers
    boxes: Any  # (nodes, 2) stretch of the pool of touching boxes
    gain: Any  # of the best cut, which is in ``cut`` already
    best_axis: Any


def empty_nodes(nodes: int, dimensions: int) -> Nodes:
    """Return the arrays of a tree of at most this many nodes."""
    return Nodes(
        axis=np.full(nodes, LEAF, dtype=np.int64),
        cut=np.zeros(nodes),
        left=np.zeros(nodes, dtype=np.int64),
        frequency=np.zeros(nodes),
        qos=np.zeros(nodes),
        free=np.zeros(nodes, dtype=np.bool_),
        covered=np.zeros(nodes, dtype=np.bool_),
        low=np.zeros((nodes, dimensions)),
        high=np.zeros((nodes, dimensions)),
        points=np.zeros((nodes, 2), dtype=np.int64),
        centers=np.zeros((nodes, 2), dtype=np.int64),
        boxes=np.zeros((nodes, 2), dtype=np.int64),
        gain=np.full(nodes, -1.0),
        best_axis=np.zeros(nodes, dtype=np.int64),
    )


@njit(cache=True)
def _value(frequency: float, qos: float, free: bool, prices: Any) -> float:
    """Return the value of a region, averaged over the multipliers (see ``cost_tree``).

    The integral of Delta * max(0, lambda * f - A) / lambda**2 over the band: between its ends this
    is Delta * f * ln(f / A) and more: how well the region tells data from queries.
    """
    if free:
        return float(prices.free * frequency)
    if qos >= prices.high * frequency:
        return 0.0
    start = max(prices.low, qos / frequency)
    log = np.log(prices.high / start)
    return float(prices.delta * (frequency * log - qos * (1.0 / start - 1.0 / prices.high)))


@njit(cache=True)
def grow(
    masses: Any, prices: Any, nodes: Any, low: Any, high: Any, by_point: Any, by_center: Any
) -> int:
    """Overgrow a k-d tree best first; return the number of nodes.

    ``by_point`` and ``by_center`` list points and centers in order, axis by axis; a cut divides the
    sorted lists and keeps their order, so a level of the tree costs linear time.
    """
    boxes = masses.box_low.shape[0]
    pool = np.arange(4 * boxes + 1)
    in_pool = boxes
    nodes.low[0], nodes.high[0] = low, high
    nodes.points[0, 1], nodes.centers[0, 1], nodes.boxes[0, 1] = (
        masses.points.shape[0], boxes, boxes)  # fmt: skip
    nodes.free[0] = boxes == 0
    _weigh(masses, by_point, by_center, nodes, 0)
    _find_cut(masses, prices, by_point, by_center, pool, nodes, 0)
    used = 1
    while used + 1 < nodes.axis.size:
        node = int(np.argmax(nodes.gain[:used]))
        if nodes.gain[node] <= 0.0:
            break
        axis, cut = nodes.best_axis[node], nodes.cut[node]
        nodes.axis[node], nodes.left[node] = axis, used
        nodes.gain[node] = -1.0
        middle = _divide(masses.points[:, axis], cut, by_point, nodes.points[node])
        between = _divide(masses.centers[:, axis], cut, by_center, nodes.centers[node])
        for child in range(used, used + 2):
            nodes.low[child], nodes.high[child] = nodes.low[node], nodes.high[node]
            nodes.points[child], nodes.centers[child] = nodes.points[node], nodes.centers[node]
        nodes.high[used, axis], nodes.low[used + 1, axis] = cut, cut
        nodes.points[used, 1], nodes.points[used + 1, 0] = middle, middle
        nodes.centers[used, 1], nodes.centers[used + 1, 0] = between, between
        for child in range(used, used + 2):
            needed = in_pool + nodes.boxes[node, 1] - nodes.boxes[node, 0]
            if needed > pool.size:
                larger = np.empty(2 * needed, np.int64)
                larger[:in_pool] = pool[:in_pool]
                pool = larger
            in_pool = _hand_down(masses, pool, in_pool, nodes, node, child)
            _weigh(masses, by_point, by_center, nodes, child)
            _find_cut(masses, prices, by_point, by_center, pool, nodes, child)
        used += 2
    return used


@njit(cache=True)
def _divide(column: Any, cut: float, order: Any, stretch: Any) -> int:
    """Divide every axis's sorted stretch at the cut, keeping the order; return the middle."""
    start, stop = int(stretch[0]), int(stretch[1])
    spare = np.empty(stop - start, np.int64)
    middle = start
    for k in range(order.shape[0]):
        place, rest = start, 0
        for j in range(start, stop):
            index = order[k, j]
            if column[index] < cut:
                order[k, place] = index
                place += 1
            else:
                spare[rest] = index
                rest += 1
        order[k, place:stop] = spare[:rest]
        middle = place
    return middle


@njit(cache=True)
def _hand_down(masses: Any, pool: Any, in_pool: int, nodes: Any, node: int, child: int) -> int:
    """List the boxes of ``node`` that touch but do not cover ``child``; return the pool's end."""
    nodes.boxes[child, 0] = in_pool
    nodes.covered[child] = nodes.covered[node]
    for j in range(nodes.boxes[node, 0], nodes.boxes[node, 1]):
        box = pool[j]
        touches, covers = True, True
        for k in range(nodes.low.shape[1]):
            low, high = nodes.low[child, k], nodes.high[child, k]
            touches &= masses.box_low[box, k] < high and masses.box_high[box, k] > low
            covers &= masses.box_low[box, k] <= low and masses.box_high[box, k] >= high
        if covers:
            nodes.covered[child] = True
        elif touches:
            pool[in_pool] = box
            in_pool += 1
    nodes.boxes[child, 1] = in_pool
    nodes.free[child] = not nodes.covered[child] and nodes.boxes[child, 0] == in_pool
    return in_pool


@njit(cache=True)
def _weigh(masses: Any, by_point: Any, by_center: Any, nodes: Any, node: int) -> None:
    """Set f and A of a node."""
    start, stop = nodes.points[node]
    nodes.frequency[node] = (stop - start) / masses.points.shape[0]
    total = 0.0
    for j in range(start, stop):
        total += masses.mass[by_point[0, j]]
    for j in range(nodes.centers[node, 0], nodes.centers[node, 1]):
        total += masses.center_mass[by_center[0, j]]
    nodes.qos[node] = 0.0 if nodes.free[node] else total


@njit(cache=True)
def _find_cut(
    masses: Any, prices: Any, by_point: Any, by_center: Any, pool: Any, nodes: Any, node: int
) -> None:
    """Find the best cut, between neighbouring points or at an edge of the bounding box."""
    start, stop = nodes.points[node]
    if nodes.free[node] or start == stop:
        return
    boxes = pool[nodes.boxes[node, 0] : nodes.boxes[node, 1]]
    for axis in range(nodes.low.shape[1]):
        low, high = nodes.low[node, axis], nodes.high[node, axis]
        first, last = (low, high) if nodes.covered[node] else (high, low)
        for box in boxes:
            first = min(first, masses.box_low[box, axis])
            last = max(last, masses.box_high[box, axis])
        gain, cut = _scan(
            masses.points[:, axis], masses.mass, by_point[axis, start:stop],
            masses.centers[:, axis], masses.center_mass,
            by_center[axis, nodes.centers[node, 0] : nodes.centers[node, 1]],
            masses.discrete[axis], first, last, low, high, nodes.frequency[node], nodes.qos[node],
            prices,
        )  # fmt: skip
        if gain > nodes.gain[node] and gain > 1e-12:
            nodes.gain[node], nodes.best_axis[node], nodes.cut[node] = gain, axis, cut


@njit(cache=True)
def _scan(
    points: Any, mass: Any, order: Any, centers: Any, center_mass: Any, center_order: Any,
    discrete: bool, first: float, last: float, low: float, high: float, frequency: float,
    qos: float, prices: Any,
) -> Any:  # fmt: skip
    """Return the gain and place of the best cut on one axis.

    Candidates are both edges of the queries' bounding box, then all places between sample points.
    ``first`` and ``last`` are the edges of the queries' bounding box: there are no queries below
    ``first``, nor at ``last`` and above.
    """
    count = order.size
    each = frequency / count
    whole = _value(frequency, qos, False, prices)
    best, best_cut = -1.0, 0.0
    below = 0
    while below < count and points[order[below]] < first:
        below += 1
    if low < first < high:
        gain = _value(below * each, 0.0, True, prices) - whole
        gain += _value(frequency - below * each, qos, False, prices)
        best, best_cut = gain, first
    while below < count and points[order[below]] < last:
        below += 1
    if low < last < high:
        gain = _value(frequency - below * each, 0.0, True, prices) - whole
        gain += _value(below * each, qos, False, prices)
        if gain > best:
            best, best_cut = gain, last
    center, below_qos = 0, 0.0
    for j in range(1, count):
        x, y = points[order[j - 1]], points[order[j]]
        below_qos += mass[order[j - 1]]
        if x == y or j < prices.smallest or count - j < prices.smallest:
            continue
        cut = cut_between(x, y, discrete)
        while center < center_order.size and centers[center_order[center]] < cut:
            below_qos += center_mass[center_order[center]]
            center += 1
        if not low < cut < high:
            continue
        left, right = cut <= first, cut >= last
        gain = _value(j * each, 0.0 if left else below_qos, left, prices) - whole
        gain += _value(
            frequency - j * each, 0.0 if right else qos - below_qos, right, prices
        )
        if gain > best:
            best, best_cut = gain, cut
    return best, best_cut
