"""What the planner says about its plan is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planning.attributes import planner, program
from planning.attributes.plan import Plan
from planning.attributes.statistics import build
from planning.examples import demo_definition, demo_samples, demo_statistics
from planning.streams import StreamDefinition


def demo(**parameters: Any) -> StreamDefinition:
    return demo_definition("attributes").with_parameters(parameters)


@pytest.mark.parametrize("points", [8, 64, 4096])
@pytest.mark.parametrize("method", ["selection", "periods", "on_change"])
def test_a_plan_is_as_near_to_the_best_as_it_says(method: str, points: int) -> None:
    definition = demo(method=method, frontier_points=points)
    statistics = demo_statistics("attributes")
    plan = planner.plan(statistics, definition)
    status = planner.solver_status(plan, definition)
    within = 0.0 if status == "exact" else float(status.removeprefix("within "))
    assert plan.complete == (status == "exact")
    just_below = plan.ratio[np.linspace(1, len(plan.ratio) - 1, 5).astype(int)] - 1e-6
    for load in (*just_below.tolist(), 0.5):
        best = program.solve(statistics, definition, load)
        assert 1.0 - plan.predicted_quality(load) - best.loss <= within + 1e-9


@pytest.mark.parametrize(
    ("method", "points", "exact"),
    [("on_change", 256, False), ("on_change", 1024, True), ("periods", 100, False),
     ("periods", 256, True), ("selection", 8, False), ("selection", 64, True)],
)  # fmt: skip
def test_only_a_plan_that_holds_every_point_is_exact(
    method: str, points: int, exact: bool
) -> None:
    definition = demo(method=method, frontier_points=points)
    plan = planner.plan(demo_statistics("attributes"), definition)
    assert (planner.solver_status(plan, definition) == "exact") == exact


def test_a_plan_that_was_read_back_claims_no_more_than_its_points_show() -> None:
    definition = demo(method="periods")
    plan = planner.plan(demo_statistics("attributes"), definition)
    again = Plan.from_bytes(plan.to_bytes())
    assert planner.solver_status(again, definition).startswith("within ")


def test_the_papers_ranking_is_a_heuristic() -> None:
    definition = demo(method="paper")
    plan = planner.plan(demo_statistics("attributes"), definition)
    assert planner.solver_status(plan, definition) == "heuristic"


def test_what_was_rounded_or_pooled_is_a_heuristic() -> None:
    definition = demo(sizes={"sequence": 0, "block": 0, "temperature": 999_983, "humidity": 7})
    plan = planner.plan(build(demo_samples("attributes"), definition), definition)
    assert planner.solver_status(plan, definition) == "heuristic"
    pooled = demo(stream_attribute="state")
    plan = planner.plan(build(demo_samples("attributes"), pooled), pooled)
    assert planner.solver_status(plan, pooled) == "heuristic"


def test_a_plan_that_loses_nothing_is_exact() -> None:
    definition = demo(cid=["machine"], must_keep=["state"])
    still = {
        name: column if name in ("sequence", "machine") else np.full(len(column), column[0])
        for name, column in demo_samples("attributes").items()
    }
    plan = planner.plan(build(still, definition), definition)
    assert planner.solver_status(plan, definition) == "exact"
