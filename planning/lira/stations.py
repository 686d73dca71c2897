"""Base stations: where they stand, what each broadcasts, and hand-off (Sections 2.2 and 4.3.2).

Stations are placed by node density: the space is halved until a cell has few enough nodes, and a
station at each cell's centre covers the disc around it. A station broadcasts the regions that its
disc touches. A node stays with its station while covered and then goes to the nearest that covers
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planning.arrays import FloatArray, IntArray, frozen
from planning.errors import InvalidInput
from planning.lira import compact
from planning.lira.model import Frame
from planning.lira.nodemap import NodeMap
from planning.lira.partition import LEAF, Partition, padded, push_halves, walk_from
from planning.lira.plan import Plan

SMALLEST_RADIUS_M = 500.0


@dataclass(frozen=True, slots=True, eq=False)
class Stations:
    """Row i of every array is station i; metres."""

    x: FloatArray
    y: FloatArray
    radius: FloatArray

    @property
    def count(self) -> int:
        """Number of stations."""
        return self.x.size

    def serving(self, x: float, y: float, current: int = -1) -> int:
        """Return the station of a node at (x, y): its current one while that covers it.

        Where no disc reaches, the nearest station, measured in its radius, serves.
        """
        gap = np.hypot(self.x - x, self.y - y)
        if 0 <= current < self.count and gap[current] <= self.radius[current]:
            return current
        covering = gap <= self.radius
        if covering.any():
            return int(np.where(covering, gap, np.inf).argmin())
        return int((gap / self.radius).argmin())

    def serving_all(self, x: FloatArray, y: FloatArray, current: IntArray) -> IntArray:
        """Return the station of many nodes; ``current`` is −1 for a node without one."""
        found = np.empty(len(x), dtype=np.int64)
        _serving(self.x, self.y, self.radius, x, y, current, found)
        return found


def place_by_density(
    nodes: FloatArray,
    bounds: tuple[float, float, float, float],
    *,
    nodes_per_station: float,
) -> Stations:
    """Place stations so that each covers about ``nodes_per_station`` nodes of the grid."""
    if not nodes_per_station > 0:
        raise InvalidInput(f"nodes_per_station must be above 0, got {nodes_per_station:g}")
    x_low, y_low, x_high, y_high = bounds
    rows: list[tuple[float, float, float]] = []
    todo = [(0.0, 0.0, 1.0, 1.0)]
    side = nodes.shape[0]
    sums = np.zeros((side + 1, side + 1))
    sums[1:, 1:] = nodes.cumsum(0).cumsum(1)
    while todo:
        a, b, c, d = todo.pop()
        i, j, k, m = (round(v * side) for v in (a, b, c, d))
        inside = sums[m, k] - sums[j, k] - sums[m, i] + sums[j, i]
        width, height = (c - a) * (x_high - x_low), (d - b) * (y_high - y_low)
        radius = 0.5 * float(np.hypot(width, height))
        finest = min(k - i, m - j) <= 1
        if inside <= nodes_per_station or radius / 2 < SMALLEST_RADIUS_M or finest:
            rows.append(
                (x_low + 0.5 * (a + c) * (x_high - x_low), y_low + 0.5 * (b + d) * (y_high - y_low),
                 radius)
            )  # fmt: skip
            continue
        p, q = 0.5 * (a + c), 0.5 * (b + d)
        todo += [(p, q, c, d), (a, q, p, d), (p, b, c, q), (a, b, p, q)]
    placed = np.array(rows)
    return Stations(frozen(placed[:, 0]), frozen(placed[:, 1]), frozen(placed[:, 2]))


def place_evenly(bounds: tuple[float, float, float, float], radius_m: float) -> Stations:
    """Return stations of one radius on a square grid that covers the space (Table 3)."""
    x_low, y_low, x_high, y_high = bounds
    if not radius_m > 0:
        raise InvalidInput(f"radius_m must be above 0, got {radius_m:g}")
    spacing = radius_m * np.sqrt(2.0)
    across = max(1, int(np.ceil((x_high - x_low) / spacing)))
    upright = max(1, int(np.ceil((y_high - y_low) / spacing)))
    x = x_low + (np.arange(across) + 0.5) * (x_high - x_low) / across
    y = y_low + (np.arange(upright) + 0.5) * (y_high - y_low) / upright
    xs, ys = np.meshgrid(x, y)
    return Stations(frozen(xs.ravel()), frozen(ys.ravel()), frozen(np.full(xs.size, radius_m)))


def touched(partition: Partition, frame: Frame, x: float, y: float, radius: float) -> IntArray:
    """Return the regions that a disc touches."""
    width, height = frame.cell_size
    r = partition.rectangles
    left, low = frame.bounds[0] + r[:, 0] * width, frame.bounds[1] + r[:, 1] * height
    dx = np.maximum(np.maximum(left - x, x - (left + r[:, 2] * width)), 0.0)
    dy = np.maximum(np.maximum(low - y, y - (low + r[:, 3] * height)), 0.0)
    return np.flatnonzero(dx * dx + dy * dy <= radius * radius)


def sent_nodes(
    partition: Partition, frame: Frame, x: float, y: float, radius: float
) -> NDArray[np.bool_]:
    """Return, per rectangle of the tree in preorder, whether the disc touches it."""
    width, height = frame.cell_size
    marks = _sent_nodes(
        partition.symbols, padded(partition.side), partition.side,
        (x - frame.bounds[0]) / width, (y - frame.bounds[1]) / height, radius / width,
        radius / height,
    )  # fmt: skip
    return np.asarray(marks)


def broadcast(plan: Plan, stations: Stations, station: int, load: float | None) -> bytes:
    """Return what one station broadcasts: throttlers at ``load``, or levels if there is none."""
    x, y = float(stations.x[station]), float(stations.y[station])
    sent = sent_nodes(plan.partition, plan.frame, x, y, float(stations.radius[station]))
    return compact.encode_part(plan, load, sent)


def broadcasts(plan: Plan, stations: Stations, load: float | None) -> list[bytes]:
    """Return every station's broadcast."""
    return [broadcast(plan, stations, i, load) for i in range(stations.count)]


class RoamingNode:
    """A mobile node that follows stations: it swaps its map when it is handed off."""

    def __init__(self, stations: Stations, messages: list[bytes], frame: Frame) -> None:
        self.stations, self.messages, self.frame = stations, messages, frame
        self.station = -1
        self.handoffs = 0
        self._map: NodeMap | None = None

    def threshold(self, x: float, y: float) -> float:
        """Return Δ at the node's position, after a hand-off if one is due."""
        serving = self.stations.serving(x, y, self.station)
        if serving != self.station or self._map is None:
            self.handoffs += self.station >= 0
            self.station = serving
            self._map = NodeMap.from_part(self.messages[serving], self.frame)
        return self._map.threshold(x, y)


@njit(cache=True)
def _serving(sx, sy, radius, xs, ys, current, found):  # type: ignore[no-untyped-def]
    for i in range(xs.size):
        here = current[i]
        if here >= 0 and np.hypot(sx[here] - xs[i], sy[here] - ys[i]) <= radius[here]:
            found[i] = here
            continue
        best, best_gap = -1, np.inf
        fallback, fallback_gap = 0, np.inf
        for s in range(sx.size):
            gap = np.hypot(sx[s] - xs[i], sy[s] - ys[i])
            if gap <= radius[s] and gap < best_gap:
                best, best_gap = s, gap
            if gap / radius[s] < fallback_gap:
                fallback, fallback_gap = s, gap / radius[s]
        found[i] = best if best >= 0 else fallback


@njit(cache=True)
def _sent_nodes(symbols, size, side, cx, cy, rx, ry):  # type: ignore[no-untyped-def]
    """Touch test in cells; the disc is an ellipse when cells are not square."""
    out = np.zeros(symbols.size, np.bool_)
    stack, top = walk_from(0, 0, size, size)
    for node in range(symbols.size):
        top -= 1
        x, y, w, h, depth, _ = stack[top]
        right, upper = min(x + w, side), min(y + h, side)
        dx = max(max(x - cx, cx - right), 0.0) / rx
        dy = max(max(y - cy, cy - upper), 0.0) / ry
        out[node] = x < side and y < side and dx * dx + dy * dy <= 1.0
        if symbols[node] != LEAF:
            top = push_halves(stack, top, x, y, w, h, depth, symbols[node])
    return out
