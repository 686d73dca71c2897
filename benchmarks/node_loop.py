"""A source node in a process of its own: a batch every 10 ms from its start, and how late each is.

Run by :mod:`benchmarks.node`; writes its figures as JSON. ``control`` is the loop without a node.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path

EVERY_S = 0.010
PATIENCE_S = 150.0


def loop(offer: Callable[[], object], done: Callable[[], bool]) -> dict[str, list[float]]:
    """Call ``offer`` every 10 ms; return how long each call took, and how late it ended."""
    took, late = [], []
    start = time.perf_counter()
    tick = 0
    while not done() and time.perf_counter() - start < PATIENCE_S:
        tick += 1
        due = start + tick * EVERY_S
        time.sleep(max(0.0, due - time.perf_counter()))
        begun = time.perf_counter()
        offer()
        ended = time.perf_counter()
        took.append(ended - begun)
        late.append(ended - due)
        tick = max(tick, int((ended - start) / EVERY_S))
    return {"took": took, "late": late}


def control(folder: Path) -> dict[str, object]:
    """Do nothing every 10 ms until the node is done."""
    return {**loop(lambda: None, (folder / "done").exists)}


def node(folder: Path, versions: int) -> dict[str, object]:
    """Shed a batch every 10 ms until the last version is in force."""
    from planning.artifacts import TrustedKeys
    from planning.runtime import FeedForwardThrottle, PlanClient, RunningShedder

    batch = pickle.loads((folder / "batch").read_bytes())
    rows = len(next(iter(batch.values())))
    client = PlanClient(
        folder / "plans", "bench", trusted=TrustedKeys.load(folder / "keys"), node="bench",
        poll_interval_s=0.02,
    )  # fmt: skip
    shedder = RunningShedder(client, FeedForwardThrottle(0.5 * rows / EVERY_S))
    begun = time.perf_counter()
    in_force: list[float] = []

    def offer() -> None:
        shedder.offer(batch)
        if shedder.version and not in_force:
            in_force.append(time.perf_counter() - begun)

    with client:
        measured = loop(offer, lambda: shedder.version >= versions)
    counters = shedder.snapshot()
    return {**measured, "first_plan_s": in_force, "counters": counters}


if __name__ == "__main__":
    kind, place, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    result = control(place) if kind == "control" else node(place, count)
    (place / kind).write_text(json.dumps(result))
