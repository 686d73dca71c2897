"""What scripts see: the exit codes of the ``headgate`` command.

0 done, 1 bad input, a rejected batch, or nodes that do not follow (``nodes --check``), 2 wrong
usage, 3 nothing was published (the gate refused the plan, or nothing new had landed), 4 an artifact
cannot be trusted, 5 the store cannot be reached, 6 no such plan.
"""

from __future__ import annotations

from planning.errors import ArtifactError, NoPlan, PlanningError, StoreError

EXIT_BAD_INPUT = 1
EXIT_NOT_PUBLISHED = 3
EXIT_UNTRUSTED = 4
EXIT_STORE = 5
EXIT_NO_PLAN = 6


def exit_code(error: PlanningError) -> int:
    """Return the exit code for an error.

    >>> exit_code(NoPlan("ticks has no plan")), exit_code(PlanningError("bad"))
    (6, 1)
    """
    if isinstance(error, NoPlan):
        return EXIT_NO_PLAN
    if isinstance(error, ArtifactError):
        return EXIT_UNTRUSTED
    if isinstance(error, StoreError):
        return EXIT_STORE
    return EXIT_BAD_INPUT
