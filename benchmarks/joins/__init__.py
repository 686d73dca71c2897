"""The bars of the joins family: exactness, output against random dropping, speed, real streams.

Outputs come from the deterministic cost model and do not depend on the machine; timings are
processor time, compared within one run.
"""

from __future__ import annotations

from benchmarks.joins import bars, processor
from benchmarks.rows import Row, measure


def run(quick: bool = False) -> list[Row]:
    """Measure every bar."""
    parts = (
        bars.exactness, bars.greedy, bars.headline, bars.never_below, bars.bursts, bars.utility,
        bars.directions, bars.drift, bars.sizes, bars.engine_speed, processor.shares,
        bars.real_streams, bars.spark_pairs,
    )  # fmt: skip
    return measure(parts, quick)
