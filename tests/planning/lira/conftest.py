"""Small worlds that several test modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def curve() -> Any:
    from planning.lira.reduction import ReductionCurve

    d = 5.0 + np.arange(96)
    return ReductionCurve.of(d, (5.0 / d) ** 0.55)


@pytest.fixture(scope="session")
def scene() -> Any:
    """A thousand cars for twenty minutes on a small map: enough to see every effect."""
    from planning.lira.scene import Scene

    return Scene(3, cars=1500, seconds=1200, warm_up=120)
