"""Streams of every shape, and the real weather, ready to plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def weather(shared_data: Path) -> dict[str, Any]:
    """Return the real hourly stream, as Arrow columns."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(shared_data / "attributes" / "beijing_air_weather_hourly.parquet")
    left_out = ("tick", "timestamp", "station_order")
    return {n: table.column(n) for n in table.column_names if n not in left_out}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20070701)
