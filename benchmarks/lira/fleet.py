"""Mobile nodes that report by dead reckoning, and the server's view of them (Section 2.1).

A node reports position and velocity; the server predicts p + v·(t − t0). When prediction and true
position differ by more than the node's current threshold Δ, the node reports again. Linear motion
model, one decision per tick; the velocity reported is that of the last tick.

The fleet is simulated in chunks of ticks, node by node, so that memory is read in order and the
settings may change between chunks (run-time correction, THROTLOOP).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.lira.trace import Trace
from planning.arrays import FloatArray, IntArray
from planning.errors import InvalidInput
from planning.lira.demo.trace import uniform


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdMap:
    """Inaccuracy thresholds over the plane: one value per cell of an even raster.

    Attributes
    ----------
    bounds
        x_low, y_low, x_high, y_high; positions outside use the nearest cell.
    cells
        ``cells[iy, ix]``, metres.
    """

    bounds: tuple[float, float, float, float]
    cells: FloatArray

    @classmethod
    def uniform(cls, bounds: tuple[float, float, float, float], threshold: float) -> ThresholdMap:
        """Return one threshold everywhere (Uniform Δ)."""
        return cls(bounds, np.full((1, 1), float(threshold)))


class Fleet:
    """All nodes of a trace with their last reports; ``run`` advances the clock.

    Parameters
    ----------
    trace
        Where the nodes really are. A node is absent while its position is NaN; when it appears or
        reappears it registers at once, which is never lost and not counted as a report.
    admit
        Fraction of reports the server admits; the rest is lost without the node knowing
        (Random Drop).
    seed
        Seed of that loss.
    """

    def __init__(self, trace: Trace, admit: float = 1.0, seed: int = 0) -> None:
        self.trace = trace
        self.tick = 0
        self.reports = 0
        self._admit = float(admit)
        # Rows: what the node reported last (x, y, vx, vy, tick), what the server has of it.
        self._sent = np.full((trace.nodes, 5), np.nan)
        self._known = np.full((trace.nodes, 5), np.nan)
        rng = np.random.default_rng(seed)
        self._state = rng.integers(1, 2**62, size=trace.nodes).astype(np.uint64)

    def run(self, thresholds: ThresholdMap, until: int) -> int:
        """Advance to tick ``until`` under the given thresholds; return the reports admitted."""
        if not self.tick <= until <= self.trace.ticks:
            raise InvalidInput(
                f"until must lie in [{self.tick}, {self.trace.ticks}], got {until}; time does not "
                "go backwards"
            )
        x_low, y_low, x_high, y_high = thresholds.bounds
        rows, columns = thresholds.cells.shape
        sent = int(
            _run(
                self.trace.positions, self.trace.tick_s, self.tick, until, self._sent, self._known,
                thresholds.cells, x_low, y_low,
                columns / (x_high - x_low), rows / (y_high - y_low), self._admit, self._state,
            )
        )  # fmt: skip
        self.tick = until
        self.reports += sent
        return sent

    def predicted(self) -> FloatArray:
        """Return where the server believes every node is at the last tick run; NaN if absent."""
        last = max(self.tick - 1, 0)
        age = (last - self._known[:, 4]) * self.trace.tick_s
        where = self._known[:, :2] + self._known[:, 2:4] * age[:, None]
        where[np.isnan(self.trace.positions[:, last, 0])] = np.nan
        return np.asarray(where)


@njit(cache=True)
def _run(  # type: ignore[no-untyped-def]
    positions, tick_s, start, stop, sent, known, cells, x_low, y_low, per_x, per_y, admit, state,
):  # fmt: skip
    """Move every node from tick to tick; return the reports that the server admitted."""
    reports = 0
    rows, columns = cells.shape
    for node in range(positions.shape[0]):
        px, py, vx, vy, t0 = sent[node]
        here = state[node]
        for tick in range(start, stop):
            x = np.float64(positions[node, tick, 0])
            y = np.float64(positions[node, tick, 1])
            if np.isnan(x):
                t0 = np.nan
                continue
            age = (tick - t0) * tick_s
            dx = x - (px + vx * age)
            dy = y - (py + vy * age)
            column = min(max(int((x - x_low) * per_x), 0), columns - 1)
            row = min(max(int((y - y_low) * per_y), 0), rows - 1)
            limit = cells[row, column]
            if dx * dx + dy * dy > limit * limit or np.isnan(t0):
                first = np.isnan(t0)
                px, py, t0 = x, y, np.float64(tick)
                vx = vy = 0.0
                if tick > 0 and not np.isnan(positions[node, tick - 1, 0]):
                    vx = (x - np.float64(positions[node, tick - 1, 0])) / tick_s
                    vy = (y - np.float64(positions[node, tick - 1, 1])) / tick_s
                passes = True
                if admit < 1.0 and not first:
                    here, draw = uniform(here)
                    passes = draw < admit
                if passes:
                    reports += 0 if first else 1
                    known[node] = (px, py, vx, vy, t0)
        sent[node] = (px, py, vx, vy, t0)
        state[node] = here
    return reports


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceRun:
    """What the server would have known with Δmin everywhere: p*(o) of Section 4.1.1.

    ``predicted[k]`` are positions at tick ``ticks[k]``; ``reports[k]`` those since the tick before.
    """

    ticks: IntArray
    predicted: NDArray[np.float32]
    reports: IntArray


def reference_run(trace: Trace, low: float, ticks: IntArray, warm_up: int = 0) -> ReferenceRun:
    """Replay the trace with Δmin everywhere and keep the server's view at ``ticks``."""
    fleet = Fleet(trace)
    everywhere = ThresholdMap.uniform(trace.bounds, low)
    fleet.run(everywhere, warm_up)
    views = np.empty((ticks.size, trace.nodes, 2), dtype=np.float32)
    reports = np.empty(ticks.size, dtype=np.int64)
    for k, tick in enumerate(ticks.tolist()):
        reports[k] = fleet.run(everywhere, tick + 1)
        views[k] = fleet.predicted()
    return ReferenceRun(ticks, views, reports)
