"""Generated streams: entities reporting in a fixed cycle, with loss, doubling and corruption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planning.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong on the way: fractions of tuples lost, doubled, and corrupted."""

    lost: float = 0.0
    doubled: float = 0.0
    corrupted: float = 0.0

    def apply(
        self, columns: dict[str, NDArray[Any]], rng: np.random.Generator
    ) -> dict[str, NDArray[Any]]:
        """Return the columns after losing, doubling and corrupting tuples at random.

        A corrupted tuple has one attribute replaced by a value of another tuple.
        """
        rows = len(next(iter(columns.values())))
        copies = np.ones(rows, dtype=np.int64)
        copies[rng.random(rows) < self.lost] = 0
        copies[rng.random(rows) < self.doubled] *= 2
        index = np.repeat(np.arange(rows), copies)
        faulty = {name: column[index].copy() for name, column in columns.items()}
        names = list(faulty)
        hit = np.flatnonzero(rng.random(len(index)) < self.corrupted)
        which = rng.integers(len(names), size=len(hit))
        for j, name in enumerate(names):
            mine = hit[which == j]
            faulty[name][mine] = faulty[name][rng.integers(len(index), size=len(mine))]
        return faulty


def measurements(
    rng: np.random.Generator, cycles: int, entities: int, persistence: FloatArray
) -> FloatArray:
    """Return (cycles, entities, attributes) first-order autoregressive values of unit variance.

    ``persistence`` near 1 moves slowly, 0 is new at every report.
    """
    attributes = len(persistence)
    noise = rng.standard_normal((cycles, entities, attributes))
    values = np.empty_like(noise)
    values[0] = noise[0]
    spread = np.sqrt(1.0 - persistence**2)
    for c in range(1, cycles):
        values[c] = persistence * values[c - 1] + spread * noise[c]
    return values


def stream(
    rng: np.random.Generator,
    cycles: int = 200,
    lengths: tuple[int, ...] = (12,),
    persistence: tuple[float, ...] = (0.99, 0.9, 0.0),
    twins: int = 0,
    constants: int = 0,
) -> dict[str, NDArray[Any]]:
    """Return a stream whose key attributes cycle with ``lengths``; the rest are measurements.

    ``twins`` keys are one-to-one with the first key; ``constants`` never change.
    """
    length = int(np.lcm.reduce(np.array(lengths)))
    rows = cycles * length
    position = np.arange(rows)
    columns: dict[str, NDArray[Any]] = {}
    for k, size in enumerate(lengths):
        words = np.array([f"k{k}-{rng.integers(1 << 30):x}-{v}" for v in range(size)])
        columns[f"key{k}"] = words[rng.permutation(size)][position % size]
    for k in range(twins):
        columns[f"twin{k}"] = rng.permutation(lengths[0])[position % lengths[0]].astype(np.int64)
    for k in range(constants):
        columns[f"constant{k}"] = np.full(rows, float(rng.integers(100)))
    values = measurements(rng, cycles, length, np.array(persistence)).reshape(rows, -1)
    for j in range(len(persistence)):
        columns[f"value{j}"] = np.round(values[:, j] * 10.0, 2)
    return columns
