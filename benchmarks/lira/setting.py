"""What the parts of lira's benchmark share: seeds, operating points, how times are judged."""

from __future__ import annotations

from functools import lru_cache

from benchmarks.lira.scene import Scene
from benchmarks.lira.workload import Distribution
from benchmarks.rows import Row, Timing, row

DISTRIBUTIONS: tuple[Distribution, ...] = ("proportional", "inverse", "random")
LOADS = (0.3, 0.5, 0.75)
QUERIES, REGIONS = 100, 250
SEEDS = (11, 12, 13, 14, 15)  # the objective was chosen on seeds 1 to 5: none of these was seen


def seeds(quick: bool) -> tuple[int, ...]:
    """Return the seeds to measure, the first one last: the other parts continue with it."""
    return SEEDS[: 2 if quick else None][::-1]


@lru_cache(maxsize=1)
def scene_of(seed: int) -> Scene:
    """Return the scene of a seed; only one is kept, because a trace takes 300 MB."""
    return Scene(seed)


def slowest(timings: list[Timing]) -> Timing:
    """Return the largest times."""
    return Timing(max(t.wall for t in timings), max(t.cpu for t in timings))


def timed(bar: str, limit_s: float, timing: Timing) -> Row:
    """Return the row of a time bar, judged by the clock, in the unit of its limit."""
    unit, scale = ("s", 1.0) if limit_s >= 1 else ("ms", 1e3)
    text = f"{timing.wall * scale:.3g} {unit} (CPU {timing.cpu * scale:.3g})"
    return row(bar, f"<= {limit_s * scale:g} {unit}", text, timing.wall <= limit_s)
