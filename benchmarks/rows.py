"""What the families' benchmarks share: rows of the table, parts in turn, timing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Row = dict[str, Any]
Part = Callable[[bool], Row | list[Row]]


def row(bar: str, required: str, measured: str, met: bool | None) -> Row:
    """Return a row; ``met`` is None where a number is only reported."""
    return {"bar": bar, "required": required, "measured": measured, "met": met}


def measure(parts: Iterable[Part], quick: bool) -> list[Row]:
    """Run the parts of a family's benchmark in turn, saying which one is running."""
    rows: list[Row] = []
    for part in parts:
        print(f"  {part.__name__.replace('_', ' ')}", file=sys.stderr, flush=True)
        found = part(quick)
        rows += found if isinstance(found, list) else [found]
    return rows


class Timing(NamedTuple):
    """The shortest of several runs in seconds: by the clock, and of this process's CPU.

    Other work on the machine lengthens the former and not the latter.
    """

    wall: float
    cpu: float


def best_of(repeats: int, work: Callable[[], Any], *, warm: bool = True) -> Timing:
    """Time ``work``, after one run to warm up."""
    if warm:
        work()
    times = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Timing(min(t[0] for t in times), min(t[1] for t in times))
