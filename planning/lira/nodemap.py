"""What a mobile node holds: throttlers over the plane, or over its station's coverage.

A raster of the statistics grid's cells, so that a lookup is one multiplication per axis and one
read. Outside the part it holds, a node uses Δmin: it reports too often rather than too seldom until
it has the next station's part. Positions outside the space use the nearest cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from planning.arrays import FloatArray
from planning.errors import ArtifactError
from planning.lira import compact
from planning.lira.model import Frame
from planning.lira.partition import LEAF, padded, paint, push_halves, walk_from
from planning.lira.treecode import NOT_SENT

Thresholds = NDArray[np.float32]


class NodeMap:
    """Thresholds by position; from a whole map, a station's part, or a plan's raster.

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
        cells: NDArray[np.float32],
        levels: NDArray[np.int16] | None = None,
    ) -> None:
        self.frame = frame
        self.corner = corner
        self._levels = levels
        self._hold(cells)

    @classmethod
    def from_map(cls, data: bytes) -> NodeMap:
        """Read a whole map (:func:`planning.lira.compact.encode_map`)."""
        frame, decoded = compact.decode_map(data)
        return cls._decoded(frame, decoded)

    @classmethod
    def from_part(cls, data: bytes, frame: Frame) -> NodeMap:
        """Read a station's part (:func:`planning.lira.compact.encode_part`)."""
        return cls._decoded(frame, compact.decode_part(data, frame))

    @classmethod
    def _decoded(cls, frame: Frame, decoded: compact.Decoded) -> NodeMap:
        rectangles = sent_rectangles(decoded.symbols, frame.side)
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
        """Follow a new z (:func:`planning.lira.compact.encode_change`); needs levels."""
        if self._levels is None:
            raise ArtifactError(
                "a change of z needs a map with levels, this node holds throttlers; send it levels"
            )
        by_level = compact.decode_change(data, self.frame)
        if self._levels.max(initial=0) >= by_level.size:
            raise ArtifactError("the change has fewer levels than this node's map; send both again")
        table = np.append(by_level, self.frame.low).astype(np.float32)  # −1: not covered
        self._hold(table[self._levels])

    def _hold(self, cells: NDArray[np.float32]) -> None:
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
        lookup = _lookup_whole if self._whole else _lookup_part
        lookup(
            xs, ys, self.cells.reshape(-1), self._rows, self._columns, self._x_low, self._y_low,
            self._per_x, self._per_y, np.float32(self.frame.low), out,
        )  # fmt: skip
        return out

    def threshold(self, x: float, y: float) -> float:
        """Return Δ at one position."""
        column = (x - self._x_low) * self._per_x
        row = (y - self._y_low) * self._per_y
        if 0.0 <= column < self._columns and 0.0 <= row < self._rows:
            found: float = self._flat[int(row) * self._columns + int(column)]
            return found
        return float(self.thresholds([x], [y])[0])


def sent_rectangles(symbols: NDArray[np.uint8], side: int) -> NDArray[np.int64]:
    """Return the rectangles of the regions in a decoded tree that may have gaps."""
    found = _sent_rectangles(symbols, padded(side), side)
    return np.asarray(found)


@njit(cache=True)
def _sent_rectangles(symbols, size, side):  # type: ignore[no-untyped-def]
    out = np.empty((symbols.size, 4), np.int64)
    found = 0
    stack, top = walk_from(0, 0, size, size)
    for node in range(symbols.size):
        top -= 1
        x, y, w, h, depth, _ = stack[top]
        symbol = symbols[node]
        if symbol == NOT_SENT:
            continue
        if symbol == LEAF:
            if x < side and y < side:
                out[found] = (x, y, min(w, side - x), min(h, side - y))
                found += 1
        else:
            top = push_halves(stack, top, x, y, w, h, depth, symbol)
    return out[:found]


@njit(cache=True)
def _lookup_whole(xs, ys, cells, rows, columns, x_low, y_low, per_x, per_y, low, out):  # type: ignore[no-untyped-def]
    last_column, last_row = columns - 1.0, rows - 1.0
    for i in range(xs.size):
        column = (xs[i] - x_low) * per_x
        row = (ys[i] - y_low) * per_y
        column = column if column > 0.0 else 0.0  # NaN too
        row = row if row > 0.0 else 0.0
        column = column if column < last_column else last_column
        row = row if row < last_row else last_row
        out[i] = cells[np.int32(row) * np.int32(columns) + np.int32(column)]


@njit(cache=True)
def _lookup_part(xs, ys, cells, rows, columns, x_low, y_low, per_x, per_y, low, out):  # type: ignore[no-untyped-def]
    for i in range(xs.size):
        column = (xs[i] - x_low) * per_x
        row = (ys[i] - y_low) * per_y
        if 0.0 <= column < columns and 0.0 <= row < rows:
            out[i] = cells[np.int32(row) * np.int32(columns) + np.int32(column)]
        else:
            out[i] = low


def raster_of(by_level: FloatArray, raster: NDArray[np.uint8]) -> Thresholds:
    """Return the throttler of every cell from its level."""
    return np.asarray(by_level.astype(np.float32)[raster])
