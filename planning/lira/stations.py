"""Base stations and their nodes: broadcasts and hand-off (Sections 2.2 and 4.3.2).

A station covers a disc and broadcasts the regions that its disc touches. A node stays with its
station while covered and then goes to the nearest that covers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from planning.arrays import BoolArray, FloatArray, IntArray
from planning.errors import ArtifactError
from planning.lira.codec import messages
from planning.lira.codec.treecode import NOT_SENT
from planning.lira.model import Frame
from planning.lira.partition.regions import (
    LEAF,
    Partition,
    padded,
    paint,
    push_halves,
    walk_from,
)
from planning.lira.plan import Plan

Thresholds = NDArray[np.float32]


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

        Where no disc reaches, the station that is nearest in units of its radius serves.
        """
        here = self.serving_all(np.array([x]), np.array([y]), np.array([current]))
        return int(here[0])

    def serving_all(self, x: FloatArray, y: FloatArray, current: IntArray) -> IntArray:
        """Return the station of many nodes; ``current`` is −1 for a node without one."""
        stations = np.empty(len(x), dtype=np.int64)
        _serving(self.x, self.y, self.radius, x, y, current, stations)
        return stations


def sent_nodes(
    partition: Partition, frame: Frame, x: float, y: float, radius: float
) -> BoolArray:
    """Return, per rectangle of the tree in preorder, whether the disc touches it."""
    width, height = frame.cell_size
    marks = _sent_nodes(
        partition.symbols, walk_from(padded(partition.side)), partition.side,
        (x - frame.bounds[0]) / width, (y - frame.bounds[1]) / height, radius / width,
        radius / height,
    )  # fmt: skip
    return np.asarray(marks)


def broadcast(plan: Plan, stations: Stations, station: int, load: float | None) -> bytes:
    """Return what one station broadcasts: throttlers at ``load``, or levels if there is none."""
    x, y = float(stations.x[station]), float(stations.y[station])
    sent = sent_nodes(plan.partition, plan.frame, x, y, float(stations.radius[station]))
    return messages.encode_part(plan, load, sent)


def broadcasts(plan: Plan, stations: Stations, load: float | None) -> list[bytes]:
    """Return every station's broadcast."""
    return [broadcast(plan, stations, i, load) for i in range(stations.count)]


class NodeMap:
    """What a mobile node holds: throttlers over the plane, or over its station's coverage.

    A raster of the statistics grid's cells, so that a lookup is one multiplication per axis and one
    read. Outside the part it holds, a node uses Δmin: it reports too often rather than too seldom
    until it has the next station's part. Positions outside the space use the nearest cell.

    Parameters
    ----------
    frame
        Space, grid and thresholds.
    corner
        (ix, iy) of the raster's first cell.
    cells
        ``cells[iy, ix]``: throttlers in metres.
    levels
        The levels behind them, −1 where the part does not reach; :meth:`change` needs them.
    """

    def __init__(
        self,
        frame: Frame,
        corner: tuple[int, int],
        cells: Thresholds,
        levels: NDArray[np.int16] | None = None,
    ) -> None:
        self.frame = frame
        self.corner = corner
        self._levels = levels
        self._hold(cells)

    @classmethod
    def from_map(cls, data: bytes) -> NodeMap:
        """Read a whole map (:func:`planning.lira.codec.messages.encode_map`)."""
        frame, decoded = messages.decode_map(data)
        return cls._decoded(frame, decoded)

    @classmethod
    def from_part(cls, data: bytes, frame: Frame) -> NodeMap:
        """Read a station's part (:func:`planning.lira.codec.messages.encode_part`)."""
        return cls._decoded(frame, messages.decode_part(data, frame))

    @classmethod
    def _decoded(cls, frame: Frame, decoded: messages.Decoded) -> NodeMap:
        sent = decoded.symbols != NOT_SENT
        laid_out = Partition.of(frame.side, np.where(sent, decoded.symbols, np.uint8(LEAF)))
        rectangles = laid_out.rectangles[sent[laid_out.places]]
        if len(rectangles) == 0:
            return cls(frame, (0, 0), np.full((1, 1), frame.low, dtype=np.float32))
        low = rectangles[:, :2].min(axis=0)
        high = (rectangles[:, :2] + rectangles[:, 2:]).max(axis=0)
        shape = (int(high[1] - low[1]), int(high[0] - low[0]))
        cells = np.full(shape, -1.0 if decoded.has_levels else frame.low, dtype=np.float32)
        paint(rectangles - [*low, 0, 0], decoded.values, cells)
        corner = (int(low[0]), int(low[1]))
        if not decoded.has_levels:
            return cls(frame, corner, cells)
        quiet = np.full(shape, frame.low, dtype=np.float32)
        return cls(frame, corner, quiet, cells.astype(np.int16))

    def change(self, data: bytes) -> None:
        """Follow a new z (:func:`planning.lira.codec.messages.encode_change`); needs levels."""
        if self._levels is None:
            raise ArtifactError(
                "a change of z needs a map with levels, this node holds throttlers; send it levels"
            )
        by_level = messages.decode_change(data, self.frame)
        if self._levels.max(initial=0) >= by_level.size:
            raise ArtifactError("the change has fewer levels than this node's map; send both again")
        table = np.append(by_level, self.frame.low).astype(np.float32)  # −1: not covered
        self._hold(table[self._levels])

    def _hold(self, cells: Thresholds) -> None:
        self.cells = np.ascontiguousarray(cells)
        x_low, y_low, _, _ = self.frame.bounds
        width, height = self.frame.cell_size
        self._x_low, self._y_low = x_low + self.corner[0] * width, y_low + self.corner[1] * height
        self._per_x, self._per_y = 1.0 / width, 1.0 / height
        rows, columns = self.cells.shape
        self._columns, self._rows = columns, rows
        self._whole = rows == columns == self.frame.side
        self._flat: Any = memoryview(self.cells.reshape(-1).data)

    def thresholds(self, x: ArrayLike, y: ArrayLike) -> Thresholds:
        """Return Δ at every position."""
        xs = np.ascontiguousarray(x, dtype=np.float64)
        ys = np.ascontiguousarray(y, dtype=np.float64)
        out = np.empty(xs.size, dtype=np.float32)
        _lookup(
            xs, ys, self.cells.reshape(-1), self._rows, self._columns, self._x_low, self._y_low,
            self._per_x, self._per_y, np.float32(self.frame.low), self._whole, out,
        )  # fmt: skip
        return out

    def threshold(self, x: float, y: float) -> float:
        """Return Δ at one position."""
        column = (x - self._x_low) * self._per_x
        row = (y - self._y_low) * self._per_y
        if 0.0 <= column < self._columns and 0.0 <= row < self._rows:
            threshold: float = self._flat[int(row) * self._columns + int(column)]
            return threshold
        return float(self.thresholds([x], [y])[0])


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
def _serving(sx, sy, radius, xs, ys, current, stations):  # type: ignore[no-untyped-def]
    for i in range(xs.size):
        here = current[i]
        if here >= 0 and np.hypot(sx[here] - xs[i], sy[here] - ys[i]) <= radius[here]:
            stations[i] = here
            continue
        best, best_gap = -1, np.inf
        fallback, fallback_gap = 0, np.inf
        for s in range(sx.size):
            gap = np.hypot(sx[s] - xs[i], sy[s] - ys[i])
            if gap <= radius[s] and gap < best_gap:
                best, best_gap = s, gap
            if gap / radius[s] < fallback_gap:
                fallback, fallback_gap = s, gap / radius[s]
        stations[i] = best if best >= 0 else fallback


@njit(cache=True)
def _sent_nodes(symbols, stack, side, cx, cy, rx, ry):  # type: ignore[no-untyped-def]
    """Touch test in cells; the disc is an ellipse when cells are not square."""
    out = np.zeros(symbols.size, np.bool_)
    top = 1
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


@njit(cache=True)
def _lookup(xs, ys, cells, rows, columns, x_low, y_low, per_x, per_y, low, whole, out):  # type: ignore[no-untyped-def]
    """Read the cell of every position: ``low`` outside a part, the nearest outside a whole map."""
    last_column, last_row = columns - 1.0, rows - 1.0
    for i in range(xs.size):
        column = (xs[i] - x_low) * per_x
        row = (ys[i] - y_low) * per_y
        if whole:
            column = column if column > 0.0 else 0.0  # NaN too
            row = row if row > 0.0 else 0.0
            column = column if column < last_column else last_column
            row = row if row < last_row else last_row
        elif not (0.0 <= column < columns and 0.0 <= row < rows):
            out[i] = low
            continue
        out[i] = cells[np.int32(row) * np.int32(columns) + np.int32(column)]
