"""A small scene that several test modules share."""

from __future__ import annotations

import pytest

from benchmarks.lira.scene import Scene


@pytest.fixture(scope="session")
def scene() -> Scene:
    """Fifteen hundred cars for twenty minutes on a small map: enough to see every effect."""
    return Scene(3, cars=1500, seconds=1200, warm_up=120)
