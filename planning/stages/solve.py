"""Solve: from statistics to a candidate plan, and a second opinion on it."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

import msgspec

from planning import families
from planning.certifying import Contradiction
from planning.errors import PlanningError, StatisticsError
from planning.families import Family, Plan, Statistics, Warns
from planning.stages.certify import certificate
from planning.stages.run import Run


def solve(run: Run) -> dict[str, Any]:
    """Make the candidate plan of a run, and its certificate; return its summary.

    A plan that its certificate contradicts is left as ``contradicted.json`` and is no candidate.

    >>> import tempfile
    >>> from planning.examples import demo_run
    >>> from planning.home import Home
    >>> from planning.stages import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = demo_run(Home.at(folder), "sifter")
    ...     for stage in (local.validate, local.statistics):
    ...         _ = stage(run)
    ...     solve(run)["regions"], candidate(run).regions
    (16, 16)
    """
    definition = run.definition()
    family = families.family(definition.family)
    statistics = _statistics(run, family)
    planner = family.room("planner")
    try:
        plan = planner.plan(statistics, definition)
        summary, status = plan.summary(), planner.solver_status(plan, definition)
        warnings: list[str] = []
        if isinstance(planner, Warns):
            warnings = planner.warnings(plan, statistics, definition)
    except PlanningError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise damaged(run, "statistics", f"statistics of {definition.stream}", error) from error
    document: dict[str, Any] = {"family": family.name, "plan": plan.to_document()}
    document |= {"summary": summary, "solver_status": status, "warnings": warnings}
    run.write("candidate", document)
    try:
        limit_s = definition.gate.certificate_s
        found = certificate(candidate(run), statistics, definition, status, limit_s)
    except Contradiction as error:
        run.write("contradicted", document)
        run.take("candidate")
        raise Contradiction(f"{error}; nothing is published, the last good plan stays") from error
    run.write("certificate", found)
    return summary


class _Candidate(TypedDict):
    """What ``candidate.json`` holds."""

    family: str
    plan: dict[str, Any]
    summary: dict[str, Any]
    solver_status: str
    warnings: NotRequired[list[str]]


def candidate(run: Run) -> Plan:
    """Return the candidate plan of a run.

    >>> import tempfile
    >>> from planning.examples import demo_plan
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "ticks", "by hand")
    ...     plan = demo_plan("sifter").to_document()
    ...     run.write("candidate", {"family": "sifter", "plan": plan, "summary": {},
    ...                             "solver_status": "exact"})
    ...     candidate(run).regions
    16
    """
    document = _candidate(run)
    try:
        plan = families.family(document["family"]).room("plan").Plan
        return plan.from_document(document["plan"])
    except (PlanningError, LookupError, TypeError, ValueError) as error:
        raise damaged(run, "candidate", "a candidate plan", error, stage="solve") from error


def solver_status(run: Run) -> str:
    """Return what the planner says about the candidate: exact, within an error, or heuristic.

    >>> import tempfile
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "requests", "by hand")
    ...     run.write("candidate", {"family": "fit", "plan": {}, "summary": {},
    ...                             "solver_status": "within 0.1"})
    ...     solver_status(run)
    'within 0.1'
    """
    return _candidate(run)["solver_status"]


def warnings_of(run: Run) -> list[str]:
    """Return what the planner warns of: why the plan may disappoint, and the remedy.

    >>> import tempfile
    >>> from planning.home import Home
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Run.of(Home.at(folder), "requests", "by hand")
    ...     run.write("candidate", {"family": "fit", "plan": {}, "summary": {},
    ...                             "solver_status": "exact", "warnings": ["few periods"]})
    ...     warnings_of(run)
    ['few periods']
    """
    return _candidate(run).get("warnings", [])


def _candidate(run: Run) -> _Candidate:
    try:
        return msgspec.convert(run.read("candidate"), _Candidate)
    except msgspec.ValidationError as error:
        raise damaged(run, "candidate", "a candidate plan", error, stage="solve") from error


def damaged(
    run: Run, name: str, content: str, error: Exception, stage: str | None = None
) -> StatisticsError:
    """Return the error for a file of the run that does not contain what its stage writes.

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


def _statistics(run: Run, family: Family) -> Statistics:
    document = run.read("statistics")
    try:
        return family.room("statistics").Statistics.from_document(document)
    except (PlanningError, LookupError, TypeError, ValueError) as error:
        content = f"statistics of family {family.name}"
        raise damaged(run, "statistics", content, error) from error
