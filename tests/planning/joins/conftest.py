"""Streams, definitions and real data for the tests of the joins family."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planning.joins.model import Condition, Tuples, Windows, tuples
from planning.joins.parameters import Parameters
from planning.sections import Attribute, Gate, Validity

KEYWORDS = tuple(f"keyword_{k}" for k in range(10))


def random_stream(
    rng: np.random.Generator, size: int, vocabulary: int, most: int, span: float, ties: bool
) -> Tuples:
    """Return sets of 0 to ``most`` items with weights, at sorted times, many of them equal."""
    times = np.sort(rng.uniform(0, span, size))
    times = np.round(times * 2) / 2 if ties else times
    sets = [
        {int(a): float(np.round(rng.uniform(0.1, 1), 1)) for a in rng.integers(0, vocabulary, k)}
        for k in rng.integers(0, most + 1, size)
    ]
    return tuples(times, sets, kind=rng.integers(0, 3, size))


def news_definition(**parameters: Any) -> Any:
    """Return what the family reads of a stream definition: two feeds with typed keyword sets."""
    attributes = (
        Attribute(name="agency", type="category", values=("first", "second")),
        Attribute(name="time_s", type="float", domain=(0, 1e12)),
        Attribute(name="urgency", type="category", values=("flash", "bulletin", "report")),
        *(Attribute(name=name, type="int", domain=(-1, 99)) for name in KEYWORDS),
    )
    given: dict[str, Any] = {
        "stream": "agency",
        "type": "urgency",
        "items": KEYWORDS,
        "condition": "overlap",
        "threshold": 3,
        "utilities": (1.0, 0.5, 0.25),
    }
    definition = SimpleNamespace(
        stream="news",
        family="joins",
        attributes=attributes,
        parameters=Parameters(**(given | parameters)),
        gate=Gate(),
        validity=Validity(),
    )
    definition.parameters.check_definition(definition)
    return definition


@pytest.fixture(scope="session")
def news() -> Callable[..., Any]:
    """Return a function that gives the definition of the news pair."""
    return news_definition


@pytest.fixture(scope="session")
def stream_of() -> Callable[..., Tuples]:
    """Return the maker of random streams."""
    return random_stream


@pytest.fixture(scope="session")
def usual() -> tuple[Windows, Condition]:
    """Return the windows and the condition of Section 6.4."""
    return Windows((20.0, 20.0), 1.0), Condition("overlap", 3)
