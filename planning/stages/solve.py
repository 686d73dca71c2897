"""Solve: from statistics to a candidate plan."""

from __future__ import annotations

from typing import Any

from planning import families
from planning.stages.run import Run


def solve(run: Run) -> dict[str, Any]:
    """Make the candidate plan of a run; return its summary."""
    definition = run.definition()
    family = families.family(definition.family)
    statistics = family.room("statistics").Statistics.from_document(run.read("statistics"))
    plan = family.room("planner").plan(statistics, definition)
    summary = plan.summary()
    run.write("candidate", {"family": family.name, "plan": plan.to_document(), "summary": summary})
    return dict(summary)


def candidate(run: Run) -> Any:
    """Return the candidate plan of a run."""
    document = run.read("candidate")
    return families.family(document["family"]).room("plan").Plan.from_document(document["plan"])
