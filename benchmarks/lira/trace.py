"""Traces: where every node is at every tick, generated (Section 4.2) or recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planning.errors import InvalidInput
from planning.lira.demo.roads import generate_roads
from planning.lira.demo.trace import drive
from planning.lira.model import Bounds

SIDE_M = 14142.0  # 200 km², like the paper's map


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Positions of every node at every tick.

    ``positions[node, tick]`` is (x, y) in metres; ticks are ``tick_s`` apart. Rows of a node that
    is not there yet, or no longer, are NaN.
    """

    positions: NDArray[np.float32]
    tick_s: float
    bounds: Bounds

    @property
    def nodes(self) -> int:
        """Number of mobile nodes n."""
        return int(self.positions.shape[0])

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return int(self.positions.shape[1])

    def part(self, start: int, stop: int) -> Trace:
        """Return ticks start … stop − 1."""
        return Trace(self.positions[:, start:stop], self.tick_s, self.bounds)


def generate_trace(
    seed: int, cars: int = 10_000, seconds: int = 3600, side_m: float = SIDE_M
) -> Trace:
    """Drive ``cars`` cars for ``seconds`` seconds on roads drawn from ``seed``.

    >>> generate_trace(1, cars=5, seconds=10, side_m=3000).positions.shape
    (5, 10, 2)
    """
    if cars < 1 or seconds < 2:
        raise InvalidInput(
            f"a trace needs at least 1 car and 2 seconds, got {cars} cars and {seconds} seconds"
        )
    rng = np.random.default_rng(seed)
    roads = generate_roads(rng, side_m)
    positions = drive(roads, rng, cars, seconds)
    return Trace(positions, 1.0, (0.0, 0.0, side_m, side_m))
