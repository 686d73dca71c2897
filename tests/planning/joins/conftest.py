"""Streams, definitions and real data for the tests of the joins family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.joins.definitions import pair_definition
from planning.families import Definition
from planning.joins import planner
from planning.joins.model import Condition, Tuples, Windows, tuples
from planning.joins.parameters import Parameters
from planning.joins.plan import Plan
from planning.joins.statistics import Statistics
from planning.streams import StreamDefinition, parse

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


def news_definition(**parameters: Any) -> Definition[Parameters]:
    """Return a stream definition: two feeds with typed keyword sets."""
    given: dict[str, Any] = {
        "stream": "agency",
        "type": "urgency",
        "items": KEYWORDS,
        "condition": "overlap",
        "threshold": 3,
        "utilities": (1.0, 0.5, 0.25),
    }
    document = {
        "stream": "news",
        "family": "joins",
        "attributes": [
            {"name": "agency", "type": "category", "values": ["first", "second"]},
            {"name": "time_s", "domain": [0, 1e12]},
            {"name": "urgency", "type": "category", "values": ["flash", "bulletin", "report"]},
            *({"name": name, "type": "int", "domain": [-1, 99]} for name in KEYWORDS),
        ],
        "parameters": given | parameters,
    }
    return parse(document, "news").of(Parameters)


Case = tuple[Statistics, Definition[Parameters]]


def random_case(seed: int, types: int = 3, sizes: tuple[int, ...] = ()) -> Case:
    """Return random counts over windows of different lengths, and what they are counts of."""
    rng = np.random.default_rng(seed)
    windows = Windows((float(rng.integers(2, 8)), float(rng.integers(2, 8))), 1.0, 0.25)
    n, classes = windows.most, types * (len(sizes) + 1)
    present = windows.extents_s > 0
    hits = rng.poisson(3, (2, n, classes, classes)) * present[:, :, None, None]
    made = rng.integers(50, 500, (2, n, classes)) * present[:, :, None]
    counts = rng.integers(1, 50, (2, classes))
    names = tuple(f"t{z}" for z in range(classes))
    definition = pair_definition(
        windows,
        Condition("overlap", 3),
        vocabulary=100,
        utilities=rng.random(types).tolist(),
        sizes=sizes,
    )
    return Statistics(windows, names, hits, made, counts, 60.0), definition


def random_plan(seed: int, types: int = 3, sizes: tuple[int, ...] = ()) -> Plan:
    """Return a plan of random counts, for windows of different lengths."""
    return planner.plan(*random_case(seed, types, sizes))


def asking(definition: Definition[Parameters], **parameters: Any) -> Definition[Parameters]:
    """Return a definition with other parameters."""
    document = cast(StreamDefinition, definition).model_dump(mode="json")
    document["parameters"] |= parameters
    return parse(document, definition.stream).of(Parameters)


def random_guarantees(seed: int, types: int, streams: tuple[str, str]) -> dict[str, Any]:
    """Return parameters that ask for something of the join, of types and of windows."""
    rng = np.random.default_rng([seed, 1])

    def share() -> dict[str, Any]:
        return {"min_share": float(rng.uniform(0.01, 1)), "priority": int(rng.integers(-1, 2))}

    asked: dict[str, Any] = share() if rng.random() < 0.5 else {}
    asked["types"] = {f"type {z}": share() for z in range(types) if rng.random() < 0.7}
    asked["window_of"] = {name: share() for name in streams if rng.random() < 0.4}
    if types == 1:
        asked["types"] = {}
    return asked if any(asked.values()) else share()


@pytest.fixture(scope="session")
def case_of() -> Callable[..., Case]:
    """Return the maker of random counts."""
    return random_case


@pytest.fixture(scope="session")
def guaranteed_case() -> Callable[[int], Case]:
    """Return the maker of random counts with guarantees: as measured, so that they are exact."""

    def made(seed: int, **parameters: Any) -> Case:
        types = 1 + seed % 3
        statistics, definition = random_case(seed, types, (2,) if seed % 5 == 0 else ())
        asked = random_guarantees(seed, types, ("0", "1"))
        return statistics, asking(definition, **{"prior_hits": 0.0} | asked | parameters)

    return made


@pytest.fixture(scope="session")
def asking_for() -> Callable[..., Definition[Parameters]]:
    """Return the function that changes the parameters of a definition."""
    return asking


@pytest.fixture(scope="session")
def plan_of() -> Callable[..., Plan]:
    """Return the maker of random plans."""
    return random_plan


@pytest.fixture(scope="session")
def news() -> Callable[..., Definition[Parameters]]:
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
