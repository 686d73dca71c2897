"""Guarantees in words, and which plans keep them."""

from __future__ import annotations

import pytest

from planning import families
from planning.examples import demo_plan
from planning.guarantees import NOWHERE, Guarantee, Guarantees


@pytest.mark.parametrize(
    ("holds_from", "said"),
    [
        (0.0, "query alerts: min_completeness 0.95 down to load 0"),
        (0.21349, "query alerts: min_completeness 0.95 down to load 0.213"),
        (1.0, "query alerts: min_completeness 0.95 down to load 1"),
        (NOWHERE, "query alerts: min_completeness 0.95 at no load"),
    ],
)
def test_a_guarantee_says_down_to_where_it_holds(holds_from: float, said: str) -> None:
    assert str(Guarantee("query alerts", "min_completeness", 0.95, 1, holds_from)) == said


@pytest.mark.parametrize("family", families.NAMES)
def test_the_demo_s_plan_says_what_it_keeps_in_one_form(family: str) -> None:
    plan = demo_plan(family)
    if not isinstance(plan, Guarantees):
        return
    kept = plan.kept(0.5)
    assert len(kept) == len(plan.guarantees)
    priorities = [one.priority for one in plan.guarantees]
    assert priorities == sorted(priorities, reverse=True)


def test_what_keeps_none_is_told_apart() -> None:
    class Bare:
        def kept(self, load: float) -> tuple[float, ...]:
            return ()

    class Keeps(Bare):
        guarantees = (Guarantee("x", "min_share", 0.5, 0, 0.25),)

    assert not isinstance(Bare(), Guarantees)
    assert isinstance(Keeps(), Guarantees)
