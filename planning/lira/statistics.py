"""Statistics of a position stream: the grid (Section 3.2.1) and the measured f(Δ).

The grid has nodes, queries and mean speed of α × α cells. Cell (ix, iy) has the number
``iy * α + ix``; arrays are ``[iy, ix]``. A position on the upper border of the space belongs to the
last cell. Speeds are summed in whole micro-units, so that the order in which positions arrive
cannot change a bit.

f(Δ) and the error of Δ are measured by replaying dead reckoning over recorded positions: rows
sorted by object and time, at whatever times they were recorded. Every level Δ is replayed on its
own; the error of a level is its distance from what Δmin predicts at the same moment. An object's
first row is reported at every level and is not counted. A move faster than the highest speed is a
jump: it is reported like any deviation, but with no velocity. Rows whose time does not advance are
ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from planning.arrays import Columns, FloatArray, IntArray, frozen, frozen_ints
from planning.errors import StatisticsError
from planning.lira.kernels import MICRO, replay_levels
from planning.lira.model import Bounds, check_bounds
from planning.lira.partition.regions import grid_side
from planning.lira.queries import queries_of

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.lira.parameters import Parameters

OUTSIDE = -1
CHUNK = 4096
DECIMALS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The statistics grid; entry ``[iy, ix]`` of every array is cell c_{ix,iy}.

    Attributes
    ----------
    bounds
        x_low, y_low, x_high, y_high of the space.
    nodes
        Positions seen in the cell; n_{i,j} is this over the number of snapshots they come from.
    mean_speed
        s_{i,j}, 0 where nothing was seen.
    queries
        m_{i,j}: every query counts with the share of its area that lies in the cell.
    """

    bounds: Bounds
    nodes: IntArray
    mean_speed: FloatArray
    queries: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """What a planner needs to know about a stream.

    Attributes
    ----------
    grid
        The statistics grid.
    objects
        Number of distinct objects seen.
    rows
        Positions that dead reckoning was replayed over.
    thresholds, reports
        f(Δ) as measured: reports caused by each threshold.
    errors
        Mean distance from the positions that Δmin gives, metres, per threshold.

    Examples
    --------
    Three nodes on a grid of 2 x 2 cells with one query; replaying ten steps gave these sums:

    >>> x = np.array([1.0, 1.0, 9.0])
    >>> counted = grid(x, x, np.array([3.0, 5.0, 8.0]), [[0, 0, 5, 5]], 2, (0, 0, 10, 10))
    >>> sums = Replay(np.array([40, 20, 10]), np.array([0, 2_000_000, 5_000_000]), 10, 3)
    >>> made = complete(counted, np.array([5.0, 10.0, 20.0]), sums)
    >>> made.grid.nodes.tolist(), made.grid.mean_speed.tolist(), made.errors.tolist()
    ([[2, 0], [0, 1]], [[4.0, 0.0], [0.0, 8.0]], [0.0, 0.2, 0.5])
    """

    grid: Grid
    objects: int
    rows: int
    thresholds: FloatArray
    reports: IntArray
    errors: FloatArray

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form: that of the grid, and the measured curves."""
        return {
            "bounds": list(self.grid.bounds),
            "nodes": self.grid.nodes.tolist(),
            "mean_speed": self.grid.mean_speed.tolist(),
            "queries": self.grid.queries.tolist(),
            "objects": self.objects,
            "rows": self.rows,
            "thresholds": self.thresholds.tolist(),
            "reports": self.reports.tolist(),
            "errors": self.errors.tolist(),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Statistics:
        """Read the JSON form back."""
        x_low, y_low, x_high, y_high = (float(b) for b in document["bounds"])
        return cls(
            Grid(
                (x_low, y_low, x_high, y_high),
                frozen_ints(document["nodes"]),
                frozen(document["mean_speed"]),
                frozen(document["queries"]),
            ),
            int(document["objects"]),
            int(document["rows"]),
            frozen(document["thresholds"]),
            frozen_ints(document["reports"]),
            frozen(document["errors"]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Reports and summed errors (whole micrometres) per level, and what they come from."""

    reports: IntArray
    error_micro: IntArray
    rows: int
    objects: int


def build(samples: Columns, definition: Definition[Parameters]) -> Statistics:
    """Build the statistics of positions that fit in memory."""
    names = ("object_id", "time", "x", "y", "speed")
    ids, times, x, y, speed = (np.asarray(samples[n], dtype=np.float64) for n in names)
    bounds, cells, levels = scope_of(definition)
    rectangles, _ = queries_of(definition)
    seen = replay(ids, times, x, y, levels, definition.parameters.highest_speed)
    counted = grid(x, y, speed, rectangles, cells, bounds)
    return complete(counted, levels, seen)


def scope_of(definition: Definition[Parameters]) -> tuple[Bounds, int, FloatArray]:
    """Return the space, α, and the thresholds that f is measured at."""
    spans = {a.name: a.bounds for a in definition.attributes}
    (x_low, x_high), (y_low, y_high) = spans["x"], spans["y"]
    chosen = definition.parameters
    cells = chosen.cells or grid_side(chosen.regions)
    levels = levels_between(chosen.lowest_threshold, chosen.highest_threshold)
    return (x_low, y_low, x_high, y_high), cells, levels


def complete(counted: Grid, levels: FloatArray, seen: Replay) -> Statistics:
    """Join the grid with what the replay of every level saw; refuse what allows no plan."""
    if not counted.nodes.sum():
        raise StatisticsError(
            "samples must hold at least one position inside the space, got none; check the domains "
            "of x and y and the quarantine"
        )
    if not seen.rows or not seen.reports[0]:
        raise StatisticsError(
            "samples must show objects that move: f(Δ) is measured by replaying their tracks, got "
            f"{seen.objects} objects, {seen.rows} steps and {int(seen.reports[0])} reports at "
            "Δmin; land several positions per object, or lower Δmin"
        )
    return Statistics(
        counted, seen.objects, seen.rows, frozen(levels), frozen_ints(seen.reports),
        frozen(seen.error_micro / MICRO / seen.rows),
    )  # fmt: skip


def levels_between(low: float, high: float, count: int = 19) -> FloatArray:
    """Return the thresholds to measure: dense near Δmin, where f falls fastest.

    >>> levels_between(5.0, 100.0, 3).tolist()
    [5.0, 28.75, 100.0]
    """
    return low + (high - low) * (np.arange(count) / (count - 1)) ** 2


def replay(
    object_id: FloatArray, time_s: FloatArray, x: FloatArray, y: FloatArray, levels: FloatArray,
    highest_speed: float,
) -> Replay:  # fmt: skip
    """Replay rows in any order; equal rows in another order give the same numbers."""
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(time_s) & np.isfinite(object_id)
    order = np.lexsort((y[finite], x[finite], time_s[finite], object_id[finite]))
    ids, times, xs, ys = (
        np.ascontiguousarray(c[finite][order], dtype=np.float64) for c in (object_id, time_s, x, y)
    )
    reports = np.zeros(levels.size, np.int64)
    errors = np.zeros(levels.size, np.int64)
    rows = replay_levels(
        ids, times, xs, ys, np.ascontiguousarray(levels), highest_speed, reports, errors
    )
    objects = int(np.unique(ids).size)
    return Replay(reports, errors, int(rows), objects)


def grid(
    x: FloatArray, y: FloatArray, speed: FloatArray, queries: FloatArray, cells: int, bounds: Bounds
) -> Grid:
    """Build the grid of ``cells`` per side from positions that fit in memory.

    >>> xs, ys, speeds = np.array([0.0, 4.0]), np.array([0.0, 4.0]), np.array([3.0, 5.0])
    >>> g = grid(xs, ys, speeds, np.array([[1.0, 0.0, 3.0, 2.0]]), 2, (0.0, 0.0, 4.0, 4.0))
    >>> g.nodes.tolist(), g.mean_speed.tolist(), g.queries.tolist()
    ([[1, 0], [0, 1]], [[3.0, 0.0], [0.0, 5.0]], [[0.5, 0.5], [0.0, 0.0]])
    """
    nodes, speeds = cell_sums(cell_ids(x, y, cells, bounds), speed, cells)
    return assemble(nodes, speeds, queries, cells, bounds)


def assemble(
    nodes: IntArray, speeds: IntArray, queries: FloatArray, cells: int, bounds: Bounds
) -> Grid:
    """Return the grid from the sums per cell, as :func:`cell_sums` returns them."""
    shape = (cells, cells)
    return Grid(
        bounds,
        frozen_ints(nodes.reshape(shape)),
        frozen((speeds / MICRO / np.maximum(nodes, 1)).reshape(shape)),
        frozen(query_counts(queries, cells, bounds)),
    )


def cell_ids(x: FloatArray, y: FloatArray, cells: int, bounds: Bounds) -> IntArray:
    """Return the cell of every position; -1 outside the space and for NaN.

    >>> cell_ids(np.array([0.0, 1.0, 0.5, 1.1]), np.array([0.0, 1.0, 0.1, 0.5]), 2, (0, 0, 1, 1))
    array([ 0,  3,  1, -1])
    """
    x_low, y_low, x_high, y_high = check_bounds(bounds, cells)
    inside = (x >= x_low) & (x <= x_high) & (y >= y_low) & (y <= y_high)
    cell = np.full(len(x), OUTSIDE, dtype=np.int64)
    column = np.floor((x[inside] - x_low) * (cells / (x_high - x_low))).astype(np.int64)
    row = np.floor((y[inside] - y_low) * (cells / (y_high - y_low))).astype(np.int64)
    last = cells - 1
    cell[inside] = np.minimum(row, last) * cells + np.minimum(column, last)
    return cell


def cell_sums(cell: IntArray, speed: FloatArray, cells: int) -> tuple[IntArray, IntArray]:
    """Return positions and summed speed, in micro-units, per cell."""
    inside = cell != OUTSIDE
    nodes = np.bincount(cell[inside], minlength=cells * cells).astype(np.int64)
    speeds = np.zeros(cells * cells, dtype=np.int64)
    np.add.at(speeds, cell[inside], np.rint(speed[inside] * MICRO).astype(np.int64))
    return nodes, speeds


def query_counts(queries: ArrayLike, cells: int, bounds: Bounds) -> FloatArray:
    """Return m_{i,j}: queries that partly intersect a cell count fractionally (Section 3.1.1).

    Rows of ``queries`` are (x_low, y_low, x_high, y_high). Only the part of a query that lies
    in the space counts, with a total of 1; a query outside counts nowhere.

    The share of a rectangle in a cell is the product of the shares on both axes, so all queries
    together are one matrix product. The result is rounded to twelve decimals, so that the order
    of summation inside it does not matter.
    """
    x_low, y_low, x_high, y_high = check_bounds(bounds, cells)
    rectangles = np.asarray(queries, dtype=np.float64).reshape(-1, 4)
    counts = np.zeros((cells, cells))
    for start in range(0, len(rectangles), CHUNK):
        part = rectangles[start : start + CHUNK]
        across = _axis_shares(part[:, 0], part[:, 2], cells, x_low, x_high)
        upright = _axis_shares(part[:, 1], part[:, 3], cells, y_low, y_high)
        counts += upright.T @ across
    return np.round(counts, DECIMALS)


def _axis_shares(
    low: FloatArray, high: FloatArray, cells: int, bottom: float, top: float
) -> FloatArray:
    """Return (queries, cells): the share of each interval, clipped to the space, in each cell."""
    edges = bottom + (top - bottom) * np.arange(cells + 1) / cells
    edges[-1] = top
    first, last = np.maximum(low, bottom)[:, None], np.minimum(high, top)[:, None]
    overlap = np.minimum(last, edges[1:]) - np.maximum(first, edges[:-1])
    length = last - first
    shares = np.maximum(overlap, 0.0) / np.where(length > 0, length, 1.0)
    # An interval without length lies wholly in one cell.
    points = np.flatnonzero((low == high) & (low >= bottom) & (high <= top))
    place = np.minimum(np.floor((low[points] - bottom) * (cells / (top - bottom))), cells - 1)
    shares[points, place.astype(np.int64)] = 1.0
    return np.asarray(shares)
