"""Small worlds that several test modules share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planning.streams import StreamDefinition, parse

COLUMNS = ("object_id", "time", "x", "y", "speed")
QUERIES = [(500, 500, 1100, 1000), (1900, 1700, 2500, 2300), (300, 2200, 700, 2600)]


@pytest.fixture(scope="session")
def curve() -> Any:
    from planning.lira.model import ReductionCurve

    d = 5.0 + np.arange(96)
    return ReductionCurve.of(d, (5.0 / d) ** 0.55)


@pytest.fixture(scope="session")
def scene() -> Any:
    """Fifteen hundred cars for twenty minutes on a small map: enough to see every effect."""
    from benchmarks.lira.scene import Scene

    return Scene(3, cars=1500, seconds=1200, warm_up=120)


@pytest.fixture(scope="session")
def define() -> Callable[..., StreamDefinition]:
    """Make definitions of a small stream; three queries unless others are given."""

    def made(
        queries: Any = tuple(QUERIES), file: Path | None = None, **parameters: Any
    ) -> StreamDefinition:
        inline = [{"ranges": {"x": [a, c], "y": [b, d]}} for a, b, c, d in queries]
        document = {
            "stream": "cars",
            "family": "lira",
            "attributes": [{"name": n, "domain": [0, 3000 if n in "xy" else 1e6]} for n in COLUMNS],
            "queries": {"inline": inline, "file": file and file.name},
            "parameters": {"regions": 40, "cells": 32, **parameters},
        }
        return parse(document, str(file.with_name("cars.yaml") if file else "cars.yaml"))

    return made


@pytest.fixture(scope="session")
def samples() -> dict[str, np.ndarray]:
    """Return the tracks of 150 cars in that stream's space, by object."""
    from benchmarks.lira.trace import generate_trace

    trace = generate_trace(11, cars=150, seconds=400, side_m=3000)
    nodes, ticks, _ = trace.positions.shape
    flat = trace.positions.astype(np.float64)
    speed = np.hypot(*np.diff(flat, axis=1, prepend=flat[:, :1]).transpose(2, 0, 1))
    return {
        "object_id": np.repeat(np.arange(nodes, dtype=float), ticks),
        "time": np.tile(np.arange(ticks, dtype=float), nodes),
        "x": flat[:, :, 0].ravel(),
        "y": flat[:, :, 1].ravel(),
        "speed": speed.ravel(),
    }


@pytest.fixture(scope="session")
def statistics(samples, define) -> Any:
    from planning.lira.statistics import build

    return build(samples, define())


@pytest.fixture(scope="session")
def plan(statistics, define) -> Any:
    """Return the plan of those tracks."""
    from planning.lira.planner import plan

    return plan(statistics, define())
