"""What the sifter's benchmarks share: rows of the table, and timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def row(bar: str, required: str, measured: str, met: bool | None) -> Row:
    """Return a row; ``met`` is None where a number is only reported."""
    return {"bar": bar, "required": required, "measured": measured, "met": met}


def best_time(work: Callable[[], Any], repeats: int) -> float:
    """Return the least processor time of some repetitions, after a first one to warm up.

    Processor time, because the machine may be shared, and everything here uses one core.
    """
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
