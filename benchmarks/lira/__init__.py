"""The bars of the lira family: exactness, true errors, budgets, compactness, speed, real tracks.

Times are the best of several, by the clock, with CPU time next to them. Ratios have the clock on
both sides.
"""

from __future__ import annotations

from benchmarks.lira.adaptation import adaptation
from benchmarks.lira.delivery import compactness, runtime_speed
from benchmarks.lira.exactness import exactness
from benchmarks.lira.quality import quality, real_tracks
from benchmarks.rows import Row, measure


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    return measure(
        (exactness, quality, compactness, adaptation, runtime_speed, real_tracks), quick
    )
