"""Random days of a node: loads that jump, jitter and rest at 1, batches of any size, swaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from planning.arrays import BoolArray, Columns, FloatArray
from planning.rehearsal import Rehearsal

SIZES = (1, 7, 50, 100, 500, 2_000, 20_000)


class Step(NamedTuple):
    """One batch: its rows, its load, and whether another plan comes into force before it."""

    start: int
    stop: int
    load: float
    swap: bool


class Day(NamedTuple):
    """What passed of a stream, and what the load was at every row."""

    keep: BoolArray
    load: FloatArray
    node: Rehearsal


def steps(seed: int, rows: int, *, most_steps: int = 400) -> Iterator[Step]:
    """Yield the batches of a random day; the first days of a hundred seeds differ in kind."""
    rng = np.random.default_rng(seed)
    start = count = 0
    while start < rows:
        kind = rng.choice(["flat", "jitter", "one", "jumps"])
        base, size = float(rng.uniform(0.05, 0.95)), int(rng.choice(SIZES))
        spell = start + int(rng.integers(1, max(rows // 4, 2)))
        while start < min(spell, rows):
            if count >= most_steps:
                size = rows
            load = {
                "flat": base,
                "jitter": min(1.0, base * float(rng.uniform(0.98, 1.02))),
                "one": 1.0,
                "jumps": float(rng.uniform(0.05, 1.0)),
            }[str(kind)]
            stop = min(start + size, rows)
            yield Step(start, stop, load, bool(rng.random() < 0.02))
            start, count = stop, count + 1


def live(
    plans: Sequence[Any], family: str, columns: Columns, seed: int, **options: Any
) -> Day:
    """Let a node live through a random day; swaps go round the plans."""
    rows = len(next(iter(columns.values())))
    node, turn = Rehearsal(plans[0], family, options=options), 0
    masks, loads = [], np.empty(rows)
    for step in steps(seed, rows):
        if step.swap:
            turn += 1
            node.put(plans[turn % len(plans)])
        batch = {name: values[step.start : step.stop] for name, values in columns.items()}
        masks.append(node.offer(batch, step.load))
        loads[step.start : step.stop] = step.load
    return Day(np.concatenate(masks), loads, node)
