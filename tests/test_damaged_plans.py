"""A plan's document with one value spoilt is refused clearly, or is a plan that still works."""

from __future__ import annotations

import copy
import math
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


@pytest.mark.parametrize("name", families.NAMES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 1e308 overflows, as it should
def test_a_spoilt_value_is_refused_or_harmless(name: str) -> None:
    family = families.family(name)
    read, shedder = family.room("plan").Plan.from_document, family.room("shedder").Shedder
    batch = {column: values[:50] for column, values in demo_samples(name).items()}
    document = demo_plan(name).to_document()
    refused = 0
    for path, given in places(document):
        shorter = (given[:-1], [*given, given[0]]) if isinstance(given, list) and given else ()
        for value in (*WRONG, *shorter):
            changed = spoilt(document, path, value)
            try:
                plan = read(changed)
                plan.at(0.5), plan.predicted_quality(0.5), plan.summary(), plan.to_bytes()
                assert np.asarray(shedder(plan, 0.5).offer(batch)).shape[0] == 50
            except PlanningError:
                refused += 1
            except Exception as error:
                pytest.fail(f"{path} = {value!r}: {type(error).__name__}: {error}")
    assert refused > 100
