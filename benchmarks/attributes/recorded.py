"""The real stream: hourly readings of twelve stations, as one stream or as three on one channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import datasets
from planning.streams import StreamDefinition, parse

FILE = "attributes/beijing_air_weather_hourly.parquet"
STATION_NAMES = (
    "Aotizhongxin", "Changping", "Dingling", "Dongsi", "Guanyuan", "Gucheng", "Huairou",
    "Nongzhanguan", "Shunyi", "Tiantan", "Wanliu", "Wanshouxigong",
)  # fmt: skip
WINDS = (
    "N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW",
    "NNW",
)  # fmt: skip
STATIONS = len(STATION_NAMES)
CYCLES = 35_064
AIR = ("pm25_ugm3", "pm10_ugm3", "so2_ugm3", "no2_ugm3", "co_ugm3", "o3_ugm3")
CLIMATE = ("temperature_c", "pressure_hpa", "dew_point_c")
STORM = ("rain_mm", "wind_speed_mps")
NUMBERS = (*AIR, *CLIMATE, *STORM)
NAMES = ("station", *NUMBERS, "wind_direction")
CHANNEL = {"air": AIR, "climate": CLIMATE, "storm": STORM}


CATEGORIES = {"station": STATION_NAMES, "wind_direction": WINDS, "stream": tuple(CHANNEL)}
NUMBER_BYTES = 4


def definition(**parameters: Any) -> StreamDefinition:
    """Return the stream's definition: readings of 4 bytes, categories of 1."""
    return _definition("weather", NAMES, parameters)


def channel_definition(**parameters: Any) -> StreamDefinition:
    """Return the definition of the three streams together."""
    names = ("stream", "station", *(n for group in CHANNEL.values() for n in group))
    return _definition("channel", names, {"stream_attribute": "stream", **parameters})


def _definition(
    stream: str, names: tuple[str, ...], parameters: Mapping[str, Any]
) -> StreamDefinition:
    attributes = [
        {"name": name, "type": "category", "values": list(CATEGORIES[name])}
        if name in CATEGORIES
        else {"name": name, "domain": [-1e6, 1e6]}
        for name in names
    ]
    document = {
        "stream": stream,
        "family": "attributes",
        "attributes": attributes,
        "parameters": {"number_bytes": NUMBER_BYTES, **parameters},
    }
    return parse(document, "benchmarks/attributes/recorded.py")


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

