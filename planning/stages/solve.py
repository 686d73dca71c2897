"""Solve: from statistics to a candidate plan."""

from __future__ import annotations

from typing import Any

from planning import families
from planning.errors import PlanningError, StatisticsError
from planning.stages.run import Run


def solve(run: Run) -> dict[str, Any]:
    """Make the candidate plan of a run; return its summary.

    >>> import tempfile
    >>> from planning.examples import demo_definition, demo_statistics
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "ticks", "by hand")
    ...     ticks = demo_definition("sifter")
    ...     run.write("definition", {"definition": ticks.model_dump(), "source": ticks.source})
    ...     run.write("statistics", demo_statistics("sifter").to_document())
    ...     solve(run)["regions"], candidate(run).regions
    (16, 16)
    """
    definition = run.definition()
    family = families.family(definition.family)
    plan = family.room("planner").plan(_statistics(run, family), definition)
    summary = plan.summary()
    run.write("candidate", {"family": family.name, "plan": plan.to_document(), "summary": summary})
    return dict(summary)


def candidate(run: Run) -> Any:
    """Return the candidate plan of a run.

    >>> import tempfile
    >>> from planning.examples import demo_plan
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "ticks", "by hand")
    ...     run.write("candidate", {"family": "sifter", "plan": demo_plan("sifter").to_document()})
    ...     candidate(run).regions
    16
    """
    document = run.read("candidate")
    return families.family(document["family"]).room("plan").Plan.from_document(document["plan"])


def _statistics(run: Run, family: families.Family) -> Any:
    document = run.read("statistics")
    try:
        return family.room("statistics").Statistics.from_document(document)
    except PlanningError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise StatisticsError(
            f"{run.folder / 'statistics.json'} must hold statistics of family {family.name}, got "
            f"something else ({type(error).__name__}: {error}); run the statistics stage again"
        ) from error
