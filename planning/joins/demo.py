"""Generated samples for the demo pair of streams: the workload of Section 6.1, with types.

Sets hold Zipf-distributed items whose ranks rotate with time, so that matches depend on the time
between two tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from upath import UPath

from planning.arrays import FloatArray, IntArray
from planning.demos import land_batch
from planning.families import Definition
from planning.joins.layout import Layout, vocabulary
from planning.joins.model import Tuples, merge
from planning.joins.parameters import Parameters

SCENARIO = 11
DURATION_S, RATE_PER_S = 60.0, 100.0
BAD_EVERY = 3_000
CHUNK = 4096


def land(folder: UPath, batch: int, definition: Definition[Parameters]) -> UPath:
    """Write one Parquet file of sampled tuples to the landing folder; some are bad on purpose."""
    return land_batch(folder, batch, rows(batch, definition))


def rows(batch: int, definition: Definition[Parameters]) -> dict[str, Any]:
    """Return one minute of both streams as columns; batches follow one another in time."""
    layout = Layout.of(definition)
    rng = np.random.default_rng([SCENARIO, batch])
    workload = Workload(
        vocabulary=vocabulary(definition) or 100,
        skew=0.8,
        type_frequencies=tuple(float(2**z) for z in range(len(layout.types))),
    )
    stream, _, both = merge(
        *(
            replace(part, time=part.time + batch * DURATION_S)
            for part in workload.pair(DURATION_S, RATE_PER_S, rng)
        )
    )
    columns = layout.rows(stream, both)
    columns[layout.items[0]][BAD_EVERY // 3 :: BAD_EVERY] = 10 * workload.vocabulary
    columns[layout.time][BAD_EVERY // 2 :: BAD_EVERY] = np.nan
    return {n: c.tolist() if c.dtype.kind == "U" else c for n, c in columns.items()}


@dataclass(frozen=True, slots=True)
class Workload:
    """Two correlated streams.

    At time T the most popular item is a = floor(L * (T mod cycle) / cycle), the next a + 1, and so
    on, modulo L; stream 1 lags by ``shift_s``. Items are numbered from 0.
    """

    vocabulary: int = 100  # L
    mean_items: float = 5.0  # mu
    items_deviation: float = 1.0  # sigma
    skew: float = 0.6  # kappa
    cycle_s: float = 40.0  # varsigma
    shift_s: float = 25.0  # tau
    type_frequencies: tuple[float, ...] = (1.0,)  # omega_{i,z}

    def stream(
        self, which: int, duration_s: float, rate_per_s: float, rng: np.random.Generator
    ) -> Tuples:
        """Generate one of the two streams (0 or 1) from second 0 to ``duration_s``."""
        time = self.arrivals(duration_s, rate_per_s, rng)
        sizes = np.rint(rng.normal(self.mean_items, self.items_deviation, time.size))
        sizes = np.clip(sizes, 1, self.vocabulary).astype(np.int64)
        cycle = np.mod(time - which * self.shift_s, self.cycle_s) / self.cycle_s
        popular = np.floor(self.vocabulary * cycle).astype(np.int64)
        ranks = self.ranks(sizes, rng)
        first = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        rows = np.repeat(np.arange(time.size), sizes)
        items = (ranks + popular[rows]) % self.vocabulary
        items = items[np.lexsort((items, rows))]
        omega = np.asarray(self.type_frequencies) / sum(self.type_frequencies)
        kind = rng.choice(omega.size, size=time.size, p=omega).astype(np.int64)
        return Tuples(time, first, items, np.ones(items.size), kind)

    def pair(
        self, duration_s: float, rate_per_s: float, rng: np.random.Generator
    ) -> tuple[Tuples, Tuples]:
        """Generate both streams.

        >>> a, b = Workload().pair(10, 50, np.random.default_rng(1))
        >>> len(a), len(b), bool(np.all(np.diff(a.time) >= 0))
        (500, 500, True)
        """
        return (
            self.stream(0, duration_s, rate_per_s, rng),
            self.stream(1, duration_s, rate_per_s, rng),
        )

    def arrivals(
        self, duration_s: float, rate_per_s: float, rng: np.random.Generator
    ) -> FloatArray:
        """Arrival times: one tuple at a random instant of each slot of length 1 / rate."""
        number = round(duration_s * rate_per_s)
        return (np.arange(number) + rng.random(number)) / rate_per_s

    def ranks(self, sizes: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw distinct ranks per tuple with Zipf odds: the largest perturbed log-odds win."""
        log_odds = -self.skew * np.log(np.arange(1, self.vocabulary + 1))
        parts = []
        most = int(sizes.max()) if sizes.size else 0
        for low in range(0, sizes.size, CHUNK):
            part = sizes[low : low + CHUNK]
            noise = rng.random((part.size, self.vocabulary), dtype=np.float32)
            keys = log_odds.astype(np.float32) - np.log(-np.log(np.maximum(noise, 1e-30)))
            if most < self.vocabulary:
                best = np.argpartition(-keys, most, axis=1)[:, :most]
            else:
                best = np.tile(np.arange(self.vocabulary), (part.size, 1))
            order = np.argsort(-np.take_along_axis(keys, best, axis=1), axis=1, kind="stable")
            best = np.take_along_axis(best, order, axis=1)
            parts.append(best[np.arange(most)[None, :] < part[:, None]])
        return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)
