"""The bars of the sifter family: exactness, configuring, construction, quality, speed, size.

Timings are processor time, the best of several repetitions, compared within one run.
"""

from __future__ import annotations

from benchmarks.rows import Row, measure
from benchmarks.sifter.guarantees import guarantees
from benchmarks.sifter.many_regions import many_regions
from benchmarks.sifter.planning import configuring, construction, exactness
from benchmarks.sifter.quality import gains, other_spaces, quality, real_data, reproduction
from benchmarks.sifter.runtime import budget, compactness, speed


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    parts = (
        exactness, configuring, construction, speed, compactness, budget, reproduction, quality,
        gains, other_spaces, real_data, many_regions, guarantees,
    )  # fmt: skip
    return measure(parts, quick)
