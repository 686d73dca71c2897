"""The real stream: hourly readings of twelve stations, as one stream or as three on one channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import datasets
from planning.attributes.statistics import Schema

FILE = "attributes/beijing_air_weather_hourly.parquet"
STATIONS = 12
CYCLES = 35_064
AIR = ("pm25_ugm3", "pm10_ugm3", "so2_ugm3", "no2_ugm3", "co_ugm3", "o3_ugm3")
CLIMATE = ("temperature_c", "pressure_hpa", "dew_point_c")
STORM = ("rain_mm", "wind_speed_mps")
NUMBERS = (*AIR, *CLIMATE, *STORM)
NAMES = ("station", *NUMBERS, "wind_direction")
CHANNEL = {"air": AIR, "climate": CLIMATE, "storm": STORM}


def schema() -> Schema:
    """Return the stream's schema: readings of 4 bytes, categories of 1."""
    kinds = ("category", *("number" for _ in NUMBERS), "category")
    return Schema(NAMES, kinds, tuple(4 if kind == "number" else 1 for kind in kinds))


def load(first_cycle: int = 0, cycles: int = CYCLES) -> dict[str, Any]:
    """Return some cycles of the stream as NumPy columns, categories as text."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(datasets.find(FILE), columns=list(NAMES))
    part = table.slice(first_cycle * STATIONS, cycles * STATIONS)
    columns: dict[str, Any] = {}
    for name in NAMES:
        column = part.column(name)
        if name in NUMBERS:
            columns[name] = column.to_numpy().astype(np.float64)
        else:
            columns[name] = np.array(column.to_pylist(), dtype=object)
    return columns


def multiplexed(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the readings as three streams that share one channel, one cycle after the other."""
    cycles = len(columns["station"]) // STATIONS
    streams = len(CHANNEL)
    shape = (cycles, streams, STATIONS)
    mixed: dict[str, Any] = {
        "stream": np.tile(np.repeat(list(CHANNEL), STATIONS), cycles),
        "station": np.tile(columns["station"][:STATIONS].astype(str), cycles * streams),
    }
    for place, names in enumerate(CHANNEL.values()):
        for name in names:
            column = np.full(shape, np.nan)
            column[:, place, :] = columns[name].reshape(cycles, STATIONS)
            mixed[name] = column.ravel()
    return mixed


def channel_schema() -> Schema:
    """Return the schema of the three streams together."""
    names = ("stream", "station", *(n for group in CHANNEL.values() for n in group))
    kinds = ("category", "category", *("number" for _ in NUMBERS))
    return Schema(names, kinds, tuple(4 if kind == "number" else 1 for kind in kinds))
