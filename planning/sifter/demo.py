"""Generated samples and queries for the demo stream.

Tuples and queries come from the paper's workload generator, stretched to the stream's domain, so
that a demo shows what a sifter is good for: data and queries crowd in different places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from upath import UPath

from planning.arrays import FloatArray
from planning.demos import land_batch
from planning.sifter.workload import Settings, Workload

SCENARIO = 7  # hot spots and queries are the same in every batch
ROWS = 20_000
BAD_EVERY = 2_500


def land(folder: UPath, batch: int, definition: Any) -> UPath:
    """Write one Parquet file of tuples to the landing folder; some rows are bad on purpose."""
    return land_batch(folder, batch, tuples(batch, definition))


def tuples(batch: int, definition: Any, rows: int = ROWS) -> dict[str, Any]:
    """Return one batch as columns; every 2,500th row is out of domain or not a number."""
    attributes = definition.attributes
    workload = _workload(definition)
    workload.rng = np.random.default_rng([SCENARIO, batch])
    points = workload.tuples(rows)
    columns: dict[str, Any] = {}
    for axis, attribute in enumerate(attributes):
        low, high = attribute.bounds
        values = low + points[:, axis] * (high - low)
        if attribute.type == "category":
            names = np.array(attribute.values)
            columns[attribute.name] = names[values.astype(np.int64)].tolist()
        elif attribute.type == "int":
            columns[attribute.name] = np.floor(values).astype(np.int64)
        else:
            columns[attribute.name] = _spoiled(values, high, axis)
    return columns


def _spoiled(values: FloatArray, high: float, axis: int) -> FloatArray:
    values = values.copy()
    bad = np.arange(BAD_EVERY // 2 + 31 * axis, len(values), BAD_EVERY)
    values[bad[::2]] = np.nan
    values[bad[1::2]] = high * 10 + 1
    return values


def queries(definition: Any, count: int = 1000) -> list[dict[str, Any]]:
    """Return generated queries as they are written to a queries file."""
    workload = _workload(definition, count)
    asked = workload.queries
    entries = []
    for low, high, slope in zip(asked.low, asked.high, asked.slope, strict=True):
        ranges = {}
        for axis, attribute in enumerate(definition.attributes):
            first, last = attribute.bounds
            ends = (first + low[axis] * (last - first), first + high[axis] * (last - first))
            ranges[attribute.name] = [round(float(end), 6) for end in ends]
        entries.append({"ranges": ranges, "weight": 1.0, "qos_slope": round(float(slope), 6)})
    return entries


def _workload(definition: Any, queries: int = 1000) -> Workload:
    settings = Settings(
        data="SKEW",
        query="SKEW",
        dimensions=len(definition.attributes),
        queries=queries,
        side=(0.01, 0.03),
        slope=(0.5, 1.0),
    )
    return Workload(settings, SCENARIO)
