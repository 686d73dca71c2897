"""The ``headgate`` command.

Exit codes: 0 done, 1 bad input or a rejected batch, 2 wrong usage, 3 the gate refused the plan or
there was nothing new, 4 an artifact cannot be trusted, 5 the store cannot be reached, 6 no such plan.
"""

from __future__ import annotations

import sys

from planning.errors import (
    ArtifactError,
    MissingExtra,
    NoPlan,
    PlanningError,
    StoreError,
)

INSTALL = "pip install 'headgate[planning]'"
EXIT_BAD_INPUT, EXIT_NOT_PUBLISHED, EXIT_UNTRUSTED, EXIT_STORE, EXIT_NO_PLAN = 1, 3, 4, 5, 6


def exit_code(error: PlanningError) -> int:
    """Return the exit code that scripts see for an error.

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


def main() -> None:
    """Run the command line; every expected error is one paragraph on standard error."""
    try:
        from planning.commands import app
    except ModuleNotFoundError as error:
        missing = MissingExtra(
            f"the headgate command needs {error.name}, which a source node's installation leaves "
            f"out; install it with: {INSTALL}"
        )
        sys.exit(f"headgate: {missing}")
    try:
        app(prog_name="headgate")
    except PlanningError as error:
        print(f"headgate: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
