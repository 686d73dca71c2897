"""Generated samples for the demo stream: sensors that report in a fixed cycle.

Twelve machines report in turn. Some readings creep, some jump, one is noise, and the state of a
machine rarely changes; so what is worth sending differs from attribute to attribute. A few tuples
are lost, and a few readings are out of their domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from upath import UPath

from planning.arrays import FloatArray, IntArray
from planning.demos import land_batch

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition

SCENARIO = 11
CYCLES = 1500
MACHINES = 12
BLOCK_CYCLES = 50
LOST = 0.002
BAD_EVERY = 3_000
STATES = np.array(["idle", "running", "service"])


def land(folder: UPath, batch: int, definition: Definition[Parameters]) -> UPath:
    """Write one Parquet file of reports to the landing folder."""
    columns = reports(batch)
    names = [n for n in definition.attribute_names if n in columns]
    return land_batch(folder, batch, {name: columns[name] for name in names})


def reports(batch: int, cycles: int = CYCLES) -> dict[str, Any]:
    """Return one batch as columns, in stream order."""
    rng = np.random.default_rng([SCENARIO, batch])
    rows = cycles * MACHINES
    shape = (cycles, MACHINES)
    # A batch is a separate week, so levels may start anywhere.
    temperature = 60 + 8 * rng.standard_normal(MACHINES) + _walk(rng, shape, 0.15, 0.995)
    states = STATES[_jumps(rng, shape, 0.01, len(STATES))]
    columns: dict[str, Any] = {
        "sequence": batch * rows + np.arange(rows),
        "block": (batch * cycles + np.arange(rows) // MACHINES) // BLOCK_CYCLES,
        "machine": np.array([f"m{k:02d}" for k in range(MACHINES)])[np.arange(rows) % MACHINES],
        "temperature": np.round(temperature, 2).ravel(),
        "pressure": np.round(5 + _walk(rng, shape, 0.004, 0.999), 3).ravel(),
        "humidity": np.round(40 + _walk(rng, shape, 0.3, 0.99), 1).ravel(),
        "vibration": np.round(np.abs(rng.standard_normal(shape)) * 2, 3).ravel(),
        "power": np.round(20 + 5 * _jumps(rng, shape, 0.05, 8), 1).ravel(),
        "speed": np.round(1500 + _walk(rng, shape, 8.0, 0.9)).ravel(),
        "state": states.ravel(),
    }
    columns["vibration"][BAD_EVERY // 2 :: BAD_EVERY] = 1e6
    kept = rng.random(rows) >= LOST
    return {name: column[kept] for name, column in columns.items()}


def _walk(
    rng: np.random.Generator, shape: tuple[int, int], step: float, pull: float
) -> FloatArray:
    """Return values that wander and are pulled back to 0."""
    walk = np.zeros(shape)
    noise = rng.standard_normal(shape) * step
    walk[0] = noise[0] / np.sqrt(1 - pull**2)
    for c in range(1, shape[0]):
        walk[c] = pull * walk[c - 1] + noise[c]
    return walk


def _jumps(
    rng: np.random.Generator, shape: tuple[int, int], rate: float, levels: int
) -> IntArray:
    """Return levels that stay put and occasionally jump."""
    jump = rng.random(shape) < rate
    jump[0] = True
    last = np.maximum.accumulate(np.where(jump, np.arange(shape[0])[:, None], 0), axis=0)
    drawn = rng.integers(0, levels, shape)
    return np.take_along_axis(drawn, last, axis=0)
