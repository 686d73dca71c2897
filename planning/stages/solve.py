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
    statistics = _statistics(run, family)
    try:
        plan = family.room("planner").plan(statistics, definition)
        summary = plan.summary()
    except PlanningError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise damaged(run, "statistics", f"statistics of {definition.stream}", error) from error
    run.write("candidate", {"family": family.name, "plan": plan.to_document(), "summary": summary})
    return dict(summary)


def candidate(run: Run) -> Any:
    """Return the candidate plan of a run.

    >>> import tempfile
    >>> from planning.examples import demo_plan
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "ticks", "by hand")
    ...     plan = demo_plan("sifter").to_document()
    ...     run.write("candidate", {"family": "sifter", "plan": plan, "summary": {}})
    ...     candidate(run).regions
    16
    """
    document = run.read("candidate")
    try:
        if not isinstance(document["summary"], dict):
            raise TypeError(f"summary must be an object, got {document['summary']!r}")
        plan = families.family(document["family"]).room("plan").Plan
        return plan.from_document(document["plan"])
    except (PlanningError, LookupError, TypeError, ValueError) as error:
        raise damaged(run, "candidate", "a candidate plan", error, stage="solve") from error


def damaged(
    run: Run, name: str, content: str, error: Exception, stage: str | None = None
) -> StatisticsError:
    """Return the error for a file of the run that does not hold what its stage writes.

    >>> from upath import UPath
    >>> print(damaged(Run(UPath("r")), "candidate", "a plan", KeyError("family"), stage="solve"))
    r/candidate.json must hold a plan, got something else (KeyError: 'family'); run the solve \
stage again
    """
    detail = error if isinstance(error, PlanningError) else f"{type(error).__name__}: {error}"
    return StatisticsError(
        f"{run.folder / f'{name}.json'} must hold {content}, got something else ({detail}); run "
        f"the {stage or name} stage again"
    )


def _statistics(run: Run, family: families.Family) -> Any:
    document = run.read("statistics")
    try:
        return family.room("statistics").Statistics.from_document(document)
    except (PlanningError, LookupError, TypeError, ValueError) as error:
        content = f"statistics of family {family.name}"
        raise damaged(run, "statistics", content, error) from error
