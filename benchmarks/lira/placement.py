"""Where base stations are placed: by node density, or evenly (Sections 2.2 and 4.3.2).

By density, the space is halved until a cell has few enough nodes, and a station at each cell's
centre covers the disc around it.
"""

from __future__ import annotations

import numpy as np

from planning.arrays import FloatArray, IntArray, frozen
from planning.errors import InvalidInput
from planning.lira.model import Bounds, Frame
from planning.lira.partition.regions import Partition
from planning.lira.stations import Stations

SMALLEST_RADIUS_M = 500.0


def place_by_density(
    nodes: FloatArray, bounds: Bounds, *, nodes_per_station: float
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


def place_evenly(bounds: Bounds, radius_m: float) -> Stations:
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
