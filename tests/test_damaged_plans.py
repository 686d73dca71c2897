"""A plan with a value or a byte spoilt is refused clearly, or is a plan that still works."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from planning import families
from planning.errors import PlanningError
from planning.examples import demo_plan, demo_samples

GONE = object()
WRONG = (None, "x", -1, 10**9, 1e308, math.nan, [], {}, GONE)
Path = tuple[str | int, ...]


def places(document: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every field with its value; of lists, the first and the last item."""
    if path:
        yield path, document
    if isinstance(document, dict):
        keys: list[Any] = list(document)
    else:
        keys = sorted({0, len(document) - 1}) if isinstance(document, list) and document else []
    for key in keys:
        yield from places(document[key], (*path, key))


def spoilt(document: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    here: Any = changed
    for key in path[:-1]:
        here = here[key]
    if value is GONE:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return changed


def spoilt_documents(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, given in places(document):
        longer = (given[:-1], [*given, given[0]]) if isinstance(given, list) and given else ()
        for value in (*WRONG, *longer):
            yield f"{path} = {value!r}", spoilt(document, path, value)


def spoilt_payloads(payload: bytes) -> Iterator[tuple[str, bytes]]:
    for size in range(0, len(payload), max(1, len(payload) // 100)):
        yield f"{size} bytes", payload[:size]
    rng = random.Random(1)
    for seed in range(500):
        changed = bytearray(payload)
        for _ in range(rng.choice((1, 1, 2, 5))):
            reach = rng.choice((len(payload), min(200, len(payload))))
            changed[rng.randrange(reach)] = rng.randrange(256)
        yield f"seed {seed}", bytes(changed)


@pytest.mark.parametrize("name", families.NAMES)
@pytest.mark.parametrize("form", ["document", "bytes"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 1e308 overflows, as it should
def test_what_is_spoilt_is_refused_or_harmless(name: str, form: str) -> None:
    family = families.family(name)
    plan, shedder = family.room("plan").Plan, family.room("shedder").Shedder
    batch = {column: values[:50] for column, values in demo_samples(name).items()}
    if form == "document":
        read: Any = plan.from_document
        cases: Iterator[tuple[str, Any]] = spoilt_documents(demo_plan(name).to_document())
    else:
        read, cases = plan.from_bytes, spoilt_payloads(demo_plan(name).to_bytes())
    tried = refused = 0
    for what, given in cases:
        tried += 1
        try:
            decoded = read(given)
            decoded.at(0.5), decoded.predicted_quality(0.5), decoded.summary(), decoded.to_bytes()
            assert np.asarray(shedder(decoded, 0.5).offer(batch)).shape[0] == 50
        except PlanningError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{what}: {type(error).__name__}: {error}")
    assert refused > max(100, 0.3 * tried), f"only {refused} of {tried} spoilt plans were refused"
