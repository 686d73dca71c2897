"""Contradictory parameters are refused with what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planning.errors import DefinitionError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window_s": (0, 5)}, "window_s"),
        ({"basic_window_s": -1}, "basic_window_s"),
        ({"threshold": 2.5}, "whole number"),
        ({"weights": ("w",)}, "one per item"),
        ({"utilities": (1.0, -1.0, 2.0)}, "not negative"),
        ({"size_bounds": (3, 3)}, "rise"),
        ({"size_bounds": (-1,)}, "rise"),
        ({"items": ("keyword_0", "keyword_0")}, "distinct"),
        ({"load": 0.0}, "load"),
        ({"colour": "red"}, "colour"),
        ({"stream": "urgency"}, "two values"),
        ({"stream": "nothing"}, "among the attributes"),
        ({"type": "time_s"}, "category whose values"),
        ({"utilities": (1.0,)}, "utilities must be one per type"),
        ({"items": ("time_s",), "threshold": 1}, "must be an int"),
        ({"items": ("keyword_0",), "threshold": 2}, "threshold must be at most 1"),
    ],
)
def test_contradictions_are_refused(
    news: Callable[..., Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        news(**given)


def test_every_parameter_explains_itself(news: Callable[..., Any]) -> None:
    fields = type(news().parameters).model_fields
    assert all(field.description for field in fields.values())


def test_sets_without_types_are_cut_by_size_unless_told_otherwise(news: Callable[..., Any]) -> None:
    untyped = {"type": None, "utilities": ()}
    assert news(**untyped).parameters.sizes == (2, 3, 4, 5, 6, 7, 8, 9)
    assert news(**untyped, size_bounds=()).parameters.sizes == ()
    assert news(**untyped, size_bounds=(4,)).parameters.sizes == (4,)
    assert news(**untyped, items=("keyword_0",), threshold=1).parameters.sizes == ()
    two = news(**untyped, items=("keyword_0", "keyword_1"), threshold=2)
    assert two.parameters.sizes == ()
    assert news().parameters.sizes == ()
