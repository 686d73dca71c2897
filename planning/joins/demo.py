"""Generated samples for the demo pair of streams: the workload of Section 6.1, with types."""

from __future__ import annotations

from typing import Any

import numpy as np
from upath import UPath

from planning.demos import land_batch
from planning.joins.layout import NO_ITEM, Layout
from planning.joins.workload import Workload

SCENARIO = 11
DURATION_S = 60.0
RATE_PER_S = 100.0
BAD_EVERY = 3_000


def land(folder: UPath, batch: int, definition: Any) -> UPath:
    """Write one Parquet file of sampled tuples to the landing folder; some are bad on purpose."""
    return land_batch(folder, batch, rows(batch, definition))


def rows(batch: int, definition: Any) -> dict[str, Any]:
    """Return one minute of both streams as columns; batches follow one another in time."""
    layout = Layout.of(definition)
    rng = np.random.default_rng([SCENARIO, batch])
    types = len(layout.types)
    workload = Workload(
        vocabulary=_vocabulary(definition),
        skew=0.8,
        type_frequencies=tuple(float(2**z) for z in range(types)),
    )
    parts = workload.pair(DURATION_S, RATE_PER_S, rng)
    width = len(layout.items)
    items, times, kinds, streams = [], [], [], []
    for which, part in enumerate(parts):
        table = np.full((len(part), width), NO_ITEM, dtype=np.int64)
        sizes = np.minimum(np.diff(part.first), width)
        for k in range(width):
            has = sizes > k
            table[has, k] = part.items[part.first[:-1][has] + k]
        items.append(table)
        times.append(part.time + batch * DURATION_S)
        kinds.append(part.kind)
        streams.append(np.full(len(part), which))
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")
    time = time[order]
    time[BAD_EVERY // 2 :: BAD_EVERY] = np.nan
    table = np.concatenate(items)[order]
    table[BAD_EVERY // 3 :: BAD_EVERY, 0] = 10 * workload.vocabulary
    columns: dict[str, Any] = {
        layout.stream: np.array(layout.streams)[np.concatenate(streams)[order]].tolist(),
        layout.time: time,
    }
    if layout.type:
        columns[layout.type] = np.array(layout.types)[np.concatenate(kinds)[order]].tolist()
    return columns | {name: table[:, k] for k, name in enumerate(layout.items)}


def _vocabulary(definition: Any) -> int:
    items = set(definition.parameters.items)
    return 1 + int(max(a.bounds[1] for a in definition.attributes if a.name in items))
