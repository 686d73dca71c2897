"""The bars of the attributes family: exactness, detection, real weather, capacity, speed.

``python -m benchmarks attributes`` prints the table; ``--quick`` uses fewer seeds and instances.
Timings are processor time, the best of several.
"""

from __future__ import annotations

from benchmarks.attributes.bars import capacity, cycle_identifier, frontier, real_weather, speed
from benchmarks.rows import Row, measure


def run(quick: bool) -> list[Row]:
    """Measure every bar."""
    return measure((frontier, cycle_identifier, capacity, speed, real_weather), quick)
